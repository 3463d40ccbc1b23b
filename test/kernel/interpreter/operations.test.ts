/**
 * The arithmetic of the interpreter: random programs against the plain evaluator and the Wasm target, packets
 * lane by lane against the scalar reference.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { kernel, type Value } from '#src/kernel/builder.js';
import {
  ELEMENT_TYPE_NAMES,
  ELEMENT_TYPES,
  type ElementType,
  type StepOp,
} from '#src/kernel/element-types.js';
import { Machine } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import type { Program, Statement } from '#src/kernel/ir.js';
import { struct } from '#src/kernel/layout.js';
import {
  divideBits,
  encode,
  isNarrowFloat,
  type NarrowFloat,
  narrowBits,
  reduceBits,
  sameBits,
  widenBits,
} from '#src/kernel/numeric.js';
import { evaluate } from '../wasm/evaluate.js';
import { instance, sharedMemory } from '../wasm/instance.js';
import { randomProgram } from '../wasm/random-program.js';

const ONE = interpreterTraits({ threads: 'one' });

describe('random programs', () => {
  const BASE = 1024;
  const SIZE = 65536;

  /** Addresses have 32 bits in Wasm and more here: both see the low half of an address cell. */
  function lowAddresses(statements: readonly Statement[]): Statement[] {
    return statements.map((s) => {
      switch (s.kind) {
        case 'load':
          return s.memory === 'ptr' ? { ...s, memory: 'u32' } : s;
        case 'if':
          return { ...s, taken: lowAddresses(s.taken), otherwise: lowAddresses(s.otherwise) };
        case 'loop':
          return { ...s, body: lowAddresses(s.body), step: lowAddresses(s.step) };
        default:
          return s;
      }
    });
  }

  function fill(bytes: Uint8Array): void {
    for (let i = 0; i < 256; i++) bytes[BASE + i] = (i * 37 + 11) & 0xff;
  }

  function interpreted(program: Program, seed: number): { status: number; bytes: Uint8Array } {
    const machine = new Machine({ seed, memory: seed % 2 === 0 ? 'strong' : 'weak' });
    const region = machine.region('memory', SIZE, 0, { zeroed: true });
    fill(new Uint8Array(machine.view(region).buffer));
    const runnable = { ...program, body: lowAddresses(program.body) };
    const launch = machine.launch(runnable, { rank: 0, descriptor: region + BASE });
    machine.run();
    return { status: launch.statuses[0]!, bytes: machine.readArray(region, Uint8Array, SIZE) };
  }

  it('do what the plain evaluator and the Wasm target do', () => {
    const choices = fc.array(fc.nat(2 ** 31 - 1), { minLength: 40, maxLength: 700, size: 'max' });
    fc.assert(
      fc.property(choices, fc.nat(1000), (numbers, seed) => {
        const program = randomProgram(numbers, { waits: false });
        const got = interpreted(program, seed);
        const due = new Uint8Array(SIZE);
        fill(due);
        const status = evaluate(program, { view: new DataView(due.buffer), descriptor: BASE });
        expect(got.status).toBe(status);
        expect(Buffer.compare(got.bytes, due)).toBe(0);
        const wasm = instance(program, { memory: sharedMemory(1) });
        fill(wasm.bytes);
        expect(wasm.entries.random!(BASE, 0, 1) >>> 0).toBe(got.status);
        expect(Buffer.compare(got.bytes.slice(BASE), wasm.bytes.slice(BASE))).toBe(0);
      }),
      { numRuns: 300 },
    );
  });
});

const Work = struct('Work', { in: 'ptr', out: 'ptr', count: 'u32' });

/** Runs a program over input bytes; the result has as many packets as asked for. */
function run(program: Program, input: Uint8Array, count: number, packets: number): Uint8Array {
  const machine = new Machine({ seed: 1, memory: 'strong' });
  const source = machine.region('in', input.byteLength, 0, { readOnly: true });
  machine.writeArray(source, input);
  const out = machine.region('out', packets * 16, 0);
  machine.launch(program, { rank: 0, descriptor: machine.struct(Work, 0, { in: source, out, count }) });
  machine.run();
  return machine.readArray(out, Uint8Array, packets * 16);
}

function lanes(type: ElementType, bytes: Uint8Array): bigint[] {
  const { size } = ELEMENT_TYPES[type];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: bytes.byteLength / size }, (_, i) => {
    let bits = 0n;
    for (let b = size - 1; b >= 0; b--) bits = (bits << 8n) | BigInt(view.getUint8(i * size + b));
    return bits;
  });
}

