import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ELEMENT_TYPE_NAMES, ELEMENT_TYPES, type ElementType } from '#src/kernel/element-types.js';
import {
  arrayFor,
  averageArgument,
  decode,
  decodeNumber,
  divideBits,
  encode,
  encodeNumber,
  isNaNBits,
  type NarrowFloat,
  narrowBits,
  orderedReduce,
  reduceBits,
  reduceNumber,
  ringOrderReduce,
  sameBits,
  widenBits,
} from '#src/kernel/numeric.js';

const NARROW: readonly NarrowFloat[] = ['float16', 'bfloat16', 'float8e4m3', 'float8e5m2'];

function patterns(type: NarrowFloat): number[] {
  return Array.from({ length: 2 ** (8 * ELEMENT_TYPES[type].size) }, (_, bits) => bits);
}

/** Finite non-negative values of a type in increasing order of their bits. */
function ladder(type: NarrowFloat): number[] {
  const half = patterns(type).slice(0, 2 ** (8 * ELEMENT_TYPES[type].size - 1));
  return half.map((bits) => decodeNumber(type, bits)).filter(Number.isFinite);
}

describe('decode and encode', () => {
  /** Values from IEEE 754 (binary16), the bfloat16 definition and the OCP 8-bit floating point specification. */
  const known: [NarrowFloat, number, number][] = [
    ['float16', 0x3c00, 1],
    ['float16', 0xc000, -2],
    ['float16', 0x3555, 0.333251953125],
    ['float16', 0x7bff, 65504],
    ['float16', 0x0400, 2 ** -14],
    ['float16', 0x03ff, 2 ** -14 - 2 ** -24],
    ['float16', 0x0001, 2 ** -24],
    ['float16', 0x7c00, Infinity],
    ['float16', 0x8000, -0],
    ['bfloat16', 0x3f80, 1],
    ['bfloat16', 0x4049, 3.140625],
    ['bfloat16', 0x7f7f, 255 * 2 ** 120],
    ['bfloat16', 0x0080, 2 ** -126],
    ['bfloat16', 0x0001, 2 ** -133],
    ['bfloat16', 0xff80, -Infinity],
    ['float8e4m3', 0x38, 1],
    ['float8e4m3', 0x7e, 448],
    ['float8e4m3', 0xfe, -448],
    ['float8e4m3', 0x08, 2 ** -6],
    ['float8e4m3', 0x01, 2 ** -9],
    ['float8e4m3', 0x07, 7 * 2 ** -9],
    ['float8e5m2', 0x3c, 1],
    ['float8e5m2', 0x7b, 57344],
    ['float8e5m2', 0x04, 2 ** -14],
    ['float8e5m2', 0x01, 2 ** -16],
    ['float8e5m2', 0xfc, -Infinity],
  ];

  it.each(known)('%s %i is %d', (type, bits, value) => {
    expect(decode(type, bits)).toBe(value);
    if (type !== 'float8e5m2' || Number.isFinite(value)) expect(encode(type, value)).toBe(BigInt(bits));
  });

  it('knows which patterns are NaN', () => {
    const nans = (type: NarrowFloat) => patterns(type).filter((bits) => isNaNBits(type, bits));
    expect(nans('float8e4m3')).toEqual([0x7f, 0xff]);
    expect(nans('float8e5m2')).toEqual([0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff]);
    expect(nans('float16')).toHaveLength(2 * 1023);
    expect(nans('bfloat16')).toHaveLength(2 * 127);
    expect(isNaNBits('int32', 0x7fc00000)).toBe(false);
    expect(isNaNBits('float64', 0x7ff0000000000001n)).toBe(true);
  });

  it.each(NARROW)('every pattern of %s survives the round trip', (type) => {
    for (const bits of patterns(type)) {
      const value = decodeNumber(type, bits);
      if (type === 'float8e5m2' && Math.abs(value) === Infinity) continue; // conversions saturate
      const back = encodeNumber(type, value);
      const again = narrowBits(type, widenBits(type, bits));
      if (!sameBits(type, back, bits) || again !== back)
        expect([bits, back, again]).toEqual([bits, bits, bits]);
    }
  });

  it.each(NARROW)('%s rounds to the nearest value, ties to the even pattern', (type) => {
    const values = ladder(type);
    for (let i = 0; i + 1 < values.length; i++) {
      const low = values[i]!;
      const high = values[i + 1]!;
      const middle = (low + high) / 2;
      const gap = high - low;
      const even = i % 2 === 0 ? i : i + 1;
      // Three points of the gap against its two ends; all are exact in double.
      const got = [low + gap / 1024, middle, high - gap / 1024].map((v) => encodeNumber(type, v));
      if (got[0] !== i || got[1] !== even || got[2] !== i + 1)
        expect([i, ...got]).toEqual([i, i, even, i + 1]);
      const sign = 2 ** (8 * ELEMENT_TYPES[type].size - 1);
      if (encodeNumber(type, -middle) !== even + sign) expect.fail(`-${middle}`);
    }
    expect(values.length).toBeGreaterThan(120);
  });

  it('overflow goes to infinity in the 16-bit floats and saturates in fp8', () => {
    // The first value that rounds up is half a unit above the largest.
    expect(encode('float16', 65519.99)).toBe(0x7bffn);
    expect(encode('float16', 65520)).toBe(0x7c00n);
    expect(encode('float16', -1e300)).toBe(0xfc00n);
    expect(encode('bfloat16', 3.4e38)).toBe(0x7f80n);
    expect(encode('bfloat16', 3.39e38)).toBe(0x7f7fn);
    for (const huge of [465, 1e9, 1e300, Infinity]) {
      expect(encode('float8e4m3', huge)).toBe(0x7en);
      expect(encode('float8e4m3', -huge)).toBe(0xfen);
    }
    for (const huge of [57345, 65536, 1e300, Infinity]) {
      expect(encode('float8e5m2', huge)).toBe(0x7bn);
      expect(encode('float8e5m2', -huge)).toBe(0xfbn);
    }
    for (const type of NARROW) expect(isNaNBits(type, encode(type, NaN))).toBe(true);
  });

  it('values below half the smallest subnormal become zero and keep their sign', () => {
    for (const type of NARROW) {
      const smallest = decodeNumber(type, 1);
      expect(encodeNumber(type, smallest / 2)).toBe(0);
      expect(encodeNumber(type, smallest * 0.500001)).toBe(1);
      expect(Object.is(decodeNumber(type, encodeNumber(type, -1e-320)), -0)).toBe(true);
      expect(Object.is(decodeNumber(type, encodeNumber(type, -0)), -0)).toBe(true);
    }
  });

  it('agrees with the typed arrays of JavaScript for the types that it has', () => {
    const types = ['int8', 'uint8', 'int32', 'uint32', 'float32', 'float64', 'int64', 'uint64'] as const;
    for (const type of types) {
      const wide = type === 'int64' || type === 'uint64';
      const values: fc.Arbitrary<number | bigint> =
        ELEMENT_TYPES[type].kind === 'float'
          ? fc.double()
          : wide
            ? fc.bigInt({ min: -(1n << 65n), max: 1n << 65n })
            : fc.integer({ min: -(2 ** 40), max: 2 ** 40 });
      fc.assert(
        fc.property(values, (value) => {
          const array = new (arrayFor(type))(1) as unknown as { [i: number]: unknown; buffer: ArrayBuffer };
          array[0] = value;
          const padded = new Uint8Array(8);
          padded.set(new Uint8Array(array.buffer));
          const bits = new DataView(padded.buffer).getBigUint64(0, true);
          expect(encode(type, value)).toBe(bits);
          expect(decode(type, bits)).toBe(array[0]);
        }),
      );
    }
  });

  it('refuses a fraction as an integer element', () => {
    expect(() => encode('int32', 0.5)).toThrow(/0\.5 is not a value of int32/);
    expect(() => encode('uint64', NaN)).toThrow(/whole numbers/);
  });

  it('every type has an array whose element size is its own', () => {
    for (const type of ELEMENT_TYPE_NAMES) {
      expect(arrayFor(type).BYTES_PER_ELEMENT).toBe(ELEMENT_TYPES[type].size);
    }
  });
});

