/** By default GPUDirect RDMA is used only between a GPU and an adapter below one switch. */
import { some } from '../queries.js';
import { example, type Rule } from '../rule.js';
import { networkEdges } from './network-edges.js';

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
        // Without switches this is what NCCL does on an intact machine.
        severity: 'info',
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
