/**
 * Cuts chunks of text into lines. Lines of any length pass in bounded memory: what is beyond the limit is dropped.
 */

/** Longest line that is looked at: NCCL's own lines have some thousand characters (trees of many channels). */
export const MAX_LINE = 16_384;

export class LineSplitter {
  #rest = '';
  #isDropping = false;

  constructor(private readonly take: (line: string) => void) {}

  push(chunk: string): void {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf('\n', start);
      if (end < 0) break;
      if (this.#rest === '') this.#line(chunk, start, end);
      else {
        const line = this.#rest + (this.#isDropping ? '' : chunk.slice(start, end));
        this.#rest = '';
        this.#line(line, 0, line.length);
      }
      this.#isDropping = false;
      start = end + 1;
    }
    if (start < chunk.length && !this.#isDropping) {
      this.#rest += chunk.slice(start);
      if (this.#rest.length > MAX_LINE) {
        this.#rest = this.#rest.slice(0, MAX_LINE);
        this.#isDropping = true;
      }
    }
  }

  /** The text so far ends in the middle of a line. */
  get isInLine(): boolean {
    return this.#rest.trim() !== '';
  }

  end(): void {
    if (this.#rest !== '') this.#line(this.#rest, 0, this.#rest.length);
    this.#rest = '';
  }

  #line(text: string, start: number, end: number): void {
    if (end > start && text.charCodeAt(end - 1) === 13) end--;
    this.take(text.slice(start, Math.min(end, start + MAX_LINE)));
  }
}
