/**
 * The text output of `tutti perf`, byte for byte in the shape of nccl-tests 2.19.6, so that scripts that read
 * the tables of `all_reduce_perf` read these too.
 *
 * Differences: the first line names tutti, a host rank has `[host]` where a GPU has its PCI address, the list of
 * ranks is never cut, and where a collective cannot be done in place that side says N/A throughout.
 */
import { formatGeneral, formatToFit } from './number-format.js';
import { bandwidthVerdict, type RankPlace, type ResultRow, type SideResult, type Summary } from './report.js';
import type { CollectiveName, Sweep } from './sizes.js';
import type { Cut } from './time-budget.js';

/** Optional columns. */
export interface TableColumns {
  /** `-C 1`: the time is that of enqueueing. */
  readonly cpuTime: boolean;
  /** `-I 1`: four more columns on each side. */
  readonly perIteration: boolean;
  /** `-S 1`: a time stamp at the end of each row. */
  readonly timestamps: boolean;
}

/** What the preamble tells about the run. */
export interface Preamble {
  readonly version: string;
  readonly collective: CollectiveName;
  readonly sweep: Sweep;
  /** Ranks that are threads of one process. */
  readonly threads: number;
  /** GPUs of one process; 1 on host memory. */
  readonly gpus: number;
  /** Launches of a graph of all timed operations; 0 without a graph. */
  readonly graphs: number;
  readonly warmupIterations: number;
  readonly iterations: number;
  readonly aggregated: number;
  /** Check runs per row. */
  readonly checks: number;
  readonly unalign: number;
  readonly blocking: 0 | 1 | 2;
  readonly perIteration: boolean;
  readonly ranks: readonly RankPlace[];
  /** What connects the ranks, a line each. */
  readonly connections: readonly string[];
}

/** Widths of the time columns and of the bandwidth and error columns. */
const TIME_WIDTH = 7;
const BANDWIDTH_WIDTH = 6;
const TIMESTAMP_WIDTH = 19;

/** The name of the test program that nccl-tests has for a collective. */
export function programName(collective: CollectiveName): string {
  return `${collective}_perf`;
}

export function formatPreamble(preamble: Preamble): string {
  const { sweep } = preamble;
  const step = sweep.stepFactor > 1 ? `${sweep.stepFactor}(factor)` : `${sweep.stepBytes}(bytes)`;
  const lines = [
    `# tutti perf version ${preamble.version}`,
    `# Collective test starting: ${programName(preamble.collective)}`,
    `# nThread ${preamble.threads} nGpus ${preamble.gpus} minBytes ${sweep.minBytes} maxBytes ${sweep.maxBytes} step: ${step}` +
      ` warmup iters: ${preamble.warmupIterations} iters: ${preamble.iterations}` +
      ` agg iters: ${preamble.aggregated} validation: ${preamble.checks} graph: ${preamble.graphs} unalign: ${preamble.unalign}`,
  ];
  if (preamble.blocking === 1)
    lines.push('# Blocking Enabled: wait for completion and barrier after each operation');
  if (preamble.blocking === 2) lines.push('# Blocking Enabled: wait for completion after each operation');
  if (preamble.perIteration)
    lines.push('# Per-Iteration Report: min, max, p99 and variation of single iterations');
  lines.push('#', '# Using devices', ...preamble.ranks.map(formatRankPlace));
  lines.push(...preamble.connections.map((text) => `#  ${text}`));
  return joinLines(lines);
}

function formatRankPlace(place: RankPlace): string {
  const host = place.host.split('.')[0]!;
  const rank = String(place.rank).padStart(2);
  const group = String(place.group).padStart(2);
  const pid = String(place.pid).padStart(6);
  const device = String(place.device).padStart(2);
  return `#  Rank ${rank} Group ${group} Pid ${pid} on ${host.padStart(10)} device ${device} [${place.address}] ${place.model}`;
}

/** The notice that buffers were made smaller than asked for. */
export function formatMemoryReduction(maxBytes: number): string {
  return joinLines(['#', `# Reducing maxBytes to ${maxBytes} due to memory limitation`]);
}