describe('one step', () => {
  it('integers wrap at their width', () => {
    expect(reduceBits('int8', 'sum', 100n, 100n)).toBe(200n);
    expect(decode('int8', reduceBits('int8', 'sum', 100n, 100n))).toBe(-56);
    expect(reduceBits('uint8', 'prod', 16n, 17n)).toBe(16n);
    expect(reduceBits('uint32', 'prod', 0xffffffffn, 0xffffffffn)).toBe(1n);
    expect(reduceBits('int32', 'prod', 123456789n, 987654321n)).toBe((123456789n * 987654321n) & 0xffffffffn);
    expect(reduceBits('uint64', 'sum', (1n << 64n) - 1n, 2n)).toBe(1n);
    expect(reduceBits('int64', 'prod', 1n << 63n, 3n)).toBe(1n << 63n);
  });

  it('min and max follow the sign of the type', () => {
    expect(reduceBits('int8', 'max', 0x80n, 0x7fn)).toBe(0x7fn);
    expect(reduceBits('uint8', 'max', 0x80n, 0x7fn)).toBe(0x80n);
    expect(reduceBits('int64', 'min', 1n << 63n, 5n)).toBe(1n << 63n);
    expect(reduceBits('uint64', 'min', 1n << 63n, 5n)).toBe(5n);
    expect(reduceBits('uint32', 'min', 0x80000000n, 5n)).toBe(5n);
  });

  it('a NaN loses against a number in min and max, and two NaNs give NaN', () => {
    const floats = ELEMENT_TYPE_NAMES.filter((t) => ELEMENT_TYPES[t].kind === 'float');
    expect(floats).toHaveLength(6);
    for (const type of floats) {
      const nan = encode(type, NaN);
      const three = encode(type, 3);
      for (const step of ['min', 'max'] as const) {
        expect(reduceBits(type, step, nan, three)).toBe(three);
        expect(reduceBits(type, step, three, nan)).toBe(three);
        expect(isNaNBits(type, reduceBits(type, step, nan, nan))).toBe(true);
      }
      expect(isNaNBits(type, reduceBits(type, 'sum', nan, three))).toBe(true);
      expect(isNaNBits(type, reduceBits(type, 'prod', three, nan))).toBe(true);
    }
  });

  it('float16 and bfloat16 sums and products are the nearest values to the exact ones', () => {
    // Sums and products of two float16 are exact in double; the nearest is found by search, not by encode.
    for (const type of ['float16', 'bfloat16'] as const) {
      const values = ladder(type);
      const nearest = (exact: number) => {
        let low = 0;
        let high = values.length - 1;
        while (high - low > 1) {
          const middle = (low + high) >> 1;
          if (values[middle]! <= Math.abs(exact)) low = middle;
          else high = middle;
        }
        const below = Math.abs(exact) - values[low]!;
        const above = values[high]! - Math.abs(exact);
        const magnitude = below < above || (below === above && low % 2 === 0) ? low : high;
        return magnitude + (exact < 0 || Object.is(exact, -0) ? 0x8000 : 0);
      };
      // Finite values whose sum and product stay far from overflow and, for bfloat16, exact in double.
      const one = type === 'float16' ? 0x3c00 : 0x3f80;
      const unit = 2 ** ELEMENT_TYPES[type].mantissaBits;
      const some = fc
        .tuple(fc.integer({ min: one - 7 * unit, max: one + 7 * unit }), fc.constantFrom(0, 0x8000))
        .map(([bits, sign]) => bits + sign);
      fc.assert(
        fc.property(some, some, (a, b) => {
          const x = decodeNumber(type, a);
          const y = decodeNumber(type, b);
          expect(reduceNumber(type, 'sum', a, b)).toBe(nearest(x + y));
          expect(reduceNumber(type, 'prod', a, b)).toBe(nearest(x * y));
        }),
        { numRuns: 2000 },
      );
    }
  });

  it('float16 overflows to infinity in a step, fp8 saturates', () => {
    const big = encode('float16', 60000);
    expect(reduceBits('float16', 'sum', big, big)).toBe(0x7c00n);
    expect(reduceBits('float8e4m3', 'sum', 0x7en, 0x7en)).toBe(0x7en);
    expect(reduceBits('float8e4m3', 'prod', 0xfen, 0x7en)).toBe(0xfen);
    // 57344 + 57344 is infinite in float16 already, and comes back as the largest finite e5m2.
    expect(reduceBits('float8e5m2', 'sum', 0x7bn, 0x7bn)).toBe(0x7bn);
  });

  it('an fp8 step through float16 gives the same as rounding the exact result once', () => {
    const exact = { sum: (x: number, y: number) => x + y, prod: (x: number, y: number) => x * y };
    for (const type of ['float8e4m3', 'float8e5m2'] as const) {
      for (const step of ['sum', 'prod'] as const) {
        for (let a = 0; a < 256; a++) {
          for (let b = a; b < 256; b++) {
            const once = encode(type, exact[step](decodeNumber(type, a), decodeNumber(type, b)));
            const got = reduceBits(type, step, BigInt(a), BigInt(b));
            if (!sameBits(type, got, once)) expect.fail(`${type} ${step} ${a} ${b}: ${got}, not ${once}`);
          }
        }
      }
    }
  });
});

