/**
 * What a reader has to say about a file that it accepts: sentences with the lines they are about. A sentence that holds
 * for many lines is said once.
 */

/** Lines that a sentence lists; more are counted. */
const LISTED_LINES = 4;

/** Different sentences that are kept; more are counted, so that a hostile file cannot fill the memory. */
const MAX_SENTENCES = 100;

export class NoteBook {
  readonly #places = new Map<string, { lines: number[]; more: number }>();
  #dropped = 0;

  get isEmpty(): boolean {
    return this.#places.size === 0;
  }

  add(line: number, sentence: string): void {
    const place = this.#places.get(sentence);
    if (place === undefined) {
      if (this.#places.size === MAX_SENTENCES) this.#dropped++;
      else this.#places.set(sentence, { lines: [line], more: 0 });
    } else if (place.lines.includes(line)) {
      // Said already.
    } else if (place.lines.length < LISTED_LINES) {
      place.lines.push(line);
    } else {
      place.more++;
    }
  }

  /** The sentences, in the order of their first lines: `lines 3, 4 and 7: NCCL ...`. */
  sentences(): string[] {
    const sorted = [...this.#places].sort(([, a], [, b]) => a.lines[0]! - b.lines[0]!);
    const said = sorted.map(([sentence, { lines, more }]) => `${placeText(lines, more)}: ${sentence}`);
    if (this.#dropped > 0) said.push(`${this.#dropped} further notes are left out`);
    return said;
  }
}

function placeText(lines: readonly number[], more: number): string {
  if (more > 0) return `lines ${lines.join(', ')} and ${more} more`;
  if (lines.length === 1) return `line ${lines[0]}`;
  return `lines ${lines.slice(0, -1).join(', ')} and ${lines.at(-1)}`;
}

const PRINTABLE = /^[\x20-\x7e]*$/;

/** Text of a file as part of a message: short and printable. */
export function shown(text: string): string {
  if (text.length <= 40 && PRINTABLE.test(text)) return text;
  const cut = text.length > 40 ? `${text.slice(0, 40)}...` : text;
  return cut.replace(/[^\x20-\x7e]/g, (character) =>
    character === '\n'
      ? '\\n'
      : character === '\r'
        ? '\\r'
        : character === '\t'
          ? '\\t'
          : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
