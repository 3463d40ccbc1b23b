/** Calls that break the rules of groups. */
import { firstOfEach, troubles } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const apiMisuse: Rule = {
  id: 'api-misuse',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'calls that break the rules of groups: unbalanced, mixed modes, partly captured',
  example: [example('n1.log', 'n1:10:10 [0] group.cc:120 NCCL WARN ncclGroupEnd: not in a group call.')],
  references: ['NCCL user guide: group calls'],
  find(job) {
    const found = troubles(job, 'misuse');
    return firstOfEach(found, ({ trouble }) => trouble.what).map(
      ({ trouble, process, at }): Finding => ({
        severity: 'error',
        confidence: 'certain',
        text: `${process.host}: ${trouble.what}`,
        culprit: { host: process.host, what: trouble.what },
        evidence: [at],
        repair:
          'Pair ncclGroupStart and ncclGroupEnd on every path, keep blocking and nonblocking communicators in separate groups, and capture all communicators of a group or none.',
        workaround: null,
      }),
    );
  },
};
