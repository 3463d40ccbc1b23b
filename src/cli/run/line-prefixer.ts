/**
 * Puts a prefix before every line of a byte stream and hands on whole lines only, so that lines of different
 * ranks never mix. Works on bytes: what is no text passes unchanged.
 */

const NEWLINE = 0x0a;

/** A line that grows beyond this is cut into lines of this length: memory stays bounded, bytes. */
export const MAX_LINE_BYTES = 1024 * 1024;

export class LinePrefixer {
  readonly #prefix: Uint8Array;
  readonly #write: (lines: Buffer) => void;
  #partial: Uint8Array[] = [];
  #partialBytes = 0;

  /** @param write gets one or more complete lines */
  constructor(prefix: string, write: (lines: Buffer) => void) {
    this.#prefix = new TextEncoder().encode(prefix);
    this.#write = write;
  }

  push(chunk: Uint8Array): void {
    const out: Uint8Array[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      this.#extend(chunk.subarray(start, end + 1), out);
      out.push(...this.#takePartial());
      start = end + 1;
    }
    this.#extend(chunk.subarray(start), out);
    if (out.length > 0) this.#write(Buffer.concat(out));
  }

  /** Ends the last line if it has no end yet. */
  flush(): void {
    if (this.#partialBytes > 0) this.#write(Buffer.concat([...this.#takePartial(), Uint8Array.of(NEWLINE)]));
  }

  #extend(piece: Uint8Array, out: Uint8Array[]): void {
    let rest = piece;
    while (this.#partialBytes + rest.length > MAX_LINE_BYTES) {
      const room = MAX_LINE_BYTES - this.#partialBytes;
      this.#keep(rest.subarray(0, room));
      rest = rest.subarray(room);
      // A line of exactly the limit needs no cut: its own end follows.
      if (rest.length === 1 && rest[0] === NEWLINE) break;
      out.push(...this.#takePartial(), Uint8Array.of(NEWLINE));
    }
    this.#keep(rest);
  }

  #keep(piece: Uint8Array): void {
    if (piece.length === 0) return;
    this.#partial.push(piece);
    this.#partialBytes += piece.length;
  }

  #takePartial(): Uint8Array[] {
    const line = [this.#prefix, ...this.#partial];
    this.#partial = [];
    this.#partialBytes = 0;
    return line;
  }
}
