/** Sets of processors in NCCL's lines, and what follows from them. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { processorsOfList, processorsOfMask } from '#src/doctor/read/nccl/affinity.js';
import { examine } from './case-files.js';

describe('a set of processors', () => {
  it('has as many as its list or its mask says', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(127), { minLength: 1, maxLength: 128 }), (all) => {
        const numbers = all.toSorted((a, b) => a - b);
        const ranges: [number, number][] = [];
        for (const one of numbers) {
          const last = ranges.at(-1);
          if (last !== undefined && last[1] === one - 1) last[1] = one;
          else ranges.push([one, one]);
        }
        const list = ranges.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(',');
        const words = [3, 2, 1, 0].map((word) =>
          numbers
            .filter((one) => one >> 5 === word)
            .reduce((bits, one) => (bits | (1 << (one & 31))) >>> 0, 0)
            .toString(16)
            .padStart(8, '0'),
        );
        expect([list, processorsOfList(list)]).toEqual([list, numbers.length]);
        expect([words, processorsOfMask(words.join(','))]).toEqual([words, numbers.length]);
      }),
    );
  });

  it('of one core in an older version is told, as possible only', async () => {
    const { verdicts } = await examine([
      ['a.log', 'q1:10:20 [4] NCCL INFO Setting affinity for GPU 4 to 0100,00000000\n'],
    ]);
    expect(verdicts).toMatchObject([
      { id: 'affinity-narrow', confidence: 'possible', culprit: { hosts: ['q1'], processors: 1 } },
    ]);
  });
});
