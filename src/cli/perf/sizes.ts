/**
 * From a requested size in bytes to element counts, and from a time to bandwidths.
 *
 * algbw is the size divided by the time; busbw multiplies it by the factor that makes the number independent
 * of the rank count when the slowest link is the limit. Source: nccl-tests 2.19.6 (PERFORMANCE notes).
 */
import { TuttiError } from '../../errors/tutti-error.js';

/** Collectives that can be measured, under nccl-tests' program names without `_perf`. */
export const COLLECTIVE_NAMES = [
  'all_reduce',
  'all_gather',
  'reduce_scatter',
  'broadcast',
  'reduce',
  'alltoall',
  'scatter',
  'gather',
  'sendrecv',
  'hypercube',
] as const;

/** Whether it can be done in one buffer. */
export function hasInPlace(collective: CollectiveName): boolean {
  return collective !== 'alltoall' && collective !== 'sendrecv';
}

export type CollectiveName = (typeof COLLECTIVE_NAMES)[number];

/** Element counts of one operation; a rank-dependent place is `rank *` the in-place offset. */
export interface Counts {
  /** The count argument of the call. */
  readonly count: number;
  /** Elements that a rank sends (the length of its input). */
  readonly send: number;
  /** Elements of a rank's output. */
  readonly expected: number;
  /** In place, rank r's input starts r * this many elements into the buffer ... */
  readonly inPlaceSend: number;
  /** ... and its output r * this many. */
  readonly inPlaceReceive: number;
  /** Bytes that the row is labelled with: the larger of input and output. */
  readonly bytes: number;
}

/** Shares of a buffer start at multiples of this many bytes. */
const SHARE_BYTES = 16;

/** Collectives in which every rank owns an equal share of the larger buffer. */
function isShared(collective: CollectiveName): boolean {
  switch (collective) {
    case 'all_reduce':
    case 'reduce':
    case 'broadcast':
    case 'sendrecv':
      return false;
    default:
      return true;
  }
}

/**
 * Counts for a requested size.
 *
 * @param bytes requested size: the larger of input and output of one rank; rounded down to what fits.
 * @param elementSize bytes of one element.
 * @param ranks number of ranks.
 */
export function countsFor(
  collective: CollectiveName,
  bytes: number,
  elementSize: number,
  ranks: number,
): Counts {
  const elements = Math.floor(bytes / elementSize);
  const grain = SHARE_BYTES / elementSize;
  const share = Math.floor(Math.floor(elements / ranks) / grain) * grain;
  const count = isShared(collective) ? share : elements;
  let send = count;
  let expected = count;
  let inPlaceSend = 0;
  let inPlaceReceive = 0;
  switch (collective) {
    case 'all_gather':
    case 'gather':
    case 'hypercube':
      expected = count * ranks;
      inPlaceSend = count;
      break;
    case 'reduce_scatter':
    case 'scatter':
      send = count * ranks;
      inPlaceReceive = count;
      break;
    case 'alltoall':
      send = count * ranks;
      expected = count * ranks;
      break;
    default:
  }
  return {
    count,
    send,
    expected,
    inPlaceSend,
    inPlaceReceive,
    bytes: Math.max(send, expected) * elementSize,
  };
}

export interface Bandwidth {
  /** Size by time, GB/s (1e9 bytes per second). */
  readonly algbw: number;
  /** Comparable with the speed of the slowest link, GB/s. */
  readonly busbw: number;
}

/** Bandwidths of one operation of `count` elements (the count argument) that took `seconds`. */
export function bandwidthFor(
  collective: CollectiveName,
  count: number,
  elementSize: number,
  ranks: number,
  seconds: number,
): Bandwidth {
  let factor = 1;
  let shares = isShared(collective) ? ranks : 1;
  switch (collective) {
    case 'all_reduce':
      factor = (2 * (ranks - 1)) / ranks;
      break;
    case 'hypercube':
      shares = ranks - 1;
      break;
    case 'reduce':
    case 'broadcast':
    case 'sendrecv':
      break;
    default:
      factor = (ranks - 1) / ranks;
  }
  const algbw = (count * elementSize * shares) / 1e9 / seconds;
  return { algbw, busbw: algbw * factor };
}

/** First and last size and how to get from one to the next. */
export interface Sweep {
  readonly minBytes: number;
  readonly maxBytes: number;
  /** Multiplied when above 1 ... */
  readonly stepFactor: number;
  /** ... else this is added. */
  readonly stepBytes: number;
}

/**
 * Sizes of the rows of a sweep. A sweep by a factor that starts at 0 goes on with one element, because no
 * factor leads away from 0.
 */
export function* sweepSizes(sweep: Sweep, elementSize: number): Generator<number> {
  const { minBytes, maxBytes, stepFactor, stepBytes } = sweep;
  let size = minBytes;
  while (size <= maxBytes) {
    yield size;
    if (stepFactor > 1) size = size === 0 ? elementSize : size * stepFactor;
    else if (stepBytes > 0) size += stepBytes;
    else return;
  }
}

/** Sizes of the warm-up: doubling from the first size to the last, whatever the step of the sweep. */
export function* warmupSizes(sweep: Sweep, elementSize: number): Generator<number> {
  yield* sweepSizes({ ...sweep, stepFactor: 2 }, elementSize);
}

/**
 * Byte offset of operation `index` into buffers of `maxBytes`: small operations walk through the whole
 * buffer so that they are not measured from a warm cache.
 */
export function rotationOffset(index: number, bytes: number, maxBytes: number): number {
  if (bytes === 0) return 0;
  const places = Math.max(1, Math.floor(maxBytes / bytes));
  return bytes * (index % places);
}

/** Throws unless the collective can run on this many ranks. */
export function checkRankCount(collective: CollectiveName, ranks: number): void {
  if (collective === 'hypercube' && (ranks & (ranks - 1)) !== 0) {
    throw new TuttiError(
      'invalidArgument',
      `hypercube needs a power of two of ranks, not ${ranks}; start 2, 4, 8, ... ranks`,
    );
  }
}

/** Timed iterations of sizes below each bound (bytes), when nobody asked for a number. */
const REPEATED: readonly (readonly [below: number, iterations: number])[] = [
  [16384, 1000],
  [131072, 200],
  [1048576, 50],
];

/** Timed iterations of a row: as asked, or so many that a row takes about a millisecond. */
export function iterationsFor(bytes: number, asked: number, isGiven: boolean): number {
  if (isGiven) return asked;
  return REPEATED.find(([below]) => bytes < below)?.[1] ?? asked;
}
