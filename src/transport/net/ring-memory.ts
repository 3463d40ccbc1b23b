/**
 * The words and slots that a ring proxy shares with the programs of its rank.
 *
 * Each channel has two control structures of the rank's own, which the proxy fills in the neighbours' name, and
 * two mirrors, which the program fills as if they were the neighbours':
 *
 *     sender    head          <- credits of the successor
 *     receiver  tail, slots   <- data of the predecessor
 *     outgoing  tail, sizes, slots   -> to the successor
 *     credits   head          -> to the predecessor
 *
 * Counters are 64-bit and are read and stored whole. A size cell holds the bytes of a slice in its low half and
 * the low 32 bits of step + 1 in its high half, so a cell that was not written for the very step is recognised.
 */

import { ProxyMemory } from './proxy-memory.js';

/** Byte offsets of fields and buffers, and sizes; equal for all channels and ranks. */
export interface RingLayout {
  /** In a sender's structure. */
  readonly head: number;
  /** In a receiver's structure. */
  readonly tail: number;
  readonly sizes: number;
  readonly slots: number;
  /** Number of slots, a power of two, and bytes of each. */
  readonly steps: number;
  readonly slotBytes: number;
}

/** Addresses of one channel's structures, multiples of 8. */
export interface RingChannelAddresses {
  readonly sender: number;
  readonly receiver: number;
  readonly outgoing: number;
  readonly credits: number;
}

export class RingMemory extends ProxyMemory<RingLayout> {
  readonly #i64 = new BigInt64Array(this.buffer);

  /** Whether a counter may differ from the value: a look at its low half, which costs no BigInt. */
  hasMoved(address: number, from: number): boolean {
    return Atomics.load(this.i32, address >>> 2) !== (from | 0);
  }

  counter(address: number): number {
    return Number(Atomics.load(this.#i64, address >>> 3));
  }

  setCounter(address: number, value: number): void {
    Atomics.store(this.#i64, address >>> 3, BigInt(value));
  }

  /** Bytes of the slice that begins at the step; undefined when none does. */
  sliceBytes(receiver: number, step: number): number | undefined {
    const { sizes, steps } = this.layout;
    const cell = (receiver + sizes + (step & (steps - 1)) * 8) >>> 2;
    if (this.i32[cell + 1] !== ((step + 1) | 0)) return undefined;
    return this.i32[cell]! >>> 0;
  }

  /** The memory of a slice that begins at the step's slot. */
  slice(receiver: number, step: number, bytes: number): Uint8Array {
    const { slots, steps, slotBytes } = this.layout;
    return Buffer.from(this.buffer, receiver + slots + (step & (steps - 1)) * slotBytes, bytes);
  }
}
