/** NCCL takes one rank per GPU: two on one would wait for each other inside kernels that cannot run together. */
import { listed, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const duplicateGpu: Rule = {
  id: 'duplicate-gpu',
  causes: ['blocks'],
  looksFor: 'two ranks on one GPU',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] init.cc:881 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000',
    ),
  ],
  references: ['NCCL user guide: using multiple NCCL communicators'],
  explainedBy: ['nccl-tests-not-one-job'],
  find(job) {
    const found = troubles(job, 'sameGpu').filter(({ logged }) => logged.isWarning);
    const [first] = found;
    if (first === undefined) return [];
    const ranks = [...first.logged.text.matchAll(/\brank (\d+)/gi)].map(([, rank]) => Number(rank));
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `several ranks of ${first.process.host} use one GPU${ranks.length > 0 ? `: rank ${listed([...new Set(ranks)].sort((a, b) => a - b))}` : ''}`,
        culprit: {
          host: first.process.host,
          ...(ranks.length > 0 ? { ranks: [...new Set(ranks)].sort((a, b) => a - b) } : {}),
        },
        evidence: some(found.map(({ at }) => at)),
        repair:
          'Let each process choose its own GPU before it makes a communicator (cudaSetDevice(local rank), CUDA_VISIBLE_DEVICES per process, --gpus-per-task).',
        workaround: null,
      },
    ];
  },
};
