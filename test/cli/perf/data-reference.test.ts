import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  copyBits,
  expectedBits,
  hash,
  inputBits,
  mix,
  shuffle,
  split,
  toleranceBits,
} from '#src/cli/perf/data-reference.js';
import {
  ELEMENT_TYPE_NAMES,
  ELEMENT_TYPES,
  type ElementType,
  REDUCE_OP_NAMES,
  type ReduceOp,
} from '#src/kernel/element-types.js';
import { decode, orderedReduce } from '#src/kernel/numeric.js';

const FLOATS = ELEMENT_TYPE_NAMES.filter((type) => ELEMENT_TYPES[type].kind === 'float');

/** The inputs reduced one after the other in the given order with the arithmetic of one ring step. */
function foldInputs(
  type: ElementType,
  op: ReduceOp,
  n: number,
  seed: bigint,
  index: bigint,
  order: readonly number[] = Array.from({ length: n }, (_, r) => r),
): bigint {
  const inputs = order.map((rank) => inputBits(type, op, n, rank, seed, index));
  // One rank alone does not scale its average.
  return n === 1 ? inputs[0]! : orderedReduce(type, op, inputs);
}

describe('hash primitives', () => {
  it('MIX gives the worked values', () => {
    expect(mix(0n)).toBe(0x1d81f5cc8a866192n);
    expect(mix(1n)).toBe(0x7f4a7c137c137f4an);
  });

  it('HASH gives the worked values', () => {
    expect(hash(0n, 0n)).toBe(0x9efa0e58f1f2474dn);
    expect(hash(1n, 0n)).toBe(0xe371bbd15366be29n);
    expect(hash(0n, 1n)).toBe(0x89c2d6573fb9be29n);
    expect(hash(99n, 5n)).toBe(0xf4d967f7fbb94b99n);
  });

  it('SHUFFLE gives the worked permutations', () => {
    const permutation = (n: number, state: bigint): number[] =>
      Array.from({ length: n }, (_, r) => shuffle(n, r, { value: state }));
    expect(permutation(5, hash(1n, 0n))).toEqual([2, 4, 0, 3, 1]);
    expect(permutation(8, hash(7n, 3n))).toEqual([5, 3, 6, 7, 0, 2, 1, 4]);
  });

  it('SHUFFLE is a permutation for every rank count and state', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 600 }), fc.bigInt(0n, 2n ** 64n - 1n), (n, state) => {
        const places = Array.from({ length: n }, (_, r) => shuffle(n, r, { value: state }));
        expect(places.sort((a, b) => a - b)).toEqual(Array.from({ length: n }, (_, r) => r));
      }),
    );
  });

  it('SPLIT divides a total of the upper half without rest', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 200 }),
        fc.bigInt(0n, 2n ** 64n - 1n),
        fc.constantFrom(7n, 15n, 127n, 2047n, 2n ** 24n - 1n, 2n ** 53n - 1n),
        fc.nat(),
        (n, state, maximum, pick) => {
          const width = maximum > 2n ** 32n ? 64 : 32;
          const half = (maximum + 1n) / 2n;
          const avoid = pick % 3 === 0 ? undefined : half + (BigInt(pick) % half);
          const parts = Array.from({ length: n }, (_, r) =>
            split(width, n, r, { value: state }, maximum, avoid),
          );
          const total = parts[0]!.total;
          expect(total >= half && total <= maximum).toBe(true);
          expect(parts.every((part) => part.total === total && part.part >= 0n)).toBe(true);
          expect(parts.reduce((sum, part) => sum + part.part, 0n)).toBe(total);
        },
      ),
    );
  });
});

describe('float sum', () => {
  it('gives the worked inputs and results', () => {
    const inputs = (n: number, index: bigint): bigint[] =>
      Array.from({ length: n }, (_, r) => inputBits('float32', 'sum', n, r, 1n, index));
    expect(inputs(2, 0n)).toEqual([0xf2d0d892n, 0x72e59b20n]);
    expect(inputs(3, 0n)).toEqual([0x72e59b20n, 0xf2d0d891n, 0xe7000000n]);
    expect(inputs(2, 1n)).toEqual([0xaed8d835n, 0x2e86d697n]);
    expect(expectedBits('float32', 'sum', 2, 1n, 0n)).toBe(0x71261470n);
    expect(expectedBits('float32', 'sum', 3, 1n, 0n)).toBe(0x71261470n);
    expect(expectedBits('float32', 'sum', 2, 1n, 1n)).toBe(0xae24033cn);
    expect(decode('float32', 0x71261470n)).toBeCloseTo(8.223875e29, -24);
  });

  it('has a result that does not depend on the number of ranks', () => {
    for (const type of FLOATS) {
      for (let index = 0n; index < 50n; index++) {
        const two = expectedBits(type, 'sum', 2, 5n, index);
        for (const n of [3, 4, 7, 16]) expect(expectedBits(type, 'sum', n, 5n, index)).toBe(two);
      }
    }
  });
});

