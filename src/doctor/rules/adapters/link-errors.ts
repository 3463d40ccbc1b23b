/** Links that lose data: counters of errors which no cable in order makes. */

import { grouped } from '../../model/grouped.js';
import type { Counter } from '../../model/machine.js';
import { some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/**
 * Counters, and from which value on it is no accident. Those that count what was corrected are left out, and losses of the
 * link, which every restart of a switch or host makes.
 */
const LIMITS: readonly (readonly [RegExp, number])[] = [
  [/^(?:SymbolErrorCounter|PortRcvErrors|rx_crc_errors_phy|rx_pcs_symbol_err_phy|rx_crc_errors)$/, 1000],
  [/^nvlink_(?:crc|replay)_errors$/, 1000],
  [/^(?:LinkErrorRecoveryCounter|nvlink_recovery_errors)$/, 100],
  [/^LocalLinkIntegrityErrors$/, 10],
];

const isMany = ({ name, value }: Counter): boolean =>
  LIMITS.some(([names, limit]) => names.test(name) && value >= limit);

export const linkErrors: Rule = {
  id: 'link-errors',
  causes: ['kills', 'hangs', 'slows'],
  looksFor: 'links of adapters or GPUs whose counters of errors are high',
  example: [
    example(
      'n2.txt',
      'n2$ perfquery -C mlx5_2 -P 1',
      'SymbolErrorCounter:..............65535',
      'LinkErrorRecoveryCounter:........255',
      'LinkDownedCounter:...............37',
    ),
  ],
  references: ['perfquery(8)', 'ethtool(8)', 'nvidia-smi nvlink -e'],
  find(job) {
    const links = grouped(job.counters.filter(isMany), ({ host, of }) => `${host ?? ''}\0${of ?? ''}`);
    return [...links.values()].map((counters): Finding => {
      const { host, of } = counters[0]!;
      const isGpu = counters[0]!.name.startsWith('nvlink_');
      const link = [host, of].filter((one) => one !== undefined).join(' ');
      return {
        // Counters count since the start of the machine, or since somebody cleared them.
        severity: 'warning',
        confidence: 'possible',
        text: `the link of ${link === '' ? 'an adapter' : link} counts errors: ${counters
          .slice(0, 4)
          .map(({ name, value }) => `${name} ${value}`)
          .join(', ')}`,
        culprit: { ...(host === undefined ? {} : { host }), ...(of === undefined ? {} : { link: of }) },
        evidence: some(counters.map(({ at }) => at)),
        repair: isGpu
          ? 'Read the counters again under load (nvidia-smi nvlink -e): where they grow, reset the GPU, look at dmesg for Xid 74, and have the board or the bridge replaced.'
          : 'Read the counters again under load: where they grow, clean, reseat or exchange the cable and the transceivers at both ends, and try another port of the switch.',
        workaround: null,
      };
    });
  },
};
