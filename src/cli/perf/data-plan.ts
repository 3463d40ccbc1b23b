/**
 * Which test data lie where: for each collective, what a rank sends and what it must receive, as segments of
 * generated data.
 *
 * A run checks one operation: the segments of `send` are written into the send buffer (out of place) or into
 * the receive buffer (in place), the operation runs, and the output is compared with the segments of
 * `expected`. Source: nccl-tests 2.19.6, data per collective.
 */
import type { TestDataKind, TestDataView } from '../../collectives/test-data.js';
import type { ElementType, ReduceOp } from '../../kernel/element-types.js';
import { toleranceBits } from './data-reference.js';
import type { CollectiveName, Counts } from './sizes.js';
import { elementBytes } from './type-names.js';

/**
 * A run of generated elements.
 *
 * `input`: what rank `rank` of `ranks` contributes to a reduction. `result`: what the reduction over `ranks`
 * gives. With `ranks` 1 both are plain copy data, for collectives that only move data. `zero`: zeros.
 */
export interface DataSegment {
  readonly kind: 'input' | 'result' | 'zero';
  readonly ranks: number;
  readonly rank: number;
  /** Seed of the generator, an unsigned 64-bit number. */
  readonly seed: bigint;
  /** First index passed to the generator. */
  readonly first: number;
  /** Elements. */
  readonly count: number;
  /** Where the segment starts, in elements from the start of the input or output. */
  readonly start: number;
}

export interface DataPlan {
  /** Nothing for a rank that sends nothing. */
  readonly send: readonly DataSegment[];
  /**
   * The output, which is zeroed before the input is written; a rank that receives nothing must find it
   * unchanged. 'unchecked': nothing is known to compare with.
   */
  readonly expected: readonly DataSegment[] | 'unchecked';
}

/** Factor that separates the streams of the ranks in collectives where everybody sends something else. */
const RANK_SEED_FACTOR = 33n;

/** The data of one rank for one measurement with the given seed (1, 2, 3, ... in nccl-tests). */
export function dataPlan(
  collective: CollectiveName,
  counts: Counts,
  placement: { ranks: number; rank: number; root: number; inPlace: boolean },
  seed: number,
): DataPlan {
  const { ranks, rank, root, inPlace } = placement;
  const { count, send, expected } = counts;
  const own = BigInt(seed);
  const ofRank = (r: number): bigint => BigInt.asUintN(64, RANK_SEED_FACTOR * own + BigInt(r));
  const input = (length: number): DataSegment => ({
    kind: 'input',
    ranks,
    rank,
    seed: own,
    first: 0,
    count: length,
    start: 0,
  });
  const result = (first: number, length: number): DataSegment => ({
    kind: 'result',
    ranks,
    rank: 0,
    seed: own,
    first,
    count: length,
    start: 0,
  });
  const copy = (streamSeed: bigint, first: number, length: number, start = 0): DataSegment => ({
    kind: 'input',
    ranks: 1,
    rank: 0,
    seed: streamSeed,
    first,
    count: length,
    start,
  });
  const zero = (start: number, length: number): DataSegment => ({
    kind: 'zero',
    ranks: 1,
    rank: 0,
    seed: 0n,
    first: 0,
    count: length,
    start,
  });
  /** One block of the output per source rank. */
  const blocks = (first: number): DataSegment[] =>
    Array.from({ length: ranks }, (_, source) => copy(ofRank(source), first, count, source * count));

  switch (collective) {
    case 'all_reduce':
      return { send: [input(send)], expected: [result(0, expected)] };
    case 'reduce':
      return {
        send: [input(send)],
        expected: [rank === root ? result(0, expected) : inPlace ? input(send) : zero(0, expected)],
      };
    case 'reduce_scatter':
      return { send: [input(send)], expected: [result(rank * count, expected)] };
    case 'all_gather':
    case 'hypercube':
      return { send: [copy(ofRank(rank), 0, send)], expected: blocks(0) };
    case 'broadcast':
      return { send: rank === root ? [copy(own, 0, send)] : [], expected: [copy(own, 0, expected)] };
    case 'scatter':
      return {
        send: rank === root ? [copy(own, 0, send)] : [],
        expected: [copy(own, rank * count, expected)],
      };
    case 'gather':
      return {
        send: [copy(own, rank * count, send)],
        expected:
          rank === root
            ? [copy(own, 0, expected)]
            : inPlace
              ? [
                  zero(0, rank * count),
                  copy(own, rank * count, count, rank * count),
                  zero((rank + 1) * count, expected - (rank + 1) * count),
                ]
              : [zero(0, expected)],
      };
    case 'sendrecv': {
      const source = (rank - 1 + ranks) % ranks;
      return {
        send: [copy(own, rank * count, send)],
        expected: inPlace ? 'unchecked' : [copy(own, source * count, expected)],
      };
    }
    case 'alltoall':
      return {
        send: [copy(ofRank(rank), 0, send)],
        expected: inPlace ? 'unchecked' : blocks(rank * count),
      };
  }
}

/** The program that makes or verifies a segment. */
export function kindOf(segment: DataSegment, type: ElementType, op: ReduceOp | undefined): TestDataKind {
  return { type, op: op ?? 'sum', ranks: segment.ranks, role: segment.kind };
}

/**
 * Fills the descriptor of a fill or verify program for a segment of the buffer at `address` (bytes). After a
 * verify program ran, `wrong` of the descriptor is the number of wrong elements and `firstWrong` the position
 * of the first one in the segment.
 */
export function describeSegment(
  work: TestDataView,
  segment: DataSegment,
  address: number | bigint,
  type: ElementType,
  op: ReduceOp | undefined,
): void {
  work
    .set('data', BigInt(address) + BigInt(segment.start * elementBytes(type)))
    .set('count', segment.count)
    .set('first', segment.first)
    .set('seed', segment.seed)
    .set('rank', segment.rank)
    .set('tolerance', op === undefined ? 0 : toleranceBits(type, op))
    .set('wrong', 0)
    .set('firstWrong', NOTHING_WRONG);
}

/** Content of `firstWrong` while no element is wrong. */
export const NOTHING_WRONG = (1n << 64n) - 1n;
