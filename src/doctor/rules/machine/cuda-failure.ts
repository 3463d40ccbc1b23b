/** NCCL reports failures of CUDA that mostly come from elsewhere in the program. */
import { firstOfEach, some, troubles } from '../queries.js';
import { remedyOf } from '../remedies.js';
import { example, type Rule } from '../rule.js';
import { isOfDriver } from './driver-failures.js';

/** The library of CUDA is unloaded at the end of a program. */
const AT_EXIT = /driver shutting down/i;

export const cudaFailure: Rule = {
  id: 'cuda-failure',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'failures of CUDA that NCCL reports',
  example: [
    example(
      'n1.log',
      "n1:10:11 [0] enqueue.cc:1200 NCCL WARN Cuda failure 'an illegal memory access was encountered'",
    ),
  ],
  references: ['NCCL user guide: troubleshooting, errors'],
  explainedBy: ['xid', 'rank-died', 'nvls-bind-failed', 'shm-too-small'],
  find(job) {
    const all = troubles(job, 'cuda').filter((one) => one.logged.isWarning && !isOfDriver(one));
    const failing = all.filter(({ trouble }) => !AT_EXIT.test(trouble.reason));
    const found = failing.length > 0 ? failing : all;
    const [first] = found;
    if (first === undefined) return [];
    const { reason } = first.trouble;
    const isMemory = /out of memory/i.test(reason);
    return [
      {
        severity: failing.length > 0 ? 'error' : 'info',
        confidence: 'likely',
        text: `CUDA failed on ${first.process.host}${first.logged.rank === undefined ? '' : ` (rank ${first.logged.rank})`}: ${reason}`,
        culprit: {
          host: first.process.host,
          ...(first.logged.rank === undefined ? {} : { rank: first.logged.rank }),
          reason,
        },
        evidence: some(firstOfEach(found, ({ process }) => process).map(({ at }) => at)),
        repair: AT_EXIT.test(reason)
          ? 'Nothing failed before: the program ended while communicators were open; destroy them first (ncclCommDestroy, destroy_process_group).'
          : isMemory
            ? 'Leave NCCL some hundred MiB of GPU memory (smaller batch; NCCL_BUFFSIZE, fewer channels), and see in nvidia-smi whether another process, as one of an earlier run, holds it.'
            : (remedyOf(`${first.process.failedReturns.map(({ text }) => text).join(' ')} ${reason}`)
                ?.repair ??
              'NCCL only reports it: the failure mostly comes from an earlier kernel of the program; run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer.'),
        workaround: null,
      },
    ];
  },
};
