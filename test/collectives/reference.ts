/**
 * The collectives in plain TypeScript, element by element: the oracle that all programs are compared with.
 * Buffers are arrays of element bits, one array per rank.
 */

import type { RingCollective } from '#src/collectives/ring.js';
import type { ElementType, ReduceOp } from '#src/kernel/element-types.js';
import {
  encode,
  isNarrowFloat,
  narrowBits,
  orderedReduce,
  reduceBits,
  ringOrderReduce,
  widenBits,
} from '#src/kernel/numeric.js';

export type Bits = readonly bigint[];

/**
 * Contributions combined where all meet: narrow floats summed in float32 and scaled at the end, wide floats scaled
 * first, as `orderedReduce` does.
 */
export function directReduce(type: ElementType, op: ReduceOp, contributions: Bits): bigint {
  const n = contributions.length;
  const sums = op === 'sum' || op === 'avg';
  if (isNarrowFloat(type) && sums) {
    const wide = contributions.map((bits) => BigInt(widenBits(type, Number(bits))));
    let total = wide.slice(1).reduce((a, b) => reduceBits('float32', 'sum', a, b), wide[0]!);
    if (op === 'avg') total = reduceBits('float32', 'prod', total, encode('float32', Math.fround(1 / n)));
    return BigInt(narrowBits(type, Number(total)));
  }
  return orderedReduce(type, op, contributions);
}

export interface ReferenceCall {
  readonly collective: RingCollective;
  readonly type: ElementType;
  readonly op: ReduceOp;
  readonly root: number;
  /** Elements as the API counts them. */
  readonly count: number;
  /** 'direct', or for rings the chunk that an element belongs to (all-reduce; fixed by position otherwise). */
  readonly order: 'direct' | ((element: number) => number);
  /** The rank at each position of the ring; by default ranks stand in their own order. */
  readonly ring?: readonly number[];
}

/** What every rank receives; null for ranks that receive nothing. */
export function reference(call: ReferenceCall, sends: readonly Bits[]): (Bits | null)[] {
  const { collective, type, op, root, count, order } = call;
  const n = sends.length;
  const ring = call.ring ?? sends.map((_, rank) => rank);
  /** Contributions in rank order where all meet, in ring order where they travel. */
  const column = (i: number) =>
    order === 'direct' ? sends.map((send) => send[i]!) : ring.map((rank) => sends[rank]![i]!);
  const reduced = (i: number, chunk: number) =>
    order === 'direct' ? directReduce(type, op, column(i)) : ringOrderReduce(type, op, column(i), chunk);
  const indexes = Array.from({ length: count }, (_, i) => i);
  switch (collective) {
    case 'allReduce': {
      const result = indexes.map((i) => reduced(i, order === 'direct' ? 0 : order(i)));
      return sends.map(() => result);
    }
    case 'reduce': {
      // A ring reduce ends at the root, which is the last to add: as the root's chunk does in a reduce-scatter.
      const result = indexes.map((i) => reduced(i, ring.indexOf(root)));
      return sends.map((_, rank) => (rank === root ? result : null));
    }
    case 'reduceScatter':
      return sends.map((_, rank) => indexes.map((i) => reduced(rank * count + i, ring.indexOf(rank))));
    case 'broadcast':
      return sends.map(() => sends[root]!.slice(0, count));
    case 'allGather': {
      const all = sends.flatMap((send) => send.slice(0, count));
      return sends.map(() => all);
    }
    case 'allToAll':
      return sends.map((_, rank) => sends.flatMap((send) => send.slice(rank * count, (rank + 1) * count)));
    default:
      throw new Error(`no reference for ${collective satisfies never} with ${n} ranks`);
  }
}

/** Elements of a rank's send and receive buffers. */
export function bufferElements(
  collective: RingCollective,
  count: number,
  ranks: number,
): { send: number; recv: number } {
  return {
    send: ['reduceScatter', 'allToAll'].includes(collective) ? count * ranks : count,
    recv: ['allGather', 'allToAll'].includes(collective) ? count * ranks : count,
  };
}
