/** The collectives in plain JavaScript over the bits of elements: what every rank must receive, and how buffers look. */
import { combineDirect, sameElement } from '../reference/direct-arithmetic.mjs';

export const COLLECTIVES = [
  'allReduce',
  'reduce',
  'broadcast',
  'allGather',
  'reduceScatter',
  'allToAll',
  'gather',
  'scatter',
];

/** Elements of a rank's buffers; 0 where it needs none. */
export function lengths({ collective, count, root }, rank, ranks) {
  const all = count * ranks;
  const atRoot = (length) => (rank === root ? length : 0);
  switch (collective) {
    case 'reduce':
      return { send: count, recv: atRoot(count) };
    case 'broadcast':
      return { send: atRoot(count), recv: count };
    case 'allGather':
      return { send: count, recv: all };
    case 'reduceScatter':
      return { send: all, recv: count };
    case 'allToAll':
      return { send: all, recv: all };
    case 'gather':
      return { send: count, recv: atRoot(all) };
    case 'scatter':
      return { send: atRoot(all), recv: count };
    default:
      return { send: count, recv: count };
  }
}

/** Bits that a rank receives, element by element, from the bits that all ranks send (typed arrays). */
export function expected({ collective, type, op, root, count }, rank, sends) {
  const combine = (i) =>
    combineDirect(
      type,
      op,
      sends.map((send) => BigInt(send[i])),
    );
  const block = (send, k) => Array.from(send.subarray(k * count, (k + 1) * count), BigInt);
  const indexes = (from) => Array.from({ length: count }, (_, i) => from + i);
  switch (collective) {
    case 'allReduce':
    case 'reduce':
      return indexes(0).map(combine);
    case 'reduceScatter':
      return indexes(rank * count).map(combine);
    case 'broadcast':
      return block(sends[root], 0);
    case 'allGather':
    case 'gather':
      return sends.flatMap((send) => block(send, 0));
    case 'scatter':
      return block(sends[root], rank);
    default:
      return sends.flatMap((send) => block(send, rank));
  }
}

/** The first element that differs, in words, or undefined. */
export function difference(type, found, want) {
  for (let i = 0; i < want.length; i++) {
    if (!sameElement(type, BigInt(found[i]), want[i])) {
      return `element ${i} of ${want.length} is ${found[i].toString(16)}, must be ${want[i].toString(16)}`;
    }
  }
  return undefined;
}
