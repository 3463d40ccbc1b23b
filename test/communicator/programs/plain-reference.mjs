/**
 * Collectives on one element at a time, in plain JavaScript, for ranks that verify themselves. Elements are
 * bits (bigint).
 */
import { divideBits, encode, reduceBits } from '#src/kernel/numeric.js';
import { combineDirect, fold, isFloat, TYPES } from '../../reference/direct-arithmetic.mjs';

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
