/**
 * Measurements: runs of nccl-tests, tables of node pairs, tests of the wire.
 */
import type { Place } from './place.js';

export interface BenchDevice {
  readonly rank: number;
  readonly pid: number;
  readonly host: string;
  readonly device: number;
  readonly gpu: string;
  readonly at: Place;
}

export interface BenchSide {
  readonly timeUs: number;
  readonly algGBs: number;
  readonly busGBs: number;
  /** Wrong elements; absent where nothing was checked. */
  readonly wrong: number | undefined;
}

export interface BenchRow {
  readonly bytes: number;
  readonly outOfPlace: BenchSide;
  readonly inPlace: BenchSide | undefined;
  readonly at: Place;
}

/** One start of a program of nccl-tests, or one table where the start is not in the file. */
export interface BenchRun {
  readonly at: Place;
  /** As `all_reduce_perf`. */
  program: string | undefined;
  readonly devices: BenchDevice[];
  readonly rows: BenchRow[];
  average: { readonly busGBs: number; readonly at: Place } | undefined;
  /** Checks that failed, by the footer. */
  outOfBounds: { readonly count: number; readonly at: Place } | undefined;
  concluded: Place | undefined;
  /** The command line before it. */
  command: CommandLine | undefined;
}

export interface CommandLine {
  readonly text: string;
  readonly at: Place;
  /** Variables that it sets. */
  readonly environment: ReadonlyMap<string, string>;
  /** Processes that its launcher is asked for. */
  readonly processes: number | undefined;
}

/** A measurement between some hosts. */
export interface PairRow {
  readonly hosts: readonly string[];
  readonly value: number;
  /** What was measured: the other cells of the row. */
  readonly test: string;
  readonly at: Place;
}

/** A row of ib_write_bw and its like. */
export interface WireTest {
  readonly bytes: number;
  readonly averageGBs: number;
  readonly at: Place;
}

/** Hosts of a run, in order of first rank. */
export const hostsOfRun = (run: BenchRun): string[] => [...new Set(run.devices.map(({ host }) => host))];

/** Bus bandwidth of the largest size. */
export function largestRow(run: BenchRun): BenchRow | undefined {
  return run.rows.reduce<BenchRow | undefined>(
    (best, row) => (best === undefined || row.bytes >= best.bytes ? row : best),
    undefined,
  );
}
