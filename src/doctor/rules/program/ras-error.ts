/** Errors that RAS saw in communicators. */
import { some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const rasError: Rule = {
  id: 'ras-error',
  causes: ['kills', 'hangs'],
  looksFor: 'communicators in which RAS saw errors of initialisation or asynchronous errors',
  example: [
    example(
      'ncclras.txt',
      'NCCL version 2.28.9 compiled with CUDA 13.0',
      '#0-0 (7d20c4be5f91a386) ERROR',
      '  Asynchronous errors on 2 ranks',
    ),
  ],
  references: ['NCCL user guide: RAS'],
  explainedBy: ['rank-died', 'xid', 'ib-port-flap'],
  find: (job) =>
    job.ras.flatMap(({ communicators }) =>
      communicators.flatMap(({ hash, errors }): Finding[] =>
        errors.length === 0
          ? []
          : [
              {
                severity: 'error',
                confidence: 'likely',
                text: `communicator ${hash}: ${errors[0]!.text}`,
                culprit: { comm: hash },
                evidence: some(errors.map(({ at }) => at)),
                repair:
                  'Look for the first warning (NCCL WARN) in the logs of the ranks with errors; abort the communicator on all ranks and make a new one.',
                workaround: null,
                why: 'operations fail when a rank or a link is gone',
              },
            ],
      ),
    ),
};
