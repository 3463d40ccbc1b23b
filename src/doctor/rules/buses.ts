/** PCIe: redirected peer-to-peer, links below their width or speed, errors of GPUs. */
import type { Job } from '../model/job.js';
import type { PciDevice } from '../model/machine.js';
import { distinctPlaces, type Place } from '../model/place.js';
import { edges, firstOfEach, listed, some } from './queries.js';
import { example, type Finding, type Rule } from './rule.js';

const busOf = (id: string): number =>
  Number.parseInt(/([0-9a-f]{2}):[0-9a-f]{2}\.\d$/.exec(id)?.[1] ?? '', 16);
const domainOf = (id: string): string => /^([0-9a-f]{4,8}):[0-9a-f]{2}:/.exec(id)?.[1] ?? '';

const isGpu = ({ text }: PciDevice): boolean => /^(?:3D|VGA)[^:]*: .*NVIDIA/i.test(text);
const isAdapter = ({ text }: PciDevice): boolean =>
  /Infiniband controller|Ethernet controller: Mellanox/i.test(text);

function isBelow(device: PciDevice, bridge: PciDevice): boolean {
  const { buses } = bridge;
  const bus = busOf(device.id);
  return (
    buses !== undefined &&
    device.host === bridge.host &&
    domainOf(device.id) === domainOf(bridge.id) &&
    bus >= buses.secondary &&
    bus <= buses.subordinate
  );
}

/** `83:00.0` as NCCL prints bus ids: `83000`. */
const logId = (id: string): string =>
  id
    .replace(/^0+:/, '')
    .replace(/[:.]/g, '')
    .replace(/^0+(?=.)/, '');

/** Numbers of GPUs at bus ids: as a log says, else by their order on the buses. */
function gpuNumber(job: Job, gpu: PciDevice): number {
  for (const process of job.processes) {
    for (const { busId, cudaDevice } of process.members) {
      if (busId === logId(gpu.id) && cudaDevice !== undefined) return cudaDevice;
    }
  }
  return job.pci.filter((one) => isGpu(one) && one.host === gpu.host).indexOf(gpu);
}

export const pcieAcsRedirect: Rule = {
  id: 'pcie-acs-redirect',
  causes: ['hangs', 'slows'],
  looksFor: 'switch ports above GPUs whose access control redirects requests (ReqRedir) to the root',
  example: [
    example(
      'lspci.txt',
      '80:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge',
      '\tBus: primary=80, secondary=81, subordinate=84, sec-latency=0',
      '82:00.0 PCI bridge: Broadcom / LSI PEX880xx PCIe Gen 4 Switch (rev b0)',
      '\tBus: primary=82, secondary=83, subordinate=83, sec-latency=0',
      '\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-',
      '83:00.0 3D controller: NVIDIA Corporation AD102GL [L40] (rev a1)',
    ),
  ],
  references: ['NCCL user guide: troubleshooting, PCI access control services'],
  find(job) {
    const bridges = job.pci.filter(({ buses }) => buses !== undefined);
    const bad = bridges.filter((bridge) => {
      const isRedirecting =
        bridge.acs?.set.some((bit) => bit === 'ReqRedir' || bit === 'CmpltRedir') === true;
      // Requests between root ports pass the root anyway; inside a switch they should not.
      const isInSwitch = bridges.some((above) => above !== bridge && isBelow(bridge, above));
      return (
        isRedirecting &&
        isInSwitch &&
        job.pci.some((one) => (isGpu(one) || isAdapter(one)) && isBelow(one, bridge))
      );
    });
    if (bad.length === 0) return [];
    const gpus = job.pci.filter((one) => isGpu(one) && bad.some((bridge) => isBelow(one, bridge)));
    const numbers = [...new Set(gpus.map((one) => gpuNumber(job, one)))].sort((a, b) => a - b);
    const ids = bad.map(({ id }) => id);
    const host = bad[0]!.host;
    const direct = job.processes
      .filter((process) => process.members.some(({ busId }) => gpus.some(({ id }) => logId(id) === busId)))
      .flatMap((process) => edges(process).filter(({ kind }) => kind === 'P2P'));
    const rows = job.matrices.flatMap(({ rows: all }) =>
      all.filter(({ name }) => numbers.some((one) => name === `GPU${one}`)),
    );
    return [
      {
        severity: direct.length > 0 || job.processes.length === 0 ? 'error' : 'warning',
        confidence: 'certain',
        text: `the switch ports ${listed(ids)}${host === undefined ? '' : ` of ${host}`} redirect peer-to-peer requests of GPU ${listed(numbers)} to the root`,
        culprit: { ...(host === undefined ? {} : { host }), bridges: ids, gpus: numbers },
        evidence: distinctPlaces([
          ...bad.map(({ acs }) => acs!.at),
          ...some(
            rows.map(({ at }) => at),
            8,
          ),
          ...some(
            direct.map(({ at }) => at),
            4,
          ),
        ]),
        repair: `Clear the ACS control word of ${listed(ids)} (setpci -s ${ids[0]} ECAP_ACS+6.w=0, at every boot) or switch ACS/IOMMU off in the firmware.`,
        workaround: 'NCCL_P2P_DISABLE=1 avoids the hang; all traffic then goes through host memory.',
      },
    ];
  },
};

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
        const best = Math.max(0, ...all.map(({ linkGBs }) => linkGBs));
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
    const found = job.kernelEvents.filter(({ kind }) => kind === 'iommuFault');
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

