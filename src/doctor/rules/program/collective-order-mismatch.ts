/** Ranks that call different operations as the same one of their sequence. */

import type { RankDump } from '../../model/dump.js';
import { smallest } from '../../model/extremes.js';
import { distinctPlaces } from '../../model/place.js';
import { listed, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';
import { waitingIn } from './group-progress.js';
import { mismatchIn } from './mismatch.js';
import { reportedGroups } from './reported-operations.js';

export const collectiveOrderMismatch: Rule = {
  id: 'collective-order-mismatch',
  causes: ['kills', 'hangs'],
  looksFor: 'ranks that call different operations at the same place of a communicator’s sequence',
  example: [
    example(
      'dumps.json',
      '{ "ranks": [',
      '  { "rank": 0, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "count": 96, "state": "started" } ] },',
      '  { "rank": 1, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "count": 96, "state": "started" } ] },',
      '  { "rank": 2, "group": "g", "ops": [ { "seq": 8, "op": "all_gather", "count": 96, "state": "started" } ] }',
      '] }',
    ),
  ],
  references: ['NCCL user guide: collective operations'],
  find: (job) => {
    const found = reportedGroups(job).flatMap((list) => mismatchIn(list, 'operation'));
    return found.length > 0 ? found : reportedGroups(job).flatMap(aheadOf);
  },
};

/** Collectives that no rank can complete before all have called them. */
const NEEDS_ALL = /all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier/i;

/**
 * Ranks that went past an operation that the others wait in. Where every rank needs every other, no rank can: what it
 * completed with that number was another operation.
 */
function aheadOf(list: readonly RankDump[]): Finding[] {
  const waiting = list.flatMap((dump) => {
    const operation = waitingIn(dump);
    return operation === undefined ? [] : [{ dump, operation }];
  });
  const first = smallest(waiting.map(({ operation }) => operation.sequence));
  const stuck = waiting.filter(({ operation }) => operation.sequence === first);
  const ahead = waiting.filter(({ operation }) => operation.sequence > first);
  const name = stuck[0]?.operation.name ?? '';
  const isMost = stuck.length > ahead.length;
  // Without names nothing tells whether a rank can end the operation alone.
  if (ahead.length === 0 || !isMost || !NEEDS_ALL.test(name)) return [];
  const { dump, operation } = ahead[0]!;
  const ranks = ahead.map((one) => one.dump.rank);
  return [
    {
      severity: 'error',
      confidence: list.some(({ isGroupUnknown }) => isGroupUnknown) ? 'possible' : 'likely',
      text: `rank ${listed(ranks)} is out of step: it waits in ${operation.name} ${operation.sequence}, and ${stuck.length} others in ${name} ${first}, which no rank can complete without it`,
      culprit: {
        ...(ranks.length === 1 ? { rank: dump.rank } : { ranks }),
        ...(dump.host === undefined ? {} : { host: dump.host }),
        seq: operation.sequence,
        operation: operation.name,
        expected: `${name} ${first}`,
      },
      evidence: distinctPlaces([
        ...some(ahead.flatMap((one) => one.dump.operations.map(({ at }) => at))),
        ...some(stuck.map((one) => one.operation.at)),
      ]),
      repair: `See what rank ${listed(ranks)} called as operation ${first} and before (a branch, a loop of another length, a second group): it did not call the same operations in the same order; a flight recorder on all ranks (TORCH_NCCL_TRACE_BUFFER_SIZE=2000) shows where they part.`,
      workaround: null,
    },
  ];
}
