/**
 * Device programs that make and verify test data of collectives.
 *
 * Inputs look random but add up, multiply, ... to exactly representable results in any order, and the
 * expected result is made without any reduction; a check can therefore compare the bits of every element.
 * The same data are made by nccl-tests 2.19.6, whose description this follows. A plain reference of all
 * generators is `cli/perf/data-reference.ts`.
 *
 * A program is specialised by element type, operator and number of ranks, so that shuffles and divisions by
 * the rank count become a few instructions. Every thread takes elements in a stride of all threads.
 *
 * 64-bit state words are advanced by MIX, made by HASH; see `mix` and `hash`.
 */
import { TuttiError } from '../errors/tutti-error.js';
import { type KernelBuilder, kernel, type Value } from '../kernel/builder.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '../kernel/element-types.js';
import type { Program, Traits } from '../kernel/ir.js';
import { struct } from '../kernel/layout.js';

/** The descriptor of a fill or verify program. */
export const TestDataWork = struct('TestDataWork', {
  /** First element to write or compare, aligned to the element. */
  data: 'ptr',
  /** Elements. */
  count: 'u64',
  /** Index that the generator gives the first element. */
  first: 'u64',
  seed: 'u64',
  /** Whose contribution; ignored for results and for copy data. */
  rank: 'u64',
  /** Verify: an element is wrong when its bits, as an unsigned integer, differ by more than this. */
  tolerance: 'u64',
  /** Verify adds the number of wrong elements. */
  wrong: 'u64',
  /** Verify lowers this to the position of the first wrong element; start with all ones. */
  firstWrong: 'u64',
});

/** Host-side access to one descriptor. */
export type TestDataView = ReturnType<typeof TestDataWork.at>;

/** Which data: what a rank contributes to a reduction, what the reduction gives, or zeros. */
export interface TestDataKind {
  readonly type: ElementType;
  readonly op: ReduceOp;
  /** Contributors; 1 is copy data (the operator then does not matter, input and result are the same). */
  readonly ranks: number;
  readonly role: 'input' | 'result' | 'zero';
}

/** Largest rank count: shuffles compute in 32 bits. */
const MAX_RANKS = 32768;

/** Odd multiplier of both hashes. */
const K1 = 0x9e3779b97f4a7c13n;
/** Final odd multiplier of HASH. */
const K2 = 0xc4ceb9fe1a85ec53n;
/** Decorrelates the second contribution of a floating average from the first. */
const SECOND_AVERAGE_FACTOR = 0xbeefn;

/** A name that two kinds share exactly when they are the same data. */
export function testDataName(kind: TestDataKind): string {
  if (kind.role === 'zero') return `zero_${kind.type}`;
  return kind.ranks === 1 ? `copy_${kind.type}` : `${kind.role}_${kind.type}_${kind.op}_${kind.ranks}`;
}

/** The program that writes the data. Descriptor: `TestDataWork`. */
export function fillProgram(kind: TestDataKind, traits: Traits): Program {
  checkKind(kind);
  const memory = memoryOf(kind.type);
  return kernel(`fill_${testDataName(kind)}`, traits, (k, work) => {
    forEachElement(k, work, kind, (address, bits) => {
      if (memory === 'u64') k.store('u64', address, bits);
      else k.store(memory, address, bits.cast('u32'));
    });
  });
}

/** The program that compares the data with what it makes itself. Descriptor: `TestDataWork`. */
export function verifyProgram(kind: TestDataKind, traits: Traits): Program {
  checkKind(kind);
  const memory = memoryOf(kind.type);
  return kernel(`verify_${testDataName(kind)}`, traits, (k, work) => {
    const tolerance = k.field(work, TestDataWork, 'tolerance');
    const wrong = k.variable('u64', 0n);
    const first = k.variable('u64', (1n << 64n) - 1n);
    forEachElement(k, work, kind, (address, bits, position) => {
      const found = memory === 'u64' ? k.load('u64', address) : k.load(memory, address).cast('u64');
      k.if(found.ne(bits), () => {
        const distance = k.select(found.lt(bits), bits.sub(found), found.sub(bits));
        k.if(distance.gt(tolerance), () => {
          wrong.set(wrong.value.add(1n));
          first.set(first.value.min(position));
        });
      });
    });
    k.if(wrong.value.ne(0n), () => {
      k.atomic('add', 'u64', k.fieldAddress(work, TestDataWork, 'wrong'), wrong.value);
      k.atomic('min', 'u64', k.fieldAddress(work, TestDataWork, 'firstWrong'), first.value);
    });
  });
}

