/** Each rank states how many there are; the set-up waits for that many. */
import { listed, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { startsById } from './starts.js';

export const nranksMismatch: Rule = {
  id: 'nranks-mismatch',
  causes: ['blocks'],
  looksFor: 'ranks of one communicator that were told different numbers of ranks',
  example: [
    example(
      'logs.txt',
      'n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
      'n2:10:11 [0] NCCL INFO ncclCommInitRank comm 0xb0 rank 1 nranks 3 cudaDev 0 busId 1b000 commId 0x3f - Init START',
    ),
  ],
  references: ['NCCL user guide: creating a communicator'],
  find: (job) =>
    [...startsById(job)].flatMap(([id, starts]): Finding[] => {
      // A process that was told several sizes has several communicators of one origin.
      const told = new Map<unknown, Set<number>>();
      for (const { process, member } of starts)
        if (member.size !== undefined) told.set(process, (told.get(process) ?? new Set()).add(member.size));
      const sizes = [...new Set([...told.values()].flatMap((own) => (own.size === 1 ? [...own] : [])))];
      if (sizes.length < 2) return [];
      const shown = sizes.map((size) => starts.find(({ member }) => member.size === size)!);
      return [
        {
          severity: 'error',
          confidence: 'certain',
          text: `ranks of communicator ${id} disagree about its size: ${listed(sizes)}`,
          culprit: { comm: id, sizes, hosts: shown.map(({ process }) => process.host) },
          evidence: some(shown.map(({ member }) => member.started!)),
          repair: 'Start all ranks with the same number of ranks (WORLD_SIZE, mpirun -np, srun -n).',
          workaround: null,
        },
      ];
    }),
};
