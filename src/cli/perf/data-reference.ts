/**
 * Exact test data in plain TypeScript: what each rank contributes and what the reduction must give.
 *
 * Inputs look random but are made so that the exact result is representable and does not depend on the
 * order in which contributions meet; a check can therefore compare bit patterns. The expected value is made
 * without looking at any reduction. This file is the readable BigInt reference; the fast versions that run
 * over whole buffers are in collectives/test-data.ts and are tested against this one.
 *
 * Source: behaviour of nccl-tests 2.19.6 (verification data), restated from its description.
 */
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '../../kernel/element-types.js';
import { divideBits, encode, reduceBits } from '../../kernel/numeric.js';

const MASK64 = (1n << 64n) - 1n;
const MASK32 = (1n << 32n) - 1n;

/** Odd multiplier of both hashes (2^64 divided by the golden ratio, last bits changed). */
const K1 = 0x9e3779b97f4a7c13n;
/** Final odd multiplier of HASH. */
const K2 = 0xc4ceb9fe1a85ec53n;
/** Decorrelates the second contribution of a floating average from the first. */
const SECOND_AVERAGE_FACTOR = 0xbeefn;

interface IntegerShape {
  readonly kind: 'integer';
  readonly bits: number;
}

/** A sign bit, an exponent field and a mantissa field without the hidden bit. */
interface FloatShape {
  readonly kind: 'float';
  readonly bits: number;
  readonly exponentBits: number;
  readonly mantissaBits: number;
}

/** A random state that the generators below read and advance. */
interface State {
  value: bigint;
}

/** One step of the state: a bijection of the 64-bit words. */
export function mix(x: bigint): bigint {
  let high = ((x >> 32n) + 1n) & MASK32;
  let low = (x & MASK32) ^ high;
  const product = (((high << 32n) | low) * K1) & MASK64;
  high = product >> 32n;
  low = (product & MASK32) ^ ((high << 16n) & MASK32) ^ (high >> 16n);
  return (high << 32n) | low;
}

/** 64-bit hash of two 64-bit words. */
export function hash(a: bigint, b: bigint): bigint {
  a = (a + (1n << 32n) + b) & MASK64;
  a ^= a >> 32n;
  a = (a * K1) & MASK64;
  a = (a + ((b >> 16n) ^ ((b << 48n) & MASK64))) & MASK64;
  a ^= a >> 32n;
  return (a * K2) & MASK64;
}

/** Places `r` in a permutation of 0..n-1 chosen by the state, which advances. */
export function shuffle(n: number, r: number, state: State): number {
  const a = Number(state.value & MASK32);
  const b = Number(state.value >> 32n);
  state.value = mix(state.value);
  const mask = 2 ** (31 - Math.clz32(n)) - 1;
  const scramble = (rank: number, factor: number, offset: number): number => {
    const affine = ((Math.imul(rank, factor | 1) + offset) & mask) >>> 0;
    return ((Math.imul(affine, affine) + affine) >>> 1) & mask;
  };
  if (r <= mask) r = scramble(r, a, b) + n - (mask + 1);
  else r -= mask + 1;
  if (r <= mask) r = scramble(r, b, a);
  return r;
}

/** A summand and the total it belongs to. */
export interface Split {
  readonly part: bigint;
  readonly total: bigint;
}

/**
 * Chooses a total in the upper half of 0..maximum and divides it among n ranks. The total is hardly ever
 * `avoid`; where it is, the sum of the two families is 0, which is as exact as any other.
 *
 * @param width 64 to draw from the whole state (mantissas of double), 32 to draw from its low word.
 * @returns the summand of rank `r`; the summands of all n ranks add up to `total` exactly.
 */
export function split(
  width: 32 | 64,
  n: number,
  r: number,
  state: State,
  maximum: bigint,
  avoid?: bigint,
): Split {
  const choices = maximum / 2n + (avoid === undefined ? 1n : 0n);
  const draw = width === 64 ? (state.value * choices) >> 64n : ((state.value & MASK32) * choices) >> 32n;
  const lowest = (maximum + 1n) / 2n;
  let total = (avoid === undefined ? lowest : avoid + 1n) + draw;
  if (avoid !== undefined && (total < lowest || total > maximum)) total -= maximum / 2n;
  state.value = mix(state.value);

  const ranks = BigInt(n);
  // A total below n cannot give everybody something: the last rank carries all of it.
  if (n > 1 && total < ranks) return { part: r === n - 1 ? total : 0n, total };
  const wanted = n === 1 ? 1n : 2n * (total / ranks) - 1n;
  const steps = wanted < ranks ? wanted : ranks;
  const sum = (steps * (steps + 1n)) / 2n;
  const perStep = min(total / sum, ranks / steps);
  const step = BigInt(r) / perStep;
  let part = step < steps ? 1n + step : 0n;
  if (r === n - 1) part += total - perStep * sum;
  return { part, total };
}

