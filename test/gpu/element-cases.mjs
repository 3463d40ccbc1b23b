/**
 * Programs that do one thing to very many elements, their inputs, and what numeric.ts says must come out.
 *
 * A case is a program, a launch (blocks, threads), the memory that its descriptor points to, and a check of the
 * memory afterwards that gives the differences as text.
 */
import { kernel } from '#src/kernel/builder.js';
import { ELEMENT_TYPE_NAMES, ELEMENT_TYPES } from '#src/kernel/element-types.js';
import {
  divideBits,
  isNaNBits,
  isNarrowFloat,
  isWide,
  narrowBits,
  reduceBits,
  reduceNumber,
  sameBits,
  widenBits,
} from '#src/kernel/numeric.js';
import { ptxTraits } from '#src/kernel/ptx/traits.js';

const TRAITS = ptxTraits();
const STEPS = ['sum', 'prod', 'min', 'max'];
export const DIVISORS = [
  1n,
  2n,
  3n,
  7n,
  8n,
  100n,
  127n,
  128n,
  255n,
  256n,
  65537n,
  (1n << 31n) - 1n,
  1n << 31n,
  (1n << 32n) - 1n,
  1n << 32n,
  (1n << 40n) + 1n,
  1n << 63n,
];

/** A seeded generator of 32-bit numbers (xorshift). */
export function random(seed) {
  let x = seed >>> 0 || 1;
  return () => {
    x ^= x << 13;
    x >>>= 0;
    x ^= x >>> 17;
    x ^= x << 5;
    x >>>= 0;
    return x;
  };
}

const ARRAY = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array };

/** Elements of a type as an array of their bits. */
export function bitsArray(type, memory, offset, count) {
  const { size } = ELEMENT_TYPES[type];
  return new ARRAY[size](memory.buffer, memory.byteOffset + offset, count);
}

/** Bits of float32 numbers that are near to where a conversion changes its mind, and plain random ones. */
function someFloat32(next) {
  switch (next() % 4) {
    case 0:
      return next();
    case 1: // exponents of narrow types, few digits: ties
      return (((next() & 1) << 31) | ((96 + (next() % 64)) << 23) | ((next() & 0x3ff) << 13)) >>> 0;
    case 2: // the same, a little more or less than a tie
      return (
        ((((next() & 1) << 31) | ((96 + (next() % 64)) << 23) | ((next() & 0x3ff) << 13)) +
          (next() % 5) -
          2) >>>
        0
      );
    default: // zeros, subnormals, infinities, NaNs
      return [
        0, 0x80000000, 1, 0x007fffff, 0x7f800000, 0xff800000, 0x7f800001, 0x7fc00000, 0xffc00001, 0x43e80000,
        0x43e00001, 0x47600000, 0x477fffff, 0x33000000, 0x33000001, 0x3f800000,
      ][next() % 16];
  }
}

function someWide(type, next) {
  const low = BigInt(next());
  const high = BigInt(next());
  if (type !== 'float64')
    return next() % 4 === 0 ? BigInt.asUintN(64, BigInt(next() % 9) - 4n) : (high << 32n) | low;
  const special = [0n, 1n << 63n, 1n, 0x7ff0n << 48n, 0xfff0n << 48n, 0x7ff8n << 48n, 0x3ffn << 52n];
  switch (next() % 4) {
    case 0:
      return special[next() % special.length];
    case 1: // like exponents, so that sums round
      return (
        (BigInt(1000 + (next() % 40)) << 52n) | ((high & 0xfffffn) << 32n) | low | (BigInt(next() & 1) << 63n)
      );
    default:
      return (high << 32n) | low;
  }
}

/** Bits of any element. */
function someBits(type, next) {
  const { size } = ELEMENT_TYPES[type];
  if (size === 8) return someWide(type, next);
  if (type === 'float32') return someFloat32(next);
  return size === 4 && next() % 3 === 0 ? (next() % 9) - 4 : next();
}