function checkKind(kind: TestDataKind): void {
  const { ranks } = kind;
  if (!Number.isInteger(ranks) || ranks < 1 || ranks > MAX_RANKS) {
    throw new TuttiError('invalidArgument', `test data for ${ranks} ranks: it must be 1 to ${MAX_RANKS}`);
  }
}

function memoryOf(type: ElementType): 'u8' | 'u16' | 'u32' | 'u64' {
  return ({ 1: 'u8', 2: 'u16', 4: 'u32', 8: 'u64' } as const)[ELEMENT_TYPES[type].size];
}

/** Calls `visit` with address, wanted bits (zero-extended) and position of every element of the thread. */
function forEachElement(
  k: KernelBuilder,
  work: Value<'ptr'>,
  kind: TestDataKind,
  visit: (address: Value<'ptr'>, bits: Value<'u64'>, position: Value<'u64'>) => void,
): void {
  const data = k.field(work, TestDataWork, 'data');
  const count = k.field(work, TestDataWork, 'count');
  const first = k.field(work, TestDataWork, 'first');
  const seed = k.field(work, TestDataWork, 'seed');
  const rank = k.field(work, TestDataWork, 'rank');
  const generate = generator(k, kind, seed, rank);
  const threads = k.blockCount.mul(k.threadCount).cast('u64');
  const start = k.blockIndex.mul(k.threadCount).add(k.threadIndex).cast('u64');
  const { size } = ELEMENT_TYPES[kind.type];
  k.for(start, count, threads, (position) => {
    visit(data.offset(position.mul(size)), generate(first.add(position)), position);
  });
}

/** Bits of the element with the given index; what does not depend on the index is computed here, once. */
type Generate = (index: Value<'u64'>) => Value<'u64'>;

function generator(k: KernelBuilder, kind: TestDataKind, seed: Value<'u64'>, rank: Value<'u64'>): Generate {
  const { type, op, ranks, role } = kind;
  if (role === 'zero') return () => k.u64(0);
  const info = ELEMENT_TYPES[type];
  if (info.kind !== 'float') {
    const bits = info.size * 8;
    if (ranks === 1) return (index) => mix(seed.xor(index)).shr(64 - bits);
    const input = integerInput(bits, op, seed);
    if (role === 'input') return (index) => input(spread(index).xor(rank));
    return integerResult(k, type, op, ranks, input);
  }
  const format: FloatFormat = {
    exponentBits: info.exponentBits,
    mantissaBits: info.mantissaBits,
    bits: info.size * 8,
  };
  if (ranks === 1) {
    const copy = floatFromHash(format, seed);
    return (index) => copy(spread(index));
  }
  switch (op) {
    case 'min':
    case 'max': {
      const input = floatFromHash(format, seed);
      if (role === 'input') return (index) => input(spread(index).xor(rank));
      return floatExtreme(k, format, op, ranks, input);
    }
    case 'sum':
      return role === 'input'
        ? floatSumInput(k, format, ranks, seed, rank)
        : floatSumResult(k, format, seed, ranks);
    case 'prod':
      return role === 'input'
        ? floatProductInput(k, format, ranks, seed, rank)
        : floatProductResult(k, format, ranks, seed);
    case 'avg': {
      const bits =
        role === 'input'
          ? floatAverageInput(k, type, format, ranks, seed, rank)
          : floatAverageResult(k, type, format, ranks, seed);
      return () => bits;
    }
  }
}

// ---- random words ----

/** One step of a state: a bijection of the 64-bit words. */
function mix(x: Value<'u64'>): Value<'u64'> {
  // High half plus one, then low half xor high half; both in place of the whole word.
  x = x.add(1n << 32n);
  x = x.xor(x.shr(32)).mul(K1);
  const high = x.shr(32);
  // The high half rotated by 16 is folded into the low half.
  return x.xor(high.shr(16)).xor(high.shl(16).and(0xffffffffn));
}

