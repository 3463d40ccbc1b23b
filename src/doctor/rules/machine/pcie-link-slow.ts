/** A link that lost lanes or speed, as NCCL’s own tree of the machine shows it beside its siblings. */
import { largest } from '../../model/extremes.js';
import { firstOfEach, listed, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/** Share of the usual bandwidth below which a link is narrow or slow. */
const NARROW = 0.6;

export const pcieLinkSlow: Rule = {
  id: 'pcie-link-slow',
  causes: ['slows'],
  looksFor:
    'one GPU or adapter in NCCL’s tree of the machine whose PCIe link is slower than those of its siblings',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO === System : maxBw 24.0 totalBw 240.0 ===',
      'n1:10:11 [0] NCCL INFO + PCI[24.0] - GPU/0-7000 (0)',
      'n1:10:11 [0] NCCL INFO + PCI[24.0] - GPU/0-b000 (1)',
      'n1:10:11 [0] NCCL INFO + PCI[6.0] - GPU/0-48000 (2)',
    ),
  ],
  references: ['PCI Express: link status'],
  explainedBy: ['pcie-link-degraded', 'topo-file-ids-mismatch'],
  find: (job) =>
    firstOfEach(job.processes, ({ host }) => host).flatMap(({ host, tree }): Finding[] =>
      (['GPU', 'NIC'] as const).flatMap((kind): Finding[] => {
        const all = tree?.devices.filter((one) => one.kind === kind && one.linkGBs > 0) ?? [];
        const best = largest(
          all.map(({ linkGBs }) => linkGBs),
          0,
        );
        const slow = all.filter(({ linkGBs }) => linkGBs < NARROW * best);
        // Adapters of several kinds are usual; of GPUs, the odd one out is the fault.
        const isOdd = slow.length > 0 && slow.length * 3 <= all.length && kind === 'GPU';
        if (!isOdd) return [];
        return [
          {
            severity: 'warning',
            confidence: 'likely',
            text: `the PCIe link of ${kind} ${listed(slow.map(({ id }) => id))} of ${host} gives ${slow[0]!.linkGBs} GB/s, those of the others ${best}`,
            culprit: {
              host,
              devices: slow.map(({ id }) => id),
              linkGBs: slow[0]!.linkGBs,
              expectedGBs: best,
            },
            evidence: some(
              [...slow, ...all.filter((one) => !slow.includes(one)).slice(0, 1)].map(({ at }) => at),
            ),
            repair: `Compare LnkSta with LnkCap of ${slow[0]!.id} (lspci -vvv); reseat or replace the card or its riser.`,
            workaround: null,
          },
        ];
      }),
    ),
};