/** One packet per thread: loads `inputs` packets from tables of `count` elements, stores what `define` makes of them. */
function packetProgram(name, packets, inputs, outputs, define) {
  return kernel(name, TRAITS, (k, base) => {
    const index = k.blockIndex.mul(k.threadCount).add(k.threadIndex);
    k.if(index.lt(packets), () => {
      const at = base.offset(index.cast('u64').mul(16));
      const table = packets * 16;
      const loaded = Array.from({ length: inputs }, (_, i) => k.load('packet', at.offset(i * table)));
      const results = define(k, loaded);
      if (results.length !== outputs) throw new Error(`${name}: ${results.length} results`);
      for (const [i, packet] of results.entries()) k.store('packet', at.offset((inputs + i) * table), packet);
    });
  });
}

const THREADS = 256;

function launch(packets) {
  return { grid: Math.ceil(packets / THREADS), block: THREADS };
}

/** Compares elements and reports the first few differences. */
function differences(type, actual, expected, describe) {
  const found = [];
  for (let i = 0; i < expected.length; i++) {
    if (actual[i] === expected[i] || sameBits(type, actual[i], expected[i])) continue;
    found.push(`${describe(i)}: ${actual[i].toString(16)} instead of ${expected[i].toString(16)}`);
  }
  return found;
}

function reduceCase(type, step, elements, seed) {
  const { size } = ELEMENT_TYPES[type];
  const packets = (elements * size) / 16;
  const memory = new Uint8Array(packets * 16 * 3);
  const a = bitsArray(type, memory, 0, elements);
  const b = bitsArray(type, memory, packets * 16, elements);
  const next = random(seed);
  for (let i = 0; i < elements; i++) {
    if (size === 1) {
      a[i] = i & 0xff;
      b[i] = i >> 8;
    } else if (size === 2 && i < 65536) {
      a[i] = i;
      b[i] = next();
    } else {
      a[i] = someBits(type, next);
      b[i] = i % 16 === 0 ? a[i] : someBits(type, next);
    }
  }
  const expected = bitsArray(type, new Uint8Array(elements * size), 0, elements);
  for (let i = 0; i < elements; i++) {
    expected[i] =
      isWide(type) || type === 'float64'
        ? reduceBits(type, step, a[i], b[i])
        : reduceNumber(type, step, a[i], b[i]);
  }
  return {
    program: packetProgram(`reduce_${type}_${step}`, packets, 2, 1, (k, [x, y]) => [
      k.reduce(type, step, x, y),
    ]),
    ...launch(packets),
    memory,
    elements,
    check: (after) =>
      differences(
        type,
        bitsArray(type, after, packets * 32, elements),
        expected,
        (i) => `${step}(${a[i].toString(16)}, ${b[i].toString(16)})`,
      ),
  };
}

function widenCase(type) {
  const { size } = ELEMENT_TYPES[type];
  const elements = size === 1 ? 256 : 65536;
  const packets = (elements * size) / 16;
  const parts = 4 / size;
  const memory = new Uint8Array(packets * 16 * (1 + parts));
  const bits = bitsArray(type, memory, 0, elements);
  for (let i = 0; i < elements; i++) bits[i] = i;
  const lanes = 16 / size;
  return {
    program: packetProgram(`widen_${type}`, packets, 1, parts, (k, [x]) =>
      Array.from({ length: parts }, (_, part) => k.widen(type, x, part)),
    ),
    ...launch(packets),
    memory,
    elements,
    check: (after) => {
      const found = [];
      for (let i = 0; i < elements; i++) {
        const lane = i % lanes;
        const table = bitsArray('float32', after, packets * 16 * (1 + (lane >> 2)), packets * 4);
        const actual = table[Math.floor(i / lanes) * 4 + (lane & 3)];
        const due = widenBits(type, i);
        if (!sameBits('float32', actual, due))
          found.push(`${i.toString(16)}: ${actual.toString(16)} instead of ${due.toString(16)}`);
      }
      return found;
    },
  };
}