/** 64-bit hash of (a, b); what depends on b alone is computed by the outer call. */
function hashWith(b: Value<'u64'>): (a: Value<'u64'>) => Value<'u64'> {
  const addend = b.add(1n << 32n);
  const late = b.shr(16).xor(b.shl(48));
  return (a) => {
    a = a.add(addend);
    a = a.xor(a.shr(32)).mul(K1).add(late);
    return a.xor(a.shr(32)).mul(K2);
  };
}

/** HASH(seed, index): here the first argument stays and the second runs. */
function hashIndex(seed: Value<'u64'>): (index: Value<'u64'>) => Value<'u64'> {
  const base = seed.add(1n << 32n);
  return (index) => {
    let a = base.add(index);
    a = a
      .xor(a.shr(32))
      .mul(K1)
      .add(index.shr(16).xor(index.shl(48)));
    return a.xor(a.shr(32)).mul(K2);
  };
}

/** Carries low index bits upwards, so that xor with a rank keeps indices apart. */
function spread(index: Value<'u64'>): Value<'u64'> {
  return index.xor(index.shl(16));
}

/** Place of rank r in a permutation of 0..n-1 chosen by the state (which the caller advances by MIX). */
function shuffle(k: KernelBuilder, n: number, rank: Value<'u32'>, state: Value<'u64'>): Value<'u32'> {
  const a = state.cast('u32');
  const b = state.shr(32).cast('u32');
  const mask = 2 ** (31 - Math.clz32(n)) - 1;
  const rest = n - (mask + 1);
  const scramble = (r: Value<'u32'>, factor: Value<'u32'>, offset: Value<'u32'>): Value<'u32'> => {
    const affine = r.mul(factor.or(1)).add(offset).and(mask);
    // Triangular numbers permute 0..mask; of 0 and 1 they are the identity.
    return mask <= 1 ? affine : affine.mul(affine).add(affine).shr(1).and(mask);
  };
  if (rest === 0) return scramble(scramble(rank, a, b), b, a);
  const rotated = k.select(rank.le(mask), scramble(rank, a, b).add(rest), rank.sub(mask + 1));
  return k.select(rotated.le(mask), scramble(rotated, b, a), rotated);
}

// ---- division of a total among ranks ----

/**
 * The total that SPLIT draws from a state: `lowest` .. `maximum` = 2 * lowest - 1, a power of two of choices.
 * @param log2 of the number of choices, which is also `lowest`.
 * @param wide draw from the whole state instead of its low 32 bits.
 */
function drawTotal(state: Value<'u64'>, log2: number, wide: boolean): Value<'u64'> {
  const draw = wide ? state.shr(64 - log2) : state.and(0xffffffffn).shr(32 - log2);
  return draw.add(1n << BigInt(log2));
}

/** As `drawTotal`, but hardly ever `avoid`: one choice fewer, starting behind `avoid` and wrapping around. */
function drawOtherTotal(
  k: KernelBuilder,
  state: Value<'u64'>,
  log2: number,
  wide: boolean,
  avoid: Value<'u64'>,
): Value<'u64'> {
  const choices = (1n << BigInt(log2)) - 1n;
  const maximum = (1n << BigInt(log2 + 1)) - 1n;
  let draw: Value<'u64'>;
  if (wide) {
    // High half of state * (2^log2 - 1): the shifted state less the borrow of subtracting the state.
    const borrow = state.shl(log2).lt(state);
    draw = state.shr(64 - log2).sub(k.select(borrow, k.u64(1), 0));
  } else draw = state.and(0xffffffffn).mul(choices).shr(32);
  const total = avoid.add(1n).add(draw);
  return k.select(total.gt(maximum), total.sub(choices), total);
}

/**
 * Rank r's part of a total that is at least 2^log2, divided among n (at most `most`) ranks without rest.
 * Where the total is large enough for everybody to get 1 + r, no division is needed.
 */