export function formatHeader(columns: TableColumns): string {
  const extra = (names: readonly string[]): string =>
    columns.perIteration ? names.map((name) => `  ${name.padStart(TIME_WIDTH)}`).join('') : '';
  const side = (
    time: string,
    algbw: string,
    busbw: string,
    wrong: string,
    names: readonly string[],
  ): string =>
    `  ${time.padStart(TIME_WIDTH)}` +
    [algbw, busbw, wrong].map((word) => `  ${word.padStart(BANDWIDTH_WIDTH)}`).join('') +
    extra(names);
  const left = (...words: readonly [string, string, string, string, string]): string =>
    `# ${[10, 12, 8, 6, 6].map((width, i) => words[i]!.padStart(width)).join('  ')}`;
  const stamp = (word: string): string => (columns.timestamps ? word.padStart(TIMESTAMP_WIDTH) : '');

  const titles = side(columns.cpuTime ? 'cputime' : 'time', 'algbw', 'busbw', '#wrong', [
    'i_min',
    'i_max',
    'i_p99',
    'i_cv%',
  ]);
  const units = side('(us)', '(GB/s)', '(GB/s)', '', ['(us)', '(us)', '(us)', '(%)']);
  const gap = ' '.repeat(extra(['', '', '', '']).length);
  return joinLines([
    '#',
    `${left('', '', '', '', '')}           out-of-place             ${gap}          in-place          ${gap}`,
    `${left('size', 'count', 'type', 'redop', 'root')}${titles}${titles} ${stamp('timestamp')}`,
    `${left('(B)', '(elements)', '', '', '')}${units}${units} ${stamp('YYYY-MM-DD HH:MM:SS')}`,
  ]);
}

export function formatRow(row: ResultRow, columns: TableColumns): string {
  const left = [
    String(row.bytes).padStart(12),
    String(row.count).padStart(12),
    row.type.padStart(8),
    row.op.padStart(6),
    String(row.root).padStart(6),
  ].join('  ');
  const stamp = columns.timestamps ? (row.timestamp ?? '').padStart(TIMESTAMP_WIDTH + 2) : '';
  return joinLines([
    `${left}${formatSide(row.outOfPlace, columns)}${formatSide(row.inPlace, columns)}${stamp}`,
  ]);
}

function formatSide(side: SideResult | undefined, columns: TableColumns): string {
  if (side === undefined) {
    const widths = [TIME_WIDTH, ...Array<number>(3).fill(BANDWIDTH_WIDTH)];
    if (columns.perIteration) widths.push(...Array<number>(4).fill(TIME_WIDTH));
    return widths.map((width) => `  ${'N/A'.padStart(width)}`).join('');
  }
  const fields = [
    formatToFit(side.timeUs, TIME_WIDTH),
    formatToFit(side.algbw, BANDWIDTH_WIDTH),
    formatToFit(side.busbw, BANDWIDTH_WIDTH),
    (side.wrong === undefined ? 'N/A' : formatGeneral(side.wrong)).padStart(BANDWIDTH_WIDTH),
  ];
  if (columns.perIteration) {
    const { min, max, p99, variationPercent } = side.iterations ?? {
      min: Number.NaN,
      max: Number.NaN,
      p99: Number.NaN,
      variationPercent: Number.NaN,
    };
    fields.push(...[min, max, p99, variationPercent].map((x) => formatToFit(x, TIME_WIDTH)));
  }
  return fields.map((field) => `  ${field}`).join('');
}

/** Which sizes were timed less often to end in time, and how often at least: each size once; empty where none were. */
export function formatCuts(cuts: readonly Cut[], seconds: number): string {
  const least = new Map<number, Cut>();
  for (const cut of cuts) {
    const known = least.get(cut.bytes);
    if (known === undefined || cut.iterations < known.iterations) least.set(cut.bytes, cut);
  }
  if (least.size === 0) return '';
  const texts = [...least.values()].map(
    ({ bytes, iterations, wanted }) => `${bytes} B ${iterations} of ${wanted}`,
  );
  return joinLines([`# Timed iterations, fewer to end within ${seconds} s (--budget): ${texts.join(', ')}`]);
}

export function formatFooter(collective: CollectiveName, summary: Summary): string {
  const label = (text: string): string => `# ${text.padEnd(20)}`;
  const verdict = bandwidthVerdict(summary);
  return joinLines([
    `${label('Out of bounds values')} : ${summary.failedChecks} ${summary.failedChecks === 0 ? 'OK' : 'FAILED'}`,
    `${label('Avg bus bandwidth')} : ${formatGeneral(summary.averageBusBandwidth)} ${verdict === 'unchecked' ? '' : verdict}`,
    '#',
    `# Collective test concluded: ${programName(collective)}`,
    '#',
    summary.lastError === '' ? '' : `# error: ${summary.lastError}`,
  ]);
}

function joinLines(lines: readonly string[]): string {
  return `${lines.join('\n')}\n`;
}
