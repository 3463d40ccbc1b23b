import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { combineTimes, iterationStatistics, slowestPerIteration } from '#src/cli/perf/statistics.js';

describe('iteration statistics', () => {
  it('takes the percentiles of 20 samples at indices 10, 18 and 19', () => {
    const samples = Array.from({ length: 20 }, (_, i) => 19 - i);
    const { p50, p95, p99, min, max, mean } = iterationStatistics(samples);
    expect([p50, p95, p99, min, max, mean]).toEqual([10, 18, 19, 0, 19, 9.5]);
  });

  it('leaves out leading samples but keeps them in the list', () => {
    const statistics = iterationStatistics([100, 2, 4, 4, 4, 5, 5, 7, 9], 1);
    expect(statistics.mean).toBe(5);
    expect(statistics.deviation).toBe(2);
    expect(statistics.variationPercent).toBe(40);
    expect(statistics.max).toBe(9);
    expect(statistics.skipped).toBe(1);
    expect(statistics.samples).toHaveLength(9);
  });

  it('has no variation around a mean of 0', () => {
    expect(iterationStatistics([0, 0]).variationPercent).toBe(0);
  });

  it('orders its figures and picks percentiles from the samples', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 1e6, noNaN: true }), { minLength: 1 }), (samples) => {
        const s = iterationStatistics(samples);
        expect(s.min <= s.p50 && s.p50 <= s.max && s.p95 <= s.p99 && s.p99 <= s.max).toBe(true);
        expect([s.p50, s.p95, s.p99].every((p) => samples.includes(p))).toBe(true);
      }),
    );
  });

  it('refuses to summarise nothing', () => {
    expect(() => iterationStatistics([1, 2], 2)).toThrow('no samples are left');
  });
});

describe('times of several ranks', () => {
  it('become that of rank 0, mean, minimum or maximum', () => {
    const times = [4, 1, 7];
    expect(combineTimes(times, 'rank0')).toBe(4);
    expect(combineTimes(times, 'mean')).toBe(4);
    expect(combineTimes(times, 'min')).toBe(1);
    expect(combineTimes(times, 'max')).toBe(7);
    expect(() => combineTimes([], 'mean')).toThrow('no time');
  });

  it('count the slowest rank of each iteration', () => {
    expect(
      slowestPerIteration([
        [1, 5, 2],
        [3, 4, 2],
      ]),
    ).toEqual([3, 5, 2]);
  });
});
