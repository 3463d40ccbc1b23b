/** A RAS query that did not get all answers in time. */
import { example, type Finding, type Rule } from '../rule.js';

export const rasTimeout: Rule = {
  id: 'ras-timeout',
  looksFor: 'time-outs of a RAS query',
  example: [
    example(
      'ncclras.txt',
      'NCCL version 2.28.9 compiled with CUDA 13.0',
      'Warnings',
      '========',
      '',
      'TIMEOUT',
      '  Encountered 2 communication timeouts while gathering communicator data',
    ),
  ],
  references: ['NCCL user guide: RAS'],
  explainedBy: ['rank-died'],
  find: (job) =>
    job.ras.flatMap(({ timeouts }): Finding[] =>
      timeouts === undefined
        ? []
        : [
            {
              severity: 'warning',
              confidence: 'possible',
              text: `RAS met ${timeouts.count} time-outs while it collected data`,
              culprit: { timeouts: timeouts.count },
              evidence: [timeouts.at],
              repair: 'Ask again with a longer time-out (ncclras -t 30) and with -v.',
              workaround: null,
              why: 'the query waited for the dead process',
            },
          ],
    ),
};