function partOf(
  k: KernelBuilder,
  total: Value<'u64'>,
  log2: number,
  n: Value<'u64'>,
  most: number,
  r: Value<'u64'>,
): Value<'u64'> {
  const least = 2 ** log2;
  const triangle = (most * (most + 1)) / 2;
  const isLast = r.eq(n.sub(1n));
  if (2 * Math.floor(least / most) - 1 >= most && triangle <= least) {
    const extra = total.sub(n.mul(n.add(1n)).shr(1));
    return r.add(1n).add(k.select(isLast, extra, 0));
  }
  const part = k.variable('u64', 0n);
  // Narrow words divide faster; the totals of types with so few values fit them.
  k.if(
    total.lt(n),
    () => part.set(k.select(isLast, total, 0)),
    () => {
      const total32 = total.cast('u32');
      const n32 = n.cast('u32');
      const steps = total32.div(n32).mul(2).sub(1).min(n32);
      const sum = steps.mul(steps.add(1)).shr(1);
      const perStep = total32.div(sum).min(n32.div(steps));
      const step = r.cast('u32').div(perStep);
      const share = k.select(step.lt(steps), step.add(1), 0);
      const extra = k.select(isLast, total32.sub(perStep.mul(sum)), 0);
      part.set(share.add(extra).cast('u64'));
    },
  );
  return part.value;
}

// ---- integers ----

/** Input of a rank from the index spread and xored with the rank. */
function integerInput(bits: number, op: ReduceOp, seed: Value<'u64'>): (key: Value<'u64'>) => Value<'u64'> {
  const hash = hashWith(seed);
  return (key) => {
    const input = hash(key).and(ones(bits));
    // A factor of 0 would hide all others.
    return op === 'prod' ? input.max(1n) : input;
  };
}

function integerResult(
  k: KernelBuilder,
  type: ElementType,
  op: ReduceOp,
  ranks: number,
  input: (key: Value<'u64'>) => Value<'u64'>,
): Generate {
  const info = ELEMENT_TYPES[type];
  const bits = info.size * 8;
  const isSigned = info.kind === 'signed';
  // Comparisons are unsigned once the sign bit of signed types is turned over.
  const bias = isSigned && (op === 'min' || op === 'max') ? 1n << BigInt(bits - 1) : 0n;
  return (index) => {
    const key = spread(index);
    const total = k.variable('u64', input(key).xor(bias));
    k.for(k.u64(1), ranks, 1, (rank) => {
      const next = input(key.xor(rank)).xor(bias);
      const before = total.value;
      if (op === 'prod') total.set(before.mul(next));
      else if (op === 'min') total.set(before.min(next));
      else if (op === 'max') total.set(before.max(next));
      else total.set(before.add(next));
    });
    const folded = total.value.and(ones(bits)).xor(bias);
    if (op !== 'avg') return folded;
    if (!isSigned) return folded.div(BigInt(ranks));
    const unused = 64 - bits;
    const signed = folded.shl(unused).bitcast('i64').shr(unused);
    return signed.div(BigInt(ranks)).bitcast('u64').and(ones(bits));
  };
}

// ---- floats ----

interface FloatFormat {
  readonly exponentBits: number;
  /** Without the hidden bit. */
  readonly mantissaBits: number;
  readonly bits: number;
}

/** Copy data, and inputs of min and max, from the index spread and xored with the rank. */
function floatFromHash(format: FloatFormat, seed: Value<'u64'>): (key: Value<'u64'>) => Value<'u64'> {
  const { exponentBits, mantissaBits } = format;
  const hash = hashWith(seed);
  return (key) => {
    let h = hash(key);
    const sign = h.and(1n);
    h = h.xor(h.shr(1));
    // Exponents from the middle half of the range: neither subnormal nor infinite.
    const exponent = h.and(ones(exponentBits - 1)).add(1n << BigInt(exponentBits - 2));
    h = h.xor(h.shr(exponentBits));
    return assemble(format, sign, exponent, h.and(ones(mantissaBits)));
  };
}

