/** Loads, stores, partial packets, copies and atomics of the WebAssembly target. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { kernel } from '#src/kernel/builder.js';
import { MEMORY_BYTES, type MemoryType, type Order, WASM_TRAITS } from '#src/kernel/ir.js';
import { wasmText } from '#src/kernel/wasm/compile.js';
import { instance, sharedMemory } from './instance.js';

const PAGE = 65536;
const MEMORY_TYPES = Object.keys(MEMORY_BYTES) as MemoryType[];
const BASE = 1024;

/** The instructions of the one function, without their immediates. */
function instructions(text: string): string[] {
  const body = text.slice(text.indexOf('(func $p (export'));
  return body.split('\n').map((line) => line.trim().split(' ')[0]!);
}

describe('cells of every type', () => {
  const orders: [Order, Order][] = [
    ['weak', 'weak'],
    ['relaxed', 'relaxed'],
    ['acquire', 'release'],
    ['volatile', 'volatile'],
  ];

  it.each(orders)('keep their bits through a %s load and a %s store', (loadOrder, storeOrder) => {
    for (const memory of MEMORY_TYPES) {
      const program = kernel('move', WASM_TRAITS, (k, base) => {
        const value = k.load(memory, base, { offset: 16, order: loadOrder });
        k.store(memory, base, value as never, { offset: 48, order: storeOrder });
      });
      const run = instance(program);
      const bytes = MEMORY_BYTES[memory];
      for (let i = 0; i < 64; i++) run.bytes[BASE + i] = 0xf0 - 3 * i;
      const before = run.bytes.slice(BASE, BASE + 64);
      run.entries.move!(BASE, 0, 1);
      const due = before.slice();
      due.copyWithin(48, 16, 16 + bytes);
      // An address is 32 bits here; the upper half of its cell is written as zero.
      if (memory === 'ptr') due.fill(0, 52, 56);
      expect([memory, ...run.bytes.slice(BASE, BASE + 64)]).toEqual([memory, ...due]);
    }
  });

  it('extend narrow integers by their sign', () => {
    for (const order of ['weak', 'acquire'] as const) {
      const program = kernel('extend', WASM_TRAITS, (k, base) => {
        (['i8', 'u8', 'i16', 'u16'] as const).forEach((memory, i) => {
          const value = k.load(memory, base, { offset: 0, order });
          k.store('u32', base, value.cast('u32'), { offset: 16 + 4 * i });
        });
      });
      const run = instance(program);
      run.view.setUint16(BASE, 0x80f1, true);
      run.entries.extend!(BASE, 0, 1);
      const words = [...new Uint32Array(run.memory.buffer, BASE + 16, 4)];
      expect(words).toEqual([0xffff_fff1, 0xf1, 0xffff_80f1, 0x80f1]);
    }
  });

  it('may lie at any address when they say so, and negative constant offsets work', () => {
    const program = kernel('crooked', WASM_TRAITS, (k, base) => {
      const value = k.load('packet', base, { offset: 3, align: 1 });
      k.store('packet', base, value, { offset: 37, align: 1 });
      k.store('u64', base, k.load('u64', base, { offset: -13, align: 1 }), { offset: 61, align: 1 });
    });
    const run = instance(program);
    for (let i = -16; i < 64; i++) run.bytes[BASE + i] = 100 + i;
    run.entries.crooked!(BASE, 0, 1);
    expect([...run.bytes.slice(BASE + 37, BASE + 53)]).toEqual(Array.from({ length: 16 }, (_, i) => 103 + i));
    expect([...run.bytes.slice(BASE + 61, BASE + 69)]).toEqual(Array.from({ length: 8 }, (_, i) => 87 + i));
  });
});

