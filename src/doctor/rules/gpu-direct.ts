/** GPUDirect RDMA: missing on one host, or too far away. */
import type { Job } from '../model/job.js';
import { distinctPlaces } from '../model/place.js';
import type { Connection, NcclProcess } from '../model/process.js';
import { rankOf } from '../model/process.js';
import { edges, listed, some, variable } from './queries.js';
import { example, type Finding, type Rule } from './rule.js';

const networkEdges = (process: NcclProcess): Connection[] =>
  edges(process).filter(({ kind, network }) => kind === 'NET' && network !== 'Socket');

interface Side {
  readonly host: string;
  readonly processes: NcclProcess[];
  readonly edges: Connection[];
}

function sides(job: Job): Side[] {
  const byHost = new Map<string, Side>();
  for (const process of job.processes) {
    const own = networkEdges(process);
    if (own.length === 0) continue;
    const side = byHost.get(process.host) ?? { host: process.host, processes: [], edges: [] };
    side.processes.push(process);
    side.edges.push(...own);
    byHost.set(process.host, side);
  }
  return [...byHost.values()];
}

export const gdrMissingOnNode: Rule = {
  id: 'gdr-missing-on-node',
  causes: ['slows'],
  looksFor: 'a host without GPUDirect RDMA on any network edge although its peers have it on theirs',
  example: [
    example(
      'logs.txt',
      'n1:10:11 [0] NCCL INFO Channel 00/0 : 1[1] -> 4[0] [send] via NET/IB/0/GDRDMA',
      'n2:10:11 [0] NCCL INFO Channel 00/0 : 1[1] -> 4[0] [receive] via NET/IB/0',
    ),
  ],
  references: ['NCCL user guide: GPU Direct RDMA, nvidia-peermem, NCCL_DMABUF_ENABLE'],
  find(job) {
    const all = sides(job);
    const having = all.filter(({ edges: own }) => own.every(({ gpuDirect }) => gpuDirect));
    const lacking = all.filter(({ edges: own }) => own.every(({ gpuDirect }) => !gpuDirect));
    if (having.length === 0) return [];
    return lacking.map(({ host, processes }): Finding => {
      const ranks = [...new Set(processes.flatMap((one) => rankOf(one) ?? []))].sort((a, b) => a - b);
      const modules = job.modules.find((one) => one.host === host);
      const isMissing =
        modules !== undefined && ![...modules.names.keys()].some((name) => /peermem|nv_peer_mem/.test(name));
      return {
        severity: 'error',
        confidence: isMissing ? 'certain' : 'likely',
        text: `no network edge of ${host} uses GPUDirect RDMA, all of ${listed(having.map((one) => one.host))} do`,
        culprit: { host, ranks },
        evidence: distinctPlaces([
          ...some(processes.map((one) => networkEdges(one)[0]!.at)),
          ...some(having.flatMap((one) => one.processes.map((process) => networkEdges(process)[0]!.at))),
          ...(isMissing ? [modules.at] : []),
        ]),
        repair: `Load the peer-memory module on ${host} (modprobe nvidia-peermem, keep it loaded at boot) or use a driver with DMA-BUF there.`,
        workaround: null,
      };
    });
  },
};

export const gdrOff: Rule = {
  id: 'gdr-off',
  causes: ['slows'],
  looksFor: 'no network edge of the job with GPUDirect RDMA, and the module for it not loaded',
  example: [
    example('rank0.log', 'n1:10:12 [0] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0'),
    example(
      'lsmod.txt',
      'n1$ lsmod',
      'nvidia_uvm           4710400  18',
      'ib_uverbs             188416  2 rdma_ucm,mlx5_ib',
    ),
  ],
  references: ['NCCL user guide: GPU Direct RDMA'],
  explainedBy: ['env-gdr-level', 'topo-file-ids-mismatch', 'gdr-missing-on-node'],
  find(job) {
    const all = sides(job);
    const isOff = all.length > 0 && all.every(({ edges: own }) => own.every(({ gpuDirect }) => !gpuDirect));
    // Without a list of modules it may be the kind of GPU, or the distance: then nothing is certain enough.
    const lacking = job.modules.filter(
      ({ names }) =>
        names.has('ib_uverbs') && ![...names.keys()].some((name) => /peermem|nv_peer_mem/.test(name)),
    );
    if (!isOff || lacking.length === 0) return [];
    const hosts = all.map(({ host }) => host);
    return [
      {
        severity: 'error',
        confidence: 'likely',
        text: `no network edge uses GPUDirect RDMA, and nvidia-peermem is not loaded on ${listed(lacking.flatMap(({ host }) => host ?? []))}`,
        culprit: { hosts, module: 'nvidia_peermem' },
        evidence: distinctPlaces([
          ...some(all.map(({ edges: own }) => own[0]!.at)),
          ...lacking.map(({ at }) => at),
        ]),
        repair:
          'Load the peer-memory module on all hosts (modprobe nvidia-peermem, keep it loaded at boot), or use an open-kernel driver with DMA-BUF.',
        workaround: null,
      },
    ];
  },
};

