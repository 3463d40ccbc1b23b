/** A link that lost lanes, as lspci states it. */
import type { PciDevice } from '../../model/machine.js';
import { example, type Finding, type Rule } from '../rule.js';
import { isAdapter, isGpu } from './pci-devices.js';

export const pcieLinkDegraded: Rule = {
  id: 'pcie-link-degraded',
  causes: ['slows'],
  looksFor: 'GPUs or adapters whose PCIe link runs at less than its width',
  example: [
    example(
      'lspci.txt',
      '83:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)',
      '\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported',
      '\t\tLnkSta:\tSpeed 32GT/s, Width x4 (downgraded)',
    ),
  ],
  references: ['PCI Express: link status'],
  find(job) {
    // Speed falls on its own when a GPU idles; width does not.
    const bad = job.pci.filter(
      ({ linkStatus, linkCapable, ...device }) =>
        linkStatus !== undefined &&
        linkCapable !== undefined &&
        linkStatus.width < linkCapable.width &&
        (isGpu(device as PciDevice) || isAdapter(device as PciDevice)),
    );
    return bad.map((device): Finding => {
      const { id, host, linkStatus, linkCapable } = device;
      return {
        severity: 'warning',
        confidence: 'certain',
        text: `${host ?? ''} ${id} runs with ${linkStatus!.width} of ${linkCapable!.width} PCIe lanes`.trim(),
        culprit: {
          ...(host === undefined ? {} : { host }),
          device: id,
          width: linkStatus!.width,
          expected: linkCapable!.width,
        },
        evidence: [linkStatus!.at],
        repair: `Reseat or replace ${id} or its riser; until then keep jobs off it.`,
        workaround: null,
      };
    });
  },
};
