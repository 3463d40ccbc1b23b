import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatExponent, formatFixed, formatGeneral, formatToFit } from '#src/cli/perf/number-format.js';

describe('C number formats', () => {
  it('rounds exact halves to even', () => {
    expect(formatFixed(0.125, 2)).toBe('0.12');
    expect(formatFixed(0.375, 2)).toBe('0.38');
    expect(formatFixed(2.5, 0)).toBe('2');
    expect(formatFixed(0.5, 0)).toBe('0');
    expect(formatFixed(1.5, 0)).toBe('2');
    expect(formatFixed(0.015, 2)).toBe('0.01');
    expect(formatFixed(-1e95, 2)).toBe(`-${BigInt(1e95)}.00`);
    expect(formatExponent(12500000, 1)).toBe('1.2e+07');
    expect(formatExponent(9.96e7, 1)).toBe('1.0e+08');
  });

  it('agrees with the printf of the system', () => {
    const values = fc
      .sample(
        fc.oneof(
          fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e21, max: 1e21 }),
          fc.double({ noNaN: true, min: 1e-6, max: 1e6 }),
          fc.integer({ min: -1_000_000, max: 100_000_000 }).map((i) => i / 8),
        ),
        { numRuns: 300, seed: 2026 },
      )
      .filter((x) => Math.abs(x) > 1e-30);
    // awk prints doubles through C's printf; 18 significant digits carry each value over exactly.
    const script = values
      .map(
        (x) =>
          `printf "%.2f %.0f %.1e %.6f %g\\n", ${exact(x)}, ${exact(x)}, ${exact(x)}, ${exact(x)}, ${exact(x)}`,
      )
      .join('\n');
    const lines = execFileSync('awk', [`BEGIN {\n${script}\n}`], { encoding: 'utf8' })
      .trimEnd()
      .split('\n');
    const ours = values.map((x) =>
      [formatFixed(x, 2), formatFixed(x, 0), formatExponent(x, 1), formatFixed(x, 6), formatGeneral(x)].join(
        ' ',
      ),
    );
    expect(ours).toEqual(lines);
  });

  it('formats %g like C', () => {
    expect(formatGeneral(0)).toBe('0');
    expect(formatGeneral(123456)).toBe('123456');
    expect(formatGeneral(1234567)).toBe('1.23457e+06');
    expect(formatGeneral(0.0001)).toBe('0.0001');
    expect(formatGeneral(0.00001)).toBe('1e-05');
    expect(formatGeneral(100000)).toBe('100000');
    expect(formatGeneral(999999.5)).toBe('1e+06');
    expect(formatGeneral(12.3456789)).toBe('12.3457');
    expect(formatGeneral(Number.NaN)).toBe('nan');
    expect(formatGeneral(Number.POSITIVE_INFINITY)).toBe('inf');
  });
});

function exact(x: number): string {
  return x.toExponential(17);
}

describe('numbers of the table', () => {
  it('gives the worked values', () => {
    expect(formatToFit(12345.678, 7)).toBe('12345.7');
    expect(formatToFit(99999.994, 7)).toBe(' 100000');
    expect(formatToFit(12345678.9, 7)).toBe('1.2e+07');
    expect(formatToFit(1234.56, 6)).toBe('1234.6');
    expect(formatToFit(0.126, 6)).toBe('  0.13');
  });

  it('always fills the width and stays within the rounding it shows', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e9, noNaN: true }), fc.constantFrom(6, 7), (x, width) => {
        const text = formatToFit(x, width);
        expect(text.length).toBe(width);
        const decimals = text.includes('e') ? 0 : (text.split('.')[1]?.length ?? 0);
        const error = text.includes('e') ? x * 0.5 : 0.5 * 10 ** -decimals;
        expect(Math.abs(Number(text) - x)).toBeLessThanOrEqual(error * (1 + 1e-9));
      }),
    );
  });
});
