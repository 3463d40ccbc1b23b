/** Without peer-to-peer and without shared memory only the network is left, even inside a host. */
import { distinctPlaces } from '../../model/place.js';
import { edges, settings, some } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const envShmDisabled: Rule = {
  id: 'env-shm-disabled',
  causes: ['slows'],
  looksFor: 'NCCL_SHM_DISABLE=1 with ranks of a host that then talk over the network',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NCCL_SHM_DISABLE set by environment to 1.',
      'n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
      'n1:10:12 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0',
      'n1:20:21 [1] NCCL INFO ncclCommInitRank comm 0xb0 rank 1 nranks 2 cudaDev 1 busId 43000 commId 0x3f - Init START',
    ),
  ],
  references: ['NCCL user guide: NCCL_SHM_DISABLE'],
  find(job) {
    const found = settings(job, 'NCCL_SHM_DISABLE').filter(({ value }) => value === '1');
    const [first] = found;
    if (first === undefined) return [];
    // Communicators count their ranks each for itself: a number that means ranks of several hosts tells nothing.
    const hostOf = new Map<number | undefined, string | null>();
    for (const { members, host } of job.processes) {
      for (const { rank } of members) {
        const known = hostOf.get(rank);
        hostOf.set(rank, known === undefined || known === host ? host : null);
      }
    }
    const slow = job.processes.flatMap((process) =>
      edges(process).filter(
        ({ kind, from, to }) =>
          kind === 'NET' && hostOf.get(from) === process.host && hostOf.get(to) === process.host,
      ),
    );
    if (slow.length === 0) return [];
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `NCCL_SHM_DISABLE=1: ranks of ${first.process.host} talk to each other over the network`,
        culprit: { variable: 'NCCL_SHM_DISABLE', value: '1', host: first.process.host },
        evidence: distinctPlaces([
          first.at,
          ...some(
            slow.map(({ at }) => at),
            4,
          ),
        ]),
        repair: 'Unset NCCL_SHM_DISABLE; if it hides a small /dev/shm, enlarge that.',
        workaround: null,
      },
    ];
  },
};