describe('memory order', () => {
  const text = (loadOrder: Order, storeOrder: Order) =>
    instructions(
      wasmText(
        kernel('p', WASM_TRAITS, (k, base) => {
          k.store('u64', base, k.load('u64', base, { order: loadOrder }), { offset: 8, order: storeOrder });
        }),
      ),
    );

  it('uses atomic instructions for acquire loads and release stores', () => {
    expect(text('acquire', 'release')).toEqual(
      expect.arrayContaining(['i64.atomic.load', 'i64.atomic.store']),
    );
  });

  it('uses plain instructions for weak accesses and relaxed stores, but atomic relaxed loads', () => {
    expect(text('weak', 'weak').filter((name) => name.includes('atomic'))).toEqual([]);
    expect(text('relaxed', 'relaxed')).toEqual(expect.arrayContaining(['i64.atomic.load', 'i64.store']));
    expect(text('volatile', 'volatile')).toEqual(expect.arrayContaining(['i64.atomic.load', 'i64.store']));
  });

  it('makes a fence of a fence', () => {
    const fences = kernel('p', WASM_TRAITS, (k) => {
      for (const order of ['acquire', 'release', 'both'] as const) k.fence(order);
    });
    expect(instructions(wasmText(fences)).filter((name) => name === 'atomic.fence')).toHaveLength(3);
  });

  it('keeps a load before the store that follows it', () => {
    const program = kernel('p', WASM_TRAITS, (k, base) => {
      const old = k.load('u32', base);
      k.store('u32', base, 7);
      k.store('u32', base, old, { offset: 4 });
    });
    const run = instance(program);
    run.view.setUint32(BASE, 5, true);
    run.entries.p!(BASE, 0, 1);
    expect([run.view.getUint32(BASE, true), run.view.getUint32(BASE + 4, true)]).toEqual([7, 5]);
  });

  it('loads after an acquire what comes after it in the program', () => {
    const program = kernel('p', WASM_TRAITS, (k, base) => {
      const flag = k.load('u32', base, { order: 'acquire' });
      const data = k.load('u32', base, { offset: 4 });
      // The data is the first operand, so it would be loaded first if both were left to their use.
      k.store('u32', base, data.add(flag), { offset: 8 });
    });
    const loads = instructions(wasmText(program)).filter((name) => name.includes('load'));
    expect(loads).toEqual(['i32.atomic.load', 'i32.load']);
  });

  it('refuses an acquire load that may be misaligned', () => {
    const program = kernel('p', WASM_TRAITS, (k, base) => {
      k.store('u64', base, k.load('u64', base, { order: 'acquire', align: 4 }), { offset: 8 });
    });
    expect(() => wasmText(program)).toThrow('an acquire access of u64 needs alignment 8, not 4');
  });
});

describe('parts of packets', () => {
  for (const align of [1, 2, 4, 8, 16]) {
    const parts = [
      kernel('load', WASM_TRAITS, (k, base) => {
        const from = k.load('ptr', base);
        const bytes = k.load('u32', base, { offset: 8 });
        k.store('packet', base, k.loadPart(from, bytes, align), { offset: 16 });
      }),
      kernel('store', WASM_TRAITS, (k, base) => {
        const to = k.load('ptr', base);
        const bytes = k.load('u32', base, { offset: 8 });
        k.storePart(to, k.load('packet', base, { offset: 16 }), bytes, align);
      }),
    ];
    const counts = Array.from({ length: 17 }, (_, n) => n).filter((n) => n % align === 0);

    it(`are loaded up to the very end of memory without a trap, the rest zero (alignment ${align})`, () => {
      const run = instance(parts, { memory: sharedMemory(1) });
      for (const bytes of counts) {
        const from = PAGE - bytes;
        for (let i = 0; i < 32; i++) run.bytes[PAGE - 32 + i] = 101 + i;
        run.view.setUint32(BASE, from, true);
        run.view.setUint32(BASE + 8, bytes, true);
        run.bytes.fill(0xee, BASE + 16, BASE + 32);
        run.entries.load!(BASE, 0, 1);
        const due = Array.from({ length: 16 }, (_, i) => (i < bytes ? 133 - bytes + i : 0));
        expect([...run.bytes.slice(BASE + 16, BASE + 32)]).toEqual(due);
      }
    });

    it(`are stored up to the very end of memory, nothing else is touched (alignment ${align})`, () => {
      const run = instance(parts, { memory: sharedMemory(1) });
      for (const bytes of counts) {
        const to = PAGE - bytes;
        run.bytes.fill(0xee, PAGE - 32);
        run.view.setUint32(BASE, to, true);
        run.view.setUint32(BASE + 8, bytes, true);
        for (let i = 0; i < 16; i++) run.bytes[BASE + 16 + i] = i + 1;
        run.entries.store!(BASE, 0, 1);
        const due = Array.from({ length: 32 }, (_, i) => (i < 32 - bytes ? 0xee : i - 31 + bytes));
        expect([...run.bytes.slice(PAGE - 32)]).toEqual(due);
      }
    });
  }

  it('work at odd addresses for bytes', () => {
    const program = kernel('p', WASM_TRAITS, (k, base) => {
      const packet = k.loadPart(base.offset(3), k.load('u32', base, { offset: 64 }), 1);
      k.storePart(base.offset(33), packet, k.load('u32', base, { offset: 68 }), 1);
    });
    const run = instance(program);
    for (let i = 0; i < 32; i++) run.bytes[BASE + i] = i;
    run.view.setUint32(BASE + 64, 13, true);
    run.view.setUint32(BASE + 68, 15, true);
    run.entries.p!(BASE, 0, 1);
    const due = [0, ...Array.from({ length: 13 }, (_, i) => 3 + i), 0, 0, 0];
    expect([...run.bytes.slice(BASE + 32, BASE + 49)]).toEqual(due);
  });
});

