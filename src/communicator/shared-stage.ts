/**
 * Heap memory that operations of one communicator share to move ordinary arrays through: what one of them leaves
 * there is lost at the next. One block for each side serves nearly always; a block that has become too small goes
 * back as soon as no operation knows its address any more.
 */

import type { HostDevice } from '../device/host/host-device.js';
import { TuttiError } from '../errors/tutti-error.js';

export type Side = 'send' | 'recv';

/** Most of what is free that a block may take beyond what one asks for. */
const GENEROUS_PART = 1 / 8;

interface Block {
  readonly side: Side;
  readonly address: number;
  readonly bytes: number;
  /** Operations that keep the address. */
  users: number;
}

export class SharedStage {
  readonly #device: HostDevice;
  /** Bytes of a block, unless one asks for more or the heap has little left. */
  readonly #usualBytes: number;
  readonly #blocks = new Set<Block>();

  constructor(device: HostDevice, usualBytes: number) {
    this.#device = device;
    this.#usualBytes = usualBytes;
  }

  /**
   * Address of at least so many bytes, which stay until it is released as often as it was acquired. Throws
   * `systemError` when the heap has no room for them.
   */
  acquire(side: Side, bytes: number): number {
    const block = this.#fitting(side, bytes) ?? this.#make(side, bytes);
    block.users += 1;
    return block.address;
  }

  release(address: number): void {
    for (const block of this.#blocks) if (block.address === address) block.users -= 1;
  }

  /** Gives back what no operation keeps. True when there was something. */
  trim(): boolean {
    const before = this.#blocks.size;
    for (const block of this.#blocks) if (block.users === 0) this.#free(block);
    return this.#blocks.size < before;
  }

  /** Gives everything back. */
  close(): void {
    for (const block of this.#blocks) this.#free(block);
  }

  #fitting(side: Side, bytes: number): Block | undefined {
    for (const block of this.#blocks) if (block.side === side && block.bytes >= bytes) return block;
    return undefined;
  }

  #make(side: Side, bytes: number): Block {
    for (const block of this.#blocks) if (block.side === side && block.users === 0) this.#free(block);
    // Powers of two, so that calls that grow little by little do not each leave a block behind.
    const generous = Math.max(this.#usualBytes, 2 ** Math.ceil(Math.log2(Math.max(1, bytes))));
    const isRoomy = generous <= this.#device.freeBytes * GENEROUS_PART;
    let made = this.#tryMake(side, isRoomy ? generous : bytes);
    if (!('address' in made) && isRoomy) made = this.#tryMake(side, bytes);
    if ('address' in made) return made;
    throw new TuttiError(
      'systemError',
      `out of memory: ordinary arrays of this call move through ${bytes} bytes of shared memory for ${side}, ` +
        `but of the ${this.#device.segmentSize} bytes that this rank can share only ${this.#device.freeBytes} are free, ` +
        'not all in one block; free arrays with comm.free, pass arrays of comm.alloc, which need no such memory, ' +
        'or set a larger TUTTI_HEAP_BYTES',
      { cause: made },
    );
  }

  #tryMake(side: Side, bytes: number): Block | TuttiError {
    try {
      const block = { side, address: this.#device.allocate(bytes), bytes, users: 0 };
      this.#blocks.add(block);
      return block;
    } catch (error) {
      if (TuttiError.is(error)) return error;
      throw error;
    }
  }

  #free(block: Block): void {
    this.#blocks.delete(block);
    this.#device.free(block.address);
  }
}
