/**
 * Takes a byte stream apart into frames without keeping payload: the reader says where the next bytes belong
 * (`space`), whoever reads the socket puts them there and says how many they were (`advance`). So the system
 * can write a slice straight into the slot that it is for.
 *
 * A reader whose place in the stream is shared can be left in the middle of a frame and taken up by another thread.
 */
import { LINK, type LinkState } from './carrier-state.js';
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
  readonly #state: LinkState | undefined;
  readonly #header: Uint8Array;
  /** The frame whose payload is under way. */
  #frame: LinkFrame | undefined;
  #target: Uint8Array;
  #filled = 0;

  /** With `state` the payload of frames must go to memory of its buffer. */
  constructor(sink: FrameSink, state?: LinkState) {
    this.#sink = sink;
    this.#state = state;
    this.#header = state?.header ?? new Uint8Array(FRAME_BYTES);
    this.#target = this.#header;
  }

  /** The next byte begins a frame. */
  get betweenFrames(): boolean {
    return this.#frame === undefined && this.#filled === 0;
  }

  /** The next byte belongs to a payload. */
  get inPayload(): boolean {
    return this.#frame !== undefined;
  }

  /** Where the next bytes belong; never empty. */
  space(): Uint8Array {
    return this.#filled === 0 ? this.#target : this.#target.subarray(this.#filled);
  }

  /** The same as an address in the buffer of the state, and how many bytes. */
  get spaceAt(): number {
    return this.#target.byteOffset + this.#filled;
  }
  get spaceBytes(): number {
    return this.#target.length - this.#filled;
  }

  /** Leaves the place in the stream to others. */
  save(): void {
    const { i32, word } = this.#state!;
    i32[word + LINK.filled] = this.#filled;
    i32[word + LINK.inPayload] = this.#frame === undefined ? 0 : 1;
    i32[word + LINK.payload] = this.#target.byteOffset;
    i32[word + LINK.payloadBytes] = this.#target.length;
  }

  /** Takes up the place where it was left. */
  load(): void {
    const { i32, word, buffer } = this.#state!;
    this.#filled = i32[word + LINK.filled]!;
    if (i32[word + LINK.inPayload] === 0) {
      this.#frame = undefined;
      this.#target = this.#header;
      return;
    }
    const address = i32[word + LINK.payload]! >>> 0;
    this.#frame = decodeLinkFrame(this.#header);
    this.#target = Buffer.from(buffer, address, i32[word + LINK.payloadBytes]!);
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
