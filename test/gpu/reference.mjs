/** The collectives in plain JavaScript over the bits of elements: what every rank must receive, and how buffers look. */
import { ELEMENT_TYPES } from '#src/kernel/element-types.js';
import {
  encode,
  isNarrowFloat,
  narrowBits,
  orderedReduce,
  reduceBits,
  sameBits,
  widenBits,
} from '#src/kernel/numeric.js';

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

const ARRAYS = {
  int8: Int8Array,
  uint8: Uint8Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float16: Uint16Array,
  float32: Float32Array,
  float64: Float64Array,
  bfloat16: Uint16Array,
  float8e4m3: Uint8Array,
  float8e5m2: Uint8Array,
};

/** The class of array that elements of a type travel in. */
export const arrayOf = (type) => ARRAYS[type];

const WORDS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array };

/** The bits of an array's elements. */
export function bitsOf(array, type) {
  return new WORDS[ELEMENT_TYPES[type].size](array.buffer, array.byteOffset, array.length);
}

/** Contributions combined in rank order: narrow floats are summed in float32 and scaled at the end. */
function reduced(type, op, contributions) {
  const n = contributions.length;
  // One rank's data are moved, not computed with.
  if (n === 1) return contributions[0];
  if (!isNarrowFloat(type) || (op !== 'sum' && op !== 'avg')) return orderedReduce(type, op, contributions);
  const wide = contributions.map((bits) => BigInt(widenBits(type, Number(bits))));
  let total = wide.slice(1).reduce((a, b) => reduceBits('float32', 'sum', a, b), wide[0]);
  if (op === 'avg') total = reduceBits('float32', 'prod', total, encode('float32', Math.fround(1 / n)));
  return BigInt(narrowBits(type, Number(total)));
}

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
    reduced(
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
    if (!sameBits(type, BigInt(found[i]), want[i])) {
      return `element ${i} of ${want.length} is ${found[i].toString(16)}, must be ${want[i].toString(16)}`;
    }
  }
  return undefined;
}
