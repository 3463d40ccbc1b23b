/** Ranks open segments that others made, which other users and other IPC namespaces may not. */
import { firstOfEach, listed, some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

const DENIED = /permission denied|operation not permitted|read-only/i;

export const shmPermission: Rule = {
  id: 'shm-permission',
  causes: ['blocks', 'kills'],
  looksFor: 'shared memory that may not be created or opened (different users, other IPC namespaces)',
  example: [
    example(
      'rank1.log',
      'n1:10:12 [1] misc/shmutils.cc:128 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-k7TqVd (size 9637888), error: Permission denied (13)',
    ),
  ],
  references: [],
  find(job) {
    const found = troubles(job, 'shm').filter(({ trouble }) => DENIED.test(trouble.reason));
    const [first] = found;
    if (first === undefined) return [];
    const hosts = [...new Set(found.map(({ process }) => process.host))];
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `shared memory is refused on ${listed(hosts)}: ${first.trouble.reason}`,
        culprit: { host: first.process.host, path: first.trouble.path },
        evidence: some(firstOfEach(found, ({ process }) => process).map(({ at }) => at)),
        repair: 'Run all ranks of a host as one user in one IPC namespace, with /dev/shm mounted writable.',
        workaround: 'NCCL_SHM_DISABLE=1 avoids shared memory, at a cost in bandwidth between the GPUs.',
      },
    ];
  },
};
