/**
 * A piece of an ordinary array and the heap memory that it moves through, with everything that can be known before it
 * moves: what is done for each call is as little code as possible, and the same for every call with so few bytes.
 *
 * That matters twice. A small call takes less time than some of what a copy could look up anew. And V8 compiles what is called
 * often on a thread of its own, which takes the processor from ranks that outnumber cores for milliseconds: code that
 * large calls share and change costs the small ones that come after them. So the first copy always goes the way of large
 * ones, which V8 has seen by the time it optimises.
 */

import type { HostDevice } from '../device/host/host-device.js';
import type { OutsideArray } from './outside-array.js';

/** Up to so many bytes a loop is faster than `set` and its views, or than a call of the C library: by words, and by bytes. */
const LOOP_BYTES = { words: 256, bytes: 64 } as const;

export class StagedCopy {
  readonly #array: OutsideArray;
  /** First byte in the array, and address in the heap. */
  readonly #from: number;
  readonly #stage: number;
  readonly #bytes: number;
  /** What of the array a loop moves: nothing of a copy that is not short enough. */
  readonly #own: Int32Array | Uint8Array;
  readonly #loop: number;
  readonly #heap: Int32Array | Uint8Array;
  /** Index in `heap` of the first. */
  readonly #first: number;
  /** Elements of `own` for the next copy in, and out, when it is not the first; else 0. */
  #loopIn = 0;
  #loopOut = 0;

  /** Throws as `OutsideArray.check` does. */
  constructor(device: HostDevice, array: OutsideArray, from: number, stage: number, bytes: number) {
    this.#array = array;
    this.#from = from;
    this.#stage = stage;
    this.#bytes = bytes;
    array.check();
    const { buffer, byteOffset } = array.bytes;
    const hasWords = ((byteOffset | from | stage | bytes) & 3) === 0;
    const isShort = bytes <= (hasWords ? LOOP_BYTES.words : LOOP_BYTES.bytes);
    const byWords = isShort && hasWords;
    const byBytes = isShort && !hasWords;
    this.#own = byWords
      ? new Int32Array(buffer, byteOffset + from, bytes >>> 2)
      : new Uint8Array(buffer, byteOffset + from, byBytes ? bytes : 0);
    this.#heap = byWords ? device.i32 : device.u8;
    this.#first = byWords ? stage >>> 2 : stage;
    this.#loop = this.#own.length;
  }

  /** Copies into the heap. Throws as `OutsideArray.check` does. */
  in(): void {
    const count = this.#loopIn;
    if (count === 0) {
      this.#array.copyIn(this.#from, this.#stage, this.#bytes);
      this.#loopIn = this.#loop;
      return;
    }
    this.#array.check();
    const own = this.#own;
    const heap = this.#heap;
    const first = this.#first;
    for (let i = 0; i < count; i++) heap[first + i] = own[i]!;
  }

  /** Copies out of the heap. Throws as `OutsideArray.check` does. */
  out(): void {
    const count = this.#loopOut;
    if (count === 0) {
      this.#array.copyOut(this.#stage, this.#from, this.#bytes);
      this.#loopOut = this.#loop;
      return;
    }
    this.#array.check();
    const own = this.#own;
    const heap = this.#heap;
    const first = this.#first;
    for (let i = 0; i < count; i++) own[i] = heap[first + i]!;
  }
}
