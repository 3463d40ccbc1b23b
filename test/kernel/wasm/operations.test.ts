/** Every scalar operation of the representation, compiled, on special values, against the plain evaluator. */
import { describe, expect, it } from 'vitest';
import { kernel, type Value } from '#src/kernel/builder.js';
import type { BinaryOp, CompareOp, UnaryOp, ValueType } from '#src/kernel/ir.js';
import { WASM_TRAITS } from '#src/kernel/ir.js';
import { evaluate } from './evaluate.js';
import { instance } from './instance.js';

type NumberType = 'i32' | 'u32' | 'i64' | 'u64' | 'f32' | 'f64';
const WHOLE = ['i32', 'u32', 'i64', 'u64'] as const;
const FLOATS = ['f32', 'f64'] as const;
const BASE = 1024;
const OUT = 16;

/** Bits that are put into memory as operands. */
const INTEGERS = [
  0n,
  1n,
  2n,
  3n,
  31n,
  100n,
  0xffn,
  0x8000n,
  0x7fff_ffffn,
  0x8000_0000n,
  0xffff_fffen,
  0xffff_ffffn,
  0x1_0000_0000n,
  0x0123_4567_89ab_cdefn,
  0x7fff_ffff_ffff_ffffn,
  0x8000_0000_0000_0000n,
  0xffff_ffff_ffff_fffen,
  0xffff_ffff_ffff_ffffn,
];
const REALS = [
  0,
  -0,
  1,
  -1,
  0.5,
  2.5,
  -2.5,
  1e-40,
  16777217,
  2147483648,
  -2147483649,
  4294967296,
  9.3e18,
  -9.3e18,
  1.9e19,
  3e38,
  -1e300,
  Infinity,
  -Infinity,
  NaN,
];

function operandBits(type: NumberType): bigint[] {
  if (type !== 'f32' && type !== 'f64') return INTEGERS;
  const view = new DataView(new ArrayBuffer(8));
  return REALS.map((value) => {
    if (type === 'f64') view.setFloat64(0, value);
    else view.setFloat32(0, value);
    return type === 'f64' ? view.getBigUint64(0) : BigInt(view.getUint32(0));
  });
}

/** Puts a value into memory; of NaNs only that they are NaNs. */
function write(k: Parameters<Parameters<typeof kernel>[2]>[0], base: Value<'ptr'>, value: Value): void {
  const at = { offset: OUT };
  if (value.type === 'pred') k.store('u32', base, k.select(value as Value<'pred'>, k.u32(1), 0), at);
  else if (value.type === 'f32' || value.type === 'f64') {
    const number = value as Value<'f32'>;
    k.store('u32', base, k.select(number.ne(number), k.u32(1), 0), { offset: OUT + 8 });
    k.store(
      value.type,
      base,
      k.select(number.eq(number), number as Value, k.input(value.type, 0) as Value) as never,
      at,
    );
  } else k.store(value.type, base, value as never, at);
}

/** Runs compiled code and evaluator on all pairs of operands and compares the bytes that they write. */
function check(
  left: NumberType,
  right: NumberType,
  operation: (a: Value, b: Value) => Value,
  divides = false,
): void {
  const program = kernel('operation', WASM_TRAITS, (k, base) => {
    write(k, base, operation(k.load(left, base), k.load(right, base, { offset: 8 })));
  });
  const run = instance(program);
  const bytes = new Uint8Array(2048);
  const view = new DataView(bytes.buffer);
  const wrong: string[] = [];
  const mask = right === 'i32' || right === 'u32' ? 0xffff_ffffn : (1n << 64n) - 1n;
  for (const a of operandBits(left)) {
    for (const b of operandBits(right)) {
      if (divides && (b & mask) === 0n) continue;
      for (const memory of [view, run.view]) {
        memory.setBigUint64(BASE, a, true);
        memory.setBigUint64(BASE + 8, b, true);
      }
      evaluate(program, { view, descriptor: BASE });
      run.entries.operation!(BASE, 0, 1);
      const due = bytes.slice(BASE, BASE + 64);
      const got = run.bytes.slice(BASE, BASE + 64);
      if (Buffer.compare(due, got) !== 0)
        wrong.push(`${a} ${b}: ${got.slice(16, 32)}, not ${due.slice(16, 32)}`);
    }
  }
  expect(wrong).toEqual([]);
}

const INTEGER_BINARY = [
  'add',
  'sub',
  'mul',
  'mulHi',
  'div',
  'rem',
  'min',
  'max',
  'and',
  'or',
  'xor',
] as const;
const FLOAT_BINARY = ['add', 'sub', 'mul', 'div', 'min', 'max'] as const;
const COMPARE: CompareOp[] = ['eq', 'ne', 'lt', 'le', 'gt', 'ge'];
const UNARY: UnaryOp[] = ['neg', 'not', 'clz', 'ctz', 'popcnt', 'abs'];

