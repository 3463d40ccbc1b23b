/** How often sizes are timed where a run has to end in time. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parsePerfOptions } from '#src/cli/perf/options.js';
import { formatCuts } from '#src/cli/perf/table.js';
import { affordableIterations, EACH_SECONDS, TimeBudget } from '#src/cli/perf/time-budget.js';

describe('affordable iterations', () => {
  it('are one at least, never more than wanted, and fit into an equal share of half of the time', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1000 }),
        fc.double({ min: 0.1, max: 1e7, noNaN: true }),
        fc.integer({ min: -1000, max: 100_000 }),
        fc.integer({ min: 1, max: 50 }),
        (wanted, iterationUs, leftMs, sides) => {
          const iterations = affordableIterations({ wanted, iterationUs, leftMs, sides });
          expect(iterations).toBeGreaterThanOrEqual(1);
          expect(iterations).toBeLessThanOrEqual(wanted);
          const loopMs = (iterations * iterationUs) / 1e3;
          const share = Math.max(10, leftMs / 2 / sides);
          if (iterations > 1) expect(loopMs).toBeLessThanOrEqual(share * 1.001);
          if (iterations < wanted) expect(loopMs + iterationUs / 1e3).toBeGreaterThanOrEqual(share * 0.999);
        },
      ),
    );
  });

  it('grow with what earlier sides leave', () => {
    const budget = new TimeBudget(2, 2, 1000);
    expect(budget.leftMs(1000)).toBe(2000);
    expect(budget.next(8, 20, 100_000, budget.leftMs(1000))).toBe(5);
    expect(budget.next(16, 20, 100_000, budget.leftMs(1200))).toBe(9);
    expect(budget.next(32, 20, 1, budget.leftMs(2900))).toBe(20);
    expect(budget.cuts).toEqual([
      { bytes: 8, wanted: 20, iterations: 5 },
      { bytes: 16, wanted: 20, iterations: 9 },
    ]);
    expect(formatCuts([...budget.cuts, { bytes: 8, wanted: 20, iterations: 3 }], 2)).toBe(
      '# Timed iterations, fewer to end within 2 s (--budget): 8 B 3 of 20, 16 B 9 of 20\n',
    );
    expect(formatCuts([], 2)).toBe('');
  });
});

describe('a budget', () => {
  const secondsOf = (line: string) => parsePerfOptions(line.split(' ')).budgetSeconds;

  it('is there for each algorithm or protocol, or as asked, unless iterations or endless cycles are asked for', () => {
    expect(secondsOf('--algo each')).toBe(EACH_SECONDS);
    expect(secondsOf('--algo Ring --proto EACH')).toBe(EACH_SECONDS);
    expect(secondsOf('--algo each --budget 5')).toBe(5);
    expect(secondsOf('--budget 5')).toBe(5);
    for (const line of [
      '--algo Ring',
      '--algo each --budget 0',
      '--algo each --iters 3',
      '--algo each -N 0',
    ]) {
      expect(secondsOf(line), line).toBeUndefined();
    }
  });

  it('beside iterations is refused', () => {
    expect(() => secondsOf('--budget 5 --iters 3')).toThrow(
      /--budget 5 --iters 3: iterations that are asked for are made/,
    );
  });
});
