import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  bandwidthFor,
  COLLECTIVE_NAMES,
  checkRankCount,
  countsFor,
  iterationsFor,
  rotationOffset,
  sweepSizes,
  warmupSizes,
} from '#src/cli/perf/sizes.js';

describe('counts', () => {
  it('gives the worked example: 32 MiB of float gathered from 3 ranks', () => {
    expect(countsFor('all_gather', 33554432, 4, 3)).toEqual({
      count: 2796200,
      send: 2796200,
      expected: 8388600,
      inPlaceSend: 2796200,
      inPlaceReceive: 0,
      bytes: 33554400,
    });
  });

  it('uses the whole size for collectives in which every rank holds everything', () => {
    for (const collective of ['all_reduce', 'reduce', 'broadcast', 'sendrecv'] as const) {
      const { count, bytes, inPlaceSend, inPlaceReceive } = countsFor(collective, 1002, 4, 3);
      expect([count, bytes, inPlaceSend, inPlaceReceive]).toEqual([250, 1000, 0, 0]);
    }
  });

  it('never exceeds the requested size and cuts shares to 16 bytes', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...COLLECTIVE_NAMES),
        fc.nat(1 << 20),
        fc.constantFrom(1, 2, 4, 8),
        fc.integer({ min: 1, max: 17 }),
        (collective, size, elementSize, ranks) => {
          const counts = countsFor(collective, size, elementSize, ranks);
          expect(counts.bytes).toBeLessThanOrEqual(size);
          const isShared = counts.send !== counts.count || counts.expected !== counts.count;
          if (isShared) {
            expect((counts.count * elementSize) % 16).toBe(0);
            expect(counts.bytes).toBe(counts.count * elementSize * ranks);
            expect(size - counts.bytes).toBeLessThan(ranks * (16 + elementSize));
          } else if (ranks > 1 && counts.bytes > 0) expect(size - counts.bytes).toBeLessThan(16 * ranks);
          const input = counts.inPlaceSend * (ranks - 1) + counts.send;
          const output = counts.inPlaceReceive * (ranks - 1) + counts.expected;
          expect(Math.max(input, output) * elementSize).toBeLessThanOrEqual(Math.max(counts.bytes, 0));
        },
      ),
    );
  });
});

describe('bandwidths', () => {
  const busFactor = (collective: (typeof COLLECTIVE_NAMES)[number], n: number): number => {
    const { algbw, busbw } = bandwidthFor(collective, 1000, 4, n, 1e-6);
    return busbw / algbw;
  };

  it('relates busbw to algbw by the factor of the collective', () => {
    expect(busFactor('all_reduce', 4)).toBeCloseTo(1.5);
    expect(busFactor('all_gather', 4)).toBeCloseTo(0.75);
    expect(busFactor('reduce_scatter', 4)).toBeCloseTo(0.75);
    expect(busFactor('alltoall', 4)).toBeCloseTo(0.75);
    expect(busFactor('broadcast', 4)).toBe(1);
    expect(busFactor('reduce', 4)).toBe(1);
    expect(busFactor('hypercube', 4)).toBe(1);
  });

  it('counts the larger buffer in decimal gigabytes per second', () => {
    expect(bandwidthFor('all_reduce', 1000, 4, 3, 1e-6).algbw).toBeCloseTo(4);
    expect(bandwidthFor('all_gather', 1000, 4, 3, 1e-6).algbw).toBeCloseTo(12);
    expect(bandwidthFor('hypercube', 1000, 4, 4, 1e-6).algbw).toBeCloseTo(12);
  });

  it('gives no bus bandwidth on one rank', () => {
    expect(bandwidthFor('all_reduce', 1000, 4, 1, 1e-6).busbw).toBe(0);
    expect(bandwidthFor('all_gather', 1000, 4, 1, 1e-6).busbw).toBe(0);
  });
});

describe('sweeps', () => {
  const sweep = { minBytes: 8, maxBytes: 40, stepBytes: 12, stepFactor: 1 };

  it('adds or multiplies from the first size to the last', () => {
    expect([...sweepSizes(sweep, 4)]).toEqual([8, 20, 32]);
    expect([...sweepSizes({ ...sweep, stepFactor: 2 }, 4)]).toEqual([8, 16, 32]);
  });

  it('goes on from 0 with one element', () => {
    expect([...sweepSizes({ ...sweep, minBytes: 0, stepFactor: 3 }, 4)]).toEqual([0, 4, 12, 36]);
    expect([...sweepSizes({ ...sweep, minBytes: 0 }, 4)]).toEqual([0, 12, 24, 36]);
    expect([...sweepSizes({ minBytes: 0, maxBytes: 0, stepBytes: 0, stepFactor: 1 }, 4)]).toEqual([0]);
  });

  it('warms up by doubling', () => {
    expect([...warmupSizes(sweep, 4)]).toEqual([8, 16, 32]);
  });

  it('times small sizes more often, unless a number was asked for', () => {
    const sizes = [0, 16383, 16384, 131071, 131072, 1048575, 1048576];
    expect(sizes.map((bytes) => iterationsFor(bytes, 20, false))).toEqual([1000, 1000, 200, 200, 50, 50, 20]);
    expect(sizes.map((bytes) => iterationsFor(bytes, 7, true))).toEqual([7, 7, 7, 7, 7, 7, 7]);
  });

  it('walks small operations through the whole buffer', () => {
    expect([0, 1, 2, 3].map((q) => rotationOffset(q, 400, 1000))).toEqual([0, 400, 0, 400]);
    expect(rotationOffset(5, 1000, 1000)).toBe(0);
    expect(rotationOffset(5, 0, 1000)).toBe(0);
  });

  it('runs hypercube on powers of two only', () => {
    expect(() => checkRankCount('hypercube', 6)).toThrow('not 6');
    expect(() => checkRankCount('hypercube', 8)).not.toThrow();
    expect(() => checkRankCount('all_reduce', 6)).not.toThrow();
  });
});
