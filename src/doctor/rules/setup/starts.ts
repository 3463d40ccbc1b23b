/** Set-ups of communicators by unique id. */
import type { Job } from '../../model/job.js';
import type { Member, NcclProcess } from '../../model/process.js';

export interface Start {
  readonly process: NcclProcess;
  readonly member: Member;
}

/** Members by unique id, where it is known. */
export function startsById(job: Job): Map<string, Start[]> {
  const found = new Map<string, Start[]>();
  for (const process of job.processes) {
    for (const member of process.members) {
      if (member.commId === undefined || member.started === undefined) continue;
      const list = found.get(member.commId) ?? [];
      list.push({ process, member });
      found.set(member.commId, list);
    }
  }
  return found;
}
