/** NCCL opens at most 64 sockets per connection, over all its helper threads. */
import { firstOfEach } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/** Helper threads times sockets of one connection that NCCL allows. */
const MAX_SOCKETS = 64;

export const socketThreadsLimit: Rule = {
  id: 'socket-threads-limit',
  causes: ['slows'],
  looksFor: 'NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD above 64',
  example: [
    example(
      'n1.log',
      'n1:10:11 [0] NCCL INFO NCCL_SOCKET_NTHREADS set by environment to 16.',
      'n1:10:11 [0] NCCL INFO NCCL_NSOCKS_PERTHREAD set by environment to 8.',
    ),
  ],
  references: ['NCCL user guide: NCCL_SOCKET_NTHREADS, NCCL_NSOCKS_PERTHREAD'],
  find: (job) =>
    firstOfEach(job.processes, ({ host }) => host).flatMap((process): Finding[] => {
      const threads = process.environment.get('NCCL_SOCKET_NTHREADS');
      const sockets = process.environment.get('NCCL_NSOCKS_PERTHREAD');
      const product = Number(threads?.value ?? 1) * Number(sockets?.value ?? 1);
      if (threads === undefined || sockets === undefined || !(product > MAX_SOCKETS)) return [];
      return [
        {
          severity: 'warning',
          confidence: 'certain',
          text: `${threads.value} threads of ${sockets.value} sockets are more than the ${MAX_SOCKETS} sockets of a connection on ${process.host}`,
          culprit: { variable: 'NCCL_NSOCKS_PERTHREAD', value: sockets.value, host: process.host },
          evidence: [threads.at, sockets.at],
          repair: `Lower NCCL_SOCKET_NTHREADS or NCCL_NSOCKS_PERTHREAD: their product is at most ${MAX_SOCKETS}.`,
          workaround: null,
        },
      ];
    }),
};
