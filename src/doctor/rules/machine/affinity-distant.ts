/** A process that is bound to cores far from its GPU: its copies and NCCL's threads cross the link between sockets. */
import { firstOfEach, listed, some } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const affinityDistant: Rule = {
  id: 'affinity-distant',
  causes: ['slows'],
  looksFor: 'processes bound to cores none of which is near their GPU',
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO ncclTopoGetCpuAffinity: Affinity for GPU 0 is . (GPU affinity = 0-31 ; CPU affinity = 32-63).',
    ),
  ],
  references: ['NCCL user guide: NCCL_IGNORE_CPU_AFFINITY', 'numactl(8)'],
  find(job) {
    const found = job.processes.filter(
      ({ affinity }) => affinity !== undefined && affinity.processors === 0 && (affinity.near ?? 0) > 0,
    );
    const [first] = found;
    if (first === undefined) return [];
    const hosts = [...new Set(found.map(({ host }) => host))];
    const gpus = [...new Set(found.map(({ affinity }) => affinity!.gpu))].sort((a, b) => a - b);
    return [
      {
        severity: 'warning',
        confidence: 'likely',
        text: `the process${found.length === 1 ? '' : 'es'} of GPU ${listed(gpus)} on ${listed(hosts)} ${found.length === 1 ? 'is' : 'are'} bound to cores of another NUMA node`,
        culprit: { hosts: hosts.slice(0, 16), gpus },
        evidence: some(
          firstOfEach(found, ({ host, affinity }) => `${host} ${affinity!.gpu}`).map(
            ({ affinity }) => affinity!.at,
          ),
        ),
        repair:
          'Bind each process to the cores beside its GPU (nvidia-smi topo -m: CPU Affinity; srun --cpu-bind=verbose,map_ldom or --gpu-bind=closest, mpirun --map-by numa, numactl --cpunodebind), and interrupts of adapters to those beside the adapter.',
        workaround:
          'NCCL_IGNORE_CPU_AFFINITY=1 lets NCCL’s threads go near the GPU; the threads of the program stay where they are.',
      },
    ];
  },
};
