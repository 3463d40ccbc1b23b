/** Without asynchronous error handling a rank whose peer is gone waits for ever. */
import { firstOfEach, some, waitingMembers } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const errorHandlingOff: Rule = {
  id: 'error-handling-off',

  looksFor: 'PyTorch’s handling of asynchronous errors switched off, so that failures become hangs',
  example: [
    example(
      'rank0.log',
      '[rank0]:I0101 10:00:00.1 77 ProcessGroupNCCL.cpp:934] [PG 0 Rank 0] ProcessGroupNCCL environments: NCCL version: 2.21.5, TORCH_NCCL_ASYNC_ERROR_HANDLING: 0, TORCH_NCCL_DUMP_ON_TIMEOUT: 0',
    ),
  ],
  references: ['PyTorch: TORCH_NCCL_ASYNC_ERROR_HANDLING'],
  find(job) {
    const off = job.values.filter(({ name, value }) => name === 'framework.errorHandling' && value === '0');
    if (off.length === 0) return [];
    const isStuck =
      waitingMembers(job).length > 0 ||
      job.events.some(({ kind }) => kind === 'watchdog' || kind === 'cancelled' || kind === 'ncclError');
    return [
      {
        severity: isStuck ? 'warning' : 'info',
        confidence: 'certain',
        text: 'asynchronous error handling is off (TORCH_NCCL_ASYNC_ERROR_HANDLING=0): when a rank fails, the others wait for ever',
        culprit: { variable: 'TORCH_NCCL_ASYNC_ERROR_HANDLING', value: '0' },
        evidence: some(firstOfEach(off, ({ at }) => at.file).map(({ at }) => at)),
        repair:
          'Unset it (3, the default, ends the process), or set 1 to abort the communicators first; use 0 only with own checks of failures.',
        workaround: null,
      },
    ];
  },
};
