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

/** Columns that the last one gets however narrow the terminal is. */
const LEAST_LAST_WIDTH = 24;

/**
 * A table: the lines of the titles, then those of each row.
 *
 * @param width lines are kept to it by breaking the last column
 */
export function textTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
): string[][] {
  const all = [columns.map(({ title }) => title), ...rows];
  const widths = columns.map((_, at) => Math.max(...all.map((row) => visibleLength(row[at] ?? ''))));
  const lastAt = columns.length - 1;
  const indent = widths.slice(0, lastAt).reduce((sum, one) => sum + one + GAP.length, 0);
  const room = Math.max(LEAST_LAST_WIDTH, width - indent);
  const padded = (cell: string, at: number) =>
    (columns[at]!.align === 'left' ? padEnd : padStart)(cell, widths[at]!);
  return all.map((cells) => {
    const start = cells.slice(0, lastAt).map(padded).join(GAP);
    const last = cells[lastAt] ?? '';
    const texts = columns[lastAt]!.align === 'left' ? wrap(last, room) : [padded(last, lastAt)];
    return texts.map((text, at) => `${at === 0 ? start + GAP : ' '.repeat(indent)}${text}`.trimEnd());
  });
}
