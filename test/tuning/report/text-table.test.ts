/** Tables of text: columns, and what happens where the width does not suffice. */
import { describe, expect, it } from 'vitest';
import { left, right, textTable } from '#src/tuning/report/text-table.js';

const COLUMNS = [right('size'), left('name'), left('why')];
const ROWS = [
  ['8 B', 'Ring', 'the next one would take twice as long'],
  ['128 KB', 'Tree', ''],
];

describe('a table', () => {
  it('aligns its columns', () => {
    expect(textTable(COLUMNS, ROWS, 80)).toEqual([
      ['  size  name  why'],
      ['   8 B  Ring  the next one would take twice as long'],
      ['128 KB  Tree'],
    ]);
  });

  it('breaks the last column where the width does not suffice', () => {
    expect(textTable(COLUMNS, ROWS, 40)[1]).toEqual([
      '   8 B  Ring  the next one would take',
      '              twice as long',
    ]);
  });

  it('puts it below where there is hardly any room beside the others', () => {
    expect(textTable(COLUMNS, ROWS, 30).flat()).toEqual([
      '  size  name',
      '    why',
      '   8 B  Ring',
      '    the next one would take',
      '    twice as long',
      '128 KB  Tree',
    ]);
  });

  it('may end with numbers', () => {
    expect(
      textTable(
        [left(''), right('n')],
        [
          ['a', '1'],
          ['b', '100'],
        ],
        3,
      ).flat(),
    ).toEqual(['     n', 'a    1', 'b  100']);
  });
});
