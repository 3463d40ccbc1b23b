/** The IOMMU translates requests between devices, and refuses those that it has no entry for. */

import type { Job } from '../../model/job.js';
import { some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { isAdapter, isGpu } from './pci-devices.js';

/** Devices of all kinds have faults; those of graphics on board, disks or USB are no matter of NCCL. */
function mayMatter(
  { text, host }: { readonly text: string; readonly host: string | undefined },
  job: Job,
): boolean {
  const id = /([0-9a-f]{2}):(?:0x)?([0-9a-f]{2}\.[0-7])/i.exec(text);
  if (id === null) return true;
  const device = job.pci.find(
    (one) =>
      one.id.endsWith(`${id[1]}:${id[2]}`.toLowerCase()) &&
      (host === undefined || (one.host ?? host) === host),
  );
  return device === undefined || isGpu(device) || isAdapter(device) || device.buses !== undefined;
}

export const iommuFault: Rule = {
  id: 'iommu-fault',
  causes: ['kills', 'hangs'],
  looksFor: 'faults of the IOMMU in the kernel’s log: peer-to-peer requests are translated and refused',
  example: [
    example(
      'dmesg.txt',
      '[ 812.1] AMD-Vi: Event logged [IO_PAGE_FAULT device=83:00.0 domain=0x0021 address=0xf8000000 flags=0x0030]',
    ),
  ],
  references: ['NCCL user guide: troubleshooting, IO virtualization'],
  find(job) {
    const found = job.kernelEvents.filter((event) => event.kind === 'iommuFault' && mayMatter(event, job));
    const [first] = found;
    if (first === undefined) return [];
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `the IOMMU${first.host === undefined ? '' : ` of ${first.host}`} refuses requests between devices`,
        culprit: first.host === undefined ? {} : { host: first.host },
        evidence: some(found.map(({ at }) => at)),
        repair:
          'Switch the IOMMU off in the firmware, or pass it through (kernel parameter iommu=pt), on machines without virtual machines.',
        workaround: 'NCCL_P2P_DISABLE=1 avoids peer-to-peer; all traffic then goes through host memory.',
      },
    ];
  },
};
