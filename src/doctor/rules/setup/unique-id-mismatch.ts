/** Ranks that use another unique id wait at another root, so none of them is ever complete. */
import { some, waitingMembers } from '../queries.js';
import { example, type Rule } from '../rule.js';

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