/**
 * Largest |bits(result) - bits(expected)|, as unsigned integers of the element's width, that still counts as
 * right: every reduction is exact in any order, except the average of floating types, which rounds twice.
 */
export function toleranceBits(type: ElementType, op: ReduceOp): number {
  return op === 'avg' && ELEMENT_TYPES[type].kind === 'float' ? 2 : 0;
}

/** What rank `rank` of `n` contributes as element `index`, as the unsigned bits of the type. */
export function inputBits(
  type: ElementType,
  op: ReduceOp,
  n: number,
  rank: number,
  seed: bigint,
  index: bigint,
): bigint {
  const shape = shapeOf(type);
  if (n === 1) return copyBits(type, seed, index);
  if (shape.kind === 'integer') {
    const bits = hash(spread(index, rank), seed) & ones(shape.bits);
    return op === 'prod' && bits === 0n ? 1n : bits;
  }
  switch (op) {
    case 'min':
    case 'max':
      return floatFromHash(shape, spread(index, rank), seed);
    case 'sum':
      return floatSum(shape, n, rank, seed, index).input;
    case 'prod':
      return floatProduct(shape, n, rank, seed, index).input;
    case 'avg':
      return floatAverageInput(type, shape, n, rank, seed);
  }
}

/** What the reduction over `n` ranks must give as element `index`, as the unsigned bits of the type. */
export function expectedBits(
  type: ElementType,
  op: ReduceOp,
  n: number,
  seed: bigint,
  index: bigint,
): bigint {
  const shape = shapeOf(type);
  if (n === 1) return copyBits(type, seed, index);
  if (shape.kind === 'integer') return fold(type, op, n, seed, index);
  switch (op) {
    case 'min':
    case 'max':
      return fold(type, op, n, seed, index);
    case 'sum':
      return floatSum(shape, n, 0, seed, index).expected;
    case 'prod':
      return floatProduct(shape, n, 0, seed, index).expected;
    case 'avg':
      return floatAverageExpected(type, shape, n, seed);
  }
}

/** Data that is only moved (broadcast, gather, any operator on one rank). */
export function copyBits(type: ElementType, seed: bigint, index: bigint): bigint {
  const shape = shapeOf(type);
  if (shape.kind === 'integer') return mix(seed ^ index) >> BigInt(64 - shape.bits);
  return floatFromHash(shape, spread(index, 0), seed);
}

/** Separates the ranks' streams and carries low index bits upwards. */
function spread(index: bigint, rank: number): bigint {
  return index ^ ((index << 16n) & MASK64) ^ BigInt(rank);
}

function floatFromHash(shape: FloatShape, key: bigint, seed: bigint): bigint {
  const { exponentBits, mantissaBits } = shape;
  let h = hash(key, seed);
  const sign = h & 1n;
  h ^= h >> 1n;
  // Exponents from the middle half of the range: neither subnormal nor infinite.
  const exponent = (h & ones(exponentBits - 1)) + (1n << BigInt(exponentBits - 2));
  h ^= h >> BigInt(exponentBits);
  return assemble(shape, sign, exponent, h & ones(mantissaBits));
}

interface Generated {
  readonly input: bigint;
  readonly expected: bigint;
}

/**
 * Sum: even (shuffled) ranks share one mantissa, odd ranks another of the opposite sign, all with the same
 * exponent, so that no partial sum ever needs more than M+1 bits.
 */
