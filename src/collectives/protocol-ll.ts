/**
 * The LL (low latency) protocol: every 16-byte line carries its own flags, so that data and "data is here"
 * travel together and no fence is needed.
 *
 * Line: data (4), flag (4), data (4), flag (4). The flag of step s is the low 32 bits of s + 1, so zeroed
 * memory is never valid; a reader accepts a line only when both flags match, since the two halves may arrive
 * separately. A transfer fills one slot. Flags repeat after 2^32 steps; before the flag of an old line could
 * look new, all lines of each slot are rewritten once (the cleaning steps).
 * Source: NCCL 2.30, LL protocol (line, flags, credit, cleaning mask, operand order received then own).
 */

import type { KernelBuilder, Value, Variable } from '../kernel/builder.js';
import { ELEMENT_TYPES, type ElementType } from '../kernel/element-types.js';
import type { StepArithmetic } from './arithmetic.js';
import type { Ends, ReceiveEnd, SendEnd } from './ends.js';
import type { Protocol, Transfer } from './primitives.js';
import { LL_DATA, LL_LINE, ReceiverControl, SenderControl, STEPS } from './ring-connection.js';

/** Steps at which a slot is cleaned: eight in a row (one per slot) every 2^31 steps. */
export const LL_CLEAN_MASK = 0x7ffffff8;

export interface LowLatencyOptions {
  /** Cleaning mask; tests use a small one together with `flagMask`. */
  readonly cleanMask?: number;
  /** Flags are taken modulo flagMask + 1; default all 32 bits. */
  readonly flagMask?: number;
}

/** One connection into this rank, with its place in the sequence of steps. */
interface Receiving {
  readonly end: ReceiveEnd;
  readonly buffer: Value<'ptr'>;
  readonly step: Variable<'u64'>;
}

interface Sending {
  readonly end: SendEnd;
  readonly buffer: Value<'ptr'>;
  readonly step: Variable<'u64'>;
  /** The latest head seen. */
  readonly head: Variable<'u64'>;
}

export class LowLatencyProtocol implements Protocol {
  /** The connections that transfers use. */
  readonly ends: Ends;
  readonly #k: KernelBuilder;
  readonly #type: ElementType;
  readonly #arithmetic: StepArithmetic;
  readonly #cleanMask: number;
  readonly #flagMask: number;
  readonly #slot: Value<'u64'>;
  readonly #receives: readonly Receiving[];
  readonly #sends: readonly Sending[];

