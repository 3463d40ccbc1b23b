/**
 * Columns of text, numbers to the right.
 */
import { padEnd, padStart, visibleLength, wrap } from '../../topology/report/style.js';

export interface Column {
  readonly title: string;
  readonly align: 'left' | 'right';
}

/** Numbers, and words. */
export const right = (title: string): Column => ({ title, align: 'right' });
export const left = (title: string): Column => ({ title, align: 'left' });

const GAP = '  ';

/** Columns that the last one needs beside the others; with less room it goes below them. */
const LEAST_LAST_WIDTH = 20;
const BELOW = '    ';

/**
 * A table: the lines of the titles, then those of each row.
 *
 * @param width lines are kept to it, where the other columns leave room, by breaking the last one
 */
export function textTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
): string[][] {
  const all = [columns.map(({ title }) => title), ...rows];
  const widths = columns.map((_, at) => Math.max(...all.map((row) => visibleLength(row[at] ?? ''))));
  const lastAt = columns.length - 1;
  const isText = columns[lastAt]!.align === 'left';
  const indent = widths.slice(0, lastAt).reduce((sum, one) => sum + one + GAP.length, 0);
  const room = width - indent;
  const isBeside = !isText || widths[lastAt]! <= room || room >= LEAST_LAST_WIDTH;
  const padded = (cell: string, at: number) =>
    (columns[at]!.align === 'left' ? padEnd : padStart)(cell, widths[at]!);
  return all.map((cells) => {
    const start = cells.slice(0, lastAt).map(padded).join(GAP);
    const last = cells[lastAt] ?? '';
    if (!isBeside) {
      const below = last === '' ? [] : wrap(last, width - BELOW.length).map((text) => BELOW + text);
      return [start.trimEnd(), ...below];
    }
    const texts = isText ? wrap(last, Math.max(1, room)) : [padded(last, lastAt)];
    return texts.map((text, at) => `${at === 0 ? start + GAP : ' '.repeat(indent)}${text}`.trimEnd());
  });
}