/** How far an adapter may be for GPUDirect by default. */
export const gdrOffDistance: Rule = {
  id: 'gdr-off-distance',
  causes: ['slows'],
  looksFor: 'network edges without GPUDirect RDMA where NCCL found the adapters too far from the GPUs',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO === System : maxBw 12.0 totalBw 370.8 ===',
      'n1:10:11 [0] NCCL INFO CPU/0-0 (1/2/-1)',
      'n1:10:11 [0] NCCL INFO + PCI[12.0] - GPU/0-8a000 (0)',
      'n1:10:11 [0] NCCL INFO + PCI[12.0] - NIC/0-c1000',
      'n1:10:12 [0] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0',
      'n1:10:12 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0',
    ),
  ],
  references: ['NCCL user guide: NCCL_NET_GDR_LEVEL'],
  explainedBy: ['topo-file-ids-mismatch', 'env-gdr-level'],
  find(job) {
    const far = job.processes.filter(({ tree }) =>
      tree?.devices.some(({ kind, isOnCpu }) => kind === 'NIC' && isOnCpu),
    );
    const lines = far.flatMap((process) => {
      const own = networkEdges(process);
      const isOff = own.length > 0 && own.every(({ gpuDirect }) => !gpuDirect);
      return isOff ? [own[0]!.at, ...(process.rings?.isGpuDirect === false ? [process.rings.at] : [])] : [];
    });
    if (lines.length === 0) return [];
    return [
      {
        severity: 'warning',
        confidence: 'possible',
        text: 'GPUDirect RDMA is not used: the adapters are no nearer to the GPUs than the CPU',
        culprit: { hosts: [...new Set(far.map(({ host }) => host))] },
        evidence: some(lines),
        repair:
          'Where the machine has switches between GPUs and adapters, give NCCL their true places (topology file of this machine); else allow it with NCCL_NET_GDR_LEVEL=SYS and measure.',
        workaround: null,
        why: 'every adapter is behind a CPU, too far for GPUDirect',
      },
    ];
  },
};

export const envGdrLevel: Rule = {
  id: 'env-gdr-level',
  causes: ['slows'],
  looksFor: 'NCCL_NET_GDR_LEVEL=LOC or 0: GPUDirect RDMA is forbidden',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to LOC',
      'n1:10:12 [0] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0',
    ),
  ],
  references: ['NCCL user guide: NCCL_NET_GDR_LEVEL'],
  find(job) {
    const found = job.processes.filter((process) => {
      const own = networkEdges(process);
      const level = variable(process, 'NCCL_NET_GDR_LEVEL') ?? '';
      return /^(?:0|LOC)$/i.test(level) && own.length > 0 && own.every(({ gpuDirect }) => !gpuDirect);
    });
    const [first] = found;
    if (first === undefined) return [];
    const setting = first.environment.get('NCCL_NET_GDR_LEVEL')!;
    return [
      {
        severity: 'warning',
        confidence: 'certain',
        text: `NCCL_NET_GDR_LEVEL=${setting.value} forbids GPUDirect RDMA`,
        culprit: { variable: 'NCCL_NET_GDR_LEVEL', value: setting.value, host: first.host },
        evidence: some([setting.at, ...networkEdges(first).map(({ at }) => at)], 4),
        repair: 'Unset NCCL_NET_GDR_LEVEL.',
        workaround: null,
      },
    ];
  },
};
