/** The fit finds constants again that times were made of, and the model behaves as its formula says. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CANDIDATES, candidatesFor, DATA_COLLECTIVES } from '#src/tuning/host/candidates.js';
import { STANDARD_CONSTANTS } from '#src/tuning/host/constants.js';
import {
  type CandidateConstants,
  featuresOf,
  type HostCall,
  knotWeights,
  predict,
  stepsOf,
  touchedOf,
} from '#src/tuning/host/cost.js';
import { fitTable, type HostTime } from '#src/tuning/host/fit.js';
import { fitQuality } from '#src/tuning/host/fit-quality.js';

const CORES = 2;
const SIZES = [64, 4096, 65536, 1 << 20, 1 << 24];

const latencies = fc.record({
  start: fc.double({ min: 0.1, max: 20, noNaN: true }),
  step: fc.double({ min: 0.1, max: 20, noNaN: true }),
});
const constants: fc.Arbitrary<CandidateConstants> = fc.record({
  alone: latencies,
  crowded: latencies,
  bandwidth: fc.tuple(
    fc.double({ min: 20, max: 100, noNaN: true }),
    fc.double({ min: 10, max: 50, noNaN: true }),
    fc.double({ min: 1, max: 20, noNaN: true }),
  ),
});

/** Times of one candidate, off by up to `noise`. */
function timesOf(one: CandidateConstants, noise: () => number): HostTime[] {
  const candidate = candidatesFor('allReduce').find(({ algorithm }) => algorithm === 'Tree')!;
  return [2, 4, 8].flatMap((ranks) =>
    SIZES.map((bytes): HostTime => {
      const call: HostCall = { collective: 'allReduce', ranks, bytes };
      const { time } = predict(featuresOf(candidate, call, CORES, 'window'), one);
      return { candidate, call, cores: CORES, microseconds: time * (1 + noise()) };
    }),
  );
}

describe('a fit', () => {
  it('predicts what it was made of within the noise, whatever the constants, and touches no others [C21-23]', () => {
    fc.assert(
      fc.property(
        constants,
        fc.infiniteStream(fc.double({ min: -1, max: 1, noNaN: true })),
        (one, numbers) => {
          const noise = 0.03;
          const times = timesOf(one, () => noise * numbers.next().value!);
          const table = fitTable(STANDARD_CONSTANTS.window, times, 'window');
          const name = 'Tree LL';
          for (const { candidate, call, microseconds } of times) {
            const { time } = predict(featuresOf(candidate, call, CORES, 'window'), table.allReduce[name]!);
            expect(Math.abs(time / microseconds - 1)).toBeLessThan(0.25);
          }
          const { medianError, calls, good } = fitQuality(table, times, 'window');
          expect(medianError).toBeLessThan(0.08);
          // One candidate is always the fastest.
          expect(good).toBe(calls);
          const { [name]: _, ...others } = table.allReduce;
          const { [name]: _standard, ...standard } = STANDARD_CONSTANTS.window.allReduce;
          expect({ ...table, allReduce: others }).toEqual({
            ...STANDARD_CONSTANTS.window,
            allReduce: standard,
          });
        },
      ),
      { numRuns: 10, endOnFailure: true },
    );
  });
});

describe('the model', () => {
  it('takes longer for more bytes, and where ranks take turns', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...DATA_COLLECTIVES),
        fc.integer({ min: 2, max: 32 }),
        fc.integer({ min: 1, max: 1 << 22 }),
        fc.integer({ min: 1, max: 64 }),
        (collective, ranks, bytes, cores) => {
          for (const candidate of candidatesFor(collective)) {
            const one: CandidateConstants = {
              ...{ alone: { start: 1, step: 1 }, crowded: { start: 1, step: 1 } },
              bandwidth: [30, 20, 10],
            };
            const time = (more: Partial<HostCall>) =>
              predict(featuresOf(candidate, { collective, ranks, bytes, ...more }, cores, 'window'), one)
                .time;
            expect(time({ bytes: 2 * bytes })).toBeGreaterThan(time({}));
            const shared = featuresOf(candidate, { collective, ranks, bytes }, 1, 'window');
            expect(predict(shared, one).time).toBeGreaterThanOrEqual(time({}));
          }
        },
      ),
    );
  });

  it.each([
    ['OneShot', 'allReduce', 4, 64, 3],
    ['OneShot', 'allReduce', 4, 40_000, 9],
    ['TwoShot', 'allReduce', 4, 1 << 20, 3],
    ['Ring', 'allReduce', 4, 64, 6],
    ['Ring', 'allGather', 4, 64, 3],
    ['Recursive', 'allReduce', 8, 64, 3],
    ['Recursive', 'allReduce', 6, 64, 4],
    ['Tree', 'allReduce', 8, 64, 6],
    ['PAT', 'allGather', 5, 64, 3],
    ['Hierarchical', 'allReduce', 6, 64, 6],
  ] as const)('%s %s on %i ranks of %i bytes: %i steps', (algorithm, collective, ranks, bytes, steps) => {
    expect(stepsOf(algorithm, { collective, ranks, bytes })).toBe(steps);
  });

  it('knows that a ring all-reduce reads and writes 4 times its data on two ranks, a two-shot twice', () => {
    expect(touchedOf('Ring', { collective: 'allReduce', ranks: 2, bytes: 1 })).toBe(4);
    expect(touchedOf('TwoShot', { collective: 'allReduce', ranks: 8, bytes: 1 })).toBe(2);
  });

  it('goes from one bandwidth to the next by the logarithm of the bytes', () => {
    expect(knotWeights(1)).toEqual([1, 0, 0]);
    expect(knotWeights(2 ** 19)).toEqual([0.5, 0.5, 0]);
    expect(knotWeights(2 ** 23)).toEqual([0, 0.5, 0.5]);
    expect(knotWeights(2 ** 40)).toEqual([0, 0, 1]);
  });

  it('knows every candidate', () => {
    expect(CANDIDATES.length).toBeGreaterThanOrEqual(11);
  });
});
