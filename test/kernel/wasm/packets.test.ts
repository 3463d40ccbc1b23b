/** Packet arithmetic of the WebAssembly target, lane by lane against the scalar reference of numeric.ts. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { kernel } from '#src/kernel/builder.js';
import {
  ELEMENT_TYPE_NAMES,
  ELEMENT_TYPES,
  type ElementType,
  type StepOp,
} from '#src/kernel/element-types.js';
import { type Program, WASM_TRAITS } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';
import {
  divideBits,
  type NarrowFloat,
  narrowBits,
  reduceBits,
  reduceNumber,
  sameBits,
  widenBits,
} from '#src/kernel/numeric.js';
import { instance } from './instance.js';

const STEPS = ['sum', 'prod', 'min', 'max'] as const satisfies StepOp[];
const NARROW: NarrowFloat[] = ['float16', 'bfloat16', 'float8e4m3', 'float8e5m2'];
const INTEGERS: ElementType[] = ['int8', 'uint8', 'int32', 'uint32', 'int64', 'uint64'];

const Arrays = struct('Arrays', { a: 'ptr', b: 'ptr', out: 'ptr', count: 'u64', scalar: 'u64' });
const WORK = 64;
const A = 4096;
const B = A + 65536;
const OUT = B + 65536;

/** out = step(a, b) over `count` packets. */
function reduceProgram(type: ElementType, step: StepOp): Program {
  return kernel(`${type}_${step}`, WASM_TRAITS, (k, work) => {
    const [a, b, out] = (['a', 'b', 'out'] as const).map((field) => k.field(work, Arrays, field));
    k.for(k.u64(0), k.field(work, Arrays, 'count'), k.u64(1), (i) => {
      const at = i.mul(16);
      const x = k.load('packet', a!.offset(at));
      const y = k.load('packet', b!.offset(at));
      k.store('packet', out!.offset(at), k.reduce(type, step, x, y));
    });
  });
}

const programs = ELEMENT_TYPE_NAMES.flatMap((type) => STEPS.map((step) => reduceProgram(type, step)));
const reductions = instance(programs);

function setUp(on: typeof reductions, count: number, scalar: bigint | number = 0): void {
  Arrays.at(on.view, WORK).set('a', A).set('b', B).set('out', OUT).set('count', count).set('scalar', scalar);
}

type Words = Uint8Array | Uint16Array | Uint32Array | BigUint64Array;

/** The unsigned lanes of a region of memory. */
function lanes(memory: WebAssembly.Memory, type: ElementType, at: number, count: number): Words {
  const size = ELEMENT_TYPES[type].size;
  const Lanes = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array }[size];
  return new Lanes(memory.buffer, at, count);
}

/** Runs one step over two arrays of lane bits. */
function reduceArrays(type: ElementType, step: StepOp, a: ArrayLike<number>, b: ArrayLike<number>): Words {
  const count = a.length;
  const bytes = count * ELEMENT_TYPES[type].size;
  (lanes(reductions.memory, type, A, count) as Uint8Array).set(a);
  (lanes(reductions.memory, type, B, count) as Uint8Array).set(b);
  setUp(reductions, bytes / 16);
  expect(reductions.entries[`${type}_${step}`]!(WORK, 0, 1)).toBe(0);
  return lanes(reductions.memory, type, OUT, count).slice() as Words;
}

/** Numbers from a seed, the same on every run. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state ^ (state >>> 15)) >>> 0;
  };
}

/** Bits worth trying: zeros, ones, limits, subnormals, infinities, NaNs of a width. */
function specials(type: ElementType): bigint[] {
  const { size, kind, mantissaBits } = { mantissaBits: 0, ...ELEMENT_TYPES[type] };
  const width = BigInt(size * 8);
  const top = 1n << (width - 1n);
  const bits = [0n, 1n, 2n, 3n, top - 1n, top, top + 1n, 2n * top - 1n, 2n * top - 2n];
  if (kind === 'float') {
    const exponents = ((top - 1n) >> BigInt(mantissaBits)) << BigInt(mantissaBits);
    const one = (exponents >> 1n) & exponents;
    for (const x of [
      exponents,
      exponents + 1n,
      exponents - 1n,
      one,
      one + 1n,
      one - 1n,
      1n << BigInt(mantissaBits),
    ]) {
      bits.push(x, x | top);
    }
  }
  return [...new Set(bits)];
}

