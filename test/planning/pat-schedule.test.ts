/** PAT's schedules: the published ones, and for any number of ranks every contribution exactly once. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type PatEntry, patAllGather, patReduceScatter, patShape } from '#src/planning/pat-schedule.js';
import { runPat } from '../collectives/pat-model.js';

const text = ({ distance, from, fromIndex, release, to, toIndex, publish, again }: PatEntry) =>
  [
    `block ${distance}:`,
    from < 0 ? 'own' : `recv ${from} @${fromIndex}${release ? ' release' : ''}`,
    to < 0 ? '-> output' : `-> send ${to} @${toIndex}${publish ? ' post' : ''}`,
    ...(again ? ['again'] : []),
  ].join(' ');

/** Posts by dimension. */
function posts(entries: readonly PatEntry[], side: 'to' | 'from'): number[] {
  const counts: number[] = [];
  for (const entry of entries) {
    if (side === 'to' ? entry.publish : entry.release) counts[entry[side]] = (counts[entry[side]] ?? 0) + 1;
  }
  return counts;
}

describe('published schedules', () => {
  it('reduce-scatter of 4 ranks, a chunk in each step', () => {
    expect(patReduceScatter(patShape(4, 1024, 1024)).map(text)).toEqual([
      'block 3: own -> send 0 @0 post',
      'block 1: own -> send 0 @0 post',
      'block 2: recv 0 @0 release -> send 1 @0 post',
      'block 0: recv 1 @0 release -> output',
      'block 0: recv 0 @0 release -> output again',
    ]);
  });

  it('reduce-scatter of 8 ranks, four blocks in a step', () => {
    const shape = patShape(8, 1024, 128);
    expect(shape).toMatchObject({ aggregation: 4, delta: 2, perSlot: 4 });
    expect(patReduceScatter(shape).map(text)).toEqual([
      'block 7: own -> send 0 @0',
      'block 3: own -> send 0 @1',
      'block 5: own -> send 0 @2',
      'block 1: own -> send 0 @3 post',
      'block 6: recv 0 @0 -> send 1 @0',
      'block 2: recv 0 @1 -> send 1 @1 post',
      'block 4: recv 1 @0 -> send 2 @0',
      'block 0: recv 1 @1 release -> output',
      'block 4: recv 0 @2 -> send 2 @0 post again',
      'block 0: recv 2 @0 release -> output again',
      'block 0: recv 0 @3 release -> output again',
    ]);
  });

  it('all-gather of 8 ranks, a chunk in each step', () => {
    const entries = patAllGather(patShape(8, 1024, 1024)).map((entry) => text({ ...entry, again: false }));
    expect(entries).toEqual([
      'block 0: own -> send 2 @0 post',
      'block 0: own -> send 1 @0 post',
      'block 4: recv 2 @0 -> send 1 @0 post',
      'block 0: own -> send 0 @0 post',
      'block 2: recv 1 @0 release -> send 0 @0 post',
      'block 4: recv 2 @0 release -> send 0 @0 post',
      'block 6: recv 1 @0 release -> send 0 @0 post',
      'block 1: recv 0 @0 release -> output',
      'block 3: recv 0 @0 release -> output',
      'block 5: recv 0 @0 release -> output',
      'block 7: recv 0 @0 release -> output',
    ]);
  });

  it.each([
    [8, 1024, 1024, [4, 2, 1], [4, 2, 1]],
    [16, 1024, 1024, [8, 2, 1], [8, 4, 2, 1]],
    [32, 1024, 1024, [8, 4, 1], [16, 8, 4, 2, 1]],
    [5, 1024, 1024, [2, 4, 1], [2, 1, 1]],
    [64, 65536, 512, [32, 2, 32], [1, 1, 1, 1, 1, 1]],
    [2, 1024, 1024, [1, 2, 1], [1]],
    [3, 1024, 1024, [1, 4, 1], [1, 1]],
  ])(
    '%i ranks, steps of %i bytes, parts of %i: aggregation, distance, blocks per slot %j; posts %j',
    (ranks, step, part, shape, due) => {
      const made = patShape(ranks, step, part);
      expect([made.aggregation, made.delta, made.perSlot]).toEqual(shape);
      for (const entries of [patReduceScatter(made), patAllGather(made)]) {
        expect(posts(entries, 'to')).toEqual(due);
        expect(posts(entries, 'from')).toEqual(due);
      }
    },
  );
});

describe('any number of ranks and any sizes', () => {
  const shapes = fc.record({
    ranks: fc.oneof(fc.integer({ min: 2, max: 40 }), fc.constantFrom(63, 64, 65, 100)),
    slotBytes: fc.constantFrom(512, 4096, 65536),
    partBytes: fc.oneof(fc.nat(600), fc.nat(100_000)),
  });

  it('reduce-scatter brings every contribution to its rank exactly once, and no wait is for ever', () => {
    fc.assert(
      fc.property(shapes, ({ ranks, slotBytes, partBytes }) => {
        const entries = patReduceScatter(patShape(ranks, slotBytes, partBytes));
        const { outputs, sent } = runPat<readonly string[]>(ranks, entries, 'reduceScatter', {
          own: (rank, block) => [`${rank} for ${block}`],
          combine: (a, b) => [...a, ...b],
        });
        outputs.forEach(([result], rank) => {
          const due = Array.from({ length: ranks }, (_, r) => `${r} for ${rank}`).sort();
          expect([...result!].sort()).toEqual(due);
        });
        // As many bytes as on a ring: n - 1 blocks from every rank.
        for (const row of sent) {
          const total = row.reduce((a, b) => a + b, 0);
          expect(total).toBeGreaterThanOrEqual(ranks - 1);
        }
      }),
      { numRuns: 120 },
    );
  });

  it('all-gather brings every block to every rank exactly once, over no link twice, and no wait is for ever', () => {
    fc.assert(
      fc.property(shapes, ({ ranks, slotBytes, partBytes }) => {
        const entries = patAllGather(patShape(ranks, slotBytes, partBytes));
        const { outputs, sent } = runPat(ranks, entries, 'allGather', { own: (rank) => rank });
        for (const row of outputs) expect(row).toEqual(Array.from({ length: ranks }, (_, r) => r));
        for (const row of sent) expect(row.reduce((a, b) => a + b, 0)).toBe(ranks - 1);
      }),
      { numRuns: 120 },
    );
  });
});
