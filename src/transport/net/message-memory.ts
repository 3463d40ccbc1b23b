/**
 * The words and slots that a message link shares with the programs of its rank (collectives/message-memory.ts has the
 * layout, and hands its places down).
 *
 * For every peer there are the rank's own outbox and inbox, and mirrors of those that the peer has for this rank. The
 * program fills the slots of the mirrored inbox, and counts in the mirrored outbox what it has taken:
 *
 *     outbox   sent                 -> fragments to carry from the mirrored slots
 *              credit               <- of the peer
 *     inbox    slots                <- fragments of the peer
 *     mirror   credit               -> to the peer
 */

import { ProxyMemory } from './proxy-memory.js';

/** Byte offsets and sizes; equal for all peers and ranks. */
export interface MessageLinkLayout {
  /** Slots of an inbox, a power of two; bytes from one to the next, and that one holds. */
  readonly slots: number;
  readonly slotStride: number;
  readonly slotBytes: number;
  /** In a slot: number (32 bits), purpose (32), bytes of the message and of the fragment (64 each), and the bytes. */
  readonly number: number;
  readonly purpose: number;
  readonly total: number;
  readonly bytes: number;
  readonly data: number;
}

/** Addresses of one peer. Words have 32 bits and count fragments, around. */
export interface MessageLinkAddresses {
  /** Fragments that the program has published in the mirrored slots. */
  readonly sent: number;
  /** Where the peer's credit goes. */
  readonly credit: number;
  /** First slot of the own inbox, and of the mirrored one. */
  readonly slots: number;
  readonly mirrorSlots: number;
  /** Fragments that the program has taken. */
  readonly mirrorCredit: number;
}

export interface Fragment {
  readonly purpose: number;
  readonly total: number;
  readonly bytes: number;
}

export class MessageMemory extends ProxyMemory<MessageLinkLayout> {
  readonly #view = new DataView(this.buffer);

  counter(address: number): number {
    return Atomics.load(this.i32, address >>> 2);
  }

  setCounter(address: number, value: number): void {
    Atomics.store(this.i32, address >>> 2, value);
  }

  /** Address of the slot of fragment `number`. */
  #slot(slots: number, number: number): number {
    const { slots: count, slotStride } = this.layout;
    return slots + ((number - 1) & (count - 1)) * slotStride;
  }

  /** What the header of a fragment says. */
  fragment(slots: number, number: number): Fragment {
    const { purpose, total, bytes } = this.layout;
    const at = this.#slot(slots, number);
    return {
      purpose: this.#view.getUint32(at + purpose, true),
      total: Number(this.#view.getBigUint64(at + total, true)),
      bytes: Number(this.#view.getBigUint64(at + bytes, true)),
    };
  }

  /** Memory of a fragment's bytes. */
  data(slots: number, number: number, bytes: number): Uint8Array {
    return Buffer.from(this.buffer, this.#slot(slots, number) + this.layout.data, bytes);
  }

  /** Writes the header of a fragment whose bytes are there, and publishes it. */
  publish(slots: number, number: number, fragment: Fragment): void {
    const { purpose, total, bytes, number: word } = this.layout;
    const at = this.#slot(slots, number);
    this.#view.setUint32(at + purpose, fragment.purpose, true);
    this.#view.setBigUint64(at + total, BigInt(fragment.total), true);
    this.#view.setBigUint64(at + bytes, BigInt(fragment.bytes), true);
    this.setCounter(at + word, number);
  }
}