describe('averages', () => {
  it('integer division truncates toward zero, after the sum has wrapped', () => {
    expect(decode('int32', divideBits('int32', encode('int32', -7), 2))).toBe(-3);
    expect(divideBits('uint8', 255n, 2)).toBe(127n);
    expect(decode('int64', divideBits('int64', encode('int64', -9007199254740993n), 2n))).toBe(
      -4503599627370496n,
    );
    expect(orderedReduce('int8', 'avg', [100n, 100n, 100n])).toBe(14n);
    expect(() => divideBits('float32', 0n, 2)).toThrow(/cannot divide/);
    expect(() => divideBits('int32', 0n, 0)).toThrow(/cannot divide/);
  });

  it('the argument is twice the ranks plus one if signed, or the factor 1/n in the type', () => {
    expect(averageArgument('int8', 3)).toBe(7n);
    expect(averageArgument('uint64', 3)).toBe(6n);
    expect(decode('float32', averageArgument('float32', 3))).toBe(Math.fround(1 / 3));
    expect(decode('float64', averageArgument('float64', 3))).toBe(1 / 3);
    expect(averageArgument('float16', 3)).toBe(0x3555n);
    expect(averageArgument('bfloat16', 3)).toBe(0x3eabn);
    expect(averageArgument('float8e4m3', 2)).toBe(0x30n);
  });

  it('floats are multiplied before they are added', () => {
    // 65504 + 65504 would overflow before a division; multiplied first it does not.
    expect(decode('float16', orderedReduce('float16', 'avg', [0x7bffn, 0x7bffn]))).toBe(65504);
    const third = Math.fround(1 / 3);
    const sum = Math.fround(Math.fround(1 * third) + Math.fround(2 * third));
    const expected = Math.fround(sum + Math.fround(5 * third));
    const bits = [1, 2, 5].map((v) => encode('float32', v));
    expect(decode('float32', orderedReduce('float32', 'avg', bits))).toBe(expected);
  });
});

describe('order', () => {
  it('a ring adds from position c + 1 round to position c', () => {
    // In float16 2048 + 1 loses the one: only the order 0, 1, 2, 3 (of chunk 3) loses both.
    const values = [2048, 1, 1, -2048].map((v) => encode('float16', v));
    const result = (chunk: number) => decode('float16', ringOrderReduce('float16', 'sum', values, chunk));
    expect([0, 1, 2, 3].map(result)).toEqual([2, 2, 2, 0]);
  });

  it('refuses to reduce nothing', () => {
    expect(() => orderedReduce('int8' as ElementType, 'sum', [])).toThrow(/no contributions/);
  });
});
