/**
 * What a perf run found, as plain data: the table, the JSON report and the exit status are made from this.
 *
 * Source: the output of nccl-tests 2.19.6.
 */
import type { IterationStatistics } from './statistics.js';

/** One measurement: out of place or in place. */
export interface SideResult {
  /** Printed time per operation in microseconds: until completion, or until enqueued when `-C 1`. */
  readonly timeUs: number;
  /** GB/s (1e9 bytes per second), always from the completion time. */
  readonly algbw: number;
  readonly busbw: number;
  /** Elements that were wrong, over all ranks; absent when this side was not or cannot be checked. */
  readonly wrong?: number;
  /** With `-I 1`. */
  readonly iterations?: IterationStatistics;
}

export interface ResultRow {
  /** Bytes: the larger of a rank's input and output. */
  readonly bytes: number;
  /** The count argument of the call, in elements. */
  readonly count: number;
  /** Type name as printed (`float`). */
  readonly type: string;
  /** Operator as printed; `none` for collectives without reduction, empty for hypercube. */
  readonly op: string;
  /** -1 when the collective has none. */
  readonly root: number;
  readonly outOfPlace: SideResult;
  /** Absent for a collective that cannot be done in place. */
  readonly inPlace?: SideResult;
  /** Local time `YYYY-MM-DD HH:MM:SS`, with `-S 1`. */
  readonly timestamp?: string;
  /** Timed operations; the same as asked for unless a time limit cut them. */
  readonly timedIterations?: number;
}

/** One line of the device list. */
export interface RankPlace {
  readonly rank: number;
  readonly group: number;
  readonly pid: number;
  /** Shown up to the first dot. */
  readonly host: string;
  /** Number of the rank on its host. */
  readonly device: number;
  /** What stands in brackets: `host`, or the PCI address of a GPU. */
  readonly address: string;
  /** Model of the processor or GPU. */
  readonly model: string;
}

/** Summary over all rows. */
export interface Summary {
  /** Checks that failed, counted per rank and check run. */
  readonly failedChecks: number;
  /** GB/s; NaN when nothing was measured. */
  readonly averageBusBandwidth: number;
  /** Required average in GB/s (NCCL_TESTS_MIN_BW); absent or -1: not checked. */
  readonly requiredBusBandwidth?: number;
  /** Last error of the library, empty when there is none. */
  readonly lastError: string;
}

/** The average may fall short of the required one by this factor, because runs vary. */
const REQUIRED_FRACTION = 0.9;

export type Verdict = 'OK' | 'FAILED' | 'unchecked';

/** Whether the average bus bandwidth is what the user required. */
export function bandwidthVerdict(summary: Summary): Verdict {
  const required = summary.requiredBusBandwidth;
  if (required === undefined || required === -1) return 'unchecked';
  return summary.averageBusBandwidth < REQUIRED_FRACTION * required ? 'FAILED' : 'OK';
}

/** Mean busbw over all sides that were measured of all rows; NaN without rows. */
export function averageBusBandwidth(rows: readonly ResultRow[]): number {
  let sum = 0;
  let sides = 0;
  for (const { outOfPlace, inPlace } of rows) {
    sum += outOfPlace.busbw + (inPlace?.busbw ?? 0);
    sides += inPlace === undefined ? 1 : 2;
  }
  return sum / sides;
}

/** Exit status of wrong data or too little bandwidth (nccl-tests: 7). */
const CHECK_FAILED_STATUS = 7;

/** Exit status of a run that reached its end. */
export function exitStatus(summary: Summary): number {
  return summary.failedChecks > 0 || bandwidthVerdict(summary) === 'FAILED' ? CHECK_FAILED_STATUS : 0;
}

/** Local time as `YYYY-MM-DD HH:MM:SS`. */
export function formatTimestamp(date: Date): string {
  const two = (x: number): string => String(x).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
