/** Ranks that do not mean the same communicator: other unique ids, other sizes, one rank twice. */
import type { Job } from '../model/job.js';
import { distinctPlaces } from '../model/place.js';
import type { Member, NcclProcess } from '../model/process.js';
import { listed, some, waitingMembers } from './queries.js';
import { example, type Finding, type Rule } from './rule.js';

interface Start {
  readonly process: NcclProcess;
  readonly member: Member;
}

/** Members by unique id, where it is known. */
function byId(job: Job): Map<string, Start[]> {
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

export const sizeMismatch: Rule = {
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
    [...byId(job)].flatMap(([id, starts]): Finding[] => {
      const sizes = [...new Set(starts.flatMap(({ member }) => member.size ?? []))];
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
    [...byId(job)].flatMap(([id, starts]): Finding[] => {
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

export const uniqueIdMismatch: Rule = {
  id: 'unique-id-mismatch',
  causes: ['blocks'],
  looksFor: 'ranks that wait for each other with different unique ids',
  example: [
    example(
      'logs.txt',
      'n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
      'n2:10:11 [0] NCCL INFO ncclCommInitRank comm 0xb0 rank 1 nranks 2 cudaDev 0 busId 1b000 commId 0x4e - Init START',
    ),
  ],
  references: ['NCCL user guide: ncclGetUniqueId'],
  find(job) {
    const waiting = waitingMembers(job).filter(({ member }) => member.commId !== undefined);
    const [first] = waiting;
    if (first === undefined) return [];
    const same = waiting.filter(({ member }) => member.size === first.member.size);
    const ids = [...new Set(same.map(({ member }) => member.commId!))];
    const ranks = same.map(({ member }) => member.rank);
    // Together they would be the whole communicator, each rank once.
    const isWhole = new Set(ranks).size === ranks.length && ranks.length === first.member.size;
    if (ids.length < 2 || !isWhole) return [];
    const shown = ids.map((id) => same.find(({ member }) => member.commId === id)!);
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `${same.length} ranks that belong together wait with ${ids.length} different unique ids`,
        culprit: { ids, hosts: [...new Set(shown.map(({ process }) => process.host))] },
        evidence: some(shown.map(({ member }) => member.started!)),
        repair:
          'Create one unique id on one rank and send it to all others (broadcast it, or use one rendezvous store); an old file or address of an earlier run is the usual reason.',
        workaround: null,
      },
    ];
  },
};
