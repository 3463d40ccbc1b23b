/** The root of the set-up collects the size that every rank was told, and reports when they differ. */
import { listed, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const nranksMismatchAtRoot: Rule = {
  id: 'nranks-mismatch-at-root',
  causes: ['blocks'],
  looksFor: 'ranks that told the root of the set-up different numbers of ranks',
  example: [
    example(
      'n1.log',
      'n1:10:12 [0] bootstrap.cc:500 NCCL WARN Bootstrap Root : mismatch in rank count from procs 2 : 4',
    ),
  ],
  references: ['NCCL user guide: creating a communicator'],
  explainedBy: ['nranks-mismatch', 'version-mismatch'],
  find(job) {
    const found = troubles(job, 'rankCounts');
    const [first] = found;
    if (first === undefined) return [];
    const sizes = [...new Set(found.flatMap(({ trouble }) => trouble.sizes))];
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `ranks disagree about the size of their communicator: ${listed(sizes)}`,
        culprit: { sizes, host: first.process.host },
        evidence: some(found.map(({ at }) => at)),
        repair:
          'Start all ranks with the same number of ranks (WORLD_SIZE, mpirun -np, srun -n), and end processes of an earlier run that still use the address.',
        workaround: null,
        why: 'the root of the set-up was told both sizes',
      },
    ];
  },
};
