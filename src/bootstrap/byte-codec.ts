/**
 * Writer and reader of the small binary records that travel in frames. Little endian; text and byte strings
 * carry a 4-byte length. The reader checks every bound: a broken record is an error, never a wrong value.
 */
import { TuttiError } from '../errors/tutti-error.js';

export class ByteWriter {
  #bytes = new Uint8Array(256);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;

  /** Where the next `count` bytes go. May replace the buffer and its view: call it before touching them. */
  #reserve(count: number): number {
    const at = this.#length;
    this.#length += count;
    if (this.#length > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#length, 2 * this.#bytes.length));
      grown.set(this.#bytes);
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    return at;
  }

  u8(value: number): this {
    const at = this.#reserve(1);
    this.#view.setUint8(at, value);
    return this;
  }

  u16(value: number): this {
    const at = this.#reserve(2);
    this.#view.setUint16(at, value, true);
    return this;
  }

  u32(value: number): this {
    const at = this.#reserve(4);
    this.#view.setUint32(at, value, true);
    return this;
  }

  i32(value: number): this {
    const at = this.#reserve(4);
    this.#view.setInt32(at, value, true);
    return this;
  }

  u64(value: bigint): this {
    const at = this.#reserve(8);
    this.#view.setBigUint64(at, value, true);
    return this;
  }

  bytes(value: Uint8Array): this {
    this.u32(value.length);
    const at = this.#reserve(value.length);
    this.#bytes.set(value, at);
    return this;
  }

  text(value: string): this {
    return this.bytes(new TextEncoder().encode(value));
  }

  finish(): Uint8Array {
    return this.#bytes.slice(0, this.#length);
  }
}

export class ByteReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #offset = 0;

  constructor(bytes: Uint8Array) {
    // A plain view: `slice` of a Node Buffer would share its memory rather than copy.
    this.#bytes = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  #advance(count: number): number {
    const at = this.#offset;
    if (count > this.#bytes.length - at) {
      throw new TuttiError(
        'remoteError',
        `A control message ends after ${this.#bytes.length} bytes where ${at + count} are needed.`,
      );
    }
    this.#offset += count;
    return at;
  }

  u8(): number {
    return this.#view.getUint8(this.#advance(1));
  }

  u16(): number {
    return this.#view.getUint16(this.#advance(2), true);
  }

  u32(): number {
    return this.#view.getUint32(this.#advance(4), true);
  }

  i32(): number {
    return this.#view.getInt32(this.#advance(4), true);
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8), true);
  }

  /** A copy, so that it may outlive the frame. */
  bytes(): Uint8Array {
    const length = this.u32();
    const at = this.#advance(length);
    return this.#bytes.slice(at, at + length);
  }

  text(): string {
    return new TextDecoder().decode(this.bytes());
  }

  /** @throws TuttiError remoteError when bytes are left over. */
  finish(): void {
    if (this.#offset !== this.#bytes.length) {
      throw new TuttiError(
        'remoteError',
        `A control message has ${this.#bytes.length - this.#offset} bytes too many.`,
      );
    }
  }
}
