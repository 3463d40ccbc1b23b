/** A rank that is missing in one communicator because it waits in another: the fault is there. */
import { distinctPlaces } from '../../model/place.js';
import { listed, some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { standstills, waitsAcross } from './waits-across-groups.js';

export const rankHeldUp: Rule = {
  id: 'rank-held-up',
  causes: ['hangs'],
  looksFor: 'ranks that are missing in one communicator because they wait in another',
  example: [
    example(
      'dumps.json',
      '{ "ranks": [',
      '  { "rank": 0, "group": "tp", "ops": [ { "seq": 8, "op": "all_reduce", "count": 8, "state": "started" } ] },',
      '  { "rank": 1, "group": "tp", "ops": [ { "seq": 7, "op": "all_reduce", "count": 8, "state": "completed" } ] },',
      '  { "rank": 0, "group": "dp", "ops": [ { "seq": 3, "op": "all_reduce", "count": 8, "state": "completed" } ] },',
      '  { "rank": 2, "group": "dp", "ops": [ { "seq": 4, "op": "all_reduce", "count": 8, "state": "started" } ] }',
      '] }',
    ),
  ],
  references: ['PyTorch: flight recorder'],
  explainedBy: [
    'rank-behind',
    'communicator-order',
    'collective-order-mismatch',
    'collective-size-mismatch',
    'collective-type-mismatch',
    'message-unmatched',
    'device-or-wire-stuck',
  ],
  find(job) {
    const { held } = waitsAcross(standstills(job));
    const [first] = held;
    if (first === undefined) return [];
    const ranks = [...new Set(held.flatMap(({ late }) => late.map(({ rank }) => rank)))].sort(
      (a, b) => a - b,
    );
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `rank ${listed(ranks)} ${ranks.length === 1 ? 'is' : 'are'} missing in ${held.length === 1 ? `${first.name} ${first.missing}` : `${held.length} groups`}, and ${ranks.length === 1 ? 'waits' : 'wait'} in other groups`,
        culprit: { ranks: ranks.slice(0, 64) },
        evidence: distinctPlaces([
          ...some(held.flatMap(({ late }) => late.map(({ operations }) => operations.at(-1)!.at))),
          ...some(
            held.flatMap(({ waiting }) => waiting.map(({ operation }) => operation.at)),
            8,
          ),
        ]),
        repair: 'See what those ranks wait for in the other groups.',
        workaround: null,
        why: `rank ${listed(ranks)} ${ranks.length === 1 ? 'waits' : 'wait'} in other groups, so that ${held.length === 1 ? 'this group waits' : `${held.length} groups wait`} too`,
      },
    ];
  },
};
