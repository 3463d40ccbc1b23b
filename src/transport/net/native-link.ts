/**
 * A connection that a thread reads and writes by system calls while it holds the lock of its state.
 *
 * Payload goes from the socket to where it belongs in one copy, which is the system's, and what comes behind it is read
 * with the same call. Frames and small slices that are sent together leave with one call too; of a large slice the
 * system takes what it has room for, and the rest stays to be sent.
 */
import { constants } from 'node:os';
import type { Libc } from '../../system/libc.js';
import { LINK, type LinkState, OUT_BYTES } from './carrier-state.js';
import type { FrameOutput } from './frame-output.js';
import type { FrameReader } from './frame-reader.js';
import { FRAME_BYTES, type FrameKind, writeLinkFrame } from './link-frame.js';

/** Bytes read beyond the payload that is under way: several small frames come at once. */
const SCRATCH_BYTES = 4096;

/** Slices of up to so many bytes are copied behind their header; larger ones are sent from where they are. */
const JOINED_BYTES = 1024;

/** Reads of one turn: whoever sends without end does not keep this rank from sending. */
const READS = 16;

/** Two structs iovec, and the bytes that are read ahead: one for each thread. */
export class NativeBuffers {
  readonly scratch: Uint8Array;
  readonly #words: Uint32Array;
  readonly #address: number;
  readonly #scratchAddress: number;

  constructor(c: Libc) {
    const memory = new SharedArrayBuffer(32 + SCRATCH_BYTES);
    this.#words = new Uint32Array(memory, 0, 8);
    this.scratch = new Uint8Array(memory, 32);
    this.#address = c.addressOf(this.#words);
    this.#scratchAddress = this.#address + 32;
  }

  get vectors(): number {
    return this.#address;
  }

  set(vector: 0 | 1, address: number, bytes: number): void {
    const words = this.#words;
    const at = vector * 4;
    words[at] = address >>> 0;
    words[at + 1] = Math.floor(address / 2 ** 32);
    words[at + 2] = bytes;
    words[at + 3] = 0;
  }

  setScratch(vector: 0 | 1): void {
    this.set(vector, this.#scratchAddress, SCRATCH_BYTES);
  }
}

export class NativeLink implements FrameOutput {
  readonly reader: FrameReader;
  readonly #c: Libc;
  readonly #base: number;
  readonly #buffers: NativeBuffers;
  readonly #state: LinkState;
  readonly #i32: Int32Array;
  readonly #word: number;
  readonly #view: DataView;
  readonly #u8: Uint8Array;
  /** The connection has ended or failed. */
  ended = false;

  /** `base` is the address of the state's buffer in the process. */
  constructor(c: Libc, base: number, buffers: NativeBuffers, state: LinkState, reader: FrameReader) {
    this.#c = c;
    this.#base = base;
    this.#buffers = buffers;
    this.#state = state;
    this.#i32 = state.i32;
    this.#word = state.word;
    this.#view = new DataView(state.buffer);
    this.#u8 = new Uint8Array(state.buffer);
    this.reader = reader;
  }

  /** Negative while programs may not use the connection. */
  get fd(): number {
    return this.#i32[this.#word + LINK.fd]!;
  }

  close(): void {
    this.#i32[this.#word + LINK.fd] = -1;
  }

  #failed(): boolean {
    const { EAGAIN, EWOULDBLOCK, EINTR } = constants.errno;
    const number = this.#c.errno();
    if (number !== EAGAIN && number !== EWOULDBLOCK && number !== EINTR) this.ended = true;
    return number !== EINTR;
  }

  /** Reads what has come. Throws what the reader throws. */
  receive(): void {
    const buffers = this.#buffers;
    const { reader } = this;
    const { fd } = this;
    for (let reads = 0; reads < READS; reads++) {
      const direct = reader.inPayload ? reader.spaceBytes : 0;
      if (direct > 0) buffers.set(0, this.#base + reader.spaceAt, direct);
      buffers.setScratch(direct > 0 ? 1 : 0);
      const count = this.#c.readv(fd, buffers.vectors, direct > 0 ? 2 : 1);
      if (count < 0) {
        if (this.#failed()) return;
        continue;
      }
      if (count === 0) {
        this.ended = true;
        return;
      }
      if (direct > 0) reader.advance(Math.min(count, direct));
      if (count > direct) reader.push(buffers.scratch.subarray(0, count - direct));
      // Less than was asked for: there is no more.
      if (count < direct + SCRATCH_BYTES) return;
    }
  }

  get isFree(): boolean {
    const i32 = this.#i32;
    const word = this.#word;
    return (
      i32[word + LINK.outBytes] === 0 && i32[word + LINK.outEnd]! + FRAME_BYTES + JOINED_BYTES <= OUT_BYTES
    );
  }

  get hasFrames(): boolean {
    return this.isPending;
  }

  /** Something is still to be sent. */
  get isPending(): boolean {
    const i32 = this.#i32;
    const word = this.#word;
    return i32[word + LINK.outEnd] !== i32[word + LINK.outStart] || i32[word + LINK.outBytes] !== 0;
  }

  frame(kind: FrameKind, channel = 0, bytes = 0, step = 0, tail = 0): void {
    const end = this.#word + LINK.outEnd;
    writeLinkFrame(this.#view, this.#state.outAt + this.#i32[end]!, kind, channel, bytes, step, tail);
    this.#i32[end]! += FRAME_BYTES;
  }

  slice(channel: number, step: number, tail: number, payload: Uint8Array): void {
    this.frame('data', channel, payload.length, step, tail);
    const end = this.#word + LINK.outEnd;
    if (payload.length <= JOINED_BYTES) {
      this.#u8.set(payload, this.#state.outAt + this.#i32[end]!);
      this.#i32[end]! += payload.length;
      return;
    }
    this.#i32[this.#word + LINK.outPayload] = payload.byteOffset;
    this.#i32[this.#word + LINK.outBytes] = payload.length;
    this.flush();
  }

  flush(): void {
    const i32 = this.#i32;
    const word = this.#word;
    const buffers = this.#buffers;
    while (this.isPending && !this.ended) {
      const start = i32[word + LINK.outStart]!;
      const small = i32[word + LINK.outEnd]! - start;
      const large = i32[word + LINK.outBytes]!;
      const payload = i32[word + LINK.outPayload]! >>> 0;
      if (small > 0) buffers.set(0, this.#base + this.#state.outAt + start, small);
      if (large > 0) buffers.set(small > 0 ? 1 : 0, this.#base + payload, large);
      const vectors = (small > 0 ? 1 : 0) + (large > 0 ? 1 : 0);
      const count = this.#c.writev(this.fd, buffers.vectors, vectors);
      if (count < 0) {
        if (this.#failed()) return;
        continue;
      }
      const ofSmall = Math.min(count, small);
      if (ofSmall === small) {
        i32[word + LINK.outStart] = 0;
        i32[word + LINK.outEnd] = 0;
      } else i32[word + LINK.outStart] = start + ofSmall;
      i32[word + LINK.outPayload] = payload + count - ofSmall;
      i32[word + LINK.outBytes] = large - (count - ofSmall);
    }
  }
}
