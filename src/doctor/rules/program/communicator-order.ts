/** Ranks that wait for each other in different communicators: they use these in different orders. */
import { distinctPlaces } from '../../model/place.js';
import { listed, some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { standstills, waitsAcross } from './waits-across-groups.js';

export const communicatorOrder: Rule = {
  id: 'communicator-order',
  causes: ['hangs'],
  looksFor: 'ranks that wait for each other in two communicators, which they use in different orders',
  example: [
    example(
      'dumps.json',
      '{ "ranks": [',
      '  { "rank": 0, "group": "a", "ops": [ { "seq": 8, "op": "all_reduce", "count": 8, "state": "started" } ] },',
      '  { "rank": 1, "group": "a", "ops": [ { "seq": 7, "op": "all_reduce", "count": 8, "state": "completed" } ] },',
      '  { "rank": 0, "group": "b", "ops": [ { "seq": 3, "op": "all_gather", "count": 8, "state": "completed" } ] },',
      '  { "rank": 1, "group": "b", "ops": [ { "seq": 4, "op": "all_gather", "count": 8, "state": "started" } ] }',
      '] }',
    ),
  ],
  references: ['NCCL user guide: using multiple NCCL communicators concurrently'],
  find(job) {
    const { circle } = waitsAcross(standstills(job));
    const [first, second] = circle;
    if (first === undefined || second === undefined) return [];
    const ranks = [...new Set(circle.flatMap(({ late }) => late.map(({ rank }) => rank)))].sort(
      (a, b) => a - b,
    );
    const groups = circle.map(({ list }) => list[0]!.communicator);
    const told = ({ waiting, name, missing, list, late }: typeof first): string =>
      `rank ${listed(waiting.map(({ dump }) => dump.rank))} in ${name} ${missing} of group ${list[0]!.communicator} for rank ${listed(late.map(({ rank }) => rank))}`;
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `ranks wait for each other in a circle: ${told(first)}, and ${told(second)}${circle.length > 2 ? `, and ${circle.length - 2} more groups alike` : ''}`,
        culprit: { ranks: ranks.slice(0, 64), communicators: groups.slice(0, 16) },
        evidence: distinctPlaces([
          ...some(circle.flatMap(({ waiting }) => waiting.map(({ operation }) => operation.at))),
          ...some(circle.flatMap(({ late }) => late.map(({ operations }) => operations.at(-1)!.at))),
        ]),
        repair:
          'Let all ranks call the operations of different communicators in one order (the same order of groups in forward and backward, no launches from several threads), or make them wait for one before they begin the next.',
        workaround:
          'CUDA_DEVICE_MAX_CONNECTIONS=1 or NCCL_LAUNCH_ORDER_IMPLICIT=1 keeps launches in the order of the host, which hides differences that come from streams only.',
      },
    ];
  },
};
