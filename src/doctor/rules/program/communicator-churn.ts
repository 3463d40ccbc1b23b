/** Setting up a communicator takes longer than thousands of operations: it is made once, not in the training loop. */
import type { Member, NcclProcess } from '../../model/process.js';
import { firstOfEach, some } from '../queries.js';
import { example, type Rule } from '../rule.js';

/** Communicators of the same size, made and destroyed by one process, from which on they are taken for a loop. */
const MANY = 32;

/** The communicators of the size of which a process has made and destroyed most. */
function made({ members }: NcclProcess): Member[] {
  const gone = new Map<number, Member[]>();
  for (const member of members) {
    if (member.started === undefined || member.destroyed === undefined || member.size === undefined) continue;
    gone.set(member.size, [...(gone.get(member.size) ?? []), member]);
  }
  return [...gone.values()].sort((a, b) => b.length - a.length)[0] ?? [];
}

/** Two of them, one after the other. */
const LINES = Array.from({ length: MANY }, (_, i) =>
  ['Init START', 'Init COMPLETE', 'Destroy COMPLETE'].map(
    (what) =>
      `n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x${(i + 16).toString(16)} - ${what}`,
  ),
).flat();

export const communicatorChurn: Rule = {
  id: 'communicator-churn',
  causes: ['slows'],
  looksFor: 'a process that makes and destroys communicators over and over',
  example: [example('rank0.log', ...LINES)],
  references: ['NCCL user guide: Creating a communicator', 'PyTorch: torch.distributed.new_group'],
  find(job) {
    const churning = job.processes
      .map((process) => ({ process, members: made(process) }))
      .filter(({ members }) => members.length >= MANY);
    const [first] = churning;
    if (first === undefined) return [];
    const { host, pid } = first.process;
    const { size } = first.members[0]!;
    const others = churning.length - 1;
    return [
      {
        severity: 'warning',
        confidence: 'possible',
        text: `process ${pid} of ${host}${others === 0 ? '' : ` (and ${others} more)`} made and destroyed ${first.members.length} communicators of ${size} ranks`,
        culprit: { host, pid, communicators: first.members.length, ranks: size },
        evidence: some(
          firstOfEach(churning, ({ process }) => process.host).flatMap(({ members }) =>
            members.slice(0, 2).map(({ started }) => started!),
          ),
        ),
        repair:
          'Make communicators (process groups) once, keep them by their ranks, and use them again: a set-up takes longer than thousands of operations.',
        workaround: null,
      },
    ];
  },
};
