/**
 * How elements of all ranks are combined where the ranks meet, in plain JavaScript over the bits of elements (bigint),
 * and the arrays that carry elements. For programs and machines without a test framework.
 */
import { ELEMENT_TYPES } from '#src/kernel/element-types.js';
import { arrayFor, decode, divideBits, encode, reduceBits } from '#src/kernel/numeric.js';

/** The classes of array that elements travel in. */
export const TYPES = Object.fromEntries(Object.keys(ELEMENT_TYPES).map((type) => [type, arrayFor(type)]));

const UNSIGNED = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array };
const NARROW = new Set(['float16', 'bfloat16', 'float8e4m3', 'float8e5m2']);

export const isFloat = (type) => type.includes('float');

/** The elements of an array as unsigned integers over the same memory. */
export function unsigned(array) {
  return new UNSIGNED[array.BYTES_PER_ELEMENT](array.buffer, array.byteOffset, array.length);
}

/** Contributions combined in their order, each step rounded. */
export function fold(type, step, contributions) {
  return contributions.reduce((a, b) => reduceBits(type, step, a, b));
}

/** Contributions of all ranks, in rank order, combined at once: narrow floats are summed in float32 and rounded once. */
export function combineDirect(type, op, contributions) {
  const n = contributions.length;
  // One rank's data are moved, not computed with.
  if (n === 1) return contributions[0];
  if (!isFloat(type)) {
    const total = fold(type, op === 'avg' ? 'sum' : op, contributions);
    return op === 'avg' ? divideBits(type, total, n) : total;
  }
  if (op !== 'sum' && op !== 'avg') return fold(type, op, contributions);
  if (type === 'float64') {
    const factor = op === 'avg' ? 1 / n : 1;
    return encode(
      type,
      contributions.map((bits) => decode(type, bits) * factor).reduce((a, b) => a + b),
    );
  }
  if (type === 'float32' && op === 'avg') {
    // No wider type to sum in: scaled first, so that the sum cannot overflow where the average does not.
    const factor = Math.fround(1 / n);
    const scaled = contributions.map((bits) => Math.fround(decode(type, bits) * factor));
    return encode(
      type,
      scaled.reduce((a, b) => Math.fround(a + b)),
    );
  }
  const values = contributions.map((bits) => decode(type, bits));
  const total = values.reduce((a, b) => Math.fround(a + b));
  const result = op === 'avg' ? Math.fround(total * Math.fround(1 / n)) : total;
  return encode(type, NARROW.has(type) ? Math.fround(result) : result);
}

/** Whether two elements are the same: their bits, or both are not a number. */
export function sameElement(type, a, b) {
  if (a === b) return true;
  return isFloat(type) && Number.isNaN(decode(type, a)) && Number.isNaN(decode(type, b));
}
