/**
 * What carrying a rank's rings is about: slices of its programs become frames, frames become slices, credits both ways.
 * It knows nothing of sockets, and its counters lie in shared memory, so the proxy and waiting programs take turns with
 * it.
 *
 * A slot is sent from where it is: the program does not fill it again before its credit has come, and that comes when
 * the other end has all of its bytes. So no more than the slots of a connection are ever under way.
 *
 * Source: NCCL 2.30's proxy of the network transport (slots, sizes, credits).
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { type CarrierState, CHANNEL } from './carrier-state.js';
import { type FrameOutput, makeRoom } from './frame-output.js';
import type { LinkFrame, Side } from './link-frame.js';
import type { RingChannelAddresses, RingMemory } from './ring-memory.js';

/**
 * Steps that a program goes beyond its published tail with its next slice: two of a slice, after rounding its counters
 * up to a multiple of four at its start. While there is credit for so many, it cannot wait for credit.
 */
const SLICE_STEPS = 2;
const ROUND_STEPS = 4;
const NEXT_STEPS = SLICE_STEPS + ROUND_STEPS - 1;

/** Slices up to so many bytes are about latency: their credits are returned only when somebody may need them. */
const SMALL_SLICE = 4096;

export function refuse(what: string): TuttiError {
  return new TuttiError('remoteError', what);
}

/** Counters of a channel that is carried. */
class Channel {
  readonly index: number;
  readonly addresses: RingChannelAddresses;
  readonly #f64: Float64Array;
  readonly #at: number;

  constructor(index: number, addresses: RingChannelAddresses, state: CarrierState) {
    this.index = index;
    this.addresses = addresses;
    this.#f64 = state.f64;
    this.#at = state.channelAt(index);
  }

  /** Steps of the mirror that have been sent, and credits that have come back for them. */
  get sent(): number {
    return this.#f64[this.#at + CHANNEL.sent]!;
  }
  set sent(step: number) {
    this.#f64[this.#at + CHANNEL.sent] = step;
  }
  get credited(): number {
    return this.#f64[this.#at + CHANNEL.credited]!;
  }
  set credited(step: number) {
    this.#f64[this.#at + CHANNEL.credited] = step;
  }
  /** Steps that have come, and credits returned for them. */
  get received(): number {
    return this.#f64[this.#at + CHANNEL.received]!;
  }
  set received(step: number) {
    this.#f64[this.#at + CHANNEL.received] = step;
  }
  get returned(): number {
    return this.#f64[this.#at + CHANNEL.returned]!;
  }
  set returned(step: number) {
    this.#f64[this.#at + CHANNEL.returned] = step;
  }
  /** The last slice that came was small. */
  get small(): boolean {
    return this.#f64[this.#at + CHANNEL.small] !== 0;
  }
  set small(small: boolean) {
    this.#f64[this.#at + CHANNEL.small] = small ? 1 : 0;
  }
}

export class RingCarrier {
  readonly #memory: RingMemory;
  readonly #channels: readonly Channel[];
  readonly #slices: FrameOutput;
  readonly #credits: FrameOutput;

  /** With `pair` both neighbours are one rank: its credits then leave together with slices for it. */
  constructor(
    memory: RingMemory,
    channels: readonly RingChannelAddresses[],
    state: CarrierState,
    outputs: Readonly<Record<Side, FrameOutput>>,
    pair: boolean,
  ) {
    this.#memory = memory;
    this.#channels = channels.map((addresses, index) => new Channel(index, addresses, state));
    this.#slices = outputs.next;
    this.#credits = pair ? outputs.next : outputs.prev;
  }

  // ---- own memory to the network ----

