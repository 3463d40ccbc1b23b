/** Ranks of one communicator exchange structures whose layout belongs to a version: all must run the same NCCL. */
import type { Job } from '../../model/job.js';
import { distinctPlaces } from '../../model/place.js';
import { firstOfEach, some, troubles } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

const short = (text: string): string => text.replace(/\+.*$/, '');

const REPAIR =
  'Use one image or one library path on all hosts (ldd of the program, LD_LIBRARY_PATH, LD_PRELOAD, the NCCL inside the framework’s package).';

/** Versions in lines that name no process: of one communicator that never came up, they are those of its ranks. */
function printedVersions(job: Job): Finding[] {
  const versions = firstOfEach(job.bareVersions, ({ value }) => short(value));
  const members = job.processes.flatMap((process) => process.members);
  const isOne = new Set(members.map(({ commId }) => commId)).size === 1 && job.processes.length > 1;
  const isPlain = job.processes.every(({ version }) => version === undefined);
  if (versions.length < 2 || !isOne || !isPlain) return [];
  if (members.some(({ completed }) => completed !== undefined)) return [];
  return [
    {
      severity: 'error',
      confidence: 'likely',
      text: `the log of one communicator, which never came up, names several versions of NCCL: ${versions.map(({ value }) => short(value)).join(', ')}`,
      culprit: { versions: versions.map(({ value }) => short(value)) },
      evidence: versions.map(({ at }) => at),
      repair: REPAIR,
      workaround: null,
    },
  ];
}

export const versionMismatch: Rule = {
  id: 'version-mismatch',
  causes: ['blocks', 'kills', 'hangs'],
  looksFor: 'ranks of one communicator with different versions of NCCL',
  example: [
    example(
      'logs.txt',
      'n1:10:10 [0] NCCL INFO NCCL version 2.26.2+cuda12.6',
      'n1:10:11 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
      'n2:10:10 [0] NCCL INFO NCCL version 2.21.5+cuda12.4',
      'n2:10:11 [0] NCCL INFO ncclCommInitRank comm 0xb0 rank 1 nranks 2 cudaDev 0 busId 1b000 commId 0x3f - Init START',
    ),
  ],
  references: ['NCCL user guide: troubleshooting'],
  find(job) {
    const told = job.processes.filter(({ version }) => version !== undefined);
    const versions = firstOfEach(told, ({ version }) => short(version!.value));
    const warned = troubles(job, 'versions');
    const isOneJob =
      warned.length > 0 ||
      troubles(job, 'wrongPeer').length > 0 ||
      versions.some((a) =>
        versions.some(
          (b) =>
            a !== b &&
            a.members.some((x) => x.commId !== undefined && b.members.some((y) => y.commId === x.commId)),
        ),
      );
    if ((versions.length < 2 && warned.length === 0) || !isOneJob) return printedVersions(job);
    return [
      {
        severity: 'error',
        confidence: 'certain',
        text: `ranks use different versions of NCCL${versions.length > 1 ? `: ${versions.map(({ host, version }) => `${short(version!.value)} on ${host}`).join(', ')}` : ''}`,
        culprit: {
          versions: versions.map(({ version }) => short(version!.value)),
          hosts: versions.map(({ host }) => host),
        },
        evidence: distinctPlaces([
          ...versions.map(({ version }) => version!.at),
          ...some(warned.map(({ at }) => at)),
        ]),
        repair: REPAIR,
        workaround: null,
      },
    ];
  },
};
