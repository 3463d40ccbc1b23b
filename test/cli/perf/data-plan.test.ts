import { describe, expect, it } from 'vitest';
import {
  type DataSegment,
  dataPlan,
  describeSegment,
  kindOf,
  NOTHING_WRONG,
} from '#src/cli/perf/data-plan.js';
import { COLLECTIVE_NAMES, type CollectiveName, countsFor } from '#src/cli/perf/sizes.js';
import { TestDataWork } from '#src/collectives/test-data.js';

const RANKS = 3;
const ROOT = 1;
const SEED = 7;

const plan = (collective: CollectiveName, rank: number, inPlace = false) =>
  dataPlan(
    collective,
    countsFor(collective, 192, 4, RANKS),
    { ranks: RANKS, rank, root: ROOT, inPlace },
    SEED,
  );

/** Identity of each element of a segment list, by position: what kind of data with which index. */
function elements(segments: readonly DataSegment[], length: number): string[] {
  const all = Array.from({ length }, () => 'nothing');
  for (const s of segments) {
    for (let i = 0; i < s.count; i++) {
      const place = s.start + i;
      expect(all[place]).toBe('nothing');
      const isMoved = s.kind === 'input' && s.ranks === 1;
      const word = isMoved ? `moved ${s.seed}` : s.kind === 'input' ? `input ${s.rank}` : s.kind;
      all[place] = s.kind === 'zero' ? 'zero' : `${word} ${s.first + i}`;
    }
  }
  return all;
}

/** The collectives in ten lines: outputs from the inputs of all ranks, zero where nobody writes. */
function reference(collective: CollectiveName, inputs: string[][], rank: number, inPlace: boolean): string[] {
  const { count, expected, inPlaceSend } = countsFor(collective, 192, 4, RANKS);
  const block = (source: number, index: number) => inputs[source]!.slice(index * count, (index + 1) * count);
  const reduced = inputs[0]!.map((_, i) => `result ${i}`);
  const untouched = Array.from({ length: expected }, () => 'zero');
  if (inPlace) untouched.splice(rank * inPlaceSend, inputs[rank]!.length, ...inputs[rank]!);
  switch (collective) {
    case 'all_reduce':
      return reduced;
    case 'reduce':
      return rank === ROOT ? reduced : untouched;
    case 'reduce_scatter':
      return reduced.slice(rank * count, (rank + 1) * count);
    case 'all_gather':
    case 'hypercube':
      return inputs.flat();
    case 'gather':
      return rank === ROOT ? inputs.flat() : untouched;
    case 'broadcast':
      return inputs[ROOT]!;
    case 'scatter':
      return block(ROOT, rank);
    case 'sendrecv':
      return inputs[(rank + RANKS - 1) % RANKS]!;
    case 'alltoall':
      return inputs.flatMap((_, source) => block(source, rank));
  }
}

describe('data plan', () => {
  for (const collective of COLLECTIVE_NAMES) {
    for (const inPlace of [false, true]) {
      it(`of ${collective} ${inPlace ? 'in place' : 'out of place'} expects what the collective delivers`, () => {
        const counts = countsFor(collective, 192, 4, RANKS);
        const inputs = Array.from({ length: RANKS }, (_, rank) => {
          const { send } = plan(collective, rank, inPlace);
          return send.length === 0 ? [] : elements(send, counts.send);
        });
        for (let rank = 0; rank < RANKS; rank++) {
          const { expected } = plan(collective, rank, inPlace);
          if (expected === 'unchecked') {
            expect(inPlace).toBe(true);
            expect(['sendrecv', 'alltoall']).toContain(collective);
          } else {
            const wanted = reference(collective, inputs, rank, inPlace);
            expect(elements(expected, counts.expected)).toEqual(wanted);
          }
        }
      });
    }
  }

  it('gives every rank another stream where everybody sends to everybody', () => {
    const { expected } = plan('alltoall', 2);
    expect((expected as readonly DataSegment[]).map((s) => [s.seed, s.first, s.start])).toEqual([
      [231n, 32, 0],
      [232n, 32, 16],
      [233n, 32, 32],
    ]);
  });
});

describe('segments', () => {
  const segment: DataSegment = {
    kind: 'result',
    ranks: 3,
    rank: 0,
    seed: 9n,
    first: 5,
    count: 150000,
    start: 2,
  };

  it('become descriptors and kinds of programs', () => {
    const view = new DataView(new ArrayBuffer(TestDataWork.size));
    const work = TestDataWork.at(view, 0);
    describeSegment(work, segment, 4096, 'float64', 'avg');
    const fields = ['data', 'count', 'first', 'seed', 'rank', 'tolerance', 'wrong'] as const;
    expect(fields.map((field) => work.get(field))).toEqual([4096 + 16, 150000, 5, 9, 0, 2, 0]);
    expect(view.getBigUint64(TestDataWork.fields.firstWrong.offset, true)).toBe(NOTHING_WRONG);
    describeSegment(work, segment, 4096, 'int8', undefined);
    expect([work.get('data'), work.get('tolerance')]).toEqual([4098, 0]);
    expect(kindOf(segment, 'float64', 'avg')).toEqual({
      type: 'float64',
      op: 'avg',
      ranks: 3,
      role: 'result',
    });
    expect(kindOf(segment, 'int8', undefined).op).toBe('sum');
  });
});