  /** Sends whatever the programs have published since the last time, as far as the outputs take it: what is left waits behind a frame. */
  send(): void {
    const { tail } = this.#memory.layout;
    for (const channel of this.#channels) {
      if (this.#memory.hasMoved(channel.addresses.outgoing + tail, channel.sent)) this.#sendSlices(channel);
    }
    const { hasFrames } = this.#credits;
    for (const channel of this.#channels) this.#returnCredit(channel, hasFrames);
    this.#slices.flush();
    this.#credits.flush();
  }

  /** The next slice that is to be sent is worth a call of its own: the other end can begin with it. */
  hasLarge(): boolean {
    for (const channel of this.#channels) {
      const { outgoing } = channel.addresses;
      const { sent } = channel;
      if (!this.#memory.hasMoved(outgoing + this.#memory.layout.tail, sent)) continue;
      if ((this.#memory.sliceBytes(outgoing, sent) ?? 0) > SMALL_SLICE) return true;
    }
    return false;
  }

  /** Sends the credits that are returned for what has just come. */
  flushCredits(): void {
    this.#credits.flush();
  }

  /** With `rides` something is about to be sent anyway, so that a credit costs nothing. */
  #returnCredit(channel: Channel, rides = false): void {
    const head = channel.addresses.credits + this.#memory.layout.head;
    const { returned } = channel;
    const output = this.#credits;
    if (!this.#memory.hasMoved(head, returned)) return;
    const start = Math.ceil(channel.received / ROUND_STEPS) * ROUND_STEPS;
    const enough = start + SLICE_STEPS <= returned + this.#memory.layout.steps;
    if (channel.small && enough && !rides) return;
    if (!makeRoom(output)) return;
    const step = this.#memory.counter(head);
    channel.returned = step;
    output.frame('credit', channel.index, 0, step);
  }

  #sendSlices(channel: Channel): void {
    const { layout } = this.#memory;
    const { outgoing } = channel.addresses;
    const next = this.#slices;
    const tail = this.#memory.counter(outgoing + layout.tail);
    // Steps that are further back than there are slots were skipped: programs round their counters up.
    let step = Math.max(channel.sent, tail - layout.steps);
    let bytes = this.#memory.sliceBytes(outgoing, step);
    while (step < tail && makeRoom(next)) {
      let end = step + 1;
      let following: number | undefined;
      while (end < tail) {
        following = this.#memory.sliceBytes(outgoing, end);
        // An empty slice is but steps, which go with the slice before.
        if (following !== undefined && (following > 0 || bytes === undefined)) break;
        end++;
      }
      if (bytes !== undefined)
        next.slice(channel.index, step, end, this.#memory.slice(outgoing, step, bytes));
      step = end;
      bytes = following;
    }
    channel.sent = step;
  }

  // ---- from the network into own memory ----

  /** Where the payload of a `data` frame goes. Throws when it was not due. */
  acceptData(frame: LinkFrame): Uint8Array {
    const channel = this.#channelOf(frame);
    const { steps, slotBytes } = this.#memory.layout;
    const { step, tail, bytes } = frame;
    const returned = this.#memory.counter(channel.addresses.credits + this.#memory.layout.head);
    if (step < channel.received || tail <= step || tail > returned + steps) {
      throw refuse(
        `it sent steps ${step} to ${tail} of channel ${frame.channel}; ${channel.received} to ${returned + steps} were due`,
      );
    }
    const room = Math.min(tail - step, steps - (step & (steps - 1))) * slotBytes;
    if (bytes > room) throw refuse(`it sent ${bytes} bytes for step ${step}; ${room} have room`);
    return this.#memory.slice(channel.addresses.receiver, step, bytes);
  }

  completeData(frame: LinkFrame): void {
    const channel = this.#channels[frame.channel]!;
    channel.received = frame.tail;
    channel.small = frame.bytes <= SMALL_SLICE;
    this.#memory.setCounter(channel.addresses.receiver + this.#memory.layout.tail, frame.tail);
    this.#returnCredit(channel);
  }

  /** Throws when a credit was not due. */
  acceptCredit(frame: LinkFrame): void {
    const channel = this.#channelOf(frame);
    // Programs round up, so a credit may run ahead of the data, but by less than all slots.
    const most = channel.sent + this.#memory.layout.steps;
    if (frame.step < channel.credited || frame.step > most) {
      throw refuse(
        `it returned credit ${frame.step} on channel ${frame.channel}; ${channel.credited} to ${most} were due`,
      );
    }
  }

  /** Whether a program may wait for this credit. */
  completeCredit(frame: LinkFrame): boolean {
    const channel = this.#channels[frame.channel]!;
    const before = channel.credited;
    const { head, tail, steps } = this.#memory.layout;
    channel.credited = frame.step;
    this.#memory.setCounter(channel.addresses.sender + head, frame.step);
    // Looked at after the head was set: a program that goes on from here sees the new head by itself.
    const published = this.#memory.counter(channel.addresses.outgoing + tail);
    return published + NEXT_STEPS > before + steps;
  }

  #channelOf(frame: LinkFrame): Channel {
    const channel = this.#channels[frame.channel];
    if (channel !== undefined) return channel;
    throw refuse(`it sent a frame for channel ${frame.channel} of ${this.#channels.length}`);
  }
}
