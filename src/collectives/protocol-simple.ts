/**
 * The Simple protocol: bulk data in slots, announced by a counter.
 *
 * A transfer is cut into slices; for each slice the sender waits for credit (head), everybody moves the data,
 * and the tail is stored with release order, so that whoever acquires the tail sees the data. All slices of
 * a call are walked even when empty. Counters are rounded up to whole calls when a program starts, and the
 * receiver returns the skipped credits at once.
 * Source: NCCL 2.30, Simple protocol (slice rule, credits, step rounding, operand order own then received).
 */

import type { KernelBuilder, Value, Variable } from '../kernel/builder.js';
import { ELEMENT_TYPES, type ElementType } from '../kernel/element-types.js';
import type { StepArithmetic } from './arithmetic.js';
import type { Protocol, Transfer } from './primitives.js';
import { reduceCopy } from './reduce-copy.js';
import { ReceiverControl, RingChannel, RingWork, SenderControl, STEPS } from './ring-connection.js';

export interface SimpleShape {
  /** Steps that one call and one slice of it consume. */
  readonly stepsPerChunk: number;
  readonly stepsPerSlice: number;
}

export class SimpleProtocol implements Protocol {
  readonly #k: KernelBuilder;
  readonly #type: ElementType;
  readonly #arithmetic: StepArithmetic;
  readonly #shape: SimpleShape;
  readonly #sendControl: Value<'ptr'>;
  readonly #recvControl: Value<'ptr'>;
  readonly #nextReceiver: Value<'ptr'>;
  readonly #prevSender: Value<'ptr'>;
  readonly #nextDoorbell: Value<'ptr'>;
  readonly #prevDoorbell: Value<'ptr'>;
  readonly #slot: Value<'u64'>;
  readonly #sendBuffer: Value<'ptr'>;
  readonly #recvBuffer: Value<'ptr'>;
  readonly #sendStep: Variable<'u64'>;
  readonly #recvStep: Variable<'u64'>;
  readonly #head: Variable<'u64'>;
  readonly #tail: Variable<'u64'>;

