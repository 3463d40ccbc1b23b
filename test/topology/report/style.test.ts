import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { fitted, padEnd, padStart, visibleLength, wrap } from '#src/topology/report/style.js';

const painted = (text: string) => `\u001b[1m\u001b[32m${text}\u001b[39m\u001b[22m`;

describe('text of reports', () => {
  it('is measured and padded without its colours, and by characters rather than UTF-16 units', () => {
    expect(visibleLength(painted('GPU 0'))).toBe(5);
    expect(visibleLength('├─ a')).toBe(4);
    expect(padEnd(painted('ab'), 4)).toBe(`${painted('ab')}  `);
    expect(padStart(painted('ab'), 4)).toBe(`  ${painted('ab')}`);
    expect(padEnd('abcdef', 4)).toBe('abcdef');
  });

  it('is broken at blanks: no word is lost, and only a word that is too long makes a line too long', () => {
    const word = fc.string({ minLength: 1, maxLength: 12, unit: fc.constantFrom('a', 'b', '─') });
    fc.assert(
      fc.property(
        fc.array(word, { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 8, max: 60 }),
        fc.constantFrom('', '  ', '    '),
        (words, width, indent) => {
          const lines = wrap(words.join(' '), width, indent);
          expect(lines.flatMap((line) => line.trim().split(' '))).toEqual(words);
          for (const [at, line] of lines.entries()) {
            if (at > 0) expect(line.startsWith(indent)).toBe(true);
            const isOneWord = !line.trim().includes(' ');
            if (!isOneWord) expect(visibleLength(line)).toBeLessThanOrEqual(width);
            // The next word did not fit any more.
            const next = lines[at + 1]?.trim().split(' ')[0];
            if (next !== undefined) {
              expect(visibleLength(line) + 1 + visibleLength(next)).toBeGreaterThan(width);
            }
          }
        },
      ),
    );
  });
});

test('lines that are too wide are broken at blanks, below their text, and nothing is lost', () => {
  expect(fitted(['├─ GPU 0 A100  24 GB/s  200 Gbit/s', 'short'], 16)).toEqual([
    '├─ GPU 0 A100',
    '│    24 GB/s',
    '│    200 Gbit/s',
    'short',
  ]);
  expect(fitted(['              word word'], 16)).toEqual(['  word word']);
  expect(fitted(['a b'], 3)).toEqual(['a b']);
  expect(fitted(['\u001b[1mword word\u001b[22m'], 6)).toEqual(['\u001b[1mword', '  word\u001b[22m']);
  fc.assert(
    fc.property(
      fc.array(fc.string({ minLength: 1, maxLength: 12 })),
      fc.integer({ min: 16, max: 60 }),
      (words, width) => {
        const line = words.map((word) => word.replaceAll(/[^!-~]/g, 'x')).join('  ');
        const parts = fitted([line], width);
        for (const part of parts) expect(visibleLength(part)).toBeLessThanOrEqual(width);
        expect(parts.join(' ').split(/ +/).filter(Boolean)).toEqual(line.split(/ +/).filter(Boolean));
      },
    ),
  );
});
