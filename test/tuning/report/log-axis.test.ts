/** Logarithmic axes: places in order, marks on round values. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { logAxis, place, powers, withRoom } from '#src/tuning/report/svg/log-axis.js';

describe('a logarithmic axis', () => {
  it('puts its ends at its pixels and the geometric mean in the middle', () => {
    const axis = logAxis([100, 1, 10], 0, 200);
    expect([1, 10, 100].map((value) => place(axis, value))).toEqual([0, 100, 200]);
  });

  it('keeps the order of values, and all of them inside', () => {
    const values = fc.array(fc.double({ min: 1e-6, max: 1e12, noNaN: true }), {
      minLength: 1,
      maxLength: 30,
    });
    fc.assert(
      fc.property(values, (list) => {
        const axis = withRoom(logAxis(list, 300, 20));
        const places = list.toSorted((a, b) => a - b).map((value) => place(axis, value));
        expect(places).toEqual(places.toSorted((a, b) => b - a));
        for (const at of places) expect(at >= 20 && at <= 300).toBe(true);
      }),
    );
  });

  it('exists without values, and for one', () => {
    expect(place(logAxis([], 0, 10), 5)).toBeGreaterThan(0);
    expect(place(logAxis([0, Number.NaN], 0, 10), 1)).toBe(0);
    expect(place(logAxis([8], 0, 10), 8)).toBe(5);
  });

  it('has marks at powers, as many as there is room for', () => {
    expect(powers(logAxis([8, 4096], 0, 1), 2, 20)).toEqual([8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]);
    expect(powers(logAxis([8, 4096], 0, 1), 2, 5)).toEqual([8, 32, 128, 512, 2048]);
    expect(powers(logAxis([3, 5000], 0, 1), 10, 9)).toEqual([10, 100, 1000]);
  });
});
