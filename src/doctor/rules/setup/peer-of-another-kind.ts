/** A message that does not fit shows a peer of another version, another job, or another program. */
import type { Job } from '../../model/job.js';
import { firstOfEach, listed, some, type Told, troubles } from '../queries.js';
import { example, type Rule } from '../rule.js';

const hostsOf = (told: readonly Told<never>[] | readonly { process: { host: string } }[]): string[] => [
  ...new Set(told.map(({ process }) => process.host)),
];

export const peerOfAnotherKind: Rule = {
  id: 'peer-of-another-kind',
  causes: ['blocks', 'kills'],
  looksFor: 'messages of a peer that do not fit: another version of NCCL, another job, or no NCCL at all',
  example: [
    example(
      'n1.log',
      'n1:10:12 [0] bootstrap.cc:129 NCCL WARN Message truncated : received 1032 bytes instead of 1024',
    ),
  ],
  references: [],
  explainedBy: [
    'version-mismatch',
    'net-differs',
    'nranks-mismatch',
    'nranks-mismatch-at-root',
    'collective-size-mismatch',
  ],
  find(job: Job) {
    const found = troubles(job, 'wrongPeer');
    const [first] = found;
    if (first === undefined) return [];
    const versions = [
      ...new Set([
        ...job.processes.flatMap(({ version }) => version?.value ?? []),
        ...job.bareVersions.map(({ value }) => value),
      ]),
    ];
    return [
      {
        severity: 'error',
        confidence: versions.length > 1 ? 'likely' : 'possible',
        text: `${listed(hostsOf(found))} got a message that does not fit (${first.trouble.what})${versions.length > 1 ? `; ranks use NCCL ${listed(versions)}` : ': the peer may run another version of NCCL, or belong to another job'}`,
        culprit: {
          hosts: hostsOf(found),
          what: first.trouble.what,
          ...(versions.length > 1 ? { versions } : {}),
        },
        evidence: [
          ...some(
            firstOfEach(found, ({ process, trouble }) => `${process.host} ${trouble.what}`).map(
              ({ at }) => at,
            ),
          ),
          ...(versions.length > 1
            ? firstOfEach(
                [...job.processes.flatMap(({ version }) => version ?? []), ...job.bareVersions],
                ({ value }) => value,
              ).map(({ at }) => at)
            : []),
        ],
        repair:
          'Compare the line "NCCL version" of all ranks (NCCL_DEBUG=VERSION), use one image on all hosts, and end processes of earlier runs that still use the address.',
        workaround: null,
        why: 'the message was made by another version, or for another communicator',
      },
    ];
  },
};