/** Bytes of elements that have all kinds of values: ordinary, special, and any bits at all. */
function elements(type: ElementType, count: number): fc.Arbitrary<Uint8Array> {
  const { size, kind } = ELEMENT_TYPES[type];
  const special =
    kind === 'float'
      ? [0, -0, 1, -1.5, 3, 1e-8, -1e-5, 448, 65504, 1e30, -3e38, Infinity, -Infinity, NaN]
      : [0, 1, 2, -1, 127, -128, 32767, 2147483647, -2147483648];
  const element = fc.oneof(
    fc.constantFrom(...special).map((v) => encode(type, v)),
    fc.bigInt({ min: 0n, max: (1n << BigInt(8 * size)) - 1n }),
  );
  return fc.array(element, { minLength: count, maxLength: count }).map((all) => {
    const bytes = new Uint8Array(count * size);
    all.forEach((bits, i) => {
      for (let b = 0; b < size; b++) bytes[i * size + b] = Number((bits >> BigInt(8 * b)) & 255n);
    });
    return bytes;
  });
}

function expectLanes(type: ElementType, got: Uint8Array, due: readonly bigint[]): void {
  lanes(type, got).forEach((bits, i) => {
    if (!sameBits(type, bits, due[i]!)) {
      expect.fail(`lane ${i} of ${type}: 0x${bits.toString(16)}, not 0x${due[i]!.toString(16)}`);
    }
  });
}

/** Per packet of input pairs (a, b): `body` of the two. */
function pairwise(
  body: (
    k: Parameters<Parameters<typeof kernel>[2]>[0],
    a: Value<'packet'>,
    b: Value<'packet'>,
  ) => Value<'packet'>,
): Program {
  return kernel('pairs', ONE, (k, work) => {
    const source = k.field(work, Work, 'in');
    const out = k.field(work, Work, 'out');
    k.for(k.u32(0), k.field(work, Work, 'count'), 1, (i) => {
      const pair = source.offset(i.mul(32));
      const result = body(k, k.load('packet', pair), k.load('packet', pair, { offset: 16 }));
      k.store('packet', out.offset(i.mul(16)), result);
    });
  });
}

/** Pairs of packets per run. */
const PAIRS = 8;

