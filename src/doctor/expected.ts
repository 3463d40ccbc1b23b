/**
 * What NCCL itself expected of each measured row, by the tables in its log or
 * those that its topology gives, and what the measurements say when a line is
 * laid through them: a fixed cost and a bandwidth.
 */

import { CpuArch } from '../topology/system/node.js';
import { callTime, type PredictionTables } from '../tuning/call-time.js';
import { algorithmOf, CELLS, type NcclFunction, protocolOf } from '../tuning/names.js';
import { type BenchRow, type BenchRun, hostsOfRun } from './model/bench.js';
import type { Job } from './model/job.js';
import type { Place } from './model/place.js';
import type { NcclProcess } from './model/process.js';
import { modelTables } from './model-tables.js';

export interface ExpectedRow {
  readonly at: Place;
  readonly bytes: number;
  readonly measuredUs: number;
  /** NCCL's own estimate of the fastest candidate. */
  readonly predictedUs: number;
  /** The candidate, as `Ring/Simple`. */
  readonly by: string;
  /** What NCCL chose, where the log tells. */
  readonly chosen: string | undefined;
  /** What would have been faster without NCCL_ALGO and NCCL_PROTO. */
  readonly faster: { readonly us: number; readonly by: string } | undefined;
}

export interface ExpectedRun {
  readonly program: string;
  readonly table: Place;
  readonly rows: readonly ExpectedRow[];
  /** Measured: time = fixedUs + bytes / GBs. */
  readonly fit: { readonly fixedUs: number; readonly GBs: number } | undefined;
  /** Bus bandwidth that the table's best candidate tends to, in GB/s. */
  readonly ceilingBusGBs: number;
}

const FUNCTIONS: Readonly<Record<string, NcclFunction>> = {
  all_reduce_perf: 'AllReduce',
  all_gather_perf: 'AllGather',
  reduce_scatter_perf: 'ReduceScatter',
  broadcast_perf: 'Broadcast',
  reduce_perf: 'Reduce',
};

/** Bus bandwidth over algorithm bandwidth, as nccl-tests has it. */
function busFactor(fn: NcclFunction, ranks: number): number {
  if (fn === 'AllReduce') return (2 * (ranks - 1)) / ranks;
  return fn === 'AllGather' || fn === 'ReduceScatter' ? (ranks - 1) / ranks : 1;
}

/** Tables, and where they are from. */
interface Source {
  readonly tables: PredictionTables;
  /** Without variables that force a choice, where that is another table. */
  readonly free: PredictionTables | undefined;
  readonly at: Place;
  readonly process: NcclProcess | undefined;
}

/**
 * Expectations for all runs that a table in a log fits, or a topology file.
 *
 * @param isBrief tables of logs only: nothing is searched or modelled
 */
export function expectations(job: Job, isBrief = false): ExpectedRun[] {
  return job.benches.flatMap((run): ExpectedRun[] => {
    const fn = FUNCTIONS[run.program ?? ''];
    if (fn === undefined || run.rows.length === 0 || run.devices.length < 2) return [];
    const source = fromLog(job, run) ?? (isBrief ? undefined : fromTopology(job, run));
    return source === undefined ? [] : [expectationOf(run, fn, source)];
  });
}

/** The table that a process of the run printed; several jobs may lie in one folder. */
function fromLog(job: Job, run: BenchRun): Source | undefined {
  for (const process of job.processes) {
    const { tuning } = process;
    const member = process.members[tuning?.member ?? 0] ?? process.members[0];
    const isOwn = run.devices.some(({ pid, host }) => pid === process.pid && host === process.host);
    if (tuning === undefined || member?.size !== run.devices.length || !isOwn) continue;
    const input = {
      nRanks: run.devices.length,
      nNodes: member.nodes ?? hostsOfRun(run).length,
      nChannels: Math.max(1, process.channels?.collective ?? 1),
      minSm: smOf(run),
      cpuArch: CpuArch.X86,
    };
    const tables = { input, latencies: tuning.latencies, bandwidths: tuning.bandwidths };
    return { tables, free: undefined, at: tuning.at, process };
  }
  return undefined;
}

