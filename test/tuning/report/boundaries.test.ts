/** Sizes at which something changes, against a plain search through all sizes. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tuningTables } from '#src/tuning/model.js';
import { firstAbove, lastBelow } from '#src/tuning/report/boundaries.js';
import { CallStudies } from '#src/tuning/report/candidate.js';
import { callOf, countFor, grainOf, type MessageKind } from '#src/tuning/report/message.js';
import { busFactor } from '#src/tuning/report/quantities.js';
import { FunctionStudy } from '#src/tuning/report/study.js';
import { anyInput } from '../any-input.js';
import { fourNodes, plainInput } from '../plain-input.js';

const anyKind: fc.Arbitrary<MessageKind> = fc.record({
  function: fc.constantFrom('AllReduce', 'AllGather', 'ReduceScatter', 'Broadcast', 'Reduce'),
  type: fc.constantFrom('float32', 'int8', 'float64', 'float16'),
  op: fc.constantFrom('sum', 'prod', 'max', 'min', 'avg'),
  registered: fc.boolean(),
});

const studyOf = (input: Parameters<typeof tuningTables>[0], kind: MessageKind) =>
  new FunctionStudy(kind, new CallStudies(tuningTables(input)), () => undefined);

describe('changes of the choice', () => {
  it('are all there and exact: between two of them every size has the same choice, for any communicator', () => {
    fc.assert(
      fc.property(
        anyInput,
        anyKind,
        fc.array(fc.integer({ min: 1, max: 2 ** 30 }), { minLength: 20, maxLength: 20 }),
        (input, kind, sizes) => {
          fc.pre(input.nRanks > 1);
          const study = studyOf(input, kind);
          const last = study.countFor(2 ** 30);
          const changes = study.changes(1, last);
          const labelAt = (count: number) => {
            const { chosen } = study.at(count);
            return chosen && `${chosen.algorithm}/${chosen.protocol}`;
          };
          for (const { bytes, from, to } of changes) {
            const count = study.countFor(bytes);
            expect(study.bytesOf(count)).toBe(bytes);
            expect(labelAt(count)).toBe(to);
            expect(labelAt(count - 1)).toBe(from);
            expect(from).not.toBe(to);
          }
          for (const size of sizes) {
            const count = Math.min(last, study.countFor(size));
            const before = changes.findLast(({ bytes }) => bytes <= study.bytesOf(count));
            expect(labelAt(count)).toBe(before === undefined ? labelAt(1) : before.to);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it('are found downwards, too', () => {
    const study = studyOf(fourNodes(), {
      function: 'AllReduce',
      type: 'float32',
      op: 'sum',
      registered: false,
    });
    const up = study.changes(1, 2 ** 28).map(({ bytes }) => bytes);
    expect(up.length).toBeGreaterThan(1);
    const down: number[] = [];
    for (let at = study.changeBelow(2 ** 28); at !== undefined; at = study.changeBelow(at)) {
      down.unshift(study.bytesOf(at + 1));
    }
    // Where two candidates are equal but for rounding, they take turns for a few sizes.
    expect(down).toHaveLength(up.length);
    for (const [at, bytes] of down.entries()) expect(Math.abs(bytes / up[at]! - 1)).toBeLessThan(1e-6);
  });
});

describe('another candidate', () => {
  it('overtakes at the sizes that are named, and not just inside of them', () => {
    fc.assert(
      fc.property(anyInput, fc.integer({ min: 1, max: 2 ** 28 }), (input, count) => {
        fc.pre(input.nRanks > 1);
        const study = studyOf(input, {
          function: 'AllReduce',
          type: 'float32',
          op: 'sum',
          registered: false,
        });
        const call = study.at(count);
        const other = call.candidates.find((one) => one !== call.chosen);
        fc.pre(other !== undefined && call.chosen !== undefined);
        const { above, below } = study.overtakes(call, other!, 2 ** 32);
        const isFaster = (at: number) => {
          const { candidates } = study.at(at);
          const rank = (cell: number) => candidates.findIndex((one) => one.cell === cell);
          return rank(other!.cell) < rank(call.chosen!.cell);
        };
        if (above !== undefined) expect([isFaster(above - 1), isFaster(above)]).toEqual([false, true]);
        if (below !== undefined) expect([isFaster(below + 1), isFaster(below)]).toEqual([false, true]);
      }),
      { numRuns: 60 },
    );
  });
});

describe('the search for a size', () => {
  const tables = tuningTables(plainInput());

  it('finds the first size above and the last one below for a property that begins or ends anywhere', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 32 }), fc.integer({ min: 1, max: 2 ** 32 }), (at, limit) => {
        const isAbove = (count: number) => count >= limit;
        expect(firstAbove(tables, 4, at, 2 ** 33, isAbove)).toBe(at < limit ? limit : at + 1);
        const isBelow = (count: number) => count <= limit;
        expect(lastBelow(tables, 4, at, isBelow)).toBe(at > limit ? limit : at === 1 ? undefined : at - 1);
      }),
    );
  });

  it('ends where it is told to', () => {
    expect(firstAbove(tables, 4, 1, 1000, (count) => count > 1000)).toBeUndefined();
    expect(firstAbove(tables, 4, 1, 1000, (count) => count >= 1000)).toBe(1000);
    expect(lastBelow(tables, 4, 1000, () => false)).toBeUndefined();
  });
});

describe('a message', () => {
  it('has whole elements of every rank, as many as fit, one at least', () => {
    fc.assert(
      fc.property(
        anyKind,
        fc.integer({ min: 1, max: 2 ** 40 }),
        fc.integer({ min: 2, max: 10_000 }),
        (kind, bytes, n) => {
          const grain = grainOf(kind, n);
          const count = countFor(kind, bytes, n);
          const call = callOf(kind, count, n);
          expect(call.bytes).toBe(count * grain);
          expect(call.bytes <= bytes || count === 1).toBe(true);
          expect(call.bytes + grain).toBeGreaterThan(bytes);
          if (kind.function === 'AllGather' || kind.function === 'Broadcast') expect(call.type).toBe('int8');
          else expect(call.type).toBe(kind.type);
        },
      ),
    );
  });

  it('of an average multiplies floats before it sums, and divides integers after', () => {
    const kind = { function: 'AllReduce', op: 'avg', registered: false } as const;
    expect(callOf({ ...kind, type: 'float16' }, 1, 2)).toMatchObject({
      reduction: 'PreMulSum',
      operator: 'sum',
    });
    expect(callOf({ ...kind, type: 'int32' }, 1, 2)).toMatchObject({
      reduction: 'SumPostDiv',
      operator: 'sum',
    });
    expect(callOf({ ...kind, op: 'min', type: 'int32' }, 1, 2)).toMatchObject({
      reduction: 'MinMax',
      operator: 'min',
    });
  });
});

describe('busbw', () => {
  it('is that of nccl-tests', () => {
    expect(busFactor('AllReduce', 8)).toBe(1.75);
    expect(busFactor('AllGather', 8)).toBe(0.875);
    expect(busFactor('ReduceScatter', 4)).toBe(0.75);
    expect(busFactor('Broadcast', 8)).toBe(1);
    expect(busFactor('Reduce', 8)).toBe(1);
  });
});
