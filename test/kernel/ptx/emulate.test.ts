/** What compiled PTX computes, instruction by instruction, against the plain evaluator and the rules of numeric.ts. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { kernel } from '#src/kernel/builder.js';
import { ELEMENT_TYPE_NAMES, ELEMENT_TYPES, type ElementType } from '#src/kernel/element-types.js';
import type { Program, Statement } from '#src/kernel/ir.js';
import {
  divideBits,
  isNarrowFloat,
  type NarrowFloat,
  narrowBits,
  reduceBits,
  sameBits,
  widenBits,
} from '#src/kernel/numeric.js';
import { compilePtx } from '#src/kernel/ptx/compile.js';
import { ptxTraits } from '#src/kernel/ptx/traits.js';
import { evaluate } from '../wasm/evaluate.js';
import { randomProgram } from '../wasm/random-program.js';
import { emulate } from './emulate.js';

const BASE = 1024;
const STATUS = 64;
const SIZE = 8192;
const TRAITS = ptxTraits();
const ARCHES = ['sm_70', 'sm_80', 'sm_89', 'sm_90'] as const;

/** Whether an address is loaded: the evaluator has addresses of 32 bits. */
function loadsAddress(statements: readonly Statement[]): boolean {
  return statements.some((s) => {
    if (s.kind === 'load') return s.memory === 'ptr';
    if (s.kind === 'if') return loadsAddress(s.taken) || loadsAddress(s.otherwise);
    return s.kind === 'loop' && (loadsAddress(s.body) || loadsAddress(s.step));
  });
}

/** Runs a program over a memory whose bytes at the descriptor are given; the bytes there afterwards. */
function run(program: Program, arch: string, memory: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(BASE + memory.length);
  bytes.set(memory, BASE);
  emulate(compilePtx(program, { arch }), {
    view: new DataView(bytes.buffer),
    parameters: [BASE, 0, STATUS],
  });
  return bytes.slice(BASE);
}

/** One element of a packet. */
function lane(type: ElementType, bytes: Uint8Array, packet: number, index: number): bigint {
  const { size } = ELEMENT_TYPES[type];
  let bits = 0n;
  for (let i = size - 1; i >= 0; i--) bits = bits * 256n + BigInt(bytes[16 * packet + size * index + i]!);
  return bits;
}

const packetBytes = fc.oneof(
  fc.uint8Array({ minLength: 16, maxLength: 16 }),
  // Halves that are special in many types: zeros, infinities, NaNs, largest and smallest numbers.
  fc
    .array(fc.constantFrom(0, 0x80, 0x7f, 0xff, 0x7c, 0xfc, 0x7b, 0x7e, 0x3f, 0x01, 0x04, 0x3c), {
      minLength: 16,
      maxLength: 16,
    })
    .map((bytes) => Uint8Array.from(bytes)),
);