/** The self-test's seed and rank counts (2^i + i), the counts cut so that the whole takes seconds. */
const SELF_TEST_SEED = 0xc8e2bed69766d533n;
const SELF_TEST_RANKS: readonly (readonly [ranks: number, elements: number])[] = [
  [1, 200],
  [2, 200],
  [3, 150],
  [4, 100],
  [6, 60],
  [11, 30],
  [20, 15],
  [37, 8],
  [70, 4],
  [135, 3],
  [264, 3],
  [521, 2],
];

function distance(a: bigint, b: bigint): bigint {
  return a > b ? a - b : b - a;
}

describe('self-test: folding the inputs in rank order gives the expected bits', () => {
  for (const type of ELEMENT_TYPE_NAMES) {
    for (const op of REDUCE_OP_NAMES) {
      it(`${type} ${op}`, () => {
        for (const [ranks, elements] of SELF_TEST_RANKS) {
          for (let index = 0n; index < BigInt(elements); index++) {
            const folded = foldInputs(type, op, ranks, SELF_TEST_SEED, index);
            const wanted = expectedBits(type, op, ranks, SELF_TEST_SEED, index);
            if (distance(folded, wanted) > BigInt(toleranceBits(type, op))) {
              expect.fail(
                `ranks ${ranks} index ${index}: folded 0x${folded.toString(16)}, expected 0x${wanted.toString(16)}`,
              );
            }
          }
        }
      });
    }
  }

  it('gives the same bits in any order of the ranks, except for averages of floats', () => {
    const exact = (type: ElementType, op: ReduceOp): boolean => toleranceBits(type, op) === 0;
    fc.assert(
      fc.property(
        fc.constantFrom(...ELEMENT_TYPE_NAMES),
        fc.constantFrom(...REDUCE_OP_NAMES),
        fc.integer({ min: 2, max: 9 }).chain((n) =>
          fc.shuffledSubarray(
            Array.from({ length: n }, (_, r) => r),
            { minLength: n },
          ),
        ),
        fc.bigInt(0n, 2n ** 64n - 1n),
        fc.bigInt(0n, 2n ** 40n),
        (type, op, order, seed, index) => {
          fc.pre(exact(type, op));
          expect(foldInputs(type, op, order.length, seed, index, order)).toBe(
            expectedBits(type, op, order.length, seed, index),
          );
        },
      ),
      { numRuns: 1000 },
    );
  });
});

describe('copy data', () => {
  it('is the input and the result of every operator on one rank', () => {
    for (const type of ELEMENT_TYPE_NAMES) {
      for (const op of REDUCE_OP_NAMES) {
        for (let index = 0n; index < 20n; index++) {
          expect(inputBits(type, op, 1, 0, 7n, index)).toBe(copyBits(type, 7n, index));
          expect(expectedBits(type, op, 1, 7n, index)).toBe(copyBits(type, 7n, index));
        }
      }
    }
  });

  it('takes the high bits of the mixed index for integers', () => {
    expect(copyBits('uint64', 0n, 1n)).toBe(0x7f4a7c137c137f4an);
    expect(copyBits('int32', 1n, 0n)).toBe(0x7f4a7c13n);
    expect(copyBits('uint8', 0n, 0n)).toBe(0x1dn);
  });

  it('holds only finite normal floats', () => {
    for (const type of FLOATS) {
      for (let index = 0n; index < 500n; index++) {
        const value = Math.abs(Number(decode(type, copyBits(type, 3n, index))));
        expect(Number.isFinite(value)).toBe(true);
        expect(value).toBeGreaterThanOrEqual(smallestNormal(type));
      }
    }
  });
});

function smallestNormal(type: ElementType): number {
  const info = ELEMENT_TYPES[type];
  return info.kind === 'float' ? 2 ** (2 - 2 ** (info.exponentBits - 1)) : Number.NaN;
}
