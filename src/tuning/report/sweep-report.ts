/**
 * The answer over many sizes: the decision by size, a sentence for each change of it, and the numbers of the model that
 * it follows from.
 */
import { type Style, wrap } from '../../topology/report/style.js';
import { modelOf } from '../model.js';
import { algorithmOf, CELLS, type NcclAlgorithm, type NcclProtocol, protocolOf } from '../names.js';
import { type BandwidthBound, bandwidthBounds, boundsText } from './bandwidth-bound.js';
import { fullestText } from './call-report.js';
import { labelOf } from './candidate.js';
import type { GraphLimits } from './graph-limits.js';
import { reduces } from './message.js';
import { channelCount } from './placed-call.js';
import { bandwidthCell, busFactor, bytesText, FUNCTION_WORDS, moreText, timeCell } from './quantities.js';
import { changeReason, exclusionTexts } from './reasons.js';
import type { Change, FunctionStudy, PlacedStudy } from './study.js';
import { textTable } from './text-table.js';

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
  return {
    study,
    calls,
    changes: study.isRepeatable ? study.changes(first, last) : changesOf(study, counts),
  };
}

/** Changes between the sizes alone, for tuners that may answer otherwise when asked again. */
function changesOf(study: FunctionStudy, counts: readonly number[]): Change[] {
  return counts.flatMap((count, at) => {
    if (at === 0) return [];
    const change = study.changeAt(counts[at - 1]!, count);
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
  const lines = [style.heading(sweepTitle(study)), ...sweepTable(sweep, style)];
  const point = (text: string) => lines.push(...wrap(`- ${text}`, style.width, '  '));
  lines.push('', style.heading('Where the choice changes'));
  if (changes.length === 0) {
    const label = calls[0]?.chosen === undefined ? 'Nothing can run it' : `It is ${labelOf(calls[0].chosen)}`;
    point(
      `${label} at every size from ${bytesText(calls[0]!.call.bytes)} to ${bytesText(calls.at(-1)!.call.bytes)}.`,
    );
  }
  for (const change of changes) point(`${changeText(change)}.`);
  const model = modelTable(study);
  if (model.length > 1) {
    lines.push('', style.heading('What NCCL predicts: latency plus bytes by bandwidth'), ...model);
    for (const text of boundTexts(study, limits)) point(text);
  }
  const excluded = exclusionTexts(calls[0]!.excluded);
  if (excluded.length > 0) {
    lines.push('', style.heading('Not available'));
    for (const text of excluded) point(text);
  }
  return lines;
}

/** `from 64 KB Ring/LL128 in place of Tree/LL: ...` */
export function changeText(change: Change): string {
  const { bytes, from = 'nothing', to = 'nothing' } = change;
  return `From ${bytesText(bytes)} ${to} in place of ${from}: ${changeReason(change)}`;
}

function sweepTable({ calls, changes }: Sweep, style: Style): string[] {
  const rows = calls.map((call, at) => {
    const { chosen, candidates, placed } = call;
    const previous = calls[at - 1];
    const changed =
      previous !== undefined &&
      changes.some(({ bytes }) => bytes > previous.call.bytes && bytes <= call.call.bytes);
    const next = candidates.find((one) => one !== chosen);
    if (chosen === undefined) return [bytesText(call.call.bytes), 'nothing', ...Array(7).fill('')];
    const ratio =
      next !== undefined && chosen.time > 0 && next.time >= chosen.time ? next.time / chosen.time : undefined;
    return [
      bytesText(call.call.bytes),
      changed ? '>' : '',
      labelOf(chosen),
      placed === undefined ? '' : `${channelCount(placed)}`,
      placed === undefined ? '' : `${placed.threads}`,
      timeCell(chosen.time),
      bandwidthCell(chosen.algbw),
      bandwidthCell(chosen.busbw),
      ratio === undefined ? '' : `${labelOf(next!)}, ${ratio === 1 ? 'as long' : moreText(ratio)}`,
    ];
  });
  const right = (title: string) => ({ title, align: 'right' as const });
  const left = (title: string) => ({ title, align: 'left' as const });
  const table = textTable(
    [
      right('size'),
      left(''),
      left('choice'),
      right('channels'),
      right('threads'),
      right('us'),
      right('algbw'),
      right('busbw'),
      left('next best'),
    ],
    rows,
  );
  return table.map((line, at) => (at > 0 && rows[at - 1]![1] === '>' ? style.strong(line) : line));
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

function modelTable(study: FunctionStudy): string[] {
  const right = (title: string) => ({ title, align: 'right' as const });
  const left = (title: string) => ({ title, align: 'left' as const });
  return textTable(
    [left(''), right('latency us'), right('GB/s'), right('peak busbw'), left('bandwidth limited by')],
    modelRows(study).map(({ label, latency, bandwidth, peakBusbw, bounds }) => [
      label,
      timeCell(latency),
      bandwidthCell(bandwidth),
      bandwidthCell(peakBusbw),
      boundsText(bounds),
    ]),
  );
}

function boundTexts(study: FunctionStudy, limits: GraphLimits): string[] {
  const texts = modelRows(study).map(({ bounds }) => fullestText(bounds, limits).trim());
  return [...new Set(texts.flatMap((text) => text.split(/(?<=\.) (?=Fullest)/)))].filter(
    (text) => text !== '',
  );
}
