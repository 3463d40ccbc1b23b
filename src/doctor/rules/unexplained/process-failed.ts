/** Ends that frameworks, launchers and schedulers report and no other rule explains: such a job is never healthy. */

import type { FrameworkEvent } from '../../model/framework.js';
import type { Job } from '../../model/job.js';
import type { SystemValue } from '../../model/machine.js';
import { isHandled } from '../program/handled-exceptions.js';
import { firstOfEach, listed, some } from '../queries.js';
import { remedyOf } from '../remedies.js';
import { example, type Finding, type Rule } from '../rule.js';

const ranksOf = (event: FrameworkEvent): readonly number[] =>
  event.rank !== undefined ? [event.rank] : event.kind === 'exit' ? (event.ranks ?? []) : [];

function nameOf(event: FrameworkEvent): string {
  const ranks = ranksOf(event);
  return ranks.length === 0 ? 'a process' : `rank ${listed(ranks)}`;
}

/** The launcher names the rank whose exception stands right before its report. */
function withRank(event: FrameworkEvent, job: Job): FrameworkEvent {
  if (event.kind !== 'exception' || event.rank !== undefined) return event;
  const exits = job.events.filter((one) => one.kind === 'exit' && one.isCleanUp !== true);
  const exceptions = job.events.filter((one) => one.kind === 'exception' && one.rank === undefined);
  const [exit] = exits;
  const isOnly = exits.length === 1 && exceptions.length === 1 && exit!.at.file === event.at.file;
  if (!isOnly || exit!.at.line < event.at.line) return event;
  return { ...event, rank: exit!.rank, host: event.host ?? exit!.host };
}

/** What an event says of an end; undefined for what is none. */
function endOf(event: FrameworkEvent): string | undefined {
  const who = `${nameOf(event)}${event.host === undefined ? '' : ` on ${event.host}`}`;
  if (event.kind === 'exception') return `${who} ended with ${event.type}: ${event.text.slice(0, 120)}`;
  if (event.kind !== 'exit' || event.isCleanUp === true) return undefined;
  if (event.signal !== undefined) return `${who} was ended by signal ${event.signal}`;
  return (event.code ?? 0) === 0 ? undefined : `${who} ended with exit code ${event.code}`;
}

const isFromOutside = (event: FrameworkEvent): boolean =>
  event.kind === 'exit' && event.signal !== undefined && [1, 2, 9, 15].includes(event.signal);

/** Ends that what was said before may have led to: no GPU, and no meeting of the ranks. */
const FOLLOWS: readonly (readonly [said: RegExp, exception: RegExp])[] = [
  [/gai error/, /client socket|timed out|connect/i],
  [/too old/, /CUDA|GPU|driver/i],
];

function saidBefore(job: Job): SystemValue | undefined {
  const texts = job.events.flatMap((one) => (one.kind === 'exception' ? [one.text] : []));
  return job.values.find(
    ({ name, value }) =>
      name === 'framework.said' &&
      FOLLOWS.some(([said, exception]) => said.test(value) && texts.some((text) => exception.test(text))),
  );
}

type Cancelled = Extract<FrameworkEvent, { kind: 'cancelled' }>;

/** Why schedulers end jobs that are in order. */
const REASON = /DUE TO (TIME LIMIT|PREEMPTION|JOB REQUEUE)/;

/** What ended the job from outside; the line that gives a reason, where one does. */
function cancelledIn(job: Job): Cancelled | undefined {
  const all = job.events.flatMap((event) => (event.kind === 'cancelled' ? [event] : []));
  return all.find(({ text }) => REASON.test(text)) ?? all[0];
}

