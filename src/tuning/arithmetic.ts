/**
 * Arithmetic as NCCL's C code does it: single precision wherever a value is stored as float, so that times that are
 * nearly equal compare as they do there.
 */

/** Rounds to single precision. */
export const f32 = Math.fround;

/** Largest finite single-precision number. */
export const MAX_F32 = (2 - 2 ** -23) * 2 ** 127;

/** Position of the highest set bit of a whole number below 2^53; -1 for 0. */
export function log2Floor(value: number): number {
  if (value < 1) return -1;
  return value < TWO_32 ? 31 - Math.clz32(value) : 63 - Math.clz32(value / TWO_32);
}

const TWO_32 = 2 ** 32;

/** Quotient rounded up, for whole numbers. */
export const divideUp = (a: number, b: number): number => Math.ceil(a / b);

/** Largest power of two that is not above a whole number from 1 on. */
export const powerOfTwoDown = (value: number): number => 2 ** log2Floor(value);

/** `value` in [low, high]; a `low` above `high` wins, as in C's max(low, min(high, value)). */
export const atLeastAtMost = (value: number, low: number, high: number): number =>
  Math.max(low, Math.min(high, value));