describe('a reduction step of packets', () => {
  for (const type of ['int8', 'uint8', 'float8e4m3', 'float8e5m2'] as const) {
    it.each(STEPS)(`agrees with the reference on all 65536 pairs of ${type}: %s`, (step) => {
      const wrong: string[] = [];
      const all = Uint8Array.from({ length: 256 }, (_, i) => i);
      for (let a = 0; a < 256; a++) {
        const result = reduceArrays(type, step, new Uint8Array(256).fill(a), all);
        for (let b = 0; b < 256; b++) {
          const due = reduceNumber(type, step, a, b);
          const got = result[b] as number;
          if (got !== (due & 0xff) && !sameBits(type, got, due)) wrong.push(`${a} ${b}: ${got}, not ${due}`);
        }
      }
      expect(wrong.slice(0, 10)).toEqual([]);
    });
  }

  for (const type of ['float16', 'bfloat16'] as const) {
    it.each(STEPS)(`agrees with the reference on many pairs of ${type}: %s`, (step) => {
      const wrong: string[] = [];
      const random = generator(type.length * 7 + step.length);
      const special = specials(type).map(Number);
      const count = 8192;
      const a = new Uint16Array(count);
      const b = new Uint16Array(count);
      for (let round = 0; round < 24; round++) {
        for (let i = 0; i < count; i++) {
          // Every value comes as the first operand; the second is special, near the first, or anything.
          a[i] = round * count + i;
          const kind = random() % 4;
          const offset = (random() % 4096) - 2048;
          b[i] = kind === 0 ? special[random() % special.length]! : kind === 1 ? a[i]! + offset : random();
        }
        const result = reduceArrays(type, step, a, b);
        for (let i = 0; i < count; i++) {
          const due = reduceNumber(type, step, a[i]!, b[i]!);
          const got = result[i] as number;
          if (got !== due && !sameBits(type, got, due)) wrong.push(`${a[i]} ${b[i]}: ${got}, not ${due}`);
        }
      }
      expect(wrong.slice(0, 10)).toEqual([]);
    });
  }

  for (const type of ['int32', 'uint32', 'float32', 'int64', 'uint64', 'float64'] as const) {
    it.each(STEPS)(`agrees with the reference on special and random pairs of ${type}: %s`, (step) => {
      const special = specials(type);
      const width = ELEMENT_TYPES[type].size * 8;
      const element = fc.oneof(
        fc.constantFrom(...special),
        fc.bigInt({ min: 0n, max: (1n << BigInt(width)) - 1n }),
      );
      const pairs = fc.sample(fc.tuple(element, element), { numRuns: 600, seed: 20261130 });
      for (const x of special) for (const y of special) pairs.push([x, y]);
      while (pairs.length % 4 !== 0) pairs.push([0n, 0n]);
      const fit = (x: bigint) => (width === 64 ? x : Number(x)) as number;
      const result = reduceArrays(
        type,
        step,
        pairs.map(([x]) => fit(x)),
        pairs.map(([, y]) => fit(y)),
      );
      const wrong: string[] = [];
      pairs.forEach(([x, y], i) => {
        const due = reduceBits(type, step, x, y);
        if (!sameBits(type, result[i]!, due)) {
          wrong.push(
            `${x.toString(16)} ${y.toString(16)}: ${result[i]!.toString(16)}, not ${due.toString(16)}`,
          );
        }
      });
      expect(wrong.slice(0, 10)).toEqual([]);
    });
  }
});

