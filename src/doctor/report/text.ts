/**
 * Verdicts for people: the fault first, then where it is seen, what repairs it, and what it caused.
 */
import { type Style, wrap } from '../../topology/report/style.js';
import type { Consequence, Verdict } from '../diagnose.js';
import type { Job } from '../model/job.js';
import type { Place } from '../model/place.js';
import { listed } from '../rules/queries.js';
import { speedSummary } from './numbers.js';
import { isFault, outcomeOf } from './outcome.js';
import { jobSummary, notChecked, saysSomething } from './summary.js';

/** The text of a line, where the caller has it. */
export type LineText = (place: Place) => string | undefined;

/** Lines of evidence that are shown; the rest is counted. */
const SHOWN = 6;

const LABEL = 12;

/** `isWhole`: lines of evidence are not cut, as for files and other programs. */
export function textReport(
  job: Job,
  verdicts: readonly Verdict[],
  style: Style,
  textOf: LineText,
  isWhole = false,
): string[] {
  const problems = problemLines(job, style);
  const missing = notChecked(job);
  const unknown = notUnderstood(job);
  const details = verdicts.flatMap((verdict) => ['', ...verdictLines(verdict, style, textOf, isWhole)]);
  const faults = verdicts.filter(isFault).length;
  const notes = verdicts.length - faults;
  if (faults === 0) {
    const speed = speedSummary(job);
    const measured = speed === undefined ? '' : `; ${speed}`;
    const lack = missing.length === 0 ? '' : `; not checked: ${missing.map(({ what }) => what).join(', ')}`;
    return [
      `${style.strong(outcome(job, verdicts))} in ${jobSummary(job)}${measured}${lack}${unknown === undefined ? '' : `; ${unknown}`}${notes === 0 ? '' : `; ${counted(notes, 'note')}:`}`,
      ...details,
      ...problems,
    ];
  }
  const count = `${counted(faults, 'finding')}${notes === 0 ? '' : ` and ${counted(notes, 'note')}`}`;
  return [
    `${style.strong(count)} in ${jobSummary(job)}`,
    ...details,
    '',
    ...missing.flatMap(({ what, why }) =>
      wrap(style.dim(`not checked: ${what} (${why})`), style.width, '  '),
    ),
    ...(unknown === undefined ? [] : wrap(unknown, style.width, '  ')),
    ...problems,
  ];
}

/** Nothing is called healthy of which a part could not be read, or that says nothing about a job. */
function outcome(job: Job, verdicts: readonly Verdict[]): string {
  if (!saysSomething(job))
    return 'nothing says how a job went (no log, table, dump or error), so no verdict on one';
  const found = outcomeOf(job, verdicts);
  return found === 'unreadable'
    ? 'not all could be read: no fault found'
    : found === 'healthy'
      ? 'healthy: no fault found'
      : 'no fault found';
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

/** Files of which nothing was recognised. */
function notUnderstood(job: Job): string | undefined {
  const names = job.files.flatMap(({ name, kinds, problems, last, lines }) =>
    kinds.size > 0 || problems.length > 0
      ? []
      : [last === undefined && lines === 0 ? `${name} (empty)` : name],
  );
  return names.length === 0 ? undefined : `not understood: ${listed(names, 6)}`;
}

function problemLines(job: Job, style: Style): string[] {
  return job.files.flatMap(({ name, problems }) =>
    problems.flatMap((problem) =>
      wrap(`${style.warn('unreadable')}: ${name}: ${problem}`, style.width, '  '),
    ),
  );
}

function verdictLines(verdict: Verdict, style: Style, textOf: LineText, isWhole: boolean): string[] {
  const { id, severity, confidence, text, evidence, repair, workaround, consequences, run } = verdict;
  const paint = severity === 'info' ? style.strong : style.warn;
  const row = (label: string, value: string): string[] => {
    const indent = ' '.repeat(LABEL + 2);
    const [first = '', ...more] = wrap(value, style.width - LABEL - 2);
    return [`  ${label.padEnd(LABEL)}${first}`, ...more.map((line) => indent + line)];
  };
  return [
    ...wrap(`${paint(severity)} ${style.strong(text)}`, style.width, '  '),
    `  ${style.dim(`${id}, ${confidence}`)}`,
    ...(run === undefined ? [] : row('run', run)),
    ...evidence.slice(0, SHOWN).flatMap((place, i) => {
      const line = place.text ?? textOf(place);
      const where = `${place.file}:${place.line}`;
      const room = isWhole ? Number.POSITIVE_INFINITY : Math.max(24, style.width - LABEL - where.length - 4);
      return [
        `  ${(i === 0 ? 'evidence' : '').padEnd(LABEL)}${where}${line === undefined ? '' : `  ${style.dim(cut(line.trim().replace(/\t+/g, ' '), room))}`}`,
      ];
    }),
    ...(evidence.length > SHOWN
      ? [
          `  ${''.padEnd(LABEL)}and ${evidence.length - SHOWN} more line${evidence.length === SHOWN + 1 ? '' : 's'}`,
        ]
      : []),
    ...row('repair', repair),
    ...(workaround === null ? [] : row('workaround', workaround)),
    ...consequences.flatMap((one) => row('explains', consequenceText(one))),
  ];
}

/** Log lines may be long: the message is kept, what launchers and NCCL put before it goes first. */
function cut(line: string, room: number): string {
  if (line.length <= room) return line;
  const mark = line.search(/NCCL (?:WARN|INFO|TRACE) /);
  const bare = mark > 0 ? `...${line.slice(mark)}` : line;
  if (bare.length <= room) return bare;
  const half = Math.max(8, Math.floor((room - 3) / 2));
  return mark > 0
    ? `${bare.slice(0, Math.max(16, room - 3))}...`
    : `${line.slice(0, half)}...${line.slice(-half)}`;
}

function consequenceText({ id, why, evidence }: Consequence): string {
  const [first] = evidence;
  const more = evidence.length > 1 ? ` and ${evidence.length - 1} more` : '';
  return `${id}: ${why}${first === undefined ? '' : ` (${first.file}:${first.line}${more})`}`;
}
