import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import { coreCount, quotaCores } from '#src/system/core-count.js';

describe('the quota of a control group', () => {
  it.each([
    ['max 100000', Number.POSITIVE_INFINITY],
    ['200000 100000', 2],
    ['50000 100000', 0.5],
    ['150000', 1.5],
    ['-1 100000', Number.POSITIVE_INFINITY],
    ['', Number.POSITIVE_INFINITY],
    [undefined, Number.POSITIVE_INFINITY],
  ])('%j grants %d cores', (text, cores) => {
    expect(quotaCores(text)).toBe(cores);
  });
});

describe('the core count', () => {
  it('is a whole number from 1 to the cores that the scheduler allows', () => {
    expect(Number.isInteger(coreCount())).toBe(true);
    expect(coreCount()).toBeGreaterThanOrEqual(1);
    expect(coreCount()).toBeLessThanOrEqual(availableParallelism());
  });
});