function fromTopology(job: Job, run: BenchRun): Source | undefined {
  const model = modelTables(job, run);
  if (model === undefined) return undefined;
  const process = job.processes.find(({ host }) => run.devices.some((device) => device.host === host));
  return { ...model, process };
}

/** The candidate with the least predicted time. */
function bestOf(
  tables: PredictionTables,
  fn: NcclFunction,
  bytes: number,
): { us: number; by: string } | undefined {
  let found: { us: number; cell: number } | undefined;
  for (let cell = 0; cell < CELLS; cell++) {
    const us = callTime(tables, { function: fn, bytes }, cell);
    if (us > 0 && Number.isFinite(us) && us < (found?.us ?? Number.POSITIVE_INFINITY)) found = { us, cell };
  }
  return found && { us: found.us, by: `${algorithmOf(found.cell)}/${protocolOf(found.cell)}` };
}

/** A message that is all bandwidth. */
const ENDLESS = 2 ** 40;

/** A candidate is worth a word from this gain on. */
const FASTER = 0.95;

function expectationOf(
  run: BenchRun,
  fn: NcclFunction,
  { tables, free, at: table, process }: Source,
): ExpectedRun {
  const chosenFor = (bytes: number): string | undefined => {
    const choice = process?.choices.find((one) => one.operation === fn && one.bytes === bytes);
    return choice && `${choice.algorithm}/${choice.protocol}`;
  };
  const rows = run.rows.flatMap(({ bytes, outOfPlace, at }): ExpectedRow[] => {
    const best = bytes > 0 ? bestOf(tables, fn, bytes) : undefined;
    if (best === undefined) return [];
    const other = free && bestOf(free, fn, bytes);
    const isFaster = other !== undefined && other.us < FASTER * best.us;
    return [
      {
        at,
        bytes,
        measuredUs: outOfPlace.timeUs,
        predictedUs: best.us,
        by: best.by,
        chosen: chosenFor(bytes),
        faster: isFaster ? { us: other.us, by: other.by } : undefined,
      },
    ];
  });
  const large = bestOf(tables, fn, ENDLESS);
  return {
    program: run.program!,
    table,
    rows,
    fit: fitted(run.rows),
    ceilingBusGBs: large === undefined ? 0 : (ENDLESS / large.us / 1e3) * busFactor(fn, run.devices.length),
  };
}

/** Compute capability times ten, as far as a correction of the model asks: before Ampere or not. */
const smOf = ({ devices }: BenchRun): number =>
  devices.some(({ gpu }) => /\bV100|\bT4\b/.test(gpu)) ? 70 : 80;

/** Least squares of time over bytes, each row weighted by its own time: small sizes count as much as large ones. */
export function fitted(rows: readonly BenchRow[]): ExpectedRun['fit'] {
  const points = rows.flatMap(({ bytes, outOfPlace: { timeUs } }) =>
    bytes > 0 && timeUs > 0 ? [{ x: bytes, y: timeUs, w: 1 / timeUs ** 2 }] : [],
  );
  if (new Set(points.map(({ x }) => x)).size < 3) return undefined;
  const total = points.reduce((sum, { w }) => sum + w, 0);
  const meanX = points.reduce((sum, { x, w }) => sum + w * x, 0) / total;
  const meanY = points.reduce((sum, { y, w }) => sum + w * y, 0) / total;
  const slope =
    points.reduce((sum, { x, y, w }) => sum + w * (x - meanX) * (y - meanY), 0) /
    points.reduce((sum, { x, w }) => sum + w * (x - meanX) ** 2, 0);
  if (!(slope > 0)) return undefined;
  return { fixedUs: Math.max(0, meanY - slope * meanX), GBs: 1e-3 / slope };
}
