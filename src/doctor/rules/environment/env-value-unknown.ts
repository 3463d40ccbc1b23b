/** NCCL itself names a variable whose value it does not understand. */
import { firstOfEach, troubles } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const envValueUnknown: Rule = {
  id: 'env-value-unknown',
  causes: ['blocks', 'kills', 'slows'],
  looksFor: 'variables with a value that NCCL does not understand',
  example: [
    example(
      'n1.log',
      'n1:10:12 [0] graph/tuning.cc:110 NCCL WARN Unrecognized element token "Rnig" when parsing NCCL_ALGO="Rnig"',
    ),
  ],
  references: ['NCCL user guide: NCCL_ALGO, NCCL_PROTO'],
  find: (job) =>
    firstOfEach(troubles(job, 'variable'), ({ trouble }) => `${trouble.name}=${trouble.value}`).map(
      ({ trouble, process, at }): Finding => ({
        severity: 'error',
        confidence: 'certain',
        text: `${trouble.name}=${trouble.value} on ${process.host} is a value that NCCL does not understand`,
        culprit: { variable: trouble.name, value: trouble.value, host: process.host },
        evidence: [at],
        repair: `Correct ${trouble.name} (names as in NCCL's documentation, separated by commas) or unset it.`,
        workaround: null,
      }),
    ),
};
