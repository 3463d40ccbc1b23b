/** Segments of shared memory need room in /dev/shm, of which containers get 64 MiB by default. */
import { distinctPlaces } from '../../model/place.js';
import { some, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

const FULL = /no space left|not enough space/i;

/** A segment ends in a counter of four bytes, which the failed extension includes and the request does not. */
const COUNTER_BYTES = 4;

const mebibytes = (bytes: number): string => `${Math.round(bytes / 104_857.6) / 10} MiB`;

export const shmTooSmall: Rule = {
  id: 'shm-too-small',
  causes: ['blocks', 'kills'],
  looksFor: '/dev/shm without room for a segment, as in containers with the default of 64 MiB',
  example: [
    example(
      'rank1.log',
      'n1:10:12 [1] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-k7TqVd to 9637892 bytes, error: No space left on device (28)',
    ),
    example(
      'df.txt',
      'Filesystem      Size  Used Avail Use% Mounted on',
      'shm              64M   60M  4.0M  94% /dev/shm',
    ),
  ],
  references: ['NCCL user guide: troubleshooting, shared memory'],
  find(job) {
    // Exceptions quote the message without the reason, which is mostly this one.
    const found = troubles(job, 'shm').filter(
      ({ trouble, process }) => FULL.test(trouble.reason) || (trouble.reason === '' && process.isQuoted),
    );
    const [first] = found;
    if (first === undefined) return [];
    const { host } = first.process;
    const mount = job.mounts.find(
      ({ path, host: of }) => path === '/dev/shm' && (of === undefined || of === host),
    );
    const exact = found.find(({ logged }) => logged.text.includes('(size '));
    const bytes = exact?.trouble.bytes ?? Math.max(0, first.trouble.bytes - COUNTER_BYTES);
    const ranks = [...new Set(found.flatMap(({ logged }) => logged.rank ?? []))];
    const fits = mount === undefined || bytes === 0 ? undefined : Math.floor(mount.bytes / bytes);
    return [
      {
        severity: 'error',
        confidence: found.some(({ trouble }) => trouble.reason !== '') ? 'certain' : 'likely',
        text: `/dev/shm of ${host} has no room for a segment${bytes > 0 ? ` of ${mebibytes(bytes)}` : ''}${mount === undefined ? '' : `; it has ${mebibytes(mount.bytes)}`}`,
        culprit: {
          host,
          path: '/dev/shm',
          ...(ranks.length === 1 ? { rank: ranks[0] } : ranks.length > 1 ? { ranks } : {}),
          ...(bytes > 0 ? { segmentBytes: bytes } : {}),
          ...(mount === undefined ? {} : { sizeBytes: mount.bytes }),
        },
        evidence: distinctPlaces([...some(found.map(({ at }) => at)), mount?.at]),
        repair: `Give the container a larger /dev/shm (docker --shm-size or --ipc=host, a memory-backed emptyDir in Kubernetes)${fits === undefined ? '' : `; only ${fits} segment${fits === 1 ? '' : 's'} of ${mebibytes(bytes)} fit in ${mebibytes(mount!.bytes)}`}; remove /dev/shm/nccl-* that runs left behind which ended.`,
        workaround:
          'NCCL_SHM_DISABLE=1 or a smaller NCCL_BUFFSIZE lets it start, at a cost in bandwidth between the GPUs.',
      },
    ];
  },
};