  constructor(
    k: KernelBuilder,
    ends: Ends,
    type: ElementType,
    arithmetic: StepArithmetic,
    options: LowLatencyOptions = {},
  ) {
    this.#k = k;
    this.ends = ends;
    this.#type = type;
    this.#arithmetic = arithmetic;
    this.#cleanMask = options.cleanMask ?? LL_CLEAN_MASK;
    this.#flagMask = options.flagMask ?? 0xffffffff;
    this.#slot = ends.slot;
    this.#sends = ends.sends.map((end) => ({
      end,
      buffer: end.receiver.offset(ends.buffers),
      step: k.variable('u64', k.field(end.own, SenderControl, 'step')),
      head: k.variable('u64', k.field(end.own, SenderControl, 'head', 0, { order: 'acquire' })),
    }));
    this.#receives = ends.receives.map((end) => ({
      end,
      buffer: end.own.offset(ends.buffers),
      step: k.variable('u64', k.field(end.own, ReceiverControl, 'step')),
    }));
  }

  /** The flag word of a step, as the upper half of an 8-byte pair. */
  #flag(step: Value<'u64'>): Value<'u64'> {
    return step.add(1).and(BigInt(this.#flagMask)).and(0xffffffffn).shl(32);
  }

  /** Stores one line: 8 payload bytes with the flag behind each half. */
  #storeLine(address: Value<'ptr'>, data: Value<'u64'>, flag: Value<'u64'>): void {
    const k = this.#k;
    const low = data.and(0xffffffffn).or(flag);
    const high = data.shr(32).or(flag);
    k.store('packet', address, k.packet(low, high), { order: 'volatile' });
  }

  #receiveLine(address: Value<'ptr'>, flag: Value<'u64'>): Value<'u64'> {
    const k = this.#k;
    k.wait(() => {
      const line = k.load('packet', address, { order: 'volatile' });
      const mask = 0xffffffff00000000n;
      return line.half(0).and(mask).eq(flag).and(line.half(1).and(mask).eq(flag));
    });
    // The line stays until its credit is returned, so it may be read once more.
    const line = k.load('packet', address, { order: 'volatile' });
    return line.half(0).and(0xffffffffn).or(line.half(1).shl(32));
  }

  transfer(transfer: Transfer): void {
    const k = this.#k;
    const size = ELEMENT_TYPES[this.#type].size;
    const { input, output, elements } = transfer;
    const first = k.threadIndex.eq(0);
    const sends = (transfer.sends ? this.#sends : []).map((to) => ({ ...to, now: to.step.value }));
    const receives = (transfer.receives ? this.#receives : []).map((from) => ({
      ...from,
      now: from.step.value,
    }));
    for (const { end, head, now } of sends) {
      k.if(first, () => {
        const need = now.add(1);
        const read = () => k.field(end.own, SenderControl, 'head', 0, { order: 'acquire' });
        k.if(head.value.add(STEPS).lt(need), () => {
          k.wait(() => read().add(STEPS).ge(need));
          head.set(read());
        });
      });
    }
    if (sends.length > 0) k.barrier();
    const bytes = elements.mul(size);
    const outgoing = sends.map(({ buffer, now }) => ({
      lines: buffer.offset(now.and(STEPS - 1).mul(this.#slot)),
      flag: this.#flag(now),
    }));
    const incoming = receives.map(({ buffer, now }) => ({
      lines: buffer.offset(now.and(STEPS - 1).mul(this.#slot)),
      flag: this.#flag(now),
    }));

    /** One line; `part` is its payload bytes when it is the short last one. */
    const line = (index: Value<'u64'>, part?: Value<'u32'>) => {
      const at = index.mul(LL_DATA);
      const wire = index.mul(LL_LINE);
      let result: Value<'packet'> | undefined;
      if (input !== undefined) {
        const address = input.offset(at);
        const own =
          part === undefined && k.traits.unalignedPackets
            ? k.packet(k.load('u64', address, { align: size }), 0)
            : k.loadPart(address, part ?? LL_DATA, size);
        result = transfer.isResult === true ? own : this.#arithmetic.before(own);
      }
      for (const { lines, flag } of incoming) {
        const received = k.packet(this.#receiveLine(lines.offset(wire), flag), 0);
        if (result === undefined) result = received;
        else if (transfer.receivedFirst === false) result = this.#arithmetic.combine(result, received);
        else result = this.#arithmetic.combine(received, result);
      }
      if (transfer.after === true) result = this.#arithmetic.after(result!);
      for (const { lines, flag } of outgoing) this.#storeLine(lines.offset(wire), result!.half(0), flag);
      if (output !== undefined) {
        const address = output.offset(at);
        if (part === undefined && k.traits.unalignedPackets) {
          k.store('u64', address, result!.half(0), { align: size });
        } else k.storePart(address, result!, part ?? LL_DATA, size);
      }
    };
    const whole = bytes.div(LL_DATA);
    k.for(k.threadIndex.cast('u64'), whole, k.threadCount.cast('u64'), (index) => line(index));
    const rest = bytes.and(LL_DATA - 1).cast('u32');
    k.if(first.and(rest.ne(0)), () => line(whole, rest));

    if (receives.length > 0) k.barrier();
    for (const { end, step, now } of receives) {
      const next = now.add(1);
      k.if(first, () => {
        k.setField(end.sender, SenderControl, 'head', next, { order: 'release' });
        k.wake(end.doorbell);
      });
      step.set(next);
    }
    sends.forEach(({ end, step, now }, to) => {
      const mask = BigInt(this.#cleanMask);
      k.if(now.and(mask).eq(mask), () => {
        const used = bytes.add(LL_DATA - 1).div(LL_DATA);
        const start = used.add(k.threadIndex.cast('u64'));
        k.for(start, this.#slot.div(LL_LINE), k.threadCount.cast('u64'), (index) => {
          const { lines, flag } = outgoing[to]!;
          this.#storeLine(lines.offset(index.mul(LL_LINE)), k.u64(0), flag);
        });
      });
      k.if(first, () => k.wake(end.doorbell));
      step.set(now.add(1));
    });
  }

  close(): void {
    const k = this.#k;
    k.barrier();
    k.if(k.threadIndex.eq(0), () => {
      for (const { end, step } of this.#sends) k.setField(end.own, SenderControl, 'step', step.value);
      for (const { end, step } of this.#receives) k.setField(end.own, ReceiverControl, 'step', step.value);
    });
  }
}
