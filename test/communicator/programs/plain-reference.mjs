/**
 * Collectives on one element at a time, in plain JavaScript, for ranks that verify themselves. Elements are
 * bits (bigint). All contributions of an element are given in rank order.
 */
import { decode, divideBits, encode, reduceBits } from '../../../dist/kernel/numeric.js';

export const TYPES = {
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

const UNSIGNED = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array };
const NARROW = new Set(['float16', 'bfloat16', 'float8e4m3', 'float8e5m2']);
const isFloat = (type) => type.includes('float');

/** The elements of an array as unsigned integers over the same memory. */
export function unsigned(array) {
  return new UNSIGNED[array.BYTES_PER_ELEMENT](array.buffer, array.byteOffset, array.length);
}

/** 32 bits that depend on all arguments (murmur3's finaliser). */
function hash(a, b, c) {
  let h = (Math.imul(a, 0x9e3779b1) ^ Math.imul(b, 0x85ebca77) ^ Math.imul(c, 0xc2b2ae3d)) >>> 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Bits of element i that a rank contributes: any bits at all, or numbers that people use. */
export function contribution({ type, plain, salt }, rank, i) {
  const word = hash(salt, rank, i);
  if (!plain) {
    const wide = (BigInt(word) << 32n) | BigInt(hash(word, rank, i));
    return BigInt.asUintN(TYPES[type].BYTES_PER_ELEMENT * 8, wide);
  }
  if (isFloat(type)) return encode(type, (word / 2 ** 32 - 0.5) * 8);
  return encode(type, (word % 200) - (type.startsWith('u') ? 0 : 100));
}

function fold(type, step, contributions) {
  return contributions.reduce((a, b) => reduceBits(type, step, a, b));
}

/** Contributions combined where all meet: narrow floats are summed in float32 and rounded once. */
function combineDirect(type, op, contributions) {
  const n = contributions.length;
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

/** Contributions added one after the other around a ring that ends at `last`; each step rounds. */
function combineRing(type, op, contributions, last) {
  const n = contributions.length;
  let inOrder = contributions.map((_, k) => contributions[(last + 1 + k) % n]);
  if (op !== 'avg') return fold(type, op, inOrder);
  if (!isFloat(type)) return divideBits(type, fold(type, 'sum', inOrder), n);
  const factor = encode(type, type === 'float64' ? 1 / n : Math.fround(1 / n));
  inOrder = inOrder.map((bits) => reduceBits(type, 'prod', bits, factor));
  return fold(type, 'sum', inOrder);
}

/**
 * Bits of element i of what a rank receives. `ring` tells where the ring of an element of an all-reduce ends;
 * null: the ranks meet directly.
 */
export function expected(call, size, rank, i, ring) {
  const { collective, type, op, root, count } = call;
  if (collective === 'broadcast') return contribution(call, root, i);
  if (collective === 'allGather') return contribution(call, Math.floor(i / count), i % count);
  if (collective === 'allToAll') return contribution(call, Math.floor(i / count), rank * count + (i % count));
  const at = collective === 'reduceScatter' ? rank * count + i : i;
  const all = Array.from({ length: size }, (_, peer) => contribution(call, peer, at));
  if (size === 1) return all[0];
  if (ring === null) return combineDirect(type, op, all);
  const last = collective === 'reduceScatter' ? rank : collective === 'reduce' ? root : ring(call, i);
  return combineRing(type, op, all, last);
}

export function sameElement(type, a, b) {
  if (a === b) return true;
  return isFloat(type) && Number.isNaN(decode(type, a)) && Number.isNaN(decode(type, b));
}
