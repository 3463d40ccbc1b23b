/**
 * The Simple protocol: bulk data in slots, announced by a counter.
 *
 * A transfer is cut into slices; for each slice the sender waits for credit (head), everybody moves the data, and the
 * tail is stored behind a fence, so that whoever acquires the tail sees the data; credits as well. All slices of a call
 * are walked even when empty; where no proxy moves the slots, the last one that is not empty takes the steps of the
 * others along. Counters are rounded up to whole calls when a program starts, and the receiver returns the skipped
 * credits at once.
 * Source: NCCL 2.30, Simple protocol (slice rule, credits, step rounding, operand order own then received).
 */

import type { KernelBuilder, Value, Variable } from '../kernel/builder.js';
import { ELEMENT_TYPES, type ElementType } from '../kernel/element-types.js';
import type { DirectArithmetic, StepArithmetic } from './arithmetic.js';
import { awaitValue } from './await-value.js';
import type { Ends, ReceiveEnd, SendEnd, Sending } from './ends.js';
import type { Protocol, Transfer } from './primitives.js';
import { reduceCopy } from './reduce-copy.js';
import { ReceiverControl, SenderControl, STEPS } from './ring-connection.js';

export interface SimpleShape {
  /** Steps that one call and one slice of it consume. */
  readonly stepsPerChunk: number;
  readonly stepsPerSlice: number;
}

/** A switch between the ranks: what the first so many receive ends bring is one operand, reduced on the way. */
export interface ReducingLoad {
  readonly ports: number;
  readonly combine: DirectArithmetic;
}

/** One connection into this rank, with its place in the sequence of steps. */
interface Receiving {
  readonly end: ReceiveEnd;
  readonly buffer: Value<'ptr'>;
  readonly step: Variable<'u64'>;
  /** The latest tail seen. */
  readonly tail: Variable<'u64'>;
}

export class SimpleProtocol implements Protocol {
  /** The connections that transfers use. */
  readonly ends: Ends;
  readonly #k: KernelBuilder;
  readonly #type: ElementType;
  readonly #arithmetic: StepArithmetic;
  readonly #shape: SimpleShape;
  readonly #load: ReducingLoad | undefined;
  readonly #slot: Value<'u64'>;
  readonly #receives: readonly Receiving[];
  readonly #sends: readonly Sending[];

