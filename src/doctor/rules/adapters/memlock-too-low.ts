/** Adapters reach memory that is locked, and the limit of locked memory is low by default. */
import { distinctPlaces } from '../../model/place.js';
import { some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const memlockTooLow: Rule = {
  id: 'memlock-too-low',
  causes: ['blocks', 'kills'],
  looksFor: 'memory that cannot be registered with the adapter because the limit of locked memory is low',
  example: [
    example(
      'n1.log',
      'n1:10:12 [0] misc/ibvwrap.cc:150 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory',
    ),
    example('ulimit.txt', 'n1$ ulimit -l', '64'),
  ],
  references: ['getrlimit(2): RLIMIT_MEMLOCK', 'NCCL user guide: troubleshooting'],
  find(job) {
    const found = troubles(job, 'registration').filter(({ trouble }) =>
      /cannot allocate memory/i.test(trouble.reason),
    );
    const [first] = found;
    if (first === undefined) return [];
    const { host } = first.process;
    const limit = job.values.find(
      (one) => one.name === 'ulimit.memlock' && (one.host === undefined || one.host === host),
    );
    if (limit?.value === 'unlimited') return [];
    return [
      {
        severity: 'error',
        confidence: limit === undefined ? 'likely' : 'certain',
        text: `${host} cannot register memory with its adapter (${first.trouble.call})${limit === undefined ? '' : `; locked memory is limited to ${limit.value} kB`}`,
        culprit: {
          host,
          call: first.trouble.call,
          ...(limit === undefined ? {} : { limitKb: Number(limit.value) }),
        },
        evidence: distinctPlaces([...some(found.map(({ at }) => at)), limit?.at]),
        repair:
          'Set the limit of locked memory to unlimited for the job (ulimit -l, LimitMEMLOCK of the service, --ulimit memlock=-1 of the container).',
        workaround: null,
      },
    ];
  },
};
