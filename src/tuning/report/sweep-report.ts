/**
 * The answer over many sizes: the decision by size, a sentence for each change of it, and the numbers of the model that
 * it follows from.
 */
import { type Style, wrap } from '../../topology/report/style.js';
import { modelOf } from '../model.js';
import { algorithmOf, CELLS, type NcclAlgorithm, type NcclProtocol, protocolOf } from '../names.js';
import { type BandwidthBound, bandwidthBounds, boundsText } from './bandwidth-bound.js';
import { fullestTexts, ONE_RANK } from './call-report.js';
import { labelOf } from './candidate.js';
import type { GraphLimits } from './graph-limits.js';
import { latencyParts, latencySum } from './latency-parts.js';
import { reduces } from './message.js';
import { channelCount } from './placed-call.js';
import { bandwidthCell, busFactor, bytesText, FUNCTION_WORDS, numberText, timeCell } from './quantities.js';
import { changeReason, exclusionTexts, timeChange } from './reasons.js';
import { type Change, changeBetween, type FunctionStudy, type PlacedStudy } from './study.js';
import { symmetricSweep } from './symmetric-report.js';
import { left, right, textTable } from './text-table.js';

/** A sweep over sizes. */
export interface Sweep {
  readonly study: FunctionStudy;
  /** By size, ascending. */
  readonly calls: readonly PlacedStudy[];
  readonly changes: readonly Change[];
}

/** Studies sizes (bytes, ascending); those that round to the same message are one. */
export function sweepOf(study: FunctionStudy, sizes: Iterable<number>): Sweep {
  const counts = [...new Set([...sizes].map((size) => study.countFor(size)))].sort((a, b) => a - b);
  const calls = counts.map((count) => study.at(count));
  const [first, last] = [counts[0]!, counts.at(-1)!];
  return { study, calls, changes: study.isRepeatable ? study.changes(first, last) : changesOf(calls) };
}

/** Changes between the sizes alone, for tuners that may answer otherwise when asked again. */
function changesOf(calls: readonly PlacedStudy[]): Change[] {
  return calls.flatMap((call, at) => {
    if (at === 0) return [];
    const change = changeBetween(calls[at - 1]!, call);
    return change.from === change.to ? [] : [change];
  });
}

/** `All-reduce by size (float32, sum)` */
export function sweepTitle({ kind }: FunctionStudy): string {
  const word = FUNCTION_WORDS[kind.function];
  return `${word[0]!.toUpperCase()}${word.slice(1)} by size (${kind.type}${reduces(kind.function) ? `, ${kind.op}` : ''})`;
}

/** All lines about a sweep. */
export function sweepReport(sweep: Sweep, limits: GraphLimits, style: Style): string[] {
  const { study, calls, changes } = sweep;
  if (study.tables.input.nRanks <= 1) return [style.strong(sweepTitle(study)), ONE_RANK];
  const answer = wrap(`${sweepTitle(study)}: ${rangesText(sweep)}`, style.width, '  ');
  const lines = [...answer.map(style.strong), '', ...sweepTable(sweep, style)];
  const point = (text: string) => lines.push(...wrap(`- ${text}`, style.width, '  '));
  lines.push('', style.heading('Where the choice changes'));
  if (changes.length === 0) {
    const [{ chosen }] = calls as [PlacedStudy];
    const label = chosen === undefined ? 'Nothing can run it at any' : `It is ${labelOf(chosen)} at every`;
    point(`${label} size from ${bytesText(calls[0]!.call.bytes)} to ${bytesText(calls.at(-1)!.call.bytes)}.`);
  }
  for (const change of changes) point(`${changeText(change)}.`);
  const cells = new Set(calls.flatMap(({ candidates }) => candidates.map(({ cell }) => cell)));
  const model = modelRows(study).filter(({ cell }) => cells.has(cell));
  if (model.length > 0) {
    const title = 'What NCCL predicts: latency (us) plus the bytes by the bandwidth of the message (GB/s)';
    lines.push('', style.heading(title), ...modelTable(model, study, style));
    point(carriedText(study));
    for (const text of boundTexts(model, limits)) point(text);
  }
  const excluded = exclusionTexts(calls[0]!.excluded);
  if (excluded.length > 0) {
    lines.push('', style.heading('Not available'));
    for (const text of excluded) point(text);
  }
  const symmetric = symmetricSweep(calls, style);
  if (symmetric.length > 0) lines.push('', ...symmetric);
  return lines;
}