describe('copy', () => {
  const run = instance(
    kernel('copy', WASM_TRAITS, (k, base) => {
      k.copy(k.load('ptr', base), k.load('ptr', base, { offset: 8 }), k.load('u64', base, { offset: 16 }));
    }),
  );
  const FROM = 8192;
  const TO = 40000;
  for (let i = 0; i < 4096; i++) run.bytes[FROM + i] = (i * 7 + (i >> 8)) & 0xff;

  function copy(from: number, to: number, bytes: number): void {
    run.view.setUint32(BASE, to, true);
    run.view.setUint32(BASE + 8, from, true);
    run.view.setUint32(BASE + 16, bytes, true);
    run.entries.copy!(BASE, 0, 1);
  }

  it('moves exactly the bytes asked for, at every small size and alignment', () => {
    for (let bytes = 0; bytes <= 300; bytes++) {
      const from = FROM + (bytes % 5);
      const to = TO + (bytes % 3);
      run.bytes.fill(0xee, TO - 16, TO + 400);
      copy(from, to, bytes);
      const due = new Uint8Array(416).fill(0xee);
      due.set(run.bytes.subarray(from, from + bytes), to - TO + 16);
      expect(Buffer.compare(run.bytes.subarray(TO - 16, TO + 400), due)).toBe(0);
    }
  });

  it('moves large regions, and a region onto itself', () => {
    fc.assert(
      fc.property(fc.nat(15), fc.nat(15), fc.integer({ min: 257, max: 3500 }), (a, b, bytes) => {
        copy(FROM + a, TO + b, bytes);
        const moved = run.bytes.subarray(TO + b, TO + b + bytes);
        expect(Buffer.compare(moved, run.bytes.subarray(FROM + a, FROM + a + bytes))).toBe(0);
        const before = run.bytes.slice(TO, TO + 4000);
        copy(TO + b, TO + b, bytes);
        expect(Buffer.compare(run.bytes.subarray(TO, TO + 4000), before)).toBe(0);
      }),
      { numRuns: 50 },
    );
  });
});

describe('atomics', () => {
  const ascending = (a: bigint, b: bigint) => Number(a > b) - Number(a < b);
  const expected: Record<string, (old: bigint, value: bigint) => bigint> = {
    add: (old, value) => old + value,
    and: (old, value) => old & value,
    or: (old, value) => old | value,
    xor: (old, value) => old ^ value,
    exchange: (_, value) => value,
    max: (old, value) => [old, value].sort(ascending)[1]!,
    min: (old, value) => [old, value].sort(ascending)[0]!,
  };
  const operations = Object.keys(expected) as ('add' | 'and' | 'or' | 'xor' | 'exchange' | 'max' | 'min')[];

  for (const memory of ['u32', 'u64'] as const) {
    it.each(operations)(`on ${memory} give the old value and leave the new one: %s`, (operation) => {
      const run = instance(
        kernel('p', WASM_TRAITS, (k, base) => {
          const value = k.load(memory, base);
          const old = k.atomic(operation, memory, base, value, { offset: 8 });
          k.store(memory, base, old, { offset: 16 });
        }),
      );
      const width = memory === 'u32' ? 32 : 64;
      const operand = fc.bigInt({ min: 0n, max: (1n << BigInt(width)) - 1n });
      fc.assert(
        fc.property(operand, operand, (old, value) => {
          run.view.setBigUint64(BASE, value, true);
          run.view.setBigUint64(BASE + 8, old, true);
          run.view.setBigUint64(BASE + 16, 0n, true);
          run.entries.p!(BASE, 0, 1);
          expect(run.view.getBigUint64(BASE + 16, true)).toBe(old);
          expect(run.view.getBigUint64(BASE + 8, true)).toBe(
            BigInt.asUintN(width, expected[operation]!(old, value)),
          );
        }),
        { numRuns: 40 },
      );
    });

    it(`compare and exchange a ${memory}`, () => {
      const run = instance(
        kernel('p', WASM_TRAITS, (k, base) => {
          const old = k.compareExchange(memory, base, k.load(memory, base, { offset: 8 }), 99, {
            offset: 16,
          });
          k.store(memory, base, old, { offset: 24 });
        }),
      );
      const cell = (at: number) => run.view.getBigUint64(BASE + at, true);
      for (const [expectedValue, after] of [
        [41n, 42n],
        [42n, 99n],
      ] as const) {
        run.view.setBigUint64(BASE + 8, expectedValue, true);
        run.view.setBigUint64(BASE + 16, 42n, true);
        run.entries.p!(BASE, 0, 1);
        expect([cell(16), cell(24)]).toEqual([after, 42n]);
      }
    });
  }

  it('keep their effect when nobody reads the result', () => {
    const run = instance(
      kernel('p', WASM_TRAITS, (k, base) => {
        k.atomic('add', 'u32', base, 3);
        k.atomic('max', 'u32', base, 100, { offset: 4 });
        k.compareExchange('u32', base, 0, 8, { offset: 8 });
      }),
    );
    run.entries.p!(BASE, 0, 1);
    expect([...new Uint32Array(run.memory.buffer, BASE, 3)]).toEqual([3, 100, 8]);
  });
});
