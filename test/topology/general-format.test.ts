/** C's `%g`. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatGeneral } from '#src/cli/perf/number-format.js';
import { generalFormat } from '#src/topology/general-format.js';

describe('generalFormat', () => {
  it.each([
    [0, '0'],
    [-0, '-0'],
    [30, '30'],
    [Math.fround(2.4), '2.4'],
    [Math.fround(0.12), '0.12'],
    [Math.fround(45.1), '45.1'],
    [0.1 + 0.2, '0.3'],
    [1234567, '1.23457e+06'],
    [999999.5, '1e+06'],
    [100000.5, '100000'],
    [100001.5, '100002'],
    [0.0001, '0.0001'],
    [0.00001, '1e-05'],
    [1e100, '1e+100'],
    [-17.5, '-17.5'],
    [5e-324, '4.94066e-324'],
  ])('writes %d as %s', (value, text) => {
    expect(generalFormat(value)).toBe(text);
  });

  it('is the same as the format of tables of measurements', () => {
    const halfway = fc
      .tuple(fc.integer({ min: 100_000, max: 999_999 }), fc.integer({ min: 0, max: 40 }))
      .map(([digits, shift]) => (digits + 0.5) * 2 ** shift);
    const any = fc.double({ noNaN: true, noDefaultInfinity: true });
    fc.assert(
      fc.property(fc.oneof(any, any.map(Math.fround).filter(Number.isFinite), halfway), (value) => {
        expect(generalFormat(value)).toBe(formatGeneral(value));
      }),
      { numRuns: 2000 },
    );
  });
});