/** `Tree/LL below 138.4 KB, Tree/LL128 below 8 MB, then Ring/Simple` */
export function rangesText({ calls, changes }: Sweep): string {
  const [first] = calls as [PlacedStudy];
  const name = (label: string | undefined) => label ?? 'nothing';
  const start = name(first.chosen && labelOf(first.chosen));
  if (changes.length === 0) return start;
  const ranges = changes.map(({ from, bytes }) => `${name(from)} below ${bytesText(bytes)}`);
  return `${ranges.join(', ')}, then ${name(changes.at(-1)!.to)}`;
}

/** `from 64 KB Ring/LL128 in place of Tree/LL: ...` */
export function changeText(change: Change): string {
  const { bytes, from = 'nothing', to = 'nothing' } = change;
  return `From ${bytesText(bytes)} ${to} in place of ${from}: ${changeReason(change)}`;
}

function sweepTable({ calls }: Sweep, style: Style): string[] {
  const rows = calls.map((call, at) => sweepRow(call, calls[at - 1]));
  const columns = [
    right('size'),
    left(''),
    left('choice'),
    right('channels'),
    right('threads'),
    right('us'),
    right('algbw'),
    right('busbw'),
    left('next best'),
  ];
  const [titles, ...lines] = textTable(columns, rows, style.width);
  return [...titles!, ...lines.flatMap((row, at) => (rows[at]![1] === '>' ? row.map(style.strong) : row))];
}

function sweepRow(
  { call, chosen, candidates, placed }: PlacedStudy,
  previous: PlacedStudy | undefined,
): string[] {
  const mark = previous !== undefined && previous.chosen?.cell !== chosen?.cell ? '>' : '';
  if (chosen === undefined) return [bytesText(call.bytes), mark, 'nothing'];
  const next = candidates.find((one) => one !== chosen);
  return [
    bytesText(call.bytes),
    mark,
    labelOf(chosen),
    placed === undefined ? '' : `${channelCount(placed)}`,
    placed === undefined ? '' : `${placed.threads}`,
    timeCell(chosen.time),
    bandwidthCell(chosen.algbw),
    bandwidthCell(chosen.busbw),
    next === undefined ? '' : `${labelOf(next)}, ${timeChange(chosen, next)}`,
  ];
}

/** Cells that the model has, with what bounds their bandwidth. */
export interface ModelRow {
  readonly cell: number;
  readonly algorithm: NcclAlgorithm;
  readonly protocol: NcclProtocol;
  readonly label: string;
  /** Microseconds and GB/s of the tables. */
  readonly latency: number;
  readonly bandwidth: number;
  /** GB/s of the slowest link for endless messages. */
  readonly peakBusbw: number;
  readonly bounds: readonly BandwidthBound[];
}

/** The model of a function: candidates that are available, in NCCL's order. */
export function modelRows({ tables, function: fn }: FunctionStudy): ModelRow[] {
  const factor = busFactor(fn, tables.input.nRanks);
  const rows: ModelRow[] = [];
  for (let cell = 0; cell < CELLS; cell++) {
    const [algorithm, protocol] = [algorithmOf(cell), protocolOf(cell)];
    const { latency, bandwidth } = modelOf(tables, fn, algorithm, protocol);
    if (bandwidth === 0) continue;
    const bounds = bandwidthBounds(tables, { fn, algorithm, protocol });
    rows.push({
      cell,
      algorithm,
      protocol,
      label: labelOf({ algorithm, protocol }),
      latency,
      bandwidth,
      peakBusbw: bandwidth * factor,
      bounds,
    });
  }
  return rows;
}

/** The table of the model; the latencies as sums. */
function modelTable(
  rows: readonly ModelRow[],
  { tables, function: fn }: FunctionStudy,
  style: Style,
): string[] {
  const columns = [
    left(''),
    right('us'),
    left('= start + steps in nodes + between'),
    right('GB/s'),
    right('peak busbw'),
    left('GB/s limited by'),
  ];
  const cells = rows.map(({ label, algorithm, protocol, latency, bandwidth, peakBusbw, bounds }) => [
    label,
    timeCell(latency),
    `= ${latencySum(latencyParts(tables, { fn, algorithm, protocol }))}`,
    bandwidthCell(bandwidth),
    bandwidthCell(peakBusbw),
    boundsText(bounds),
  ]);
  return textTable(columns, cells, style.width).flat();
}

/** How limits, which are of what channels carry, and the bandwidth of a message go together. */
function carriedText({ tables, function: fn }: FunctionStudy): string {
  const times = numberText(busFactor(fn, tables.input.nRanks));
  const trees = fn === 'AllReduce' ? ', those of trees 2 times' : '';
  return `Limits are of what the channels carry: ${times} times the bytes of the message${trees}.`;
}

/** The links that fill up where a graph is the limit. */
const boundTexts = (rows: readonly ModelRow[], limits: GraphLimits): string[] =>
  fullestTexts(
    rows.flatMap(({ bounds }) => bounds),
    limits,
  );
