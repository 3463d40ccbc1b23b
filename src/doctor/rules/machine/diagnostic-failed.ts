/** What the diagnostic of the vendor says of GPUs. */
import { firstOfEach } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const diagnosticFailed: Rule = {
  id: 'diagnostic-failed',
  causes: ['kills', 'hangs', 'slows'],
  looksFor: 'tests of GPUs that failed in dcgmi diag',
  example: [
    example(
      'dcgm.txt',
      '| Diagnostic                | Result                                         |',
      '| PCIe                      | Fail - GPU: 3                                  |',
      '| GPU Memory                | Pass - All                                     |',
    ),
  ],
  references: ['dcgmi diag'],
  find: (job) =>
    firstOfEach(
      job.kernelEvents.flatMap((event) => (event.kind === 'diagnosticFailed' ? [event] : [])),
      ({ host, test, of }) => `${host} ${test} ${of}`,
    ).map(
      ({ host, test, of, at }): Finding => ({
        severity: 'warning',
        confidence: 'likely',
        text: `the diagnostic "${test}" failed${of === undefined ? '' : ` (${of})`}${host === undefined ? '' : ` on ${host}`}`,
        culprit: { ...(host === undefined ? {} : { host }), test },
        evidence: [at],
        repair:
          'Read the lines below it in the output of dcgmi diag, look at dmesg for Xid, and keep jobs off this GPU until the test passes with no other program on it.',
        workaround: null,
      }),
    ),
};
