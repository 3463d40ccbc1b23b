/**
 * The JSON report of `tutti perf` in the layout of nccl-tests 2.19.6 (`-J`), version 3: same keys in the same
 * order, numbers with six decimals, booleans as the words "true" and "false", not-a-number as "nan".
 *
 * Differences: strings are never cut but escaped, so the document is always valid JSON; every rank has its
 * entry under `devices`; any file name is accepted.
 */
import { closeSync, openSync } from 'node:fs';
import { TuttiError } from '../../errors/tutti-error.js';
import { writeWhole } from '../../topology/detect/output-file.js';
import { formatFixed } from './number-format.js';
import { bandwidthVerdict, type RankPlace, type ResultRow, type SideResult, type Summary } from './report.js';
import type { Sweep } from './sizes.js';
import type { IterationStatistics } from './statistics.js';

/** Version of the layout that nccl-tests 2.19.6 writes. */
const LAYOUT_VERSION = 3;
/** NCCL release whose behaviour is followed, in NCCL's own encoding. */
const NCCL_VERSION = 23007;

export interface PerfReport {
  /** `YYYY-MM-DD HH:MM:SS` */
  readonly startTime: string;
  readonly endTime: string;
  readonly args: readonly string[];
  /** Environment entries `KEY=value` that are worth keeping. */
  readonly env: readonly string[];
  readonly sweep: Sweep;
  readonly threads: number;
  /** GPUs of one process; 1 on host memory. */
  readonly gpus: number;
  /** Launches of a graph of all timed operations; 0 without a graph. */
  readonly graphs: number;
  readonly warmupIterations: number;
  readonly iterations: number;
  readonly aggregated: number;
  readonly checks: number;
  readonly blocking: number;
  readonly perIteration: boolean;
  readonly perIterationSkip: number;
  /** The time of the rows is that of enqueueing (`-C 1`). */
  readonly cpuTime: boolean;
  readonly ranks: readonly RankPlace[];
  readonly rows: readonly ResultRow[];
  readonly summary: Summary;
}

/** The report as one line of JSON with a line end. */
export function formatJsonReport(report: PerfReport): string {
  const { sweep, summary } = report;
  const verdict = bandwidthVerdict(summary);
  const document = object([
    ['version', String(LAYOUT_VERSION)],
    ['start_time', string(report.startTime)],
    ['args', list(report.args.map(string))],
    ['env', list(report.env.map(string))],
    ['nccl_version', String(NCCL_VERSION)],
    [
      'config',
      object([
        ['nthreads', String(report.threads)],
        ['ngpus', String(report.gpus)],
        ['minimum_bytes', String(sweep.minBytes)],
        ['maximum_bytes', String(sweep.maxBytes)],
        sweep.stepFactor > 1
          ? ['step_factor', String(sweep.stepFactor)]
          : ['step_bytes', String(sweep.stepBytes)],
        ['warmup_iters', String(report.warmupIterations)],
        ['iterations', String(report.iterations)],
        ['aggregated_iterations', String(report.aggregated)],
        ['validation', String(report.checks)],
        ['graph', String(report.graphs)],
        ['blocking_collectives', String(report.blocking)],
        ['per_iter_timing', boolean(report.perIteration)],
        ['per_iter_skip', String(report.perIterationSkip)],
        ['parallel_init', boolean(false)],
        ['devices', list(report.ranks.map(device))],
      ]),
    ],
    ['results', list(report.rows.map((row) => result(row, report)))],
    [
      'out_of_bounds',
      object([
        ['count', String(summary.failedChecks)],
        ['okay', boolean(summary.failedChecks === 0)],
      ]),
    ],
    [
      'average_bus_bandwidth',
      object([
        ['bandwidth', double(summary.averageBusBandwidth)],
        ['okay', verdict === 'unchecked' ? string(verdict) : boolean(verdict === 'OK')],
      ]),
    ],
    ['errors', list([string(summary.lastError)])],
    ['end_time', string(report.endTime)],
  ]);
  return `${document}\n`;
}

