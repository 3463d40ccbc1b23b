/** Gloo moves data of GPUs through host memory and TCP: NCCL is the backend for them. */
import { some } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const backendGloo: Rule = {
  id: 'backend-gloo',
  causes: ['slows'],
  looksFor: 'a job on GPUs that uses Gloo, and nothing that uses NCCL',
  example: [example('train.log', 'GPU available: True (cuda), used: True', 'distributed_backend=gloo')],
  references: ['PyTorch: torch.distributed, which backend to use'],
  find(job) {
    const backends = job.values.filter(({ name }) => name === 'framework.backend');
    const gloo = backends.filter(({ value }) => value === 'gloo');
    const gpus = job.values.filter(({ name }) => name === 'framework.gpus');
    // Groups of Gloo beside those of NCCL carry objects between processes, and are meant to.
    const isMixed =
      gloo.length < backends.length ||
      job.processes.length > 0 ||
      job.bareVersions.length > 0 ||
      job.benches.length > 0 ||
      job.events.some(({ kind }) => kind === 'watchdog' || kind === 'ncclError');
    if (gloo.length === 0 || gpus.length === 0 || isMixed) return [];
    return [
      {
        severity: 'warning',
        confidence: 'likely',
        text: 'the job trains on GPUs with Gloo: every exchange goes through host memory and TCP',
        culprit: { backend: 'gloo' },
        evidence: some([gloo[0]!.at, gpus[0]!.at]),
        repair:
          "Use NCCL for tensors of GPUs (backend='nccl', or 'cpu:gloo,cuda:nccl' where CPU tensors are exchanged as well).",
        workaround: null,
      },
    ];
  },
};
