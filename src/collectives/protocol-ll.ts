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
import type { Protocol, Transfer } from './primitives.js';
import {
  LL_DATA,
  LL_LINE,
  ReceiverControl,
  RingChannel,
  RingWork,
  SenderControl,
  STEPS,
} from './ring-connection.js';

/** Steps at which a slot is cleaned: eight in a row (one per slot) every 2^31 steps. */
export const LL_CLEAN_MASK = 0x7ffffff8;

export interface LowLatencyOptions {
  /** Cleaning mask; tests use a small one together with `flagMask`. */
  readonly cleanMask?: number;
  /** Flags are taken modulo flagMask + 1; default all 32 bits. */
  readonly flagMask?: number;
}

export class LowLatencyProtocol implements Protocol {
  readonly #k: KernelBuilder;
  readonly #type: ElementType;
  readonly #arithmetic: StepArithmetic;
  readonly #cleanMask: number;
  readonly #flagMask: number;
  readonly #sendControl: Value<'ptr'>;
  readonly #recvControl: Value<'ptr'>;
  readonly #prevSender: Value<'ptr'>;
  readonly #nextDoorbell: Value<'ptr'>;
  readonly #prevDoorbell: Value<'ptr'>;
  readonly #slot: Value<'u64'>;
  readonly #sendBuffer: Value<'ptr'>;
  readonly #recvBuffer: Value<'ptr'>;
  readonly #sendStep: Variable<'u64'>;
  readonly #recvStep: Variable<'u64'>;
  readonly #head: Variable<'u64'>;

  constructor(
    k: KernelBuilder,
    work: Value<'ptr'>,
    channel: Value<'ptr'>,
    type: ElementType,
    arithmetic: StepArithmetic,
    options: LowLatencyOptions = {},
  ) {
    this.#k = k;
    this.#type = type;
    this.#arithmetic = arithmetic;
    this.#cleanMask = options.cleanMask ?? LL_CLEAN_MASK;
    this.#flagMask = options.flagMask ?? 0xffffffff;
    this.#sendControl = k.field(channel, RingChannel, 'sendControl');
    this.#recvControl = k.field(channel, RingChannel, 'recvControl');
    this.#prevSender = k.field(channel, RingChannel, 'prevSender');
    this.#nextDoorbell = k.field(channel, RingChannel, 'nextDoorbell');
    this.#prevDoorbell = k.field(channel, RingChannel, 'prevDoorbell');
    this.#slot = k.field(work, RingWork, 'llSlot');
    const buffers = k.field(work, RingWork, 'llOffset');
    this.#sendBuffer = k.field(channel, RingChannel, 'nextReceiver').offset(buffers);
    this.#recvBuffer = this.#recvControl.offset(buffers);
    this.#sendStep = k.variable('u64', k.field(this.#sendControl, SenderControl, 'step'));
    this.#recvStep = k.variable('u64', k.field(this.#recvControl, ReceiverControl, 'step'));
    this.#head = k.variable(
      'u64',
      k.field(this.#sendControl, SenderControl, 'head', 0, { order: 'acquire' }),
    );
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
    const { receives, sends, input, output, elements } = transfer;
    const first = k.threadIndex.eq(0);
    const sendStep = this.#sendStep.value;
    const recvStep = this.#recvStep.value;
    if (sends) {
      k.if(first, () => {
        const need = sendStep.add(1);
        const read = () => k.field(this.#sendControl, SenderControl, 'head', 0, { order: 'acquire' });
        k.if(this.#head.value.add(STEPS).lt(need), () => {
          k.wait(() => read().add(STEPS).ge(need));
          this.#head.set(read());
        });
      });
      k.barrier();
    }
    const bytes = elements.mul(size);
    const sendLines = this.#sendBuffer.offset(sendStep.and(STEPS - 1).mul(this.#slot));
    const recvLines = this.#recvBuffer.offset(recvStep.and(STEPS - 1).mul(this.#slot));
    const sendFlag = this.#flag(sendStep);
    const recvFlag = this.#flag(recvStep);

    /** One line; `part` is its payload bytes when it is the short last one. */
    const line = (index: Value<'u64'>, part?: Value<'u32'>) => {
      const at = index.mul(LL_DATA);
      const wire = index.mul(LL_LINE);
      let own: Value<'packet'> | undefined;
      if (input !== undefined) {
        const address = input.offset(at);
        own =
          part === undefined && k.traits.unalignedPackets
            ? k.packet(k.load('u64', address, { align: size }), 0)
            : k.loadPart(address, part ?? LL_DATA, size);
        own = this.#arithmetic.before(own);
      }
      let result = own;
      if (receives) {
        const received = k.packet(this.#receiveLine(recvLines.offset(wire), recvFlag), 0);
        result = own === undefined ? received : this.#arithmetic.combine(received, own);
      }
      if (transfer.after === true) result = this.#arithmetic.after(result!);
      if (sends) this.#storeLine(sendLines.offset(wire), result!.half(0), sendFlag);
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

    if (receives) {
      k.barrier();
      const next = recvStep.add(1);
      k.if(first, () => {
        k.setField(this.#prevSender, SenderControl, 'head', next, { order: 'release' });
        k.wake(this.#prevDoorbell);
      });
      this.#recvStep.set(next);
    }
    if (sends) {
      const mask = BigInt(this.#cleanMask);
      k.if(sendStep.and(mask).eq(mask), () => {
        const used = bytes.add(LL_DATA - 1).div(LL_DATA);
        const start = used.add(k.threadIndex.cast('u64'));
        k.for(start, this.#slot.div(LL_LINE), k.threadCount.cast('u64'), (index) => {
          this.#storeLine(sendLines.offset(index.mul(LL_LINE)), k.u64(0), sendFlag);
        });
      });
      k.if(first, () => k.wake(this.#nextDoorbell));
      this.#sendStep.set(sendStep.add(1));
    }
  }

  close(): void {
    const k = this.#k;
    k.barrier();
    k.if(k.threadIndex.eq(0), () => {
      k.setField(this.#sendControl, SenderControl, 'step', this.#sendStep.value);
      k.setField(this.#recvControl, ReceiverControl, 'step', this.#recvStep.value);
    });
  }
}
