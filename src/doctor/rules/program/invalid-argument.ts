/** NCCL itself names an argument that it refuses. */
import { firstOfEach, troubles } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

export const invalidArgument: Rule = {
  id: 'invalid-argument',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'calls with an argument that NCCL refuses',
  example: [example('n1.log', 'n1:10:12 [0] init.cc:2100 NCCL WARN Invalid rank requested : 8/8')],
  references: ['NCCL user guide: ncclInvalidArgument'],
  find: (job) =>
    firstOfEach(troubles(job, 'argument'), ({ trouble }) => trouble.what).map(
      ({ trouble, process, logged, at }): Finding => ({
        severity: 'error',
        confidence: 'certain',
        text: `a call on ${process.host}${logged.rank === undefined ? '' : ` (rank ${logged.rank})`} has an argument that NCCL refuses: ${trouble.what}`,
        culprit: {
          host: process.host,
          ...(logged.rank === undefined ? {} : { rank: logged.rank }),
          what: trouble.what,
        },
        evidence: [at],
        repair: /rank requested/i.test(trouble.what)
          ? 'Give each process a rank from 0 to the number of ranks less one (RANK and WORLD_SIZE, SLURM_PROCID, mpirun -np).'
          : 'Correct that argument in the call of the program.',
        workaround: null,
      }),
    ),
};
