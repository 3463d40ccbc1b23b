/** A rank that waits in a communicator that the others have aborted. */
import { grouped } from '../../model/grouped.js';
import type { Job } from '../../model/job.js';
import { distinctPlaces, type Place } from '../../model/place.js';
import type { Member, NcclProcess } from '../../model/process.js';
import { some, waitingMembers } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

interface AbortState {
  readonly process: NcclProcess;
  readonly member: Member;
}

export const abortMissingOnRank: Rule = {
  id: 'abort-missing-on-rank',
  causes: ['blocks', 'hangs'],
  looksFor: 'a rank that never aborts its communicator while the others do and make a new one',
  example: [
    example(
      'w.log',
      'n:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
      'n:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init COMPLETE',
      'n:1:1 [0] NCCL INFO comm 0xa0 rank 0 nRanks 2 cudaDev 0 busId 1b000 - Abort START',
      'n:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa1 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0xc5 - Init START',
      'n:2:2 [1] NCCL INFO ncclCommInitRank comm 0xb0 rank 1 nranks 2 cudaDev 1 busId 43000 commId 0x3f - Init START',
      'n:2:2 [1] NCCL INFO ncclCommInitRank comm 0xb0 rank 1 nranks 2 cudaDev 1 busId 43000 commId 0x3f - Init COMPLETE',
    ),
  ],
  references: ['NCCL user guide: ncclCommAbort, fault tolerance'],
  find(job) {
    const started = job.processes.flatMap((process) =>
      process.members.flatMap((member): AbortState[] =>
        member.commId === undefined || member.started === undefined ? [] : [{ process, member }],
      ),
    );
    const byId = grouped(started, ({ member }) => member.commId);
    return [...byId.values()].flatMap((states): Finding[] => {
      const aborted = states.filter(({ member }) => member.abortStarted !== undefined);
      const silent = states.filter(
        ({ member }) =>
          member.abortStarted === undefined &&
          member.destroyed === undefined &&
          member.completed !== undefined,
      );
      if (aborted.length === 0 || silent.length === 0) return [];
      // The others went on to a communicator that those ranks do not join.
      const waiting = waitingMembers(job).filter(({ process }) =>
        aborted.some((one) => one.process === process),
      );
      const restarted = new Set(waiting.map(({ member }) => member.commId));
      const late = silent.filter(
        ({ process }) => !process.members.some(({ commId }) => restarted.has(commId)),
      );
      if (late.length === 0) return [];
      return late.map(({ process, member }): Finding => {
        const call = member.lastCall;
        const next = aborted
          .flatMap((one) => one.member.lastCall ?? [])
          .find(({ opCount }) => call !== undefined && opCount > call.opCount);
        return {
          severity: 'error',
          confidence: waiting.length > 0 ? 'certain' : 'likely',
          text: `rank ${member.rank} on ${process.host} never aborted; ${aborted.length} other${aborted.length === 1 ? '' : 's'} did${waiting.length > 0 ? ' and wait for it in a new communicator' : ''}`,
          culprit: { rank: member.rank, host: process.host },
          evidence: distinctPlaces([
            call?.at,
            lastOf(job, process),
            ...some(aborted.map((one) => one.member.abortStarted!)),
          ]),
          repair: `Let the failure handler reach rank ${member.rank} too (abort from another thread than the one that waits${next === undefined ? '' : `; rank ${member.rank} is also the one that never called ${next.name} ${next.opCount}`}), and give the new rendezvous a deadline.`,
          workaround: null,
        };
      });
    });
  },
};

/** The last line that a process wrote: of the file, where the file is its own. */
function lastOf(job: Job, process: NcclProcess): Place {
  const file = job.files.find(({ name }) => name === process.last.file);
  return file !== undefined && file.processes.size === 1 && file.last !== undefined
    ? file.last
    : process.last;
}
