/** Two processes with one number: the root hears one of them twice and another never. */
import { distinctPlaces } from '../../model/place.js';
import { example, type Finding, type Rule } from '../rule.js';
import { type Start, startsById } from './starts.js';

export const duplicateRank: Rule = {
  id: 'duplicate-rank',
  causes: ['blocks'],
  looksFor: 'two processes with the same rank in one communicator',
  example: [
    example(
      'logs.txt',
      'n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
      'n2:10:11 [0] NCCL INFO ncclCommInitRank comm 0xb0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
    ),
  ],
  references: ['NCCL user guide: creating a communicator'],
  find: (job) =>
    [...startsById(job)].flatMap(([id, starts]): Finding[] => {
      const seen = new Map<number, Start>();
      for (const one of starts) {
        const rank = one.member.rank;
        if (rank === undefined) continue;
        const other = seen.get(rank);
        seen.set(rank, one);
        // Split communicators may share a parent's id; they show another size.
        if (other === undefined || other.process === one.process || other.member.size !== one.member.size)
          continue;
        return [
          {
            severity: 'error',
            confidence: 'certain',
            text: `two processes are rank ${rank} of communicator ${id}: ${other.process.host}:${other.process.pid} and ${one.process.host}:${one.process.pid}`,
            culprit: { rank, comm: id, hosts: [other.process.host, one.process.host] },
            evidence: distinctPlaces([other.member.started, one.member.started]),
            repair:
              'Give every process its own rank (RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID), counted over all hosts.',
            workaround: null,
          },
        ];
      }
      return [];
    }),
};
