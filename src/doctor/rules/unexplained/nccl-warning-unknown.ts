/** What NCCL itself reported as wrong and no other rule explains: such a job is never healthy. */
import type { Job } from '../../model/job.js';
import { distinctPlaces, type Place } from '../../model/place.js';
import type { LoggedTrouble, NcclProcess } from '../../model/process.js';
import type { Trouble } from '../../model/trouble.js';
import { failuresAfter, listed, nodeCount, some, waitingMembers } from '../queries.js';
import { remedyOf } from '../remedies.js';
import { example, type Finding, type Rule } from '../rule.js';
import { isNews, isTeardown } from '../teardown.js';

/** NCCL's results: name, and where to look. */
const RESULTS: Readonly<Record<number, readonly [name: string, repair: string]>> = {
  1: [
    'ncclUnhandledCudaError',
    'Look for the failure of CUDA: dmesg (Xid), compute-sanitizer, and the first error in the output of the program.',
  ],
  2: [
    'ncclSystemError',
    'Look for the system call or library that failed: limits (ulimit -a), /dev/shm, interfaces, adapters, dmesg.',
  ],
  3: [
    'ncclInternalError',
    'Compare versions, variables and images of all ranks; if they are equal, it is a fault of NCCL to report with the whole log.',
  ],
  4: ['ncclInvalidArgument', 'Correct the argument that the message names in the call of the program.'],
  5: ['ncclInvalidUsage', 'Correct the order of calls, or the group, that the message names in the program.'],
  6: [
    'ncclRemoteError',
    'Look at the other ranks: this one only reports that its peer or the network went away.',
  ],
};

/** Words without the numbers in them, so that the same message of other ranks counts as the same. */
const shape = (text: string): string => text.replace(/0x[0-9a-f]+|\d+/g, '#').slice(0, 80);

/** Kinds that say enough to be explained by another line of their kind. */
const LOOSE: ReadonlySet<Trouble['kind']> = new Set(['other', 'call', 'misuse', 'argument']);

const keyOf = ({ trouble, text }: LoggedTrouble): string =>
  LOOSE.has(trouble.kind) ? shape(text) : trouble.kind;

const placeKey = ({ file, line }: Place): string => `${file}\0${line}`;

interface Left {
  readonly process: NcclProcess;
  readonly logged: LoggedTrouble;
}

export const ncclWarningUnknown: Rule = {
  id: 'nccl-warning-unknown',
  causes: ['blocks', 'kills', 'hangs'],
  isLast: true,
  looksFor: 'warnings (NCCL WARN) and failing returns in the log that no other rule explains',
  example: [
    example(
      'n1.log',
      'n1:10:12 [0] somewhere.cc:77 NCCL WARN The flux capacitor returned 88',
      'n1:10:12 [0] NCCL INFO somewhere.cc:91 -> 3',
    ),
  ],
  references: ['NCCL user guide: troubleshooting, errors; ncclResult_t'],
  find(job, others = []) {
    const cited = new Set(others.flatMap(({ evidence }) => evidence.map(placeKey)));
    const warnings = job.processes.flatMap((process) =>
      process.troubles.flatMap((logged): Left[] =>
        logged.isWarning &&
        !isNews(logged.trouble) &&
        !isOfEnd(job, process, logged) &&
        !isWithoutAdapters(job, process, logged)
          ? [{ process, logged }]
          : [],
      ),
    );
    const known = new Set(
      job.processes.flatMap(({ troubles }) =>
        troubles.flatMap((logged) => (cited.has(placeKey(logged.at)) ? [keyOf(logged)] : [])),
      ),
    );
    const left = warnings.filter(
      ({ process, logged }) => !known.has(keyOf(logged)) && !isOfCuda(process, logged, cited),
    );
    const silent = failedInSilence(job, others, cited);
    if (left.length === 0 && silent.length === 0) return frameworkErrors(job, others);
    return [findingOf(left, silent)];
  },
};

/** Failures that only a framework tells of. */
function frameworkErrors(job: Job, others: readonly Finding[]): Finding[] {
  const told = job.events.flatMap((event) => (event.kind === 'ncclError' ? [event] : []));
  const [first] = told;
  if (first === undefined || others.some(({ severity }) => severity === 'error')) return [];
  const named = told.find(({ text }) => text.startsWith('nccl'));
  const result = Object.entries(RESULTS).find(([, [name]]) => named?.text.startsWith(`${name}:`));
  const ranks = [...new Set(told.flatMap(({ rank }) => rank ?? []))];
  return [
    {
      severity: 'error',
      confidence: 'possible',
      text: `NCCL failed${ranks.length === 0 ? '' : ` on rank ${listed(ranks)}`}, and nothing tells why: ${(named ?? first).text.slice(0, 200)}`,
      culprit: {
        ...(ranks.length === 0 ? {} : { ranks }),
        ...(result === undefined ? {} : { result: Number(result[0]) }),
      },
      evidence: some(told.map(({ at }) => at)),
      repair:
        'Run it again with NCCL_DEBUG=INFO and give the logs of all ranks: the first NCCL WARN names the reason.',
      workaround: null,
    },
  ];
}

/** Processes whose calls failed, with nothing found that says why. */
function failedInSilence(job: Job, others: readonly Finding[], cited: ReadonlySet<string>): NcclProcess[] {
  const isFailing = others.some(({ severity, evidence }) => severity === 'error' && evidence.length > 0);
  return job.processes.filter(
    (process) =>
      process.failedReturns.length > 0 &&
      !isFailing &&
      !isSilentEnd(job, process) &&
      !process.troubles.some(({ at }) => cited.has(placeKey(at))),
  );
}

