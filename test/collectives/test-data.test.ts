import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expectedBits, inputBits } from '#src/cli/perf/data-reference.js';
import {
  fillProgram,
  type TestDataKind,
  TestDataWork,
  testDataName,
  verifyProgram,
} from '#src/collectives/test-data.js';
import {
  ELEMENT_TYPE_NAMES,
  ELEMENT_TYPES,
  type ElementType,
  REDUCE_OP_NAMES,
} from '#src/kernel/element-types.js';
import { Machine } from '#src/kernel/interpreter/machine.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import { type Program, WASM_TRAITS } from '#src/kernel/ir.js';
import { compileWasm } from '#src/kernel/wasm/compile.js';

const NOTHING_WRONG = (1n << 64n) - 1n;

/** Where the descriptor and the data lie in the Wasm memory. */
const WORK_AT = 256;
const DATA_AT = 1024;

const MAX_RANKS = 9;

type Entry = (descriptor: number, block: number, blocks: number) => number;

interface Loaded {
  readonly view: DataView;
  readonly entries: Readonly<Record<string, Entry>>;
}

function load(programs: readonly Program[]): Loaded {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 65536, shared: true });
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(compileWasm(programs)), {
    env: { memory, spins: 1, relax: () => 1, wake: () => {} },
  });
  return { view: new DataView(memory.buffer), entries: exports as unknown as Record<string, Entry> };
}

function readBits(view: DataView, at: number, size: number): bigint {
  if (size === 8) return view.getBigUint64(at, true);
  if (size === 4) return BigInt(view.getUint32(at, true));
  return BigInt(size === 2 ? view.getUint16(at, true) : view.getUint8(at));
}

function writeBits(view: DataView, at: number, size: number, bits: bigint): void {
  if (size === 8) view.setBigUint64(at, bits, true);
  else if (size === 4) view.setUint32(at, Number(bits), true);
  else if (size === 2) view.setUint16(at, Number(bits), true);
  else view.setUint8(at, Number(bits));
}

function referenceBits(kind: TestDataKind, rank: number, seed: bigint, index: bigint): bigint {
  const { type, op, ranks, role } = kind;
  if (role === 'zero') return 0n;
  return role === 'input'
    ? inputBits(type, op, ranks, rank, seed, index)
    : expectedBits(type, op, ranks, seed, index);
}

interface Work {
  readonly kind: TestDataKind;
  readonly rank: number;
  readonly seed: bigint;
  readonly first: bigint;
  readonly count: number;
  /** Elements that the data start behind an aligned address. */
  readonly skew: number;
  /** Blocks that share the work. */
  readonly blocks: number;
}

function describeWork(view: DataView, work: Work, tolerance: number) {
  return TestDataWork.at(view, WORK_AT)
    .set('data', DATA_AT + work.skew * ELEMENT_TYPES[work.kind.type].size)
    .set('count', work.count)
    .set('first', work.first)
    .set('seed', work.seed)
    .set('rank', work.rank)
    .set('tolerance', tolerance)
    .set('wrong', 0)
    .set('firstWrong', NOTHING_WRONG);
}

function runBlocks(entry: Entry, blocks: number): void {
  // Any order of the blocks must do.
  for (let block = blocks - 1; block >= 0; block--) expect(entry(WORK_AT, block, blocks)).toBe(0);
}

/** All kinds of one type and operator up to 9 ranks; the operators of one rank are the same data. */
function kindsOf(type: ElementType, op: (typeof REDUCE_OP_NAMES)[number]): TestDataKind[] {
  const kinds: TestDataKind[] = [
    { type, op, ranks: 1, role: 'input' },
    { type, op, ranks: 1, role: 'zero' },
  ];
  for (let ranks = 2; ranks <= MAX_RANKS; ranks++) {
    kinds.push({ type, op, ranks, role: 'input' }, { type, op, ranks, role: 'result' });
  }
  return kinds;
}

const works = (kinds: readonly TestDataKind[]): fc.Arbitrary<Work> =>
  fc
    .record({
      kind: fc.constantFrom(...kinds),
      rank: fc.nat(MAX_RANKS - 1),
      seed: fc.oneof(fc.bigInt(0n, 200n), fc.bigInt(0n, NOTHING_WRONG)),
      first: fc.oneof(fc.bigInt(0n, 100n), fc.bigInt(0n, 1n << 48n)),
      count: fc.nat(24),
      skew: fc.nat(3),
      blocks: fc.integer({ min: 1, max: 3 }),
    })
    .map((work) => ({ ...work, rank: work.rank % work.kind.ranks }));

/** Runs per type and operator; 60 of them, so that every kind is met a few times in a few seconds. */
const RUNS = 60;

