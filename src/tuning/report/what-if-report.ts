/**
 * What another setting would change: the choice and its time against the present ones.
 */
import { type Style, wrap } from '../../topology/report/style.js';
import { callTitle, ONE_RANK } from './call-report.js';
import { type Candidate, labelOf } from './candidate.js';
import { channelCount } from './placed-call.js';
import { bytesText, exactBytesText, timeCell, timeText } from './quantities.js';
import { candidatesText, exclusionGroups, groupText, timeChange } from './reasons.js';
import type { FunctionStudy, PlacedStudy } from './study.js';
import { type Sweep, sweepTitle } from './sweep-report.js';
import { left, right, textTable } from './text-table.js';

/** A call now and under other variables. */
export interface Alternative {
  readonly study: FunctionStudy;
  readonly now: PlacedStudy;
  readonly other: PlacedStudy;
}

/** Lines about one call under other variables. */
export function whatIfCall(text: string, { study, now, other }: Alternative, style: Style): string[] {
  const lines = [style.heading(`With ${text}: ${callTitle(study, other)}`)];
  const point = (sentence: string) => lines.push(...wrap(`- ${sentence}`, style.width, '  '));
  if (study.tables.input.nRanks <= 1) return [...lines, `- ${ONE_RANK}`];
  point(choiceChange(now, other));
  const run = runChange(now, other);
  if (run !== undefined) point(run);
  if (hidesChannels(now, other)) {
    point(
      'The prediction is made of the channels that the searches found, not of those in use, so it stays the same.',
    );
  }
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
      ['bytes per chunk', was.parts[0]!.chunkBytes, is.parts[0]!.chunkBytes, exactBytesText],
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

/** The number of channels differs, and the prediction does not notice. */
const hidesChannels = (now: PlacedStudy, other: PlacedStudy): boolean =>
  now.placed !== undefined &&
  other.placed !== undefined &&
  channelCount(now.placed) !== channelCount(other.placed) &&
  now.chosen?.cell === other.chosen?.cell &&
  now.chosen?.time === other.chosen?.time;

/** Candidates that come and go. */
function availabilityChanges(now: PlacedStudy, then: PlacedStudy): string[] {
  const cells = ({ candidates }: PlacedStudy) => new Set(candidates.map(labelOf));
  const [before, after] = [cells(now), cells(then)];
  const lost = exclusionGroups(then.excluded)
    .map((group) => ({ ...group, candidates: group.candidates.filter((name) => before.has(name)) }))
    .filter(({ candidates }) => candidates.length > 0)
    .map((group) => `Not available then: ${groupText(group)}.`);
  const gained = [...after].filter((name) => !before.has(name));
  return gained.length === 0 ? lost : [...lost, `Available then: ${candidatesText(gained)}.`];
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
  const columns = [
    right('size'),
    left('now'),
    right('us'),
    left(''),
    left('then'),
    right('us'),
    left('time'),
  ];
  const [titles, ...table] = textTable(columns, rows, style.width);
  lines.push(...titles!, ...table.flatMap((row, at) => (rows[at]![3] === '>' ? row.map(style.strong) : row)));
  const worst = pairs.find(([, { chosen }]) => chosen === undefined);
  if (worst !== undefined) lines.push(...wrap(`- ${worst[1].problem?.message ?? ''}`, style.width, '  '));
  return lines;
}