  constructor(
    k: KernelBuilder,
    work: Value<'ptr'>,
    channel: Value<'ptr'>,
    type: ElementType,
    arithmetic: StepArithmetic,
    shape: SimpleShape,
  ) {
    this.#k = k;
    this.#type = type;
    this.#arithmetic = arithmetic;
    this.#shape = shape;
    this.#sendControl = k.field(channel, RingChannel, 'sendControl');
    this.#recvControl = k.field(channel, RingChannel, 'recvControl');
    this.#nextReceiver = k.field(channel, RingChannel, 'nextReceiver');
    this.#prevSender = k.field(channel, RingChannel, 'prevSender');
    this.#nextDoorbell = k.field(channel, RingChannel, 'nextDoorbell');
    this.#prevDoorbell = k.field(channel, RingChannel, 'prevDoorbell');
    this.#slot = k.field(work, RingWork, 'simpleSlot');
    const buffers = k.field(work, RingWork, 'simpleOffset');
    this.#sendBuffer = this.#nextReceiver.offset(buffers);
    this.#recvBuffer = this.#recvControl.offset(buffers);
    const round = (step: Value<'u64'>) =>
      step
        .add(shape.stepsPerChunk - 1)
        .div(shape.stepsPerChunk)
        .mul(shape.stepsPerChunk);
    this.#sendStep = k.variable('u64', round(k.field(this.#sendControl, SenderControl, 'step')));
    const recvStep = round(k.field(this.#recvControl, ReceiverControl, 'step'));
    this.#recvStep = k.variable('u64', recvStep);
    this.#head = k.variable(
      'u64',
      k.field(this.#sendControl, SenderControl, 'head', 0, { order: 'acquire' }),
    );
    this.#tail = k.variable(
      'u64',
      k.field(this.#recvControl, ReceiverControl, 'tail', 0, { order: 'acquire' }),
    );
    k.if(k.threadIndex.eq(0), () => {
      k.setField(this.#prevSender, SenderControl, 'head', recvStep, { order: 'release' });
      k.wake(this.#prevDoorbell);
    });
  }

  /** Waits until `counter + slack` has reached `need`; re-reads memory only when the cached value is too old. */
  #await(cached: Variable<'u64'>, slack: number, need: Value<'u64'>, read: () => Value<'u64'>): void {
    const k = this.#k;
    k.if(cached.value.add(slack).lt(need), () => {
      k.wait(() => read().add(slack).ge(need));
      cached.set(read());
    });
  }

  transfer(transfer: Transfer): void {
    const k = this.#k;
    const { stepsPerChunk, stepsPerSlice } = this.#shape;
    const slices = stepsPerChunk / stepsPerSlice;
    const size = ELEMENT_TYPES[this.#type].size;
    const { receives, sends, input, output, elements } = transfer;
    const first = k.threadIndex.eq(0);
    const stepElements = this.#slot.div(size);
    const least = stepElements.mul(stepsPerSlice).div(32);
    const slice = elements
      .add(16 * slices - 1)
      .div(16 * slices)
      .mul(16)
      .max(least);
    const offset = k.variable('u64', 0);
    k.for(k.u32(0), slices, 1, () => {
      const from = offset.value;
      const moved = slice.min(elements.sub(from));
      const sendStep = this.#sendStep.value;
      const recvStep = this.#recvStep.value;
      k.if(first, () => {
        if (sends) {
          this.#await(this.#head, STEPS, sendStep.add(stepsPerSlice), () =>
            k.field(this.#sendControl, SenderControl, 'head', 0, { order: 'acquire' }),
          );
        }
        if (receives) {
          this.#await(this.#tail, 0, recvStep.add(stepsPerSlice), () =>
            k.field(this.#recvControl, ReceiverControl, 'tail', 0, { order: 'acquire' }),
          );
        }
      });
      k.barrier();
      const bytes = moved.mul(size);
      const skip = from.mul(size);
      const sendSlot = sendStep.and(STEPS - 1);
      const sources: Value<'ptr'>[] = [];
      if (input !== undefined) sources.push(input.offset(skip));
      if (receives) sources.push(this.#recvBuffer.offset(recvStep.and(STEPS - 1).mul(this.#slot)));
      const targets: Value<'ptr'>[] = [];
      if (output !== undefined) targets.push(output.offset(skip));
      if (sends) targets.push(this.#sendBuffer.offset(sendSlot.mul(this.#slot)));
      reduceCopy(k, {
        sources,
        targets,
        bytes,
        elementBytes: size,
        combine: (packets) => {
          let result = packets[0]!;
          if (input !== undefined) result = this.#arithmetic.before(result);
          if (packets.length > 1) result = this.#arithmetic.combine(result, packets[1]!);
          return transfer.after === true ? this.#arithmetic.after(result) : result;
        },
      });
      k.barrier();
      if (sends) {
        const next = sendStep.add(stepsPerSlice);
        k.if(first, () => {
          const cell = k.fieldAddress(this.#nextReceiver, ReceiverControl, 'size', sendSlot.cast('u32'));
          k.store('u64', cell, bytes.or(sendStep.add(1).shl(32)));
          k.setField(this.#nextReceiver, ReceiverControl, 'tail', next, { order: 'release' });
          k.wake(this.#nextDoorbell);
        });
        this.#sendStep.set(next);
      }
      if (receives) {
        const next = recvStep.add(stepsPerSlice);
        k.if(first, () => {
          k.setField(this.#prevSender, SenderControl, 'head', next, { order: 'release' });
          k.wake(this.#prevDoorbell);
        });
        this.#recvStep.set(next);
      }
      offset.set(from.add(moved));
    });
  }

  close(): void {
    const k = this.#k;
    // Threads that have nothing to move may still be reading the counters.
    k.barrier();
    k.if(k.threadIndex.eq(0), () => {
      k.setField(this.#sendControl, SenderControl, 'step', this.#sendStep.value);
      k.setField(this.#recvControl, ReceiverControl, 'step', this.#recvStep.value);
    });
  }
}