function floatSum(shape: FloatShape, n: number, rank: number, seed: bigint, index: bigint): Generated {
  const { exponentBits, mantissaBits } = shape;
  const width = mantissaBits > 31 ? 64 : 32;
  const state = { value: hash(seed, index) };
  const sign = state.value & 1n;
  const lowestExponent = BigInt(1 + mantissaBits);
  const exponent = lowestExponent + (((state.value >> 32n) * (ones(exponentBits) - lowestExponent)) >> 32n);
  state.value = mix(state.value);
  const place = shuffle(n, rank, state);
  const maximum = ones(mantissaBits + 1);
  const member = place >> 1;
  const positive = split(width, (n + 1) >> 1, member, state, maximum);
  const negative =
    n >> 1 > 0 ? split(width, n >> 1, member, state, maximum, positive.total) : { part: 0n, total: 0n };
  const own = place % 2 === 0 ? positive.part : negative.part;
  const total = positive.total - negative.total;
  return {
    input: normalise(shape, sign ^ BigInt(place % 2), exponent, own),
    expected: normalise(shape, sign ^ (total < 0n ? 1n : 0n), exponent, total < 0n ? -total : total),
  };
}

/** Product: powers of two whose exponents add up in range, one of them with a random mantissa. */
function floatProduct(shape: FloatShape, n: number, rank: number, seed: bigint, index: bigint): Generated {
  const { exponentBits, mantissaBits } = shape;
  const state = { value: hash(seed, index) };
  const place = shuffle(n, rank, state);
  const bias = ones(exponentBits - 1);
  const { part, total } = split(32, n, place, state, bias);
  const mantissa = state.value & ones(mantissaBits) || 1n;
  return {
    input: assemble(shape, BigInt(place % 2), bias + part, place === 0 ? mantissa : 0n),
    expected: assemble(shape, BigInt((n >> 1) % 2), bias + total, mantissa),
  };
}

/** Average: two ranks contribute a whole number each, the others nothing; every element is the same. */
function floatAverageInput(
  type: ElementType,
  shape: FloatShape,
  n: number,
  rank: number,
  seed: bigint,
): bigint {
  const state = { value: seed };
  const place = shuffle(n, rank, state);
  return place < 2 ? encode(type, averageTerm(shape, place, state.value)) : 0n;
}

function floatAverageExpected(type: ElementType, shape: FloatShape, n: number, seed: bigint): bigint {
  const state = mix(seed);
  const rounded = type === 'float64' ? 1 / n : Math.fround(1 / n);
  const scaled = (place: number): bigint => {
    const product = averageTerm(shape, place, state) * rounded;
    return encode(type, type === 'float64' ? product : Math.fround(product));
  };
  return reduceBits(type, 'sum', scaled(0), scaled(1));
}

function averageTerm(shape: FloatShape, place: number, state: bigint): number {
  const mixed = place === 0 ? state : state * SECOND_AVERAGE_FACTOR;
  return 1 + Number(mixed & ones(shape.mantissaBits));
}

/** Integers wrap around in any order, and the larger of two floats is one of them: a plain fold is exact. */
function fold(type: ElementType, op: ReduceOp, n: number, seed: bigint, index: bigint): bigint {
  const step = op === 'avg' ? 'sum' : op;
  let total = inputBits(type, op, n, 0, seed, index);
  for (let rank = 1; rank < n; rank++) {
    total = reduceBits(type, step, total, inputBits(type, op, n, rank, seed, index));
  }
  return op === 'avg' ? divideBits(type, total, n) : total;
}

/** Bits of a floating type from sign, raw exponent field and mantissa field. */
function assemble(shape: FloatShape, sign: bigint, exponent: bigint, mantissa: bigint): bigint {
  const { exponentBits, mantissaBits } = shape;
  return (sign << BigInt(exponentBits + mantissaBits)) | (exponent << BigInt(mantissaBits)) | mantissa;
}

/** Bits of `mantissa` units of the last place at `exponent`; zero is always +0. */
function normalise(shape: FloatShape, sign: bigint, exponent: bigint, mantissa: bigint): bigint {
  if (mantissa === 0n) return 0n;
  const hidden = 1n << BigInt(shape.mantissaBits);
  while (mantissa < hidden) {
    mantissa <<= 1n;
    exponent -= 1n;
  }
  return assemble(shape, sign, exponent, mantissa & (hidden - 1n));
}

function shapeOf(type: ElementType): IntegerShape | FloatShape {
  const info = ELEMENT_TYPES[type];
  const bits = info.size * 8;
  if (info.kind !== 'float') return { kind: 'integer', bits };
  return { kind: 'float', bits, exponentBits: info.exponentBits, mantissaBits: info.mantissaBits };
}

function ones(bits: number): bigint {
  return (1n << BigInt(bits)) - 1n;
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
