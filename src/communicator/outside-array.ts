/**
 * An array outside of the heap, and the copies between it and the heap.
 *
 * `TypedArray.set` between shared and ordinary memory moves about 10 GB/s whatever the size, since it must be
 * careful about races; the C library's memcpy moves several times that while the data are in a cache, at the
 * price of a call of 0.15 us. So it is used from a kilobyte up, where the C library can be reached. A few bytes are moved
 * by loops (staged-copy.ts).
 */

import type { HostDevice } from '../device/host/host-device.js';
import { TuttiError } from '../errors/tutti-error.js';
import { libc } from '../system/libc.js';
import type { Buffer } from './buffers.js';

/** From this many bytes on memcpy is faster than `set`. */
const MEMCPY_BYTES = 1024;

/** Copies of a rehearsal: after fewer calls of a function V8 does not note yet what it meets. */
const REHEARSALS = 20;

const rehearsed = new WeakSet<HostDevice>();

/**
 * Copies of every size once, long before V8 compiles them: code that has not been met would be thrown away at the first
 * array of another size, and on a machine whose cores all wait, compiling it anew takes tens of milliseconds.
 */
function rehearse(device: HostDevice): void {
  if (rehearsed.has(device)) return;
  rehearsed.add(device);
  const array = new OutsideArray(device, new Uint8Array(MEMCPY_BYTES));
  const stage = device.allocatePrivate(MEMCPY_BYTES);
  try {
    for (let i = 0; i < REHEARSALS; i++) {
      for (const bytes of [MEMCPY_BYTES - 1, MEMCPY_BYTES]) {
        array.copyIn(0, stage, bytes);
        array.copyOut(stage, 0, bytes);
      }
    }
  } finally {
    device.freePrivate(stage);
  }
}

export class OutsideArray {
  readonly #device: HostDevice;
  readonly #buffer: Buffer;
  /** All of the array. */
  readonly bytes: Uint8Array;
  readonly #length: number;
  /** Address of the first byte in the process, 0 where it is not known. */
  readonly #address: number;

  constructor(device: HostDevice, buffer: Buffer) {
    rehearse(device);
    this.#device = device;
    this.#buffer = buffer;
    this.bytes = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
    this.#length = buffer.byteLength;
    // Small arrays may lie in the JavaScript heap, where the garbage collector moves them.
    const hasAddress = device.baseAddress !== 0 && this.#length >= MEMCPY_BYTES;
    this.#address = hasAddress ? (libc()?.addressOf(this.bytes) ?? 0) : 0;
  }

  /** Address of the first byte in the process; 0 where it is not known, or may change. */
  get address(): number {
    return this.#address;
  }

  /** Throws `invalidUsage` for memory that was transferred to another thread or shrunk: it is not ours to touch. */
  check(): void {
    if (this.#buffer.byteLength !== this.#length) {
      throw new TuttiError(
        'invalidUsage',
        `an array of ${this.#length} bytes now has ${this.#buffer.byteLength}: its buffer was transferred or resized after the call was prepared`,
      );
    }
  }

  /** Heap address `to` = bytes [from, from + bytes) of the array. */
  copyIn(from: number, to: number, bytes: number): void {
    this.check();
    if (this.#address !== 0 && bytes >= MEMCPY_BYTES) {
      libc()!.memcpy(this.#device.baseAddress + to, this.#address + from, bytes);
    } else this.#device.u8.set(this.bytes.subarray(from, from + bytes), to);
  }

  /** Bytes [to, to + bytes) of the array = heap address `from`. */
  copyOut(from: number, to: number, bytes: number): void {
    this.check();
    if (this.#address !== 0 && bytes >= MEMCPY_BYTES) {
      libc()!.memcpy(this.#address + to, this.#device.baseAddress + from, bytes);
    } else this.bytes.set(this.#device.u8.subarray(from, from + bytes), to);
  }
}