function floatExtreme(
  k: KernelBuilder,
  format: FloatFormat,
  op: 'min' | 'max',
  ranks: number,
  input: (key: Value<'u64'>) => Value<'u64'>,
): Generate {
  const signBit = 1n << BigInt(format.bits - 1);
  const all = ones(format.bits);
  /** Unsigned numbers in the order of the floats (there are neither NaNs nor zeros); its own inverse below. */
  const ordered = (bits: Value<'u64'>): Value<'u64'> =>
    bits.xor(k.select(bits.and(signBit).ne(0n), k.u64(all), signBit));
  const restored = (key: Value<'u64'>): Value<'u64'> =>
    key.xor(k.select(key.and(signBit).eq(0n), k.u64(all), signBit));
  return (index) => {
    const key = spread(index);
    const best = k.variable('u64', ordered(input(key)));
    k.for(k.u64(1), ranks, 1, (rank) => {
      const next = ordered(input(key.xor(rank)));
      best.set(op === 'min' ? best.value.min(next) : best.value.max(next));
    });
    return restored(best.value);
  };
}

/** Sign, exponent and the two totals of a sum: even places share `positive`, odd ones minus `negative`. */
function floatSumTotals(k: KernelBuilder, format: FloatFormat, seed: Value<'u64'>) {
  const { exponentBits, mantissaBits } = format;
  const hash = hashIndex(seed);
  const wide = mantissaBits > 31;
  const lowest = BigInt(1 + mantissaBits);
  return (index: Value<'u64'>) => {
    const start = hash(index);
    const sign = start.and(1n);
    const exponent = start
      .shr(32)
      .mul(ones(exponentBits) - lowest)
      .shr(32)
      .add(lowest);
    const shuffling = mix(start);
    const first = mix(shuffling);
    const positive = drawTotal(first, mantissaBits, wide);
    const negative = drawOtherTotal(k, mix(first), mantissaBits, wide, positive);
    return { sign, exponent, shuffling, positive, negative };
  };
}

function floatSumResult(k: KernelBuilder, format: FloatFormat, seed: Value<'u64'>, ranks: number): Generate {
  if (ranks < 2) throw new TuttiError('internalError', 'a sum of one rank is copy data');
  const totals = floatSumTotals(k, format, seed);
  return (index) => {
    const { sign, exponent, positive, negative } = totals(index);
    const isFlipped = positive.lt(negative);
    const total = k.select(isFlipped, negative.sub(positive), positive.sub(negative));
    return normalise(k, format, sign.xor(k.select(isFlipped, k.u64(1), 0)), exponent, total);
  };
}

function floatSumInput(
  k: KernelBuilder,
  format: FloatFormat,
  ranks: number,
  seed: Value<'u64'>,
  rank: Value<'u64'>,
): Generate {
  const totals = floatSumTotals(k, format, seed);
  const rank32 = rank.cast('u32');
  const evens = (ranks + 1) >> 1;
  const odds = ranks >> 1;
  return (index) => {
    const { sign, exponent, shuffling, positive, negative } = totals(index);
    const place = shuffle(k, ranks, rank32, shuffling).cast('u64');
    const odd = place.and(1n);
    const isOdd = odd.ne(0n);
    const total = k.select(isOdd, negative, positive);
    const members = evens === odds ? k.u64(evens) : k.select(isOdd, k.u64(odds), evens);
    const part = partOf(k, total, format.mantissaBits, members, evens, place.shr(1));
    return normalise(k, format, sign.xor(odd), exponent, part);
  };
}

/** Exponent increment of the product and the state behind it. */
function floatProductTotal(format: FloatFormat, seed: Value<'u64'>) {
  const { exponentBits, mantissaBits } = format;
  const hash = hashIndex(seed);
  return (index: Value<'u64'>) => {
    const shuffling = hash(index);
    const state = mix(shuffling);
    const total = drawTotal(state, exponentBits - 2, false);
    const mantissa = mix(state).and(ones(mantissaBits)).max(1n);
    return { shuffling, total, mantissa };
  };
}

