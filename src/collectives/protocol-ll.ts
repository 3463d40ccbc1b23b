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

import type { KernelBuilder, Value } from '../kernel/builder.js';
import { ELEMENT_TYPES, type ElementType } from '../kernel/element-types.js';
import type { StepArithmetic } from './arithmetic.js';
import { awaitValue } from './await-value.js';
import type { Ends } from './ends.js';
import { LineConnections, type LineSlot } from './line-connections.js';
import type { Protocol, Transfer } from './primitives.js';
import { LL_DATA, LL_LINE } from './ring-connection.js';

/** Steps at which a slot is cleaned: eight in a row (one per slot) every 2^31 steps. */
export const LL_CLEAN_MASK = 0x7ffffff8;

export interface LowLatencyOptions {
  /** Cleaning mask; tests use a small one together with `flagMask`. */
  readonly cleanMask?: number;
  /** Flags are taken modulo flagMask + 1; default all 32 bits. */
  readonly flagMask?: number;
}

export class LowLatencyProtocol implements Protocol {
  /** The connections that transfers use. */
  readonly ends: Ends;
  readonly #k: KernelBuilder;
  readonly #type: ElementType;
  readonly #arithmetic: StepArithmetic;
  readonly #cleanMask: number;
  readonly #flagMask: number;
  readonly #connections: LineConnections;

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
    this.#connections = new LineConnections(k, ends);
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
    const mask = 0xffffffff00000000n;
    // The line stays until its credit is returned.
    const line = awaitValue(
      this.#k,
      () => this.#k.load('packet', address, { order: 'volatile' }),
      (seen) => seen.half(0).and(mask).eq(flag).and(seen.half(1).and(mask).eq(flag)),
    );
    return line.half(0).and(0xffffffffn).or(line.half(1).shl(32));
  }

  transfer(transfer: Transfer): void {
    const k = this.#k;
    const size = ELEMENT_TYPES[this.#type].size;
    const { input, output, elements } = transfer;
    const slots = this.#connections.begin(transfer);
    const bytes = elements.mul(size);
    const flagged = ({ lines, step }: LineSlot) => ({ lines, flag: this.#flag(step) });
    const incoming = slots.incoming.map(flagged);
    const outgoing = slots.outgoing.map(flagged);

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
    k.if(k.threadIndex.eq(0).and(rest.ne(0)), () => line(whole, rest));

    this.#connections.release(slots);
    this.#connections.advance(slots, ({ lines, step }) => {
      const mask = BigInt(this.#cleanMask);
      k.if(step.and(mask).eq(mask), () => {
        const used = bytes.add(LL_DATA - 1).div(LL_DATA);
        const start = used.add(k.threadIndex.cast('u64'));
        k.for(start, this.ends.slot.div(LL_LINE), k.threadCount.cast('u64'), (index) => {
          this.#storeLine(lines.offset(index.mul(LL_LINE)), k.u64(0), this.#flag(step));
        });
      });
    });
  }

  close(): void {
    this.#connections.close();
  }
}
