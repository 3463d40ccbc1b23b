/**
 * Takes a byte stream apart into frames without keeping payload: the reader says where the next bytes belong
 * (`space`), whoever reads the socket puts them there and says how many they were (`advance`). So the system
 * can write a slice straight into the slot that it is for.
 */
import { decodeLinkFrame, FRAME_BYTES, type LinkFrame } from './link-frame.js';

export interface FrameSink {
  /**
   * A header has come. Returns where its payload goes, as many bytes as will come; undefined for none.
   * Throws when the frame is not allowed; the stream is then useless.
   */
  accept(frame: LinkFrame): Uint8Array | undefined;
  /** The frame and its payload are complete. */
  complete(frame: LinkFrame): void;
  /** All bytes that had come are used up: a good moment for what need not be done for every frame. */
  settle(): void;
}

export class FrameReader {
  readonly #sink: FrameSink;
  readonly #header = new Uint8Array(FRAME_BYTES);
  /** The frame whose payload is under way. */
  #frame: LinkFrame | undefined;
  #target: Uint8Array;
  #filled = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
    this.#target = this.#header;
  }

  /** The next byte begins a frame. */
  get betweenFrames(): boolean {
    return this.#frame === undefined && this.#filled === 0;
  }

  /** Where the next bytes belong; never empty. */
  space(): Uint8Array {
    return this.#filled === 0 ? this.#target : this.#target.subarray(this.#filled);
  }

  /**
   * `count` bytes, at most those of `space`, have been put there.
   * @throws what the sink throws, and `remoteError` for bytes that are no frame
   */
  advance(count: number): void {
    this.#step(count);
    this.#sink.settle();
  }

  #step(count: number): void {
    this.#filled += count;
    if (this.#filled < this.#target.length) return;
    this.#filled = 0;
    let frame = this.#frame;
    if (frame === undefined) {
      frame = decodeLinkFrame(this.#header);
      const target = this.#sink.accept(frame);
      if (target !== undefined && target.length > 0) {
        this.#frame = frame;
        this.#target = target;
        return;
      }
    }
    this.#frame = undefined;
    this.#target = this.#header;
    this.#sink.complete(frame);
  }

  /** Bytes that were read into other memory. Throws as `advance`. */
  push(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      const space = this.space();
      const count = Math.min(space.length, chunk.length - at);
      space.set(chunk.subarray(at, at + count));
      at += count;
      this.#step(count);
    }
    this.#sink.settle();
  }
}
