/** Sockets and shared memory take descriptors, and the limit of the process is reached. */
import { distinctPlaces } from '../../model/place.js';
import { some } from '../queries.js';
import { example, type Rule } from '../rule.js';

export const tooManyOpenFiles: Rule = {
  id: 'too-many-open-files',
  causes: ['blocks', 'kills'],
  looksFor: 'the limit of open files (EMFILE)',
  example: [
    example('n1.log', 'n1:10:12 [0] misc/socket.cc:409 NCCL WARN Call to socket failed: Too many open files'),
  ],
  references: ['getrlimit(2): RLIMIT_NOFILE'],
  find(job) {
    const failed = job.processes.flatMap((process) =>
      process.troubles
        .filter(({ text }) => /too many open files/i.test(text))
        .map(({ at }) => ({ process, at })),
    );
    const [first] = failed;
    if (first === undefined) return [];
    const limit = job.values.find(({ name }) => name === 'ulimit.nofile');
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `${first.process.host} ran out of file descriptors`,
        culprit: { host: first.process.host, ...(limit === undefined ? {} : { limit: Number(limit.value) }) },
        evidence: distinctPlaces([...some(failed.map(({ at }) => at)), limit?.at]),
        repair:
          'Raise the limit of open files for the job (ulimit -n 65536 or more, LimitNOFILE of the service, --ulimit nofile of the container).',
        workaround: null,
      },
    ];
  },
};
