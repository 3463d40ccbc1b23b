/** NCCL_NET_GDR_LEVEL says up to which distance adapters may reach GPU memory; LOC allows none. */
import { networkEdges } from '../adapters/network-edges.js';
import { some, variable } from '../queries.js';
import { example, type Rule } from '../rule.js';

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
