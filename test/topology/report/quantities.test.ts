import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fixedText } from '#src/topology/report/c-format.js';
import {
  affinityText,
  bandwidthText,
  countText,
  listText,
  netSpeedText,
  rangesText,
} from '#src/topology/report/quantities.js';

/** Numbers that a text of ranges stands for. */
const expand = (text: string, separator: string): number[] =>
  text === ''
    ? []
    : text.split(separator).flatMap((part) => {
        const [from, to = from] = part.split('-').map(Number) as [number, number?];
        return Array.from({ length: to! - from + 1 }, (_, at) => from + at);
      });

describe('quantities', () => {
  it('write bandwidths with at most four digits and without trailing zeros', () => {
    const texts = [370.8, 48, 1.25, 0.1875, 5000, 721.8, 12.000001].map((value) =>
      bandwidthText(Math.fround(value)),
    );
    expect(texts).toEqual(['370.8', '48', '1.25', '0.1875', '5000', '721.8', '12']);
  });

  it('write speeds of NICs in Gbit/s from 1000 Mbit/s on', () => {
    expect([400000, 2500, 1000, 100].map(netSpeedText)).toEqual([
      '400 Gbit/s',
      '2.5 Gbit/s',
      '1 Gbit/s',
      '100 Mbit/s',
    ]);
  });

  it('join runs of numbers so that the text stands for the same set, in the shortest number of parts', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(60), { maxLength: 40 }),
        fc.constantFrom(' ', ','),
        (numbers, separator) => {
          const sorted = [...new Set(numbers)].sort((a, b) => a - b);
          const text = rangesText(numbers, separator);
          expect(expand(text, separator)).toEqual(sorted);
          const gaps = sorted.filter((value, at) => at > 0 && value - sorted[at - 1]! > 1).length;
          expect(text === '' ? 0 : text.split(separator).length).toBe(sorted.length === 0 ? 0 : gaps + 1);
        },
      ),
    );
  });

  it('read affinity masks as the kernel writes them: the last word holds CPUs 0 to 31', () => {
    expect(affinityText('ffff')).toBe('0-15');
    expect(affinityText('0000ffff,00000000,0000ffff')).toBe('0-15,64-79');
    expect(affinityText('80000000,00000001')).toBe('0,63');
    expect(affinityText('')).toBe('');
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 0xffffffff }), { minLength: 1, maxLength: 5 }),
        (words) => {
          const mask = words.map((word) => word.toString(16).padStart(8, '0')).join(',');
          const bits = BigInt(`0x${mask.replaceAll(',', '')}`);
          const cpus = Array.from({ length: words.length * 32 }, (_, cpu) => cpu).filter(
            (cpu) => (bits >> BigInt(cpu)) % 2n === 1n,
          );
          expect(expand(affinityText(mask), ',')).toEqual(cpus);
        },
      ),
    );
  });

  it('count and list in words', () => {
    expect([countText(1, 'GPU'), countText(2, 'GPU'), countText(0, 'switch', 'switches')]).toEqual([
      '1 GPU',
      '2 GPUs',
      '0 switches',
    ]);
    expect([[], ['a'], ['a', 'b'], ['a', 'b', 'c']].map(listText)).toEqual([
      '',
      'a',
      'a and b',
      'a, b and c',
    ]);
  });
});

describe("numbers as C's printf writes them", () => {
  it('round to the even digit where both neighbours are equally near', () => {
    expect([1.25, 1.75, 0.25, 2.5, -1.25].map((value) => fixedText(value, 1))).toEqual([
      '1.2',
      '1.8',
      '0.2',
      '2.5',
      '-1.2',
    ]);
    expect(fixedText(0.5, 0)).toBe('0');
    expect(fixedText(1.5, 0)).toBe('2');
  });

  it('round to the nearest digit everywhere else', () => {
    expect(fixedText(Math.fround(370.8), 1)).toBe('370.8');
    expect(fixedText(Math.fround(0.1), 6)).toBe('0.100000');
    expect(fixedText(Math.fround(45.1), 6)).toBe('45.099998');
    fc.assert(
      fc.property(fc.float({ noNaN: true, min: -10000, max: 10000 }), (value) => {
        expect(Math.abs(Number(fixedText(value, 1)) - value)).toBeLessThanOrEqual(0.05 + 1e-9);
      }),
    );
  });
});
