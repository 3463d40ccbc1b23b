/**
 * Columns of text, numbers to the right.
 */
import { padEnd, padStart, visibleLength } from '../../topology/report/style.js';

export interface Column {
  readonly title: string;
  readonly align: 'left' | 'right';
}

const GAP = '  ';

/** Lines of a table: the titles, then the rows. */
export function textTable(columns: readonly Column[], rows: readonly (readonly string[])[]): string[] {
  const widths = columns.map(({ title }, at) =>
    Math.max(visibleLength(title), ...rows.map((row) => visibleLength(row[at] ?? ''))),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) => (columns[at]!.align === 'left' ? padEnd : padStart)(cell, widths[at]!))
      .join(GAP)
      .trimEnd();
  return [line(columns.map(({ title }) => title)), ...rows.map(line)];
}
