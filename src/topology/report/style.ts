/**
 * How reports look: paints for the parts of a text, and the width that lines should keep to.
 *
 * Reports are plain text; the caller of a terminal gives paints that add colour, everybody else gets identity.
 */

/** Adds colour to a text without changing its visible length. */
export type Paint = (text: string) => string;

export interface Style {
  /** Columns of the terminal. */
  readonly width: number;
  readonly heading: Paint;
  readonly strong: Paint;
  readonly dim: Paint;
  readonly cpu: Paint;
  readonly gpu: Paint;
  readonly nic: Paint;
  readonly fabric: Paint;
  /** What deserves attention. */
  readonly warn: Paint;
}

const same: Paint = (text) => text;

/** No colour; lines of at most `width` columns where they can be broken. */
export function plainStyle(width = 100): Style {
  return {
    width,
    heading: same,
    strong: same,
    dim: same,
    cpu: same,
    gpu: same,
    nic: same,
    fabric: same,
    warn: same,
  };
}

/** Columns that a text takes: escape sequences take none. */
export function visibleLength(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colour codes start with the escape character
  return [...text.replace(/\u001b\[[0-9;]*m/g, '')].length;
}

/** Pads a text, painted or not, at its end. */
export const padEnd = (text: string, width: number): string =>
  text + ' '.repeat(Math.max(0, width - visibleLength(text)));

/** Pads a text, painted or not, at its start. */
export const padStart = (text: string, width: number): string =>
  ' '.repeat(Math.max(0, width - visibleLength(text))) + text;

/** Breaks a text at blanks; lines after the first are indented. A word longer than a line stays whole. */
export function wrap(text: string, width: number, indent = ''): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const room = width - (lines.length === 0 ? 0 : indent.length);
    if (line !== '' && visibleLength(line) + 1 + visibleLength(word) > room) {
      lines.push(lines.length === 0 ? line : indent + line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  lines.push(lines.length === 0 ? line : indent + line);
  return lines;
}

/** What a line begins with in a tree: the next line has only the strokes that go on downwards. */
const TREE_START = /^[\s│├└─]*/;

/**
 * Lines that are wider than `width` broken at blanks, each part below the text that it goes on with. For narrow
 * terminals: tables and trees lose their columns, but nothing runs over the edge that can be broken.
 */
export function fitted(lines: readonly string[], width: number): string[] {
  return lines.flatMap((line) => (visibleLength(line) <= width ? [line] : broken(line, width)));
}

function broken(line: string, width: number): string[] {
  const [found] = TREE_START.exec(line)!;
  const words = line.slice(found.length).match(/ *[^ ]+/g) ?? [];
  const start = visibleLength(found + (words[0] ?? '')) > width ? '  ' : found;
  const below = `${start.replaceAll('├', '│').replaceAll(/[└─]/g, ' ')}  `;
  const indent = below.length <= width / 2 ? below : '  ';
  const parts: string[] = [];
  let part = '';
  // Blanks stay with the word behind them, so that columns stay where there is room.
  for (const word of words) {
    const text = part === '' ? (parts.length === 0 ? start : indent) + word.trimStart() : part + word;
    if (part !== '' && visibleLength(text) > width) {
      parts.push(part);
      part = indent + word.trimStart();
    } else part = text;
  }
  return [...parts, part];
}