describe('test data in Wasm', () => {
  for (const type of ELEMENT_TYPE_NAMES) {
    for (const op of REDUCE_OP_NAMES) {
      it(`of ${type} ${op} are those of the reference, and wrong elements are counted`, () => {
        const kinds = kindsOf(type, op);
        const { view, entries } = load(
          kinds.flatMap((kind) => [fillProgram(kind, WASM_TRAITS), verifyProgram(kind, WASM_TRAITS)]),
        );
        const { size } = ELEMENT_TYPES[type];
        fc.assert(
          fc.property(works(kinds), fc.nat(7), (work, damage) => {
            const name = testDataName(work.kind);
            const start = DATA_AT + work.skew * size;
            new Uint8Array(view.buffer).fill(0xa5, DATA_AT, DATA_AT + 512);
            describeWork(view, work, 0);
            runBlocks(entries[`fill_${name}`]!, work.blocks);
            const wanted = Array.from({ length: work.count }, (_, i) =>
              referenceBits(work.kind, work.rank, work.seed, work.first + BigInt(i)),
            );
            expect(wanted.map((_, i) => readBits(view, start + i * size, size))).toEqual(wanted);
            const bytes = new Uint8Array(view.buffer, DATA_AT, 512);
            const end = work.skew * size + work.count * size;
            const isOutside = (i: number): boolean => i < work.skew * size || i >= end;
            expect(bytes.findIndex((byte, i) => isOutside(i) && byte !== 0xa5)).toBe(-1);

            // Elements that are off by 1, 2 or 3 in their bits, upwards or downwards.
            const distances = wanted.map((_, i) => (i % 3 === damage % 3 ? i % 4 : 0));
            for (const [i, distance] of distances.entries()) {
              const at = start + i * size;
              const bits = readBits(view, at, size);
              const room = (1n << BigInt(size * 8)) - 1n - bits;
              const off = BigInt(distance);
              writeBits(view, at, size, room >= off && (damage < 4 || bits < off) ? bits + off : bits - off);
            }
            for (const tolerance of [0, 2]) {
              const after = describeWork(view, work, tolerance);
              runBlocks(entries[`verify_${name}`]!, work.blocks);
              const isWrong = distances.map((distance) => distance > tolerance);
              expect(after.get('wrong')).toBe(isWrong.filter(Boolean).length);
              const firstWrong = view.getBigUint64(WORK_AT + TestDataWork.fields.firstWrong.offset, true);
              const first = isWrong.indexOf(true);
              expect(firstWrong).toBe(first < 0 ? NOTHING_WRONG : BigInt(first));
            }
          }),
          { numRuns: RUNS },
        );
      });
    }
  }

  it('divides small totals among many ranks as the reference does', () => {
    const kinds = (['float8e4m3', 'float8e5m2', 'bfloat16', 'float16'] as const).flatMap((type) =>
      (['sum', 'prod'] as const).flatMap((op) =>
        [15, 16, 17, 31, 44, 45, 46, 64, 100, 257].map((ranks) => ({
          type,
          op,
          ranks,
          role: 'input' as const,
        })),
      ),
    );
    const { view, entries } = load(kinds.map((kind) => fillProgram(kind, WASM_TRAITS)));
    for (const kind of kinds) {
      const { size } = ELEMENT_TYPES[kind.type];
      for (const rank of [0, 1, kind.ranks >> 1, kind.ranks - 1]) {
        const work: Work = { kind, rank, seed: 99n, first: 1000n, count: 20, skew: 0, blocks: 1 };
        describeWork(view, work, 0);
        runBlocks(entries[`fill_${testDataName(kind)}`]!, 1);
        for (let i = 0; i < work.count; i++) {
          expect(readBits(view, DATA_AT + i * size, size)).toBe(
            referenceBits(kind, rank, work.seed, work.first + BigInt(i)),
          );
        }
      }
    }
  });

  it('refuses rank counts beyond what shuffles can hold', () => {
    const kind = { type: 'float32', op: 'sum', role: 'input' } as const;
    expect(() => fillProgram({ ...kind, ranks: 0 }, WASM_TRAITS)).toThrow('test data for 0 ranks');
    expect(() => verifyProgram({ ...kind, ranks: 40000 }, WASM_TRAITS)).toThrow('it must be 1 to 32768');
  });
});

describe('test data by many threads', () => {
  it('are shared out without gap or race, and every thread counts', () => {
    const traits = interpreterTraits({ threads: 'many' });
    const kind: TestDataKind = { type: 'float16', op: 'sum', ranks: 3, role: 'input' };
    const count = 53;
    fc.assert(
      fc.property(fc.nat(), fc.integer({ min: 1, max: 3 }), (seed, blocks) => {
        const machine = new Machine({ seed, memory: 'weak' });
        const data = machine.region('data', count * 2, 0);
        const values = { data, count, first: 5, seed: 12, rank: 1, firstWrong: NOTHING_WRONG };
        const fill = machine.struct(TestDataWork, 0, values, 'fill');
        machine.launch(fillProgram(kind, traits), { rank: 0, descriptor: fill, blocks, threads: 4 });
        machine.run();
        const bits = machine.readArray(data, Uint16Array, count);
        for (let i = 0; i < count; i++) {
          expect(BigInt(bits[i]!)).toBe(inputBits('float16', 'sum', 3, 1, 12n, 5n + BigInt(i)));
        }
        for (const i of [7, 8, 9, 40]) machine.write('u16', data + 2 * i, bits[i]! ^ 1);
        const verify = machine.struct(TestDataWork, 0, values, 'verify');
        machine.launch(verifyProgram(kind, traits), { rank: 0, descriptor: verify, blocks, threads: 4 });
        machine.run();
        const at = (field: 'wrong' | 'firstWrong') => verify + TestDataWork.fields[field].offset;
        expect(machine.read('u64', at('wrong'))).toBe(4n);
        expect(machine.read('u64', at('firstWrong'))).toBe(7n);
      }),
      { numRuns: 20 },
    );
  });
});
