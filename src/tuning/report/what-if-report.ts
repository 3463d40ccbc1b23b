/**
 * What another setting would change: the choice and its time against the present ones.
 */
import { type Style, wrap } from '../../topology/report/style.js';
import { callTitle } from './call-report.js';
import { type Candidate, labelOf } from './candidate.js';
import { channelCount } from './placed-call.js';
import { bytesText, moreText, percentText, timeCell, timeText } from './quantities.js';
import { exclusionGroups } from './reasons.js';
import type { FunctionStudy, PlacedStudy } from './study.js';
import { type Sweep, sweepTitle } from './sweep-report.js';
import { textTable } from './text-table.js';

/** A call now and under other variables. */
export interface Alternative {
  readonly study: FunctionStudy;
  readonly now: PlacedStudy;
  readonly other: PlacedStudy;
}

/** `12 % longer`, `30 % shorter`, `the same time` */
export function timeChange(now: Candidate, then: Candidate): string {
  if (then.time === now.time) return 'the same time';
  if (now.time <= 0 || then.time <= 0) return `${timeText(then.time)} against ${timeText(now.time)}`;
  const ratio = then.time / now.time;
  return ratio > 1 ? moreText(ratio) : `${percentText(1 - ratio)} shorter`;
}

/** Lines about one call under other variables. */
export function whatIfCall(text: string, { study, now, other }: Alternative, style: Style): string[] {
  const lines = [style.heading(`With ${text}: ${callTitle(study, other)}`)];
  const point = (sentence: string) => lines.push(...wrap(`- ${sentence}`, style.width, '  '));
  point(choiceChange(now, other));
  const run = runChange(now, other);
  if (run !== undefined) point(run);
  for (const sentence of availabilityChanges(now, other)) point(sentence);
  return lines;
}

function choiceChange({ chosen: was }: PlacedStudy, { chosen: is, problem }: PlacedStudy): string {
  if (is === undefined) return `Nothing can run it. ${problem?.message ?? ''}`.trim();
  if (was === undefined) return `${labelOf(is)} runs it, predicted ${timeText(is.time)}; now nothing can.`;
  const times = `predicted ${timeText(is.time)} against ${timeText(was.time)} (${timeChange(was, is)})`;
  if (was.cell !== is.cell) return `${labelOf(is)} in place of ${labelOf(was)}, ${times}.`;
  return was.time === is.time
    ? `${labelOf(is)} as now, with the same predicted time.`
    : `${labelOf(is)} as now, ${times}.`;
}

/** Channels, threads and chunks that differ. */
function runChange({ placed: was }: PlacedStudy, { placed: is }: PlacedStudy): string | undefined {
  if (was === undefined || is === undefined) return undefined;
  const differing = (
    [
      ['channels', channelCount(was), channelCount(is), String],
      ['threads', was.threads, is.threads, String],
      ['bytes per chunk', was.parts[0]!.chunkBytes, is.parts[0]!.chunkBytes, bytesText],
    ] as const
  ).filter(([, before, after]) => before !== after);
  if (differing.length === 0) return undefined;
  const texts = differing.map(([what, before, after, show]) =>
    what === 'bytes per chunk'
      ? `chunks of ${show(after)} in place of ${show(before)}`
      : `${after} ${what} in place of ${before}`,
  );
  return `It runs with ${texts.join(', ')}.`;
}

/** Candidates that come and go. */
function availabilityChanges(now: PlacedStudy, then: PlacedStudy): string[] {
  const cells = ({ candidates }: PlacedStudy) => new Set(candidates.map(labelOf));
  const [before, after] = [cells(now), cells(then)];
  const lost = exclusionGroups(then.excluded)
    .map(({ candidates, reason }) => ({ names: candidates.filter((name) => before.has(name)), reason }))
    .filter(({ names }) => names.length > 0)
    .map(({ names, reason }) => `Not available then: ${names.join(', ')} (${reason}).`);
  const gained = [...after].filter((name) => !before.has(name));
  return gained.length === 0 ? lost : [...lost, `Available then: ${gained.join(', ')}.`];
}

/** Lines about a sweep under other variables. */
export function whatIfSweep(text: string, now: Sweep, then: Sweep, style: Style): string[] {
  const lines = [style.heading(`With ${text}: ${sweepTitle(then.study)}`)];
  const pairs = now.calls.map((call, at) => [call, then.calls[at]!] as const);
  const differs = pairs.filter(
    ([a, b]) => a.chosen?.cell !== b.chosen?.cell || a.chosen?.time !== b.chosen?.time,
  );
  if (differs.length === 0) return [...lines, '- Nothing changes at any size.'];
  const name = (one: Candidate | undefined) => (one === undefined ? 'nothing' : labelOf(one));
  const time = (one: Candidate | undefined) => (one === undefined ? '' : timeCell(one.time));
  const rows = pairs.map(([{ call, chosen: was }, { chosen: is }]) => {
    const same = was?.cell === is?.cell;
    return [
      bytesText(call.bytes),
      name(was),
      time(was),
      same ? '' : '>',
      same ? 'same' : name(is),
      time(is),
      was === undefined || is === undefined || was.time === is.time ? '' : timeChange(was, is),
    ];
  });
  const right = (title: string) => ({ title, align: 'right' as const });
  const left = (title: string) => ({ title, align: 'left' as const });
  const columns = [
    right('size'),
    left('now'),
    right('us'),
    left(''),
    left('then'),
    right('us'),
    left('time'),
  ];
  lines.push(
    ...textTable(columns, rows).map((line, at) =>
      at > 0 && rows[at - 1]![3] === '>' ? style.strong(line) : line,
    ),
  );
  const worst = pairs.find(([, { chosen }]) => chosen === undefined);
  if (worst !== undefined) lines.push(...wrap(`- ${worst[1].problem?.message ?? ''}`, style.width, '  '));
  return lines;
}
