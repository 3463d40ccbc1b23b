/** A launcher that binds each process to a core leaves NCCL's threads that core only. */
import { firstOfEach, listed, some, variable } from '../queries.js';
import { example, type Rule } from '../rule.js';

/** Processors, that is one core with both of its threads, on which the program and NCCL's threads take turns. */
const NARROW = 2;

export const affinityNarrow: Rule = {
  id: 'affinity-narrow',
  causes: ['slows'],
  looksFor: "NCCL's threads may use one core only, which the launcher has bound the process to",
  example: [
    example(
      'rank0.log',
      'n1:10:11 [0] NCCL INFO ncclTopoGetCpuAffinity: Affinity for GPU 0 is 3. (GPU affinity = 0-31,64-95 ; CPU affinity = 3).',
    ),
  ],
  references: ['NCCL user guide: NCCL_IGNORE_CPU_AFFINITY'],
  find(job) {
    const bound = job.processes.filter(({ affinity }) => {
      if (affinity === undefined || affinity.processors === 0) return false;
      // Where the machine has no more near the GPU, nothing is lost. Masks of older versions do not tell.
      return affinity.processors <= NARROW && affinity.processors < (affinity.near ?? Infinity);
    });
    const free = bound.filter((process) => variable(process, 'NCCL_IGNORE_CPU_AFFINITY') !== '1');
    if (free.length === 0) return [];
    const hosts = [...new Set(free.map(({ host }) => host))];
    const most = Math.max(...some(free).map(({ affinity }) => affinity!.processors));
    return [
      {
        severity: 'warning',
        confidence: free.some(({ affinity }) => affinity!.near !== undefined) ? 'likely' : 'possible',
        text: `NCCL's threads have ${most === 1 ? 'one processor' : `${most} processors`} only on ${listed(hosts)}`,
        culprit: { hosts, processors: most },
        evidence: some(firstOfEach(free, ({ host }) => host).map(({ affinity }) => affinity!.at)),
        repair:
          "Bind each process to all cores of its GPU's NUMA node instead of one core (mpirun --bind-to numa, srun --cpu-bind=ldoms with enough --cpus-per-task).",
        workaround:
          'NCCL_IGNORE_CPU_AFFINITY=1 lets its threads use the cores near the GPU, also those of other processes.',
      },
    ];
  },
};
