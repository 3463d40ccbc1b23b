/**
 * Verdicts for people: the fault first, then where it is seen, what repairs it, and what it caused.
 */
import { type Style, wrap } from '../../topology/report/style.js';
import type { Consequence, Verdict } from '../diagnose.js';
import type { Job } from '../model/job.js';
import type { Place } from '../model/place.js';
import { speedSummary } from './numbers.js';
import { jobSummary, notChecked } from './summary.js';

/** The text of a line, where the caller has it. */
export type LineText = (place: Place) => string | undefined;

/** Lines of evidence that are shown; the rest is counted. */
const SHOWN = 6;

const LABEL = 12;

export function textReport(job: Job, verdicts: readonly Verdict[], style: Style, textOf: LineText): string[] {
  const problems = problemLines(job, style);
  const missing = notChecked(job);
  if (verdicts.length === 0) {
    const speed = speedSummary(job);
    const measured = speed === undefined ? '' : `; ${speed}`;
    const lack = missing.length === 0 ? '' : `; not checked: ${missing.map(({ what }) => what).join(', ')}`;
    return [
      `${style.strong('healthy')}: no fault found in ${jobSummary(job)}${measured}${lack}`,
      ...problems,
    ];
  }
  const count = `${verdicts.length} finding${verdicts.length === 1 ? '' : 's'}`;
  return [
    `${style.strong(count)} in ${jobSummary(job)}`,
    ...verdicts.flatMap((verdict) => ['', ...verdictLines(verdict, style, textOf)]),
    '',
    ...missing.flatMap(({ what, why }) =>
      wrap(style.dim(`not checked: ${what} (${why})`), style.width, '  '),
    ),
    ...problems,
  ];
}

function problemLines(job: Job, style: Style): string[] {
  return job.files.flatMap(({ name, problems }) =>
    problems.flatMap((problem) =>
      wrap(`${style.warn('unreadable')}: ${name}: ${problem}`, style.width, '  '),
    ),
  );
}

function verdictLines(verdict: Verdict, style: Style, textOf: LineText): string[] {
  const { id, severity, confidence, text, evidence, repair, workaround, consequences } = verdict;
  const paint = severity === 'info' ? style.strong : style.warn;
  const row = (label: string, value: string): string[] => {
    const indent = ' '.repeat(LABEL + 2);
    const [first = '', ...more] = wrap(value, style.width - LABEL - 2);
    return [`  ${label.padEnd(LABEL)}${first}`, ...more.map((line) => indent + line)];
  };
  return [
    ...wrap(`${paint(severity)} ${style.strong(text)}`, style.width, '  '),
    `  ${style.dim(`${id}, ${confidence}`)}`,
    ...evidence.slice(0, SHOWN).flatMap((place, i) => {
      const line = textOf(place);
      const where = `${place.file}:${place.line}`;
      return [
        cut(
          `  ${(i === 0 ? 'evidence' : '').padEnd(LABEL)}${where}${line === undefined ? '' : `  ${style.dim(line.trim())}`}`,
          style,
        ),
      ];
    }),
    ...(evidence.length > SHOWN ? [`  ${''.padEnd(LABEL)}and ${evidence.length - SHOWN} more lines`] : []),
    ...row('repair', repair),
    ...(workaround === null ? [] : row('workaround', workaround)),
    ...consequences.flatMap((one) => row('explains', consequenceText(one))),
  ];
}

/** Log lines may be long; the beginning says what it is. */
function cut(line: string, style: Style): string {
  const limit = Math.max(style.width, 60) + (line.length - [...line].length);
  return line.length <= limit + 20 ? line : `${line.slice(0, limit - 3)}...`;
}

function consequenceText({ id, why, evidence }: Consequence): string {
  const [first] = evidence;
  const more = evidence.length > 1 ? ` and ${evidence.length - 1} more` : '';
  return `${id}: ${why}${first === undefined ? '' : ` (${first.file}:${first.line}${more})`}`;
}
