/** The host that all slow measurements of pairs have in common. */
import type { PairRow } from '../../model/bench.js';
import { some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { lowPairs, rowsOfRuns } from './host-pairs.js';

export const slowNode: Rule = {
  id: 'slow-node',
  causes: ['slows'],
  looksFor: 'one host that is in all slow measurements and in no fast one',
  example: [example('pairs.csv', 'src,dst,busbw_GBs', 'n1,n2,180.2', 'n1,n3,361.9', 'n2,n3,181.1')],
  references: [],
  explainedBy: { effects: ['slows'] },
  find(job) {
    const rows = job.pairRows.length > 0 ? job.pairRows : rowsOfRuns(job);
    const low = lowPairs(rows);
    if (low === undefined) return [];
    const isLow = (line: PairRow): boolean => low.rows.includes(line.at);
    const slow = rows.filter(isLow);
    const fast = new Set(rows.filter((row) => !isLow(row)).flatMap(({ hosts }) => hosts));
    const common = (slow[0]?.hosts ?? []).filter(
      (host) => !fast.has(host) && slow.every(({ hosts }) => hosts.includes(host)),
    );
    const [host] = common;
    if (host === undefined || common.length > 1 || slow.length < 2) return [];
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `${host} is in every slow measurement (${low.worst} GB/s and more) and in no fast one (${low.best} GB/s)`,
        culprit: { host, measuredGBs: low.worst, othersGBs: low.best },
        evidence: some(low.rows),
        repair: `Take ${host} out and compare it with the others: adapters and their rates, PCIe widths, clocks and temperatures of the GPUs, counters of the switch ports.`,
        workaround: null,
        why: `every measurement with ${host} is slow`,
      },
    ];
  },
};
