/** A bandwidth that falls from one size to the next and does not come back. */
import type { BenchRow } from '../../model/bench.js';
import { example, type Finding, type Rule } from '../rule.js';
import { cliffs } from './cliffs.js';

export const benchCliff: Rule = {
  id: 'bench-cliff',
  causes: ['slows'],
  looksFor: 'a bandwidth that falls to a fraction from one size to the next and stays there',
  example: [
    example(
      'all_reduce.txt',
      '#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ',
      '   134217728      33554432     float     sum      -1  6371.09   21.07   39.50       0  6373.00   21.06   39.49       0',
      '   268435456      67108864     float     sum      -1  82510.9    3.25    6.10       0  82521.0    3.25    6.10       0',
      '   536870912     134217728     float     sum      -1   176602    3.04    5.70       0   175484    3.06    5.74       0',
    ),
  ],
  references: [],
  explainedBy: ['roce-packet-loss', 'ib-port-flap', 'pcie-link-degraded'],
  find(job) {
    return cliffs(job).map(({ before, after, factor }): Finding => {
      const grown = after.outOfPlace.timeUs / before.outOfPlace.timeUs;
      return {
        severity: 'warning',
        confidence: 'likely',
        text: `bandwidth falls to a ${Math.round(factor)}th between ${sizeText(before)} and ${sizeText(after)} and stays there`,
        culprit: { fromBytes: before.bytes, toBytes: after.bytes, factor: Math.round(factor * 10) / 10 },
        evidence: [before.at, after.at],
        repair:
          'Compare the counters of the adapters before and after a run of the sizes above the cliff (discards, pauses, retransmissions), and temperatures and clocks of the GPUs.',
        workaround: null,
        why: `from ${sizeText(before)} to ${sizeText(after)} the time grows ${Math.round(grown)} times for ${Math.round((after.bytes / before.bytes) * 10) / 10} times the bytes`,
      };
    });
  },
};

const sizeText = ({ bytes }: BenchRow): string =>
  bytes >= 1 << 30
    ? `${bytes / 2 ** 30} GiB`
    : bytes >= 1 << 20
      ? `${bytes / 2 ** 20} MiB`
      : `${bytes} bytes`;