/** Helper threads whose sockets are closed when a program ends its communicators say so, and that is all. */
function isSilentEnd(job: Job, process: NcclProcess): boolean {
  const isOfSockets = process.failedReturns.every(({ text }) =>
    /^(?:\w+\/)?(?:socket|proxy|net|net_socket)\.cc:/.test(text),
  );
  return isOfSockets && isTeardown(job, process);
}

/** A warning of closing connections, at an end in order. */
const isOfEnd = (job: Job, process: NcclProcess, { trouble }: LoggedTrouble): boolean =>
  (trouble.kind === 'closing' || trouble.kind === 'peerClosed') && isTeardown(job, process);

/** What could not be made for a failure of CUDA that a rule has named. */
const NOT_MADE =
  /^Failed to (?:CUDA |Cuda |host )?(?:c?alloc|malloc|memcpy|free|strm|vmm|register|import|export)/i;

const isOfCuda = (process: NcclProcess, { text, at }: LoggedTrouble, cited: ReadonlySet<string>): boolean =>
  NOT_MADE.test(text.trim()) &&
  process.troubles.some(
    (one) => one.trouble.kind === 'cuda' && one.at.line < at.line && cited.has(placeKey(one.at)),
  );

/** One host does not need them. */
const isWithoutAdapters = (job: Job, process: NcclProcess, logged: LoggedTrouble): boolean =>
  NO_ADAPTERS.test(logged.text.trim()) && nodeCount(job) < 2 && isSetUpAfter(process, logged);

/** It failed: a call returned an error, or its set-up did not go on after the warning. */
const hasFailed = (process: NcclProcess): boolean =>
  process.isQuoted ||
  process.failedReturns.length > 0 ||
  waitingMembers({ processes: [process] }).some(
    ({ member }) => failuresAfter(process, member.started).length > 0,
  );

/** It says what is done instead, as of a value that is out of range. */
const GOES_ON = /\b(?:using|will use|ignor(?:ed|ing)|default(?:s|ing)? to|falling back)\b/i;

/** Old versions warn of it wherever there are no adapters. */
const NO_ADAPTERS = /^Failed to open libibverbs\.so/;

/** NCCL took something else than was asked for, and the communicators of the process were set up then. */
const isSettled = ({ process, logged }: Left): boolean =>
  GOES_ON.test(logged.text) && isSetUpAfter(process, logged);

/** All communicators of the process were set up after the warning. */
const isSetUpAfter = ({ members }: NcclProcess, { at }: LoggedTrouble): boolean =>
  members.length > 0 &&
  members.every(
    ({ completed }) => completed !== undefined && completed.file === at.file && completed.line > at.line,
  );

function findingOf(left: readonly Left[], silent: readonly NcclProcess[]): Finding {
  const processes = [...new Set([...left.map(({ process }) => process), ...silent])];
  const failed = processes.filter(hasFailed);
  const code = failed.flatMap(({ failedReturns }) => failedReturns.map((one) => one.code))[0];
  const result = code === undefined ? undefined : RESULTS[code];
  const shapes = new Map<string, Left>();
  for (const one of left) {
    const key = shape(one.logged.text);
    if (!shapes.has(key)) shapes.set(key, one);
  }
  const texts = [...shapes.values()].map(({ logged }) => logged.text.trim().slice(0, 160));
  const quoted = texts
    .slice(0, 3)
    .map((text) => `"${text}"`)
    .join(', ');
  const more = texts.length > 3 ? ` and ${texts.length - 3} more kinds` : '';
  const remedy = texts.map(remedyOf).find((one) => one !== undefined);
  const said =
    left.length === 0
      ? 'NCCL reports failing calls and no reason'
      : remedy === undefined
        ? `NCCL warns of what no rule knows: ${quoted}${more}`
        : `NCCL warns: ${quoted}${more}`;
  const ended =
    code === undefined ? '' : `; calls returned ${code}${result === undefined ? '' : ` (${result[0]})`}`;
  const ranks = [...new Set(left.flatMap(({ logged }) => logged.rank ?? []))];
  const reported = [...new Set(processes.map(({ host }) => host))];
  return {
    severity: failed.length > 0 ? 'error' : left.length > 0 && left.every(isSettled) ? 'info' : 'warning',
    confidence: 'possible',
    text: `${said}${ended}${remedy === undefined ? '' : `; ${remedy.cause}`}`,
    culprit: {
      hosts: reported.slice(0, 16),
      ...(ranks.length === 0 ? {} : { ranks: ranks.slice(0, 64) }),
      ...(texts.length === 0 ? {} : { warnings: texts.slice(0, 16) }),
      ...(code === undefined ? {} : { result: code }),
    },
    evidence: distinctPlaces([
      ...some([...shapes.values()].map(({ logged }) => logged.at)),
      ...some(
        failed.flatMap(({ failedReturns }) => failedReturns.slice(0, 1).map(({ at }) => at)),
        4,
      ),
    ]),
    repair:
      remedy?.repair ??
      result?.[1] ??
      'Read the message, and the lines before it in the log of the same process; search for its words in the documentation and the issues of NCCL.',
    workaround: null,
  };
}