/** A call was made on every rank that logs, and nothing after it. */
function lastCalls(job: Job): Place[] {
  return job.processes.flatMap(({ members }) => {
    const open = members.filter(
      ({ lastCall, destroyed, abortStarted }) => lastCall !== undefined && !destroyed && !abortStarted,
    );
    return open.map(({ lastCall }) => lastCall!.at);
  });
}

export const collectiveHang: Rule = {
  id: 'collective-hang',
  causes: ['hangs'],
  looksFor: 'a collective that all ranks called and none finished, where the buses give a reason',
  example: [
    ...pcieAcsRedirect.example,
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO comm 0xa0 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0',
      'n1:10:10 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 8 datatype 7 op 0 root 0 comm 0xa0 [nranks=2] stream 0x1',
    ),
  ],
  references: [],
  explainedBy: ['pcie-acs-redirect', 'iommu-fault'],
  find(job) {
    const calls = lastCalls(job);
    const acs = [...pcieAcsRedirect.find(job), ...iommuFault.find(job)];
    // A log does not say that a call came back: without a reason to hang, its end means nothing.
    if (calls.length === 0 || acs.length === 0) return [];
    return [
      {
        severity: acs.some(({ severity }) => severity === 'error') ? 'error' : 'warning',
        confidence: 'possible',
        text: 'a collective does not come back',
        culprit: {},
        evidence: some(calls),
        repair: 'See the cause.',
        workaround: null,
        why: 'peer writes are sent up to the root complex and do not arrive',
      },
    ];
  },
};

export const nvlinkDown: Rule = {
  id: 'nvlink-down',
  causes: ['kills', 'slows'],
  looksFor: 'NVLinks that are inactive although others of the GPU, or of its neighbours, are active',
  example: [
    example(
      'nvlink.txt',
      'GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0)',
      '\t Link 0: 25 GB/s',
      '\t Link 1: <inactive>',
    ),
  ],
  references: ['nvidia-smi nvlink -s'],
  find(job) {
    const isActive = (GBs: number | undefined): boolean => GBs !== undefined && GBs > 0;
    const most = Math.max(
      0,
      ...job.links.map(({ links }) => links.filter(({ GBs }) => isActive(GBs)).length),
    );
    return job.links.flatMap((gpu): Finding[] => {
      const down = gpu.links.filter(({ GBs }) => !isActive(GBs));
      const up = gpu.links.length - down.length;
      // Boards that wire fewer links show all GPUs alike.
      const isAlike = job.links.every(({ links }) => links.filter(({ GBs }) => isActive(GBs)).length === up);
      if (down.length === 0 || most === 0 || (isAlike && job.links.length > 1)) return [];
      return [
        {
          severity: 'error',
          confidence: 'certain',
          text: `GPU ${gpu.gpu}${gpu.host === undefined ? '' : ` of ${gpu.host}`} has ${down.length} inactive NVLink${down.length === 1 ? '' : 's'} of ${gpu.links.length}`,
          culprit: {
            ...(gpu.host === undefined ? {} : { host: gpu.host }),
            gpu: gpu.gpu,
            links: down.map(({ index }) => index),
          },
          evidence: some(down.map(({ at }) => at)),
          repair:
            'Reset the GPU and restart the fabric manager; if the links stay down, the board or the bridge is to be replaced.',
          workaround: null,
        },
      ];
    });
  },
};

/** Xids that mean hardware or the link, and what to do (vendor's catalogue of Xid errors). */
const XIDS: Readonly<Record<number, string>> = {
  31: 'a memory access of the program was invalid: find the faulty kernel (compute-sanitizer)',
  48: 'uncorrectable memory error: reset the GPU, and replace it if it comes back',
  63: 'a memory row was retired: reset the GPU',
  64: 'a memory row could not be retired: replace the GPU',
  74: 'an NVLink failed: look at the link, reset the GPU and restart the fabric manager',
  79: 'the GPU is gone from the bus: look at power, heat and seating, and restart the machine',
  94: 'contained memory error: restart the program, reset the GPU',
  95: 'uncontained memory error: reset the GPU',
  119: 'the system processor of the GPU does not answer: reset the GPU, update the driver',
};

export const xid: Rule = {
  id: 'xid',
  causes: ['blocks', 'kills', 'hangs', 'slows'],
  looksFor: 'errors of GPUs in the kernel’s log',
  example: [
    example('dmesg.txt', '[12345.678901] NVRM: Xid (PCI:0000:83:00): 79, GPU has fallen off the bus.'),
  ],
  references: ['vendor: Xid errors'],
  find(job) {
    const found = job.kernelEvents.flatMap((event) =>
      event.kind === 'xid' && event.number !== 43 && event.number !== 45 ? [event] : [],
    );
    return firstOfEach(found, ({ device, number, host }) => `${host} ${device} ${number}`).map(
      ({ device, number, host, at, text }): Finding => ({
        severity: 'error',
        confidence: 'certain',
        text: `GPU ${device}${host === undefined ? '' : ` of ${host}`} reported Xid ${number}: ${text}`,
        culprit: { ...(host === undefined ? {} : { host }), device, xid: number },
        evidence: [at],
        repair: `${XIDS[number] === undefined ? 'Look the number up in the vendor’s list of Xid errors' : `Xid ${number}: ${XIDS[number]}`}.`,
        workaround: null,
      }),
    );
  },
};
