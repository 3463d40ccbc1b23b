/** Arithmetic that follows C. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { atLeastAtMost, divideUp, log2Floor, MAX_F32, powerOfTwoDown } from '#src/tuning/arithmetic.js';
import { sizeClass, treeEfficiency } from '#src/tuning/tree-efficiency.js';

describe('arithmetic', () => {
  it('finds the highest bit of any whole number', () => {
    expect([0, 1, 2, 3, 4].map(log2Floor)).toEqual([-1, 0, 1, 1, 2]);
    fc.assert(
      fc.property(fc.maxSafeNat(), (value) => {
        expect(log2Floor(value)).toBe(value === 0 ? -1 : BigInt(value).toString(2).length - 1);
      }),
    );
    for (let bit = 0; bit < 53; bit++) {
      expect([log2Floor(2 ** bit), powerOfTwoDown(2 ** bit)]).toEqual([bit, 2 ** bit]);
      if (bit > 0) expect(log2Floor(2 ** bit - 1)).toBe(bit - 1);
    }
  });

  it('has the largest float', () => {
    expect(MAX_F32).toBe(Math.fround(3.4028234663852886e38));
  });

  it('rounds quotients up, and lets a lower bound win', () => {
    expect([divideUp(0, 8), divideUp(1, 8), divideUp(8, 8), divideUp(9, 8)]).toEqual([0, 1, 1, 2]);
    expect([atLeastAtMost(5, 1, 3), atLeastAtMost(0, 1, 3), atLeastAtMost(2, 4, 3)]).toEqual([3, 1, 4]);
  });
});

describe('efficiency of trees', () => {
  it('is by powers of two from 64 bytes on, and 1 outside', () => {
    expect([1, 63, 64, 127, 128].map(sizeClass)).toEqual([-1, -1, 0, 0, 1]);
    expect(treeEfficiency(2, 63, 24)).toBe(1);
    expect(treeEfficiency(2, 64, 24)).toBe(Math.fround(0.9));
    expect(treeEfficiency(2, 64 * 2 ** 23, 24)).toBe(Math.fround(0.9));
    expect(treeEfficiency(2, 64 * 2 ** 23, 23)).toBe(1);
    expect(treeEfficiency(2, 64 * 2 ** 24, 24)).toBe(1);
    expect(treeEfficiency(0, 64 * 2 ** 12, 23)).toBe(Math.fround(0.4));
  });
});
