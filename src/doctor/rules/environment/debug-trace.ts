/** NCCL_DEBUG=TRACE writes lines for every operation. */
import { firstOfEach, some } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const debugTrace: Rule = {
  id: 'debug-trace',
  causes: ['slows'],
  looksFor: 'NCCL_DEBUG=TRACE, which costs time at every operation',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] 12.345678 enqueue.cc:530 NCCL TRACE launch plan of comm 0xa0 with 2 channels',
    ),
  ],
  references: ['NCCL user guide: NCCL_DEBUG'],
  find(job) {
    const traced = job.processes.filter((process) => process.traced !== undefined);
    if (traced.length === 0) return [];
    return [
      {
        severity: 'info',
        confidence: 'certain',
        text: 'NCCL_DEBUG=TRACE writes several lines for every operation',
        culprit: { variable: 'NCCL_DEBUG', value: 'TRACE' },
        evidence: some(firstOfEach(traced, ({ host }) => host).map((process) => process.traced!)),
        repair: 'Use NCCL_DEBUG=INFO to look for faults, and WARN when the job works.',
        workaround: null,
      },
    ];
  },
};