function floatProductInput(
  k: KernelBuilder,
  format: FloatFormat,
  ranks: number,
  seed: Value<'u64'>,
  rank: Value<'u64'>,
): Generate {
  const totals = floatProductTotal(format, seed);
  const rank32 = rank.cast('u32');
  const bias = ones(format.exponentBits - 1);
  return (index) => {
    const { shuffling, total, mantissa } = totals(index);
    const place = shuffle(k, ranks, rank32, shuffling).cast('u64');
    const part = partOf(k, total, format.exponentBits - 2, k.u64(ranks), ranks, place);
    return assemble(format, place.and(1n), part.add(bias), k.select(place.eq(0n), mantissa, 0));
  };
}

function floatProductResult(
  k: KernelBuilder,
  format: FloatFormat,
  ranks: number,
  seed: Value<'u64'>,
): Generate {
  const totals = floatProductTotal(format, seed);
  const sign = k.u64((ranks >> 1) % 2);
  const bias = ones(format.exponentBits - 1);
  return (index) => {
    const { total, mantissa } = totals(index);
    return assemble(format, sign, total.add(bias), mantissa);
  };
}

/** Whole numbers that places 0 and 1 contribute to an average; the seed itself is the state. */
function averageMantissas(format: FloatFormat, seed: Value<'u64'>): [Value<'u64'>, Value<'u64'>] {
  const state = mix(seed);
  const low = ones(format.mantissaBits);
  return [state.and(low).add(1n), state.mul(SECOND_AVERAGE_FACTOR).and(low).add(1n)];
}

function floatAverageInput(
  k: KernelBuilder,
  type: ElementType,
  format: FloatFormat,
  ranks: number,
  seed: Value<'u64'>,
  rank: Value<'u64'>,
): Value<'u64'> {
  const place = shuffle(k, ranks, rank.cast('u32'), seed);
  const [first, second] = averageMantissas(format, seed);
  const number = k.select(place.eq(0), first, k.select(place.eq(1), second, 0));
  if (type === 'float64') return number.cast('f64').bitcast('u64');
  return roundTo(k, type, number.cast('u32').cast('f32')).half(0).and(ones(format.bits));
}

function floatAverageResult(
  k: KernelBuilder,
  type: ElementType,
  format: FloatFormat,
  ranks: number,
  seed: Value<'u64'>,
): Value<'u64'> {
  const [first, second] = averageMantissas(format, seed);
  if (type === 'float64') {
    const scaled = (number: Value<'u64'>): Value<'f64'> => number.cast('f64').mul(1 / ranks);
    return scaled(first).add(scaled(second)).bitcast('u64');
  }
  const scaled = (number: Value<'u64'>): Value<'packet'> =>
    roundTo(
      k,
      type,
      number
        .cast('u32')
        .cast('f32')
        .mul(1 / ranks),
    );
  return k.reduce(type, 'sum', scaled(first), scaled(second)).half(0).and(ones(format.bits));
}

/** A packet whose first element is the number, rounded to a type of at most 32 bits. */
function roundTo(k: KernelBuilder, type: ElementType, number: Value<'f32'>): Value<'packet'> {
  const single = k.packet(number.bitcast('u32').cast('u64'), 0);
  const parts = 4 / ELEMENT_TYPES[type].size;
  return parts === 1 ? single : k.narrow(type, Array<Value<'packet'>>(parts).fill(single));
}

/** Bits from sign, raw exponent field and mantissa field. */
function assemble(
  format: FloatFormat,
  sign: Value<'u64'>,
  exponent: Value<'u64'>,
  mantissa: Value<'u64'>,
): Value<'u64'> {
  return sign
    .shl(format.bits - 1)
    .or(exponent.shl(format.mantissaBits))
    .or(mantissa);
}

/** Bits of `mantissa` units of the last place at `exponent`; zero is always +0. */
function normalise(
  k: KernelBuilder,
  format: FloatFormat,
  sign: Value<'u64'>,
  exponent: Value<'u64'>,
  mantissa: Value<'u64'>,
): Value<'u64'> {
  const { mantissaBits } = format;
  const shift = mantissa.clz().sub(63 - mantissaBits);
  const field = mantissa.shl(shift.cast('u32')).and(ones(mantissaBits));
  const bits = assemble(format, sign, exponent.sub(shift), field);
  return k.select(mantissa.eq(0n), k.u64(0), bits);
}

function ones(bits: number): bigint {
  return (1n << BigInt(bits)) - 1n;
}
