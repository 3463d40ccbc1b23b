/** Warnings that name the mistake themselves: refused arguments, values of variables, peers that do not fit. */
import type { Job } from '../model/job.js';
import { firstOfEach, listed, some, type Told, troubles } from './queries.js';
import { example, type Finding, type Rule } from './rule.js';

const hostsOf = (told: readonly Told<never>[] | readonly { process: { host: string } }[]): string[] => [
  ...new Set(told.map(({ process }) => process.host)),
];

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

export const envValueUnknown: Rule = {
  id: 'env-value-unknown',
  causes: ['blocks', 'kills', 'slows'],
  looksFor: 'variables with a value that NCCL does not understand',
  example: [
    example(
      'n1.log',
      'n1:10:12 [0] graph/tuning.cc:110 NCCL WARN Unrecognized element token "Rnig" when parsing NCCL_ALGO="Rnig"',
    ),
  ],
  references: ['NCCL user guide: NCCL_ALGO, NCCL_PROTO'],
  find: (job) =>
    firstOfEach(troubles(job, 'variable'), ({ trouble }) => `${trouble.name}=${trouble.value}`).map(
      ({ trouble, process, at }): Finding => ({
        severity: 'error',
        confidence: 'certain',
        text: `${trouble.name}=${trouble.value} on ${process.host} is a value that NCCL does not understand`,
        culprit: { variable: trouble.name, value: trouble.value, host: process.host },
        evidence: [at],
        repair: `Correct ${trouble.name} (names as in NCCL's documentation, separated by commas) or unset it.`,
        workaround: null,
      }),
    ),
};

export const sizesAtRoot: Rule = {
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
  explainedBy: ['nranks-mismatch'],
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

export const wrongPeer: Rule = {
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
  explainedBy: ['version-mismatch', 'nranks-mismatch', 'nranks-mismatch-at-root', 'collective-size-mismatch'],
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
