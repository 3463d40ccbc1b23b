/**
 * Frames on a byte stream: 4 bytes length (little endian), then that many bytes.
 *
 * The parser is fed chunks of any size and gives frames as they complete. It refuses a length above its
 * limit as soon as the 4 bytes are there, before anything of the frame is kept, so a stranger cannot make it
 * hold more than the limit. An empty frame has no meaning and is refused too: every frame starts with its type.
 */
import { TuttiError } from '../errors/tutti-error.js';

/** Bytes of the length field. */
export const FRAME_HEADER_BYTES = 4;

/** The frame of a payload given in parts. */
export function encodeFrame(...parts: readonly Uint8Array[]): Uint8Array {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const frame = new Uint8Array(FRAME_HEADER_BYTES + length);
  new DataView(frame.buffer).setUint32(0, length, true);
  let offset = FRAME_HEADER_BYTES;
  for (const part of parts) {
    frame.set(part, offset);
    offset += part.length;
  }
  return frame;
}

/** The first part of a frame whose remaining `bodyBytes` bytes are written separately. */
export function encodeFrameHead(head: Uint8Array, bodyBytes: number): Uint8Array {
  const bytes = new Uint8Array(FRAME_HEADER_BYTES + head.length);
  new DataView(bytes.buffer).setUint32(0, head.length + bodyBytes, true);
  bytes.set(head, FRAME_HEADER_BYTES);
  return bytes;
}

export class FrameParser {
  readonly #maxBytes: number;
  #chunks: Uint8Array[] = [];
  #buffered = 0;

  /** @param maxBytes longest payload accepted */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes held and not yet given out. */
  get bufferedBytes(): number {
    return this.#buffered;
  }

  push(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    this.#chunks.push(chunk);
    this.#buffered += chunk.length;
  }

  /**
   * The next complete payload (a copy of its own), or undefined when more bytes are needed.
   * @throws TuttiError remoteError for a length of 0 or above the limit; the stream is then useless.
   */
  next(): Uint8Array | undefined {
    if (this.#buffered < FRAME_HEADER_BYTES) return undefined;
    const header = this.#peek(FRAME_HEADER_BYTES);
    const length = new DataView(header.buffer, header.byteOffset).getUint32(0, true);
    if (length === 0 || length > this.#maxBytes) {
      throw new TuttiError(
        'remoteError',
        `A frame of ${length} bytes was announced; from 1 to ${this.#maxBytes} bytes are allowed here.`,
      );
    }
    if (this.#buffered < FRAME_HEADER_BYTES + length) return undefined;
    this.#take(FRAME_HEADER_BYTES);
    return this.#take(length);
  }

  /** Everything not given out; the parser is empty afterwards. */
  drain(): Uint8Array {
    return this.#take(this.#buffered);
  }

  #peek(count: number): Uint8Array {
    const first = this.#chunks[0]!;
    if (first.length >= count) return first.subarray(0, count);
    const bytes = this.#take(count);
    this.#chunks.unshift(bytes);
    this.#buffered += count;
    return bytes;
  }

  #take(count: number): Uint8Array {
    const out = new Uint8Array(count);
    let filled = 0;
    let index = 0;
    while (filled < count) {
      const chunk = this.#chunks[index]!;
      const wanted = count - filled;
      if (chunk.length <= wanted) {
        out.set(chunk, filled);
        filled += chunk.length;
        index++;
      } else {
        out.set(chunk.subarray(0, wanted), filled);
        this.#chunks[index] = chunk.subarray(wanted);
        filled += wanted;
      }
    }
    this.#chunks.splice(0, index);
    this.#buffered -= count;
    return out;
  }
}
