/** Multicast memory of NVLink SHARP needs the fabric manager and free multicast resources. */
import { firstOfEach, listed, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const nvlsBindFailed: Rule = {
  id: 'nvls-bind-failed',
  causes: ['blocks', 'kills'],
  looksFor: 'NVLink SHARP (NVLS) memory that cannot be bound: the fabric manager, or multicast resources',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] transport/nvls.cc:229 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 the operation cannot be performed in the present state',
    ),
  ],
  references: ['NCCL user guide: NCCL_NVLS_ENABLE'],
  find(job) {
    const found = troubles(job, 'multicast');
    const [first] = found;
    if (first === undefined) return [];
    return [
      {
        // As a mere message, NCCL goes on without it.
        severity: found.some(({ logged }) => logged.isWarning) ? 'error' : 'warning',
        confidence: 'likely',
        text: `NVLS memory cannot be bound on ${listed([...new Set(found.map(({ process }) => process.host))])}: ${first.trouble.reason}`,
        culprit: { host: first.process.host },
        evidence: some(firstOfEach(found, ({ process }) => process).map(({ at }) => at)),
        repair:
          'Restart the fabric manager of the driver’s version (systemctl status nvidia-fabricmanager), and see that no other job holds the multicast resources.',
        workaround:
          'NCCL_NVLS_ENABLE=0 does without NVLS, at a cost of up to a third of the all-reduce bandwidth.',
      },
    ];
  },
};
