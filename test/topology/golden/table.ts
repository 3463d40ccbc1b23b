/** Results as a table of machines and aspects, and as lines of differences. */
import { ASPECTS } from './aspects.js';
import type { FileResult } from './check.js';

/** Sums over the files of one machine. */
interface Row {
  readonly machine: string;
  files: number;
  failed: number;
  seconds: number;
  /** Differences by aspect; absent: no file has it. */
  readonly counts: Map<string, number>;
}

/** Whether a file was compared and nothing differs. */
export const isEqual = ({ error, aspects }: FileResult): boolean =>
  error === null && aspects.length > 0 && aspects.every(({ count }) => count === 0);

/** Headings: short, so that a line fits a terminal. */
const HEADINGS: Readonly<Record<string, string>> = {
  'search-ring': 's-ring',
  'search-tree': 's-tree',
  'search-collnetChain': 's-chain',
  'search-collnetDirect': 's-direct',
  'search-nvls': 's-nvls',
  latencies: 'lat',
  bandwidths: 'bw',
  decisions: 'choice',
  placements: 'placed',
};

/** One line per machine: `ok`, the number of differences, or `-` where no file has the aspect; then the totals. */
export function resultTable(results: readonly FileResult[]): string {
  const rows = rowsOf(results);
  const aspects = ASPECTS.filter((aspect) => rows.some(({ counts }) => counts.has(aspect)));
  const lines = [['machine', 'files', ...aspects.map((aspect) => HEADINGS[aspect] ?? aspect), 'errors', 's']];
  for (const row of [...rows, totalOf(rows)]) {
    lines.push([
      row.machine,
      `${row.files}`,
      ...aspects.map((aspect) => cell(row.counts.get(aspect))),
      row.failed === 0 ? '-' : `${row.failed}`,
      row.seconds.toFixed(1),
    ]);
  }
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)));
  return lines
    .map((line) =>
      line.map((text, i) => (i === 0 ? text.padEnd(widths[i]!) : text.padStart(widths[i]!))).join('  '),
    )
    .join('\n');
}

function cell(count: number | undefined): string {
  if (count === undefined) return '-';
  return count === 0 ? 'ok' : `${count}`;
}

function rowsOf(results: readonly FileResult[]): Row[] {
  const rows = new Map<string, Row>();
  for (const { machine, error, aspects, seconds } of results) {
    const row = rows.get(machine) ?? emptyRow(machine);
    rows.set(machine, row);
    row.files++;
    row.seconds += seconds;
    if (error !== null) row.failed++;
    for (const { aspect, count } of aspects) row.counts.set(aspect, (row.counts.get(aspect) ?? 0) + count);
  }
  return [...rows.values()].sort((a, b) => (a.machine < b.machine ? -1 : 1));
}

const emptyRow = (machine: string): Row => ({ machine, files: 0, failed: 0, seconds: 0, counts: new Map() });

function totalOf(rows: readonly Row[]): Row {
  const total = emptyRow(`${rows.length} machines`);
  for (const { files, failed, seconds, counts } of rows) {
    total.files += files;
    total.failed += failed;
    total.seconds += seconds;
    for (const [aspect, count] of counts) total.counts.set(aspect, (total.counts.get(aspect) ?? 0) + count);
  }
  return total;
}

/** The differences of one file, a line each, or its error; empty if there are none. */
export function differenceLines(result: FileResult): string[] {
  const where = `${result.machine}/${result.file}`;
  if (result.error !== null) return [`${where}: ${result.error}`];
  if (result.aspects.length === 0) return [`${where}: nothing to compare`];
  return result.aspects.flatMap(({ aspect, count, first }) => {
    const lines = first.map(
      ({ path, expected, got }) => `${where} ${aspect} ${path}: expected ${expected}, got ${got}`,
    );
    if (count > first.length) lines.push(`${where} ${aspect}: ${count - first.length} more`);
    return lines;
  });
}
