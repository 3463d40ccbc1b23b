/**
 * Where, along the size of a message, something changes: the choice, or which of two candidates is faster.
 *
 * Between two powers of two (and one more size, from which rings wait for each other) every predicted time is a straight
 * line over the size. So a candidate that is the best at both ends of such a piece is the best all along it, and if it is
 * not at the end, the size at which it stops is found by halving (within what single precision rounds off, where two
 * candidates take turns for a few sizes). Sizes are counted in elements per rank.
 */
import type { TuningCall } from '../call.js';
import type { TuningTables } from '../model.js';

/** A series of calls: by elements per rank. */
export interface CallSeries {
  readonly callOf: (count: number) => TuningCall;
  /** Bytes of the message per element of a rank. */
  readonly grain: number;
}

/** Bytes that nobody sends at once: the search ends here. */
export const LARGEST_BYTES = 2 ** 44;

/** Ranks times channels times this many bytes: from here on Simple rings are counted as slower. */
const PLATEAU_BYTES = 64;

/** Counts at which a piece begins, ascending, from 1 on. */
function pieceStarts({ input: { nRanks, nChannels } }: TuningTables, grain: number): number[] {
  const sizes = [nRanks * nChannels * PLATEAU_BYTES];
  for (let size = PLATEAU_BYTES; size <= LARGEST_BYTES; size *= 2) sizes.push(size);
  const starts = new Set([1, ...sizes.map((size) => Math.max(1, Math.ceil(size / grain)))]);
  return [...starts].sort((a, b) => a - b);
}

/**
 * First count above `from` for which something holds that does not hold at `from`.
 *
 * @param until the last count that is looked at
 */
export function firstAbove(
  tables: TuningTables,
  grain: number,
  from: number,
  until: number,
  holds: (count: number) => boolean,
): number | undefined {
  const starts = pieceStarts(tables, grain).filter((start) => start > from && start <= until);
  let last = from;
  for (const probe of [...starts.flatMap((start) => [start - 1, start]), until]) {
    if (probe <= last) continue;
    if (holds(probe)) return halve(last, probe, holds);
    last = probe;
  }
  return undefined;
}

/** Last count below `from`, 1 at least, for which something holds that does not hold at `from`. */
export function lastBelow(
  tables: TuningTables,
  grain: number,
  from: number,
  holds: (count: number) => boolean,
): number | undefined {
  const starts = pieceStarts(tables, grain).filter((start) => start <= from);
  let last = from;
  for (const probe of starts.reverse().flatMap((start) => [start, start - 1])) {
    if (probe >= last || probe < 1) continue;
    if (holds(probe)) return -halve(-last, -probe, (count) => holds(-count));
    last = probe;
  }
  return undefined;
}

/** First whole number in (without, end] for which something holds that holds at the end. */
function halve(without: number, end: number, holds: (count: number) => boolean): number {
  let [low, high] = [without, end];
  while (high - low > 1) {
    const middle = low + Math.floor((high - low) / 2);
    if (holds(middle)) high = middle;
    else low = middle;
  }
  return high;
}
