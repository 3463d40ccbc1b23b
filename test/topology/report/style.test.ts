import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { padEnd, padStart, visibleLength, wrap } from '#src/topology/report/style.js';

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
