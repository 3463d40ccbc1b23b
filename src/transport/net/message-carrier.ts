/**
 * What carrying messages between this rank and one peer is about: fragments and credit, to and from frames. Like
 * RingCarrier it keeps its counters in shared memory, so that the proxy and waiting programs take turns with it.
 *
 * A fragment goes from the slot that the program filled into the slot that it is for; its slot is not filled again before
 * the peer's credit has come, so no more than the slots of an inbox are under way.
 */
import { LINK, type LinkState } from './carrier-state.js';
import { type FrameOutput, makeRoom } from './frame-output.js';
import type { LinkFrame } from './link-frame.js';
import type { MessageLinkAddresses, MessageMemory } from './message-memory.js';
import { refuse } from './ring-carrier.js';

/** Fragments of more bytes are sent as soon as they are published. */
const LARGE_FRAGMENT = 4096;

export class MessageCarrier {
  readonly #memory: MessageMemory;
  readonly #addresses: MessageLinkAddresses;
  readonly #i32: Int32Array;
  readonly #word: number;
  readonly #output: FrameOutput;

  constructor(memory: MessageMemory, addresses: MessageLinkAddresses, state: LinkState, output: FrameOutput) {
    this.#memory = memory;
    this.#addresses = addresses;
    this.#i32 = state.i32;
    this.#word = state.word;
    this.#output = output;
  }

  /** The next fragment that is to be sent is worth a call of its own. */
  hasLarge(): boolean {
    const carried = this.#i32[this.#word + LINK.carried]!;
    if (this.#memory.counter(this.#addresses.sent) === carried) return false;
    return this.#memory.fragment(this.#addresses.mirrorSlots, (carried + 1) | 0).bytes > LARGE_FRAGMENT;
  }

  /** Sends whatever the program has published since the last time, as far as the output takes it. */
  send(): void {
    const memory = this.#memory;
    const addresses = this.#addresses;
    const i32 = this.#i32;
    const carriedAt = this.#word + LINK.carried;
    const returnedAt = this.#word + LINK.returned;
    const output = this.#output;
    const sent = memory.counter(addresses.sent);
    while (i32[carriedAt] !== sent && makeRoom(output)) {
      const number = (i32[carriedAt]! + 1) | 0;
      const { purpose, total, bytes } = memory.fragment(addresses.mirrorSlots, number);
      output.slice(purpose, total, number >>> 0, memory.data(addresses.mirrorSlots, number, bytes));
      i32[carriedAt] = number;
    }
    const taken = memory.counter(addresses.mirrorCredit);
    if (taken !== i32[returnedAt] && makeRoom(output)) {
      i32[returnedAt] = taken;
      output.frame('credit', 0, 0, taken >>> 0);
    }
    output.flush();
  }

  /** Where the payload of a `data` or `credit` frame goes. Throws when the frame was not due. */
  accept(frame: LinkFrame): Uint8Array | undefined {
    const memory = this.#memory;
    const addresses = this.#addresses;
    const i32 = this.#i32;
    const word = this.#word;
    if (frame.kind === 'credit') {
      // Nobody takes more than was sent, nor less than before.
      const credited = i32[word + LINK.credited]!;
      const carried = i32[word + LINK.carried]!;
      if (((frame.step - credited) | 0) < 0 || ((carried - frame.step) | 0) < 0) {
        throw refuse(`it returned credit ${frame.step}; ${credited >>> 0} to ${carried >>> 0} were due`);
      }
      return undefined;
    }
    if (frame.kind !== 'data') throw refuse(`it sent a frame of kind ${frame.kind} that has no place here`);
    const due = (i32[word + LINK.received]! + 1) >>> 0;
    const { slots, slotBytes } = memory.layout;
    const room = (memory.counter(addresses.mirrorCredit) + slots - due) | 0;
    if (frame.tail !== due || room < 0) throw refuse(`it sent fragment ${frame.tail}, ${due} was due`);
    if (frame.bytes > slotBytes) {
      throw refuse(`it sent a fragment of ${frame.bytes} bytes; ${slotBytes} have room`);
    }
    return memory.data(addresses.slots, due, frame.bytes);
  }

  complete(frame: LinkFrame): void {
    const memory = this.#memory;
    const addresses = this.#addresses;
    if (frame.kind === 'credit') {
      this.#i32[this.#word + LINK.credited] = frame.step | 0;
      memory.setCounter(addresses.credit, frame.step | 0);
      return;
    }
    const { channel: purpose, step: total, bytes, tail } = frame;
    this.#i32[this.#word + LINK.received] = tail | 0;
    memory.publish(addresses.slots, tail | 0, { purpose, total, bytes });
  }
}
