/** Ranks that pass different element types to one operation. */
import { example, type Rule } from '../rule.js';
import { mismatchIn } from './mismatch.js';
import { reportedGroups } from './reported-operations.js';

export const collectiveTypeMismatch: Rule = {
  id: 'collective-type-mismatch',
  causes: ['kills', 'hangs'],
  looksFor: 'ranks in the same operation with different element types',
  example: [
    example(
      'dumps.json',
      '{ "ranks": [',
      '  { "rank": 0, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float32", "count": 96, "state": "started" } ] },',
      '  { "rank": 1, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float32", "count": 96, "state": "started" } ] },',
      '  { "rank": 2, "group": "g", "ops": [ { "seq": 8, "op": "all_reduce", "dtype": "float16", "count": 96, "state": "started" } ] }',
      '] }',
    ),
  ],
  references: ['NCCL user guide: collective operations'],
  find: (job) => reportedGroups(job).flatMap((list) => mismatchIn(list, 'type')),
};
