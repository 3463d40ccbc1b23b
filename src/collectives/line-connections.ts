/**
 * The connections of protocols whose lines carry their own flags (LL, LL128): a transfer fills one slot, data need no
 * counter to announce them, and only credits are returned.
 *
 * Source: NCCL 2.30, credits of the LL and LL128 protocols.
 */

import type { KernelBuilder, Value, Variable } from '../kernel/builder.js';
import { awaitValue } from './await-value.js';
import type { Ends, ReceiveEnd, Sending } from './ends.js';
import { ReceiverControl, SenderControl, STEPS } from './ring-connection.js';

/** One connection into this rank, with its place in the sequence of steps. */
interface Receiving {
  readonly end: ReceiveEnd;
  readonly buffer: Value<'ptr'>;
  readonly step: Variable<'u64'>;
}

/** The slot of a connection that a transfer fills or empties. */
export interface LineSlot {
  readonly lines: Value<'ptr'>;
  readonly step: Value<'u64'>;
}

/** The slots of a transfer. */
export interface LineSlots {
  readonly incoming: readonly LineSlot[];
  readonly outgoing: readonly LineSlot[];
}

export class LineConnections {
  readonly #k: KernelBuilder;
  readonly #slot: Value<'u64'>;
  readonly #receives: readonly Receiving[];
  readonly #sends: readonly Sending[];
  /**
   * On GPUs: whether this program has had a fence. Lines are read by loads that no store overtakes, so that one is enough:
   * it orders what programs with other protocols have read from the connections before.
   */
  readonly #fenced: Variable<'pred'> | undefined;

  constructor(k: KernelBuilder, ends: Ends) {
    this.#k = k;
    this.#slot = ends.slot;
    if (ends.withoutProxy === true) this.#fenced = k.variable('pred', k.bool(false));
    // The plain loads first: what comes behind an acquire waits for it.
    const sent = ends.sends.map((end) => k.field(end.own, SenderControl, 'step'));
    const received = ends.receives.map((end) => k.field(end.own, ReceiverControl, 'step'));
    this.#sends = ends.sends.map((end, i) => ({
      end,
      buffer: end.receiver.offset(ends.buffers),
      step: k.variable('u64', sent[i]!),
      head: k.variable('u64', k.field(end.own, SenderControl, 'head', 0, { order: 'acquire' })),
    }));
    this.#receives = ends.receives.map((end, i) => ({
      end,
      buffer: end.own.offset(ends.buffers),
      step: k.variable('u64', received[i]!),
    }));
  }

  #isFirst(): Value<'pred'> {
    return this.#k.threadIndex.eq(0);
  }

  #slotOf(buffer: Value<'ptr'>, step: Value<'u64'>): LineSlot {
    return { lines: buffer.offset(step.and(STEPS - 1).mul(this.#slot)), step };
  }

  /**
   * On GPUs the lanes of a warp that have come out of a wait one by one go on one by one, and one that waits again may keep
   * the others from sending what it waits for the answer to. So they come together ahead of every transfer.
   */
  #meet(): void {
    this.#k.warpBarrier();
    this.#k.barrier();
  }

  /** Waits until the slots to be filled are free; gives the slots of a transfer. */
  begin({ receives, sends }: { readonly receives: boolean; readonly sends: boolean }): LineSlots {
    const k = this.#k;
    if (sends) {
      for (const { end, head, step } of this.#sends) {
        const need = step.value.add(1);
        k.if(this.#isFirst().and(head.value.add(STEPS).lt(need)), () => {
          const read = () => k.field(end.own, SenderControl, 'head', 0, { order: 'acquire' });
          head.set(awaitValue(k, read, (value) => value.add(STEPS).ge(need)));
        });
      }
    }
    const waits = receives && this.#receives.length > 0 && this.#fenced !== undefined;
    if (waits || (sends && this.#sends.length > 0)) this.#meet();
    const slots = (list: readonly (Receiving | Sending)[]) =>
      list.map(({ buffer, step }) => this.#slotOf(buffer, step.value));
    return { incoming: receives ? slots(this.#receives) : [], outgoing: sends ? slots(this.#sends) : [] };
  }

  /** Returns the credits of emptied slots. */
  release({ incoming }: LineSlots): void {
    const k = this.#k;
    if (incoming.length === 0) return;
    this.#meet();
    const fenced = this.#fenced;
    if (fenced !== undefined) {
      k.if(this.#isFirst().and(fenced.value.not()), () => k.fence('release', 'system'));
      fenced.set(k.bool(true));
    }
    incoming.forEach((slot, i) => {
      const { end, step } = this.#receives[i]!;
      const next = slot.step.add(1);
      k.if(this.#isFirst(), () => {
        const order = fenced === undefined ? 'release' : 'relaxed';
        k.setField(end.sender, SenderControl, 'head', next, { order });
        k.wake(end.doorbell);
      });
      step.set(next);
    });
  }

  /** Goes on to the next slots; `afterwards` may still write into one that was filled. */
  advance({ outgoing }: LineSlots, afterwards?: (slot: LineSlot) => void): void {
    const k = this.#k;
    outgoing.forEach((slot, i) => {
      const { end, step } = this.#sends[i]!;
      afterwards?.(slot);
      k.if(this.#isFirst(), () => k.wake(end.doorbell));
      step.set(slot.step.add(1));
    });
  }

  /** Saves the step counters for the next program. */
  close(): void {
    const k = this.#k;
    k.barrier();
    k.if(this.#isFirst(), () => {
      for (const { end, step } of this.#sends) k.setField(end.own, SenderControl, 'step', step.value);
      for (const { end, step } of this.#receives) k.setField(end.own, ReceiverControl, 'step', step.value);
    });
  }
}