describe('conversions of packets', () => {
  const widening = instance(
    NARROW.map((type) =>
      kernel(type, WASM_TRAITS, (k, work) => {
        const a = k.field(work, Arrays, 'a');
        const out = k.field(work, Arrays, 'out');
        const parts = 4 / ELEMENT_TYPES[type].size;
        k.for(k.u64(0), k.field(work, Arrays, 'count'), k.u64(1), (i) => {
          const x = k.load('packet', a.offset(i.mul(16)));
          for (let part = 0; part < parts; part++) {
            k.store('packet', out.offset(i.mul(16 * parts)), k.widen(type, x, part), { offset: 16 * part });
          }
        });
      }),
    ),
  );

  it.each(NARROW)('widens every value of %s exactly', (type) => {
    const { size } = ELEMENT_TYPES[type];
    const values = 2 ** (8 * size);
    const perRun = Math.min(values, 8192);
    const wrong: string[] = [];
    for (let from = 0; from < values; from += perRun) {
      const input = lanes(widening.memory, type, A, perRun) as Uint16Array;
      for (let i = 0; i < perRun; i++) input[i] = from + i;
      setUp(widening, (perRun * size) / 16);
      widening.entries[type]!(WORK, 0, 1);
      const result = lanes(widening.memory, 'float32', OUT, perRun) as Uint32Array;
      for (let i = 0; i < perRun; i++) {
        const due = widenBits(type, from + i);
        if (!sameBits('float32', result[i]!, due)) wrong.push(`${from + i}: ${result[i]}, not ${due}`);
      }
    }
    expect(wrong.slice(0, 10)).toEqual([]);
  });

  const narrowing = instance(
    NARROW.map((type) =>
      kernel(type, WASM_TRAITS, (k, work) => {
        const a = k.field(work, Arrays, 'a');
        const out = k.field(work, Arrays, 'out');
        const parts = 4 / ELEMENT_TYPES[type].size;
        k.for(k.u64(0), k.field(work, Arrays, 'count'), k.u64(1), (i) => {
          const from = a.offset(i.mul(16 * parts));
          const wide = Array.from({ length: parts }, (_, part) =>
            k.load('packet', from, { offset: 16 * part }),
          );
          k.store('packet', out.offset(i.mul(16)), k.narrow(type, wide));
        });
      }),
    ),
  );

  it.each(NARROW)('narrows float32 to %s with one rounding to nearest even', (type) => {
    const { size } = ELEMENT_TYPES[type];
    const count = 8192;
    const random = generator(size + type.length);
    const values = 2 ** (8 * size);
    const wrong: string[] = [];
    for (let round = 0; round < 24; round++) {
      const input = lanes(narrowing.memory, 'float32', A, count) as Uint32Array;
      for (let i = 0; i < count; i++) {
        // Anything; exact values and midpoints of the type, and their neighbours.
        const exact = widenBits(type, random() % values);
        const next = widenBits(type, random() % values);
        const near = random() % 2 === 0 ? exact : exact + ((next - exact) >> 1);
        input[i] = random() % 3 === 0 ? random() : near + (random() % 3) - 1;
        const value = new Float32Array(1);
        if (random() % 4 === 0) {
          // Halfway between neighbours of the type.
          const bits = random() % (values / 2 - 1);
          const ends = new Float32Array(
            Uint32Array.of(widenBits(type, bits), widenBits(type, bits + 1)).buffer,
          );
          value[0] = (ends[0]! + ends[1]!) / 2;
          input[i] = new Uint32Array(value.buffer)[0]! + (random() % 3) - 1;
        }
      }
      setUp(narrowing, (count * size) / 16);
      narrowing.entries[type]!(WORK, 0, 1);
      const result = lanes(narrowing.memory, type, OUT, count) as Uint16Array;
      for (let i = 0; i < count; i++) {
        const due = narrowBits(type, input[i]!);
        if (result[i] !== due && !sameBits(type, result[i]!, due)) {
          wrong.push(`${input[i]!.toString(16)}: ${result[i]!.toString(16)}, not ${due.toString(16)}`);
        }
      }
    }
    expect(wrong.slice(0, 10)).toEqual([]);
  });
});