describe('packets', () => {
  const steps: StepOp[] = ['sum', 'prod', 'min', 'max'];

  it.each(ELEMENT_TYPE_NAMES)('of %s reduce lane by lane as the scalar reference', (type) => {
    const count = 16 / ELEMENT_TYPES[type].size;
    for (const step of steps) {
      const program = pairwise((k, a, b) => k.reduce(type, step, a, b));
      fc.assert(
        fc.property(elements(type, 2 * count * PAIRS), (input) => {
          const all = lanes(type, input);
          const due: bigint[] = [];
          for (let p = 0; p < PAIRS; p++) {
            for (let i = 0; i < count; i++) {
              due.push(reduceBits(type, step, all[2 * p * count + i]!, all[(2 * p + 1) * count + i]!));
            }
          }
          expectLanes(type, run(program, input, PAIRS, PAIRS), due);
        }),
        { numRuns: 40 },
      );
    }
  });

  it.each(['float16', 'bfloat16', 'float8e4m3', 'float8e5m2'] as const)(
    'of %s widen and narrow as the scalar reference',
    (type: NarrowFloat) => {
      const count = 16 / ELEMENT_TYPES[type].size;
      const parts = count / 4;
      const widen = kernel('widen', ONE, (k, work) => {
        const value = k.load('packet', k.field(work, Work, 'in'));
        const out = k.field(work, Work, 'out');
        for (let p = 0; p < parts; p++) k.store('packet', out, k.widen(type, value, p), { offset: 16 * p });
      });
      const narrow = kernel('narrow', ONE, (k, work) => {
        const source = k.field(work, Work, 'in');
        const all = Array.from({ length: parts }, (_, p) => k.load('packet', source, { offset: 16 * p }));
        k.store('packet', k.field(work, Work, 'out'), k.narrow(type, all));
      });
      fc.assert(
        fc.property(elements(type, count), elements('float32', count), (narrowInput, wideInput) => {
          const widened = lanes(type, narrowInput).map((bits) => BigInt(widenBits(type, Number(bits))));
          expectLanes('float32', run(widen, narrowInput, 1, parts), widened);
          const narrowed = lanes('float32', wideInput).map((bits) => BigInt(narrowBits(type, Number(bits))));
          expectLanes(type, run(narrow, wideInput, 1, 1), narrowed);
        }),
        { numRuns: 100 },
      );
    },
  );

  it('of integers divide, and splat repeats an element', () => {
    const integers = ELEMENT_TYPE_NAMES.filter((t) => ELEMENT_TYPES[t].kind !== 'float');
    expect(integers).toHaveLength(6);
    for (const type of integers) {
      const count = 16 / ELEMENT_TYPES[type].size;
      for (const divisor of [1n, 2n, 3n, 8n, 1000n]) {
        const program = pairwise((k, a) => k.divide(type, a, divisor));
        fc.assert(
          fc.property(elements(type, 2 * count * PAIRS), (input) => {
            const all = lanes(type, input);
            const due = Array.from({ length: PAIRS * count }, (_, i) => {
              const pair = Math.floor(i / count);
              return divideBits(type, all[2 * pair * count + (i % count)]!, divisor);
            });
            expectLanes(type, run(program, input, PAIRS, PAIRS), due);
          }),
          { numRuns: 10 },
        );
      }
    }
    for (const type of ELEMENT_TYPE_NAMES) {
      const program = pairwise((k, a) => k.splat(type, a.half(0)));
      const input = Uint8Array.from({ length: 32 }, (_, i) => i + 200);
      const first = lanes(type, input)[0]!;
      expect(lanes(type, run(program, input, 1, 1))).toEqual(
        Array(16 / ELEMENT_TYPES[type].size).fill(first),
      );
    }
    expect(isNarrowFloat('float32')).toBe(false);
  });

  it('combine bit by bit, by halves, and through select and variables', () => {
    const program = pairwise((k, a, b) => {
      const kept = k.variable('packet', a.and(b));
      k.if(a.half(0).lt(b.half(0)), () => kept.set(kept.value.xor(a.or(b))));
      const swapped = k.packet(kept.value.half(1), kept.value.half(0));
      return k.select(a.half(1).eq(b.half(1)), swapped.not(), swapped);
    });
    fc.assert(
      fc.property(elements('uint64', 4), (input) => {
        const [a0, a1, b0, b1] = lanes('uint64', input) as [bigint, bigint, bigint, bigint];
        const flip = a0 < b0;
        const low = (a0 & b0) ^ (flip ? a0 | b0 : 0n);
        const high = (a1 & b1) ^ (flip ? a1 | b1 : 0n);
        const mask = a1 === b1 ? (1n << 64n) - 1n : 0n;
        expectLanes('uint64', run(program, input, 1, 1), [high ^ mask, low ^ mask]);
      }),
    );
  });
});

describe('bit casts', () => {
  it('keep the bits in every direction', () => {
    const program = kernel('casts', ONE, (k, work) => {
      const source = k.field(work, Work, 'in');
      const out = k.field(work, Work, 'out');
      const f = k.load('f32', source);
      const d = k.load('f64', source, { offset: 8 });
      k.store('u32', out, f.bitcast('u32'));
      k.store('i32', out, f.bitcast('i32'), { offset: 4 });
      k.store('u64', out, d.bitcast('u64'), { offset: 8 });
      k.store('i64', out, d.bitcast('i64').bitcast('u64').bitcast('i64'), { offset: 16 });
      k.store('f32', out, f.bitcast('u32').bitcast('i32').bitcast('f32'), { offset: 24 });
      k.store('f32', out, f.bitcast('u32').bitcast('f32'), { offset: 28 });
      k.store('f64', out, d.bitcast('i64').bitcast('f64'), { offset: 32 });
      k.store('f64', out, d.bitcast('u64').bitcast('f64'), { offset: 40 });
    });
    for (const value of [-1.5, 0, -0, 1e-40, 3e38, -Infinity]) {
      const input = new DataView(new ArrayBuffer(16));
      input.setFloat32(0, value, true);
      input.setFloat64(8, value, true);
      const bytes = [...new Uint8Array(input.buffer)];
      const [single, double] = [bytes.slice(0, 4), bytes.slice(8)];
      const got = [...run(program, Uint8Array.from(bytes), 1, 3)];
      expect(got).toEqual([
        ...single,
        ...single,
        ...double,
        ...double,
        ...single,
        ...single,
        ...double,
        ...double,
      ]);
    }
  });
});