function device(place: RankPlace): string {
  return object([
    ['rank', String(place.rank)],
    ['group', String(place.group)],
    ['pid', String(place.pid)],
    ['hostname', string(place.host)],
    ['device', String(place.device)],
    ['device_hex', string(place.address)],
    ['device_info', string(place.model)],
  ]);
}

function result(row: ResultRow, report: PerfReport): string {
  return object([
    ['size', String(row.bytes)],
    ['count', String(row.count)],
    ['type', string(row.type)],
    ['redop', string(row.op)],
    ['root', string(String(row.root).padStart(6))],
    ['out_of_place', side(row.outOfPlace, report.cpuTime)],
    ...iterations('out_of_place_per_iter', row.outOfPlace),
    ['in_place', row.inPlace === undefined ? 'null' : side(row.inPlace, report.cpuTime)],
    ...(row.inPlace === undefined ? [] : iterations('in_place_per_iter', row.inPlace)),
    ['actual_iterations', String(row.timedIterations ?? report.iterations)],
    ['experiment_name', string('')],
  ]);
}

function side(result: SideResult, cpuTime: boolean): string {
  return object([
    [cpuTime ? 'cpu_time' : 'time', double(result.timeUs)],
    ['alg_bw', double(result.algbw)],
    ['bus_bw', double(result.busbw)],
    ['nwrong', result.wrong === undefined ? 'null' : double(result.wrong)],
  ]);
}

function iterations(key: string, result: SideResult): [string, string][] {
  if (result.iterations === undefined) return [];
  const s: IterationStatistics = result.iterations;
  return [
    [
      key,
      object([
        ['skipped_iterations', String(s.skipped)],
        ['min_us', double(s.min)],
        ['max_us', double(s.max)],
        ['avg_us', double(s.mean)],
        ['p50_us', double(s.p50)],
        ['p95_us', double(s.p95)],
        ['p99_us', double(s.p99)],
        ['stdev_us', double(s.deviation)],
        ['cv_pct', double(s.variationPercent)],
        ['times_us', list(s.samples.map(double))],
      ]),
    ],
  ];
}

function object(entries: readonly (readonly [string, string])[]): string {
  return `{${entries.map(([key, value]) => `${string(key)}:${value}`).join(',')}}`;
}

function list(values: readonly string[]): string {
  return `[${values.join(',')}]`;
}

function string(text: string): string {
  return JSON.stringify(text).replaceAll('/', '\\/');
}

function boolean(value: boolean): string {
  return string(String(value));
}

/** Six decimals; what JSON cannot hold becomes a word. */
function double(x: number): string {
  const text = formatFixed(x, 6);
  return Number.isFinite(x) ? text : string(text);
}

/** A report file that was created, not yet written. */
export interface ReportFile {
  readonly path: string;
  write(text: string): void;
}

/** Give up after this many existing names; a directory with more reports is a mistake. */
const MAX_NAME_TRIES = 10_000;

/**
 * Creates the file of a report without overwriting anything: when `path` exists, `path.0`, `path.1`, ...
 *
 * @throws TuttiError `systemError` when the place cannot be written.
 */
export function createReportFile(path: string): ReportFile {
  for (let attempt = -1; attempt < MAX_NAME_TRIES; attempt++) {
    const name = attempt < 0 ? path : `${path}.${attempt}`;
    try {
      closeSync(openSync(name, 'wx'));
      return { path: name, write: (text) => writeWhole(name, text) };
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'EEXIST') continue;
      throw new TuttiError(
        'systemError',
        `cannot create the report file ${name}: ${(cause as Error).message}; choose a path that is writable`,
        { cause },
      );
    }
  }
  throw new TuttiError(
    'systemError',
    `${path} and ${MAX_NAME_TRIES} names after it exist; remove old reports`,
  );
}
