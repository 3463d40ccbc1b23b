/** Line numbers of positions in a text, for a reader that moves forward. */
export class LineCounter {
  readonly #text: string;
  #line = 1;
  /** Where the line starts, and where its line break is (the end of the text, if it has none). */
  #start = 0;
  #end: number;

  constructor(text: string) {
    this.#text = text;
    this.#end = this.#lineBreak(0);
  }

  /** The line of a position, from 1 (beyond the text: its last). Fast for positions that ascend. */
  at(position: number): number {
    if (position < this.#start) {
      this.#line = 1;
      this.#start = 0;
      this.#end = this.#lineBreak(0);
    }
    while (this.#end < position && this.#end < this.#text.length) {
      this.#line++;
      this.#start = this.#end + 1;
      this.#end = this.#lineBreak(this.#start);
    }
    return this.#line;
  }

  #lineBreak(from: number): number {
    const found = this.#text.indexOf('\n', from);
    return found < 0 ? this.#text.length : found;
  }
}