describe('compiled PTX', () => {
  it('does what the evaluator does, for random programs', () => {
    let compared = 0;
    const choices = fc.array(fc.nat(2 ** 31 - 1), { minLength: 40, maxLength: 500, size: 'max' });
    fc.assert(
      fc.property(choices, fc.constantFrom(...ARCHES), (numbers, arch) => {
        const program = randomProgram(numbers, { waits: false });
        fc.pre(!loadsAddress(program.body));
        const bytes = new Uint8Array(BASE + SIZE);
        for (let i = 0; i < 256; i++) bytes[BASE + i] = (i * 37 + 11) & 0xff;
        const due = bytes.slice();
        const status = evaluate(program, { view: new DataView(due.buffer), descriptor: BASE });
        const view = new DataView(bytes.buffer);
        emulate(compilePtx(program, { arch }), { view, parameters: [BASE, 0, STATUS] });
        expect(view.getUint32(STATUS, true)).toBe(status >>> 0);
        expect(Buffer.compare(bytes.slice(BASE), due.slice(BASE))).toBe(0);
        compared++;
      }),
      { numRuns: 250 },
    );
    expect(compared).toBeGreaterThan(200);
  });

  it.each(ARCHES)('reduces packets of every type by every step as numeric.ts says, on %s', (arch) => {
    const steps = ['sum', 'prod', 'min', 'max'] as const;
    for (const type of ELEMENT_TYPE_NAMES) {
      const lanes = 16 / ELEMENT_TYPES[type].size;
      const program = kernel('reduce', TRAITS, (k, base) => {
        const a = k.load('packet', base);
        const b = k.load('packet', base.offset(16));
        for (const [i, step] of steps.entries())
          k.store('packet', base, k.reduce(type, step, a, b), { offset: 32 + 16 * i });
      });
      fc.assert(
        fc.property(packetBytes, packetBytes, (a, b) => {
          const memory = new Uint8Array(96);
          memory.set(a);
          memory.set(b, 16);
          const after = run(program, arch, memory);
          steps.forEach((step, s) => {
            for (let i = 0; i < lanes; i++) {
              const due = reduceBits(type, step, lane(type, a, 0, i), lane(type, b, 0, i));
              const actual = lane(type, after, 2 + s, i);
              expect([type, step, i, sameBits(type, actual, due)]).toEqual([type, step, i, true]);
            }
          });
        }),
        { numRuns: 25 },
      );
    }
  });

  it.each(ARCHES)('widens every narrow float, and rounds float32 to them, on %s', (arch) => {
    for (const type of ELEMENT_TYPE_NAMES.filter(isNarrowFloat) as NarrowFloat[]) {
      const { size } = ELEMENT_TYPES[type];
      const parts = 4 / size;
      const program = kernel('convert', TRAITS, (k, base) => {
        const packet = k.load('packet', base);
        const wide = Array.from({ length: parts }, (_, part) => k.widen(type, packet, part));
        for (const [part, w] of wide.entries()) k.store('packet', base, w, { offset: 16 + 16 * part });
        const given = wide.map((_, part) => k.load('packet', base, { offset: 80 + 16 * part }));
        k.store('packet', base, k.narrow(type, given), { offset: 144 });
      });
      // float32 numbers near to where narrow types round differently.
      const float32 = fc.oneof(
        fc.nat(0xffffffff),
        fc
          .tuple(fc.nat(1), fc.integer({ min: 96, max: 160 }), fc.nat(0x3ff), fc.integer({ min: -1, max: 1 }))
          .map(
            ([sign, exponent, digits, more]) =>
              ((sign << 31) | ((exponent << 23) + (digits << 13) + more)) >>> 0,
          ),
      );
      const given = fc.array(float32, { minLength: 4 * parts, maxLength: 4 * parts });
      fc.assert(
        fc.property(packetBytes, given, (bytes, floats) => {
          const memory = new Uint8Array(160);
          memory.set(bytes);
          new Uint32Array(memory.buffer, 80, floats.length).set(floats);
          const after = run(program, arch, memory);
          for (let i = 0; i < 4 * parts; i++) {
            const wide = lane('float32', after, 1, i);
            const due = BigInt(widenBits(type, Number(lane(type, bytes, 0, i))));
            expect([type, i, sameBits('float32', wide, due)]).toEqual([type, i, true]);
            const narrow = lane(type, after, 9, i);
            const rounded = BigInt(narrowBits(type, floats[i]!));
            expect([type, floats[i], sameBits(type, narrow, rounded)]).toEqual([type, floats[i], true]);
          }
        }),
        { numRuns: 150 },
      );
    }
  });

  it('divides integers of every type by every divisor', () => {
    const divisor = fc.oneof(
      fc.bigInt({ min: 1n, max: 300n }),
      fc.bigInt({ min: 1n, max: (1n << 64n) - 1n }),
      fc.constantFrom((1n << 31n) - 1n, 1n << 31n, (1n << 32n) - 1n, 1n << 32n, 1n << 63n),
    );
    for (const type of ELEMENT_TYPE_NAMES.filter((t) => ELEMENT_TYPES[t].kind !== 'float')) {
      const program = kernel('divide', TRAITS, (k, base) => {
        const by = k.load('u64', base, { offset: 16 });
        k.store('packet', base, k.divide(type, k.load('packet', base), by), { offset: 32 });
      });
      fc.assert(
        fc.property(packetBytes, divisor, (bytes, by) => {
          const memory = new Uint8Array(48);
          memory.set(bytes);
          new DataView(memory.buffer).setBigUint64(16, by, true);
          const after = run(program, 'sm_70', memory);
          for (let i = 0; i < 16 / ELEMENT_TYPES[type].size; i++) {
            expect([i, lane(type, after, 2, i)]).toEqual([i, divideBits(type, lane(type, bytes, 0, i), by)]);
          }
        }),
        { numRuns: 60 },
      );
    }
  });

  it('moves parts of packets, and nothing beside them', () => {
    const align = fc.constantFrom(1, 2, 4, 8, 16);
    fc.assert(
      fc.property(
        align,
        fc.nat(16),
        fc.nat(15),
        fc.nat(15),
        fc.boolean(),
        (size, length, from, to, known) => {
          const bytes = length - (length % size);
          const [at, target] = [from - (from % size), 64 + to - (to % size)];
          const program = kernel('part', TRAITS, (k, base) => {
            const count = known ? bytes : k.threadIndex.add(bytes);
            const part = k.loadPart(base.offset(at), count, size);
            k.storePart(base.offset(target), part, count, size);
            k.store('packet', base, part, { offset: 128 });
          });
          const memory = Uint8Array.from({ length: 144 }, (_, i) => 255 - i);
          const due = memory.slice();
          due.set(memory.subarray(at, at + bytes), target);
          due.fill(0, 128);
          due.set(memory.subarray(at, at + bytes), 128);
          expect(run(program, 'sm_80', memory)).toEqual(due);
        },
      ),
      { numRuns: 300 },
    );
  });

  it('copies any number of bytes between any addresses', () => {
    fc.assert(
      fc.property(
        fc.nat(300),
        fc.nat(20),
        fc.nat(20),
        fc.constantFrom(1, 4, 16),
        (bytes, from, to, align) => {
          const [at, target] = [from - (from % align), 512 + to - (to % align)];
          const program = kernel('copy', TRAITS, (k, base) => {
            k.copy(base.offset(target), base.offset(at), k.threadIndex.cast('u64').add(bytes));
          });
          const memory = Uint8Array.from({ length: 1024 }, (_, i) => (i * 7) & 0xff);
          const due = memory.slice();
          due.set(memory.subarray(at, at + bytes), target);
          expect(run(program, 'sm_70', memory)).toEqual(due);
        },
      ),
      { numRuns: 200 },
    );
  });

  it('ends a wait when the abort word is set, and reports it in the status word', () => {
    const program = kernel('forever', TRAITS, (k, base) => {
      k.store('u32', base, 7, { offset: 4 });
      k.wait(() => k.load('u32', base, { order: 'acquire' }).eq(1));
      k.store('u32', base, 8, { offset: 4 });
    });
    const ABORT = 128;
    const text = compilePtx(program, { arch: 'sm_70' });
    const world = (abort: number) => {
      const view = new DataView(new ArrayBuffer(BASE + 16));
      view.setUint32(ABORT, abort, true);
      return { view, parameters: [BASE, ABORT, STATUS] };
    };
    const aborted = world(1);
    expect(emulate(text, aborted)).toBeLessThan(400_000);
    expect(aborted.view.getUint32(STATUS, true)).toBe(1);
    expect(aborted.view.getUint32(BASE + 4, true)).toBe(7);
    expect(() => emulate(text, world(0))).toThrow('forever runs without end');
    const satisfied = world(1);
    satisfied.view.setUint32(BASE, 1, true);
    emulate(text, satisfied);
    expect(satisfied.view.getUint32(STATUS, true)).toBe(0);
    expect(satisfied.view.getUint32(BASE + 4, true)).toBe(8);
  });
});