function fromOutside({ text, at, isAtWork }: Cancelled): Finding {
  const said = text.replace(/^(?:slurmstepd|srun|sbatch): (?:error: )?\W*|\W*$/g, '').slice(0, 160);
  const reason = REASON.exec(text)?.[1];
  const isLimit = reason === 'TIME LIMIT';
  const isKnown = reason !== undefined && isAtWork;
  const limit =
    'Give it more time (--time), or let it save its state before the limit (--signal) and start again; if its output had stopped long before, it hung: give the logs of all ranks with NCCL_DEBUG=INFO.';
  return {
    // A program that was at work when its time was over is in order; one that shows no work may have hung.
    severity: isKnown ? 'info' : 'warning',
    confidence: isKnown ? 'likely' : 'possible',
    text: isLimit
      ? `the scheduler ended the job at its time limit: ${said}`
      : `the job was ended from outside: ${said}`,
    culprit: {},
    evidence: [at],
    repair: isLimit
      ? limit
      : isKnown
        ? 'Nothing failed: the scheduler needed the machines; let the job save its state on SIGTERM and start again by itself.'
        : 'See whether somebody or the scheduler ended it (cancelled, pre-empted, time limit), or it hung before: give the logs of all ranks with NCCL_DEBUG=INFO.',
    workaround: null,
  };
}

export const processFailed: Rule = {
  id: 'process-failed',
  causes: ['blocks', 'kills', 'hangs'],
  isLast: true,
  looksFor:
    'processes that ended with an error, or jobs that the scheduler ended, with nothing that tells why',
  example: [example('slurm.out', 'srun: error: n2: task 1: Exited with exit code 1')],
  references: [],
  find(job, others = []) {
    if (others.some(({ severity }) => severity === 'error')) return [];
    // A failure of NCCL has a rule of its own.
    if (job.events.some(({ kind }) => kind === 'ncclError' || kind === 'lastError')) return [];
    const told = job.events.flatMap((one) => {
      const event = withRank(one, job);
      const text = isHandled(job, one) ? undefined : endOf(event);
      return text === undefined ? [] : [{ event, text }];
    });
    const cancelled = cancelledIn(job);
    // Who is told to end ends: what else is reported then are the ends that this made.
    const ends = cancelled === undefined ? told : told.filter(({ event }) => !isFromOutside(event));
    const [first] = ends;
    const ended = job.events.find((one) => one.kind === 'exit' && one.isCleanUp === true);
    if (first === undefined && cancelled === undefined && ended !== undefined) {
      return [
        {
          severity: 'error',
          confidence: 'possible',
          text: `the launcher ended ${nameOf(ended)}${ended.host === undefined ? '' : ` on ${ended.host}`} because the job failed elsewhere; what failed first is not in the input`,
          culprit: {},
          evidence: [ended.at],
          repair: 'Give the output of all ranks: the first of them that ended with an error is the cause.',
          workaround: null,
        },
      ];
    }
    if (first === undefined) return cancelled === undefined ? [] : [fromOutside(cancelled)];
    const ranks = [...new Set(ends.flatMap(({ event }) => ranksOf(event)))];
    const said = saidBefore(job);
    const remedy =
      said === undefined
        ? job.events.flatMap((one) => (one.kind === 'exception' ? (remedyOf(one.text) ?? []) : []))[0]
        : remedyOf(said.value);
    const isException = first.event.kind === 'exception';
    const more = ranks.filter((rank) => !ranksOf(first.event).includes(rank));
    return [
      {
        severity: 'error',
        confidence: 'possible',
        text: `${first.text}${more.length > 0 ? `; so did rank ${listed(more)}` : ''}${remedy !== undefined ? `; ${remedy.cause}` : isException ? '' : '; nothing in the input tells why'}`,
        culprit: {
          ...(first.event.rank === undefined ? {} : { rank: first.event.rank }),
          ...(first.event.host === undefined ? {} : { host: first.event.host }),
        },
        evidence: [
          ...some(firstOfEach(ends, ({ event }) => event.rank ?? event.at.line).map(({ event }) => event.at)),
          ...(said === undefined ? [] : [said.at]),
        ],
        repair:
          remedy?.repair ??
          (isException
            ? 'Cure the exception: its traceback stands before the line, in the output of that process.'
            : 'Look into the standard error of that process for its first error.'),
        workaround: null,
      } satisfies Finding,
    ];
  },
};
