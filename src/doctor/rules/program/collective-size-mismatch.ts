/** Ranks that pass different counts to one operation. */
import { example, type Rule } from '../rule.js';
import { mismatchIn } from './mismatch.js';
import { reportedGroups } from './reported-operations.js';

export const collectiveSizeMismatch: Rule = {
  id: 'collective-size-mismatch',
  causes: ['kills', 'hangs'],
  looksFor: 'ranks in the same operation with different counts, types or operations',
  example: [
    example(
      'dumps.json',
      '{ "ranks": [',
      '  { "rank": 0, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float32", "count": 96, "state": "started" } ] },',
      '  { "rank": 1, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float32", "count": 96, "state": "started" } ] },',
      '  { "rank": 2, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float32", "count": 80, "state": "started" } ] }',
      '] }',
    ),
  ],
  references: ['PyTorch: flight recorder'],
  find: (job) => reportedGroups(job).flatMap((list) => mismatchIn(list, 'count')),
};