describe.each(WHOLE)('integers of type %s', (type) => {
  it.each(INTEGER_BINARY satisfies readonly BinaryOp[])('%s', (op) => {
    check(type, type, (a, b) => a[op](b), op === 'div' || op === 'rem');
  });
  it.each(COMPARE)('%s, also negated', (op) => {
    check(type, type, (a, b) => a[op](b));
    check(type, type, (a, b) => a[op](b).not());
  });
  it.each(UNARY)('%s', (op) => {
    check(type, type, (a) => a[op]());
  });
  it('shl and shr by every count', () => {
    const bits = type === 'i32' || type === 'u32' ? 31 : 63;
    check(type, 'u32', (a, b) => a.shl((b as Value<'u32'>).and(bits)));
    check(type, 'u32', (a, b) => a.shr((b as Value<'u32'>).and(bits)));
    for (const count of [1, bits]) {
      check(type, 'u32', (a) => a.shl(count));
      check(type, 'u32', (a) => a.shr(count));
    }
  });
});

describe.each(FLOATS)('floats of type %s', (type) => {
  it.each(FLOAT_BINARY)('%s', (op) => {
    check(type, type, (a, b) => a[op](b));
  });
  it.each(COMPARE)('%s, also negated', (op) => {
    check(type, type, (a, b) => a[op](b));
    check(type, type, (a, b) => a[op](b).not());
  });
  it.each(['neg', 'abs'] as const)('%s', (op) => {
    check(type, type, (a) => a[op]());
  });
});

describe('conversions', () => {
  const all: NumberType[] = [...WHOLE, ...FLOATS];
  it.each(all)('from %s to every type', (from) => {
    for (const to of [...all, 'pred'] as ValueType[]) check(from, from, (a) => a.cast(to));
  });
  it('from truth values to integers and floats', () => {
    for (const to of all) check('i32', 'i32', (a, b) => a.lt(b).cast(to));
  });
  it('low halves of 64-bit arithmetic', () => {
    check('u64', 'u64', (a, b) => a.mul(b).add(a.shl(7)).xor(b.sub(a)).cast('u32'));
    check('u64', 'u64', (a, b) => a.shl(40).or(b.shr(3)).cast('i32'));
    check('u64', 'u64', (a, b) =>
      a
        .cast('u32')
        .cast('u64')
        .and(b as Value<'u64'>)
        .cast('u32'),
    );
  });
  it('the same bits as another type', () => {
    const pairs = [
      ['i32', 'f32'],
      ['u32', 'i32'],
      ['i64', 'f64'],
      ['u64', 'i64'],
      ['f32', 'u32'],
      ['f64', 'u64'],
    ] as const;
    for (const [from, to] of pairs) check(from, from, (a) => a.bitcast(to));
  });
});

describe('truth values and choices', () => {
  it('and, or, xor, not', () => {
    for (const op of ['and', 'or', 'xor'] as const) {
      check('i32', 'u64', (a, b) => a.gt(2)[op](b.eq(1)));
      check('i32', 'u64', (a, b) => a.gt(2)[op](b.eq(1)).not());
    }
  });
  it('select chooses without a branch', () => {
    check('i32', 'i32', (a, b) => a.builder.select(a.lt(b), a, b));
    check('f64', 'f64', (a, b) => a.builder.select(a.lt(b), a, b));
  });
});

describe('addresses', () => {
  it('wrap around at 32 bits, whatever the type of the distance', () => {
    const program = kernel('offsets', WASM_TRAITS, (k, base) => {
      const back = k.load('u64', base);
      const distances = [back, back.cast('u32'), back.cast('i32')] as Value<'u64'>[];
      distances.forEach((distance, i) => {
        k.store('u64', base, base.offset(distance).cast('u64'), { offset: 16 + 8 * i });
      });
      k.store('u64', base, base.offset(-24n).cast('u64'), { offset: 40 });
    });
    const run = instance(program);
    run.view.setBigInt64(BASE, -16n, true);
    run.entries.offsets!(BASE, 0, 1);
    const addresses = [16, 24, 32, 40].map((at) => Number(run.view.getBigUint64(BASE + at, true)));
    expect(addresses).toEqual([BASE - 16, BASE - 16, BASE - 16, BASE - 24]);
  });

  it('of blocks: index and count come from the arguments, a block is one thread', () => {
    const program = kernel('identity', WASM_TRAITS, (k, base) => {
      [k.blockIndex, k.blockCount, k.threadIndex, k.threadCount].forEach((value, i) => {
        k.store('u32', base, value, { offset: 4 * i });
      });
    });
    const run = instance(program);
    run.entries.identity!(BASE, 6, 9);
    expect([...new Uint32Array(run.memory.buffer, BASE, 4)]).toEqual([6, 9, 0, 1]);
  });
});