  constructor(
    k: KernelBuilder,
    ends: Ends,
    type: ElementType,
    arithmetic: StepArithmetic,
    shape: SimpleShape,
    load?: ReducingLoad,
  ) {
    this.#k = k;
    this.ends = ends;
    this.#type = type;
    this.#arithmetic = arithmetic;
    this.#shape = shape;
    this.#load = load;
    this.#slot = ends.slot;
    const round = (step: Value<'u64'>) =>
      step
        .add(shape.stepsPerChunk - 1)
        .div(shape.stepsPerChunk)
        .mul(shape.stepsPerChunk);
    // The plain loads first: what comes behind an acquire waits for it.
    const sent = ends.sends.map((end) => k.field(end.own, SenderControl, 'step'));
    const received = ends.receives.map((end) => k.field(end.own, ReceiverControl, 'step'));
    this.#sends = ends.sends.map((end, i) => ({
      end,
      buffer: end.receiver.offset(ends.buffers),
      step: k.variable('u64', round(sent[i]!)),
      head: k.variable('u64', k.field(end.own, SenderControl, 'head', 0, { order: 'acquire' })),
    }));
    this.#receives = ends.receives.map((end, i) => {
      const step = round(received[i]!);
      const skips = ends.withoutProxy === true ? step.ne(received[i]!) : k.bool(true);
      k.if(k.threadIndex.eq(0).and(skips), () => {
        k.setField(end.sender, SenderControl, 'head', step, { order: 'release' });
        k.wake(end.doorbell);
      });
      // On GPUs every acquire takes a way to memory, and the first wait looks anyway.
      const tail =
        ends.withoutProxy === true
          ? step
          : k.field(end.own, ReceiverControl, 'tail', 0, { order: 'acquire' });
      return {
        end,
        buffer: end.own.offset(ends.buffers),
        step: k.variable('u64', step),
        tail: k.variable('u64', tail),
      };
    });
  }

  /** Waits until `counter + slack` has reached `need`; re-reads memory only when the cached value is too old. */
  #await(cached: Variable<'u64'>, slack: number, need: Value<'u64'>, read: () => Value<'u64'>): void {
    const k = this.#k;
    k.if(cached.value.add(slack).lt(need), () => {
      cached.set(awaitValue(k, read, (value) => value.add(slack).ge(need)));
    });
  }

  transfer(transfer: Transfer): void {
    const k = this.#k;
    const { stepsPerChunk, stepsPerSlice } = this.#shape;
    const slices = stepsPerChunk / stepsPerSlice;
    const size = ELEMENT_TYPES[this.#type].size;
    const { input, output, elements } = transfer;
    const first = k.threadIndex.eq(0);
    const stepElements = this.#slot.div(size);
    // A fence costs as much as 64 KB or so: no more slices than data are worth.
    const least = stepElements.mul(stepsPerSlice).div(this.ends.withoutProxy === true ? 4 : 32);
    const slice = elements
      .add(16 * slices - 1)
      .div(16 * slices)
      .mul(16)
      .max(least);
    const offset = k.variable('u64', 0);
    const left = k.variable('u64', stepsPerChunk);
    k.for(k.u32(0), slices, 1, (_, loop) => {
      const from = offset.value;
      const moved = slice.min(elements.sub(from));
      const isLast = from.add(moved).ge(elements);
      /** Steps that this slice takes, with those of empty ones behind it. */
      const steps =
        this.ends.withoutProxy === true
          ? k.select(isLast, left.value, k.u64(stepsPerSlice))
          : k.u64(stepsPerSlice);
      const sends = (transfer.sends ? this.#sends : []).map((to) => ({ ...to, now: to.step.value }));
      const receives = (transfer.receives ? this.#receives : []).map((from) => ({
        ...from,
        now: from.step.value,
      }));
      k.if(first, () => {
        for (const { end, head, now } of sends) {
          this.#await(head, STEPS, now.add(stepsPerSlice), () =>
            k.field(end.own, SenderControl, 'head', 0, { order: 'acquire' }),
          );
        }
        for (const { end, tail, now } of receives) {
          this.#await(tail, 0, now.add(stepsPerSlice), () =>
            k.field(end.own, ReceiverControl, 'tail', 0, { order: 'acquire' }),
          );
        }
      });
      // The first warp goes on as one.
      k.warpBarrier();
      k.barrier();
      const bytes = moved.mul(size);
      const skip = from.mul(size);
      const sources: Value<'ptr'>[] = [];
      if (input !== undefined) sources.push(input.offset(skip));
      for (const { buffer, now } of receives) {
        sources.push(buffer.offset(now.and(STEPS - 1).mul(this.#slot)));
      }
      const targets: Value<'ptr'>[] = [];
      if (output !== undefined) targets.push(output.offset(skip));
      for (const { buffer, now } of sends) {
        targets.push(buffer.offset(now.and(STEPS - 1).mul(this.#slot)));
      }
      reduceCopy(k, {
        sources,
        targets,
        bytes,
        elementBytes: size,
        combine: (packets) => {
          const own = packets.slice(0, input === undefined ? 0 : 1);
          const operands = [
            ...(transfer.isResult === true ? own : own.map((packet) => this.#arithmetic.before(packet))),
            ...this.#loaded(packets.slice(own.length)),
          ];
          const result = operands.reduce((sum, packet) =>
            transfer.receivedFirst === true
              ? this.#arithmetic.combine(packet, sum)
              : this.#arithmetic.combine(sum, packet),
          );
          return transfer.after === true ? this.#arithmetic.after(result) : result;
        },
      });
      k.barrier();
      const nextOf = ({ now }: { readonly now: Value<'u64'> }) => now.add(steps);
      k.if(first, () => {
        if (sends.length + receives.length === 0) return;
        // A fence of the whole system takes about a microsecond on GPUs: one has to do for all words.
        const order = this.ends.withoutProxy === true ? 'relaxed' : 'release';
        if (order === 'relaxed') k.fence('release', 'system');
        for (const send of sends) {
          if (order === 'release') this.#tellSize(send, bytes);
          k.setField(send.end.receiver, ReceiverControl, 'tail', nextOf(send), { order });
          k.wake(send.end.doorbell);
        }
        for (const receive of receives) {
          k.setField(receive.end.sender, SenderControl, 'head', nextOf(receive), { order });
          k.wake(receive.end.doorbell);
        }
      });
      for (const one of [...sends, ...receives]) one.step.set(nextOf(one));
      offset.set(from.add(moved));
      if (this.ends.withoutProxy !== true || slices === 1) return;
      left.set(left.value.sub(steps));
      k.if(isLast, () => loop.break());
    });
  }

  /** Tells a proxy how much is in the slots of a slice. */
  #tellSize({ end, now }: { end: SendEnd; now: Value<'u64'> }, bytes: Value<'u64'>): void {
    const k = this.#k;
    const slot = now.and(STEPS - 1).cast('u32');
    const cell = k.fieldAddress(end.receiver, ReceiverControl, 'size', slot);
    k.store('u64', cell, bytes.or(now.add(1).shl(32)));
  }

  /** What was received, with the operands of the reducing load made one. */
  #loaded(received: readonly Value<'packet'>[]): readonly Value<'packet'>[] {
    if (this.#load === undefined || received.length === 0) return received;
    const { ports, combine } = this.#load;
    return [combine(received.slice(0, ports)), ...received.slice(ports)];
  }

  close(): void {
    const k = this.#k;
    // Threads that have nothing to move may still be reading the counters.
    k.barrier();
    k.if(k.threadIndex.eq(0), () => {
      for (const { end, step } of this.#sends) k.setField(end.own, SenderControl, 'step', step.value);
      for (const { end, step } of this.#receives) k.setField(end.own, ReceiverControl, 'step', step.value);
    });
  }
}