function narrowCase(type, elements, seed) {
  const { size } = ELEMENT_TYPES[type];
  const parts = 4 / size;
  const packets = (elements * size) / 16;
  const memory = new Uint8Array(packets * 16 * (parts + 1));
  const next = random(seed);
  const input = bitsArray('float32', memory, 0, elements);
  for (let i = 0; i < elements; i++) input[i] = someFloat32(next);
  const lanes = 16 / size;
  /** Where lane i of the result comes from: packet of table `part`. */
  const from = (i) => ((i % lanes) >> 2) * packets * 4 + Math.floor(i / lanes) * 4 + (i & 3);
  const expected = bitsArray(type, new Uint8Array(elements * size), 0, elements);
  for (let i = 0; i < elements; i++) expected[i] = narrowBits(type, input[from(i)]);
  return {
    program: packetProgram(`narrow_${type}`, packets, parts, 1, (k, loaded) => [k.narrow(type, loaded)]),
    ...launch(packets),
    memory,
    elements,
    check: (after) =>
      differences(type, bitsArray(type, after, packets * 16 * parts, elements), expected, (i) =>
        input[from(i)].toString(16),
      ),
  };
}

function divideCase(type, seed) {
  const { size } = ELEMENT_TYPES[type];
  const elements = 4096;
  const packets = (elements * size) / 16;
  const memory = new Uint8Array(packets * 16 * (1 + DIVISORS.length) + 8 * DIVISORS.length);
  const divisors = new BigUint64Array(memory.buffer, packets * 16 * (1 + DIVISORS.length), DIVISORS.length);
  divisors.set(DIVISORS);
  const next = random(seed);
  const input = bitsArray(type, memory, 0, elements);
  for (let i = 0; i < elements; i++) input[i] = size === 1 ? i : someBits(type, next);
  return {
    program: kernel(`divide_${type}`, TRAITS, (k, base) => {
      const index = k.blockIndex.mul(k.threadCount).add(k.threadIndex);
      k.if(index.lt(packets), () => {
        const at = base.offset(index.cast('u64').mul(16));
        const packet = k.load('packet', at);
        DIVISORS.forEach((_, i) => {
          const divisor = k.load('u64', base, { offset: packets * 16 * (1 + DIVISORS.length) + 8 * i });
          k.store('packet', at.offset((1 + i) * packets * 16), k.divide(type, packet, divisor));
        });
      });
    }),
    ...launch(packets),
    memory,
    elements: elements * DIVISORS.length,
    check: (after) =>
      DIVISORS.flatMap((divisor, d) => {
        const expected = Array.from(input, (bits) => divideBits(type, BigInt(bits), divisor));
        return differences(
          type,
          Array.from(bitsArray(type, after, packets * 16 * (1 + d), elements), BigInt),
          expected,
          (i) => `${input[i].toString(16)} / ${divisor}`,
        );
      }),
  };
}

function splatCase(type) {
  const { size } = ELEMENT_TYPES[type];
  const bits = 0xfedcba9876543210n;
  const memory = new Uint8Array(32);
  new BigUint64Array(memory.buffer)[0] = bits;
  return {
    program: kernel(`splat_${type}`, TRAITS, (k, base) =>
      k.store('packet', base, k.splat(type, k.load('u64', base)), { offset: 16 }),
    ),
    grid: 1,
    block: 1,
    memory,
    elements: 16 / size,
    check: (after) => {
      const due = BigInt.asUintN(8 * size, bits);
      return Array.from(bitsArray(type, after, 16, 16 / size), BigInt).flatMap((b, i) =>
        b === due ? [] : [`lane ${i}: ${b.toString(16)}`],
      );
    },
  };
}

/** All cases over elements; `scale` divides the number of random elements. */
export function elementCases({ seed = 1, scale = 1 } = {}) {
  const count = (elements) => Math.max(1024, Math.floor(elements / scale / 64) * 64);
  const cases = [];
  for (const type of ELEMENT_TYPE_NAMES) {
    const { size, kind } = ELEMENT_TYPES[type];
    const elements =
      size === 1 ? (scale === 1 ? 65536 : 4096) : count(size === 2 ? 262144 : size === 4 ? 131072 : 65536);
    for (const [i, step] of STEPS.entries()) cases.push(reduceCase(type, step, elements, seed * 1000 + i));
    if (isNarrowFloat(type)) cases.push(widenCase(type), narrowCase(type, count(262144), seed * 77));
    if (kind !== 'float') cases.push(divideCase(type, seed * 99));
    cases.push(splatCase(type));
  }
  return cases;
}

export { isNaNBits, TRAITS };
