/** Results that nccl-tests compared and found wrong. */
import { largest } from '../../model/extremes.js';
import { some } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const dataWrong: Rule = {
  id: 'data-wrong',
  looksFor: 'results that nccl-tests found wrong',
  example: [
    example(
      'all_reduce.txt',
      '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ',
      '     1048576        262144     float     sum      -1   401.24    2.61    4.90      12   398.01    2.63    4.94       0',
    ),
  ],
  references: ['nccl-tests: -c'],
  explainedBy: ['pcie-acs-redirect', 'xid'],
  find(job) {
    // Old versions print the largest deviation here, a small fraction.
    const bad = job.benches.flatMap(({ rows }) =>
      rows.filter(({ outOfPlace, inPlace }) => [outOfPlace, inPlace].some((side) => (side?.wrong ?? 0) >= 1)),
    );
    const footers = job.benches.flatMap(({ outOfBounds }) =>
      outOfBounds !== undefined && outOfBounds.count > 0 ? [outOfBounds.at] : [],
    );
    if (bad.length === 0 && footers.length === 0) return [];
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `${Math.max(bad.length, 1)} measured size${bad.length === 1 ? '' : 's'} gave wrong results`,
        culprit: {
          rows: bad.length,
          wrong: largest(
            bad.map(({ outOfPlace, inPlace }) => Math.max(outOfPlace.wrong ?? 0, inPlace?.wrong ?? 0)),
            0,
          ),
        },
        evidence: [...some(bad.map(({ at }) => at)), ...footers],
        repair:
          'Find the pair of GPUs or hosts that gives wrong data (runs of two ranks each, with -c 1), and test peer-to-peer (NCCL_P2P_DISABLE=1) and GPUDirect (NCCL_NET_GDR_LEVEL=LOC) one at a time.',
        workaround: null,
        why: 'data do not arrive where they were written',
      },
    ];
  },
};