describe('division of integer packets', () => {
  const dividing = instance(
    INTEGERS.map((type) =>
      kernel(type, WASM_TRAITS, (k, work) => {
        const x = k.load('packet', k.field(work, Arrays, 'a'));
        k.store('packet', k.field(work, Arrays, 'out'), k.divide(type, x, k.field(work, Arrays, 'scalar')));
      }),
    ),
  );

  it.each(INTEGERS)('truncates %s toward zero for every size of divisor', (type) => {
    const { size } = ELEMENT_TYPES[type];
    const width = size * 8;
    const element = fc.oneof(
      fc.constantFrom(...specials(type)),
      fc.bigInt({ min: 0n, max: (1n << BigInt(width)) - 1n }),
    );
    const divisor = fc.oneof(
      fc.bigInt({ min: 1n, max: 300n }),
      fc.integer({ min: 0, max: 63 }).map((bit) => 1n << BigInt(bit)),
      fc.integer({ min: 1, max: 63 }).map((bit) => (1n << BigInt(bit)) - 1n),
      fc.bigInt({ min: 1n, max: (1n << 64n) - 1n }),
    );
    const count = 16 / size;
    fc.assert(
      fc.property(fc.array(element, { minLength: count, maxLength: count }), divisor, (values, by) => {
        setUp(dividing, 1, by);
        const input = lanes(dividing.memory, type, A, count);
        values.forEach((value, i) => {
          input[i] = width === 64 ? value : Number(value);
        });
        dividing.entries[type]!(WORK, 0, 1);
        const result = lanes(dividing.memory, type, OUT, count);
        values.forEach((value, i) => {
          expect(BigInt(result[i]!)).toBe(BigInt.asUintN(width, divideBits(type, value, by)));
        });
      }),
      { numRuns: 300 },
    );
  });
});

describe('splat, make and halves', () => {
  it.each(ELEMENT_TYPE_NAMES)('repeats the low bits of a %s in every lane', (type) => {
    const { size } = ELEMENT_TYPES[type];
    const splat = instance(
      kernel('splat', WASM_TRAITS, (k, work) => {
        k.store('packet', k.field(work, Arrays, 'out'), k.splat(type, k.field(work, Arrays, 'scalar')));
      }),
    );
    setUp(splat, 0, 0xf1e2_d3c4_b5a6_9788n);
    splat.entries.splat!(WORK, 0, 1);
    const element = [0x88, 0x97, 0xa6, 0xb5, 0xc4, 0xd3, 0xe2, 0xf1].slice(0, size);
    const due = Array.from({ length: 16 }, (_, i) => element[i % size]);
    expect([...splat.bytes.slice(OUT, OUT + 16)]).toEqual(due);
  });

  it('makes a packet of two halves and takes it apart', () => {
    const halves = instance(
      kernel('halves', WASM_TRAITS, (k, work) => {
        const out = k.field(work, Arrays, 'out');
        const packet = k.packet(k.field(work, Arrays, 'scalar'), 0x0123_4567_89ab_cdefn);
        k.store('packet', out, packet);
        k.store('u64', out, packet.half(1), { offset: 16 });
        k.store('u64', out, packet.half(0), { offset: 24 });
      }),
    );
    setUp(halves, 0, 0xf1e2_d3c4_b5a6_9788n);
    halves.entries.halves!(WORK, 0, 1);
    const words = Array.from({ length: 4 }, (_, i) => halves.view.getBigUint64(OUT + 8 * i, true));
    const [low, high] = [0xf1e2_d3c4_b5a6_9788n, 0x0123_4567_89ab_cdefn];
    expect(words).toEqual([low, high, high, low]);
  });
});
