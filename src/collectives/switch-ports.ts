/**
 * Counters of the ports of an emulated switch.
 *
 * A switch multicasts (one write goes out through every port) and reduces (one read brings the reduction over what all
 * ports hold, or every port sends and gets the reduction back). On host memory there is none: the program of one rank
 * does its work, between slots of that rank, which are the switch's finite buffer, and slots of the others. What it
 * reads of a slot, a real switch would get in through the port of the rank that filled it; what it writes for a rank
 * would go out through the rank's port, once however many programs have to copy it here. So these counters tell what a
 * cluster's links would carry. One program writes them, so they need no atomics.
 */

import type { KernelBuilder, Value } from '../kernel/builder.js';
import { struct } from '../kernel/layout.js';

export const PortCounters = struct('PortCounters', {
  /** From the rank into the switch. */
  bytesIn: 'u64',
  /** From the switch to the rank. */
  bytesOut: 'u64',
  /** Writes of this rank that went out through every port. */
  multicasts: 'u64',
  /** Reductions over all ports whose result this rank got. */
  reductions: 'u64',
});

type Counter = keyof typeof PortCounters.fields;

/** The ports of one switch, as the program sees them that does its work. */
export class SwitchPorts {
  readonly #k: KernelBuilder;
  readonly #rows: Value<'ptr'>;
  readonly #ports: number;

  /** `rows` is the address of the first of `ports` records. */
  constructor(k: KernelBuilder, rows: Value<'ptr'>, ports: number) {
    this.#k = k;
    this.#rows = rows;
    this.#ports = ports;
  }

  /** A read or the receipt of a reduction over all ports, by the rank of one. */
  reduced(bytes: Value<'u64'>, reader: Value<'u32'>): void {
    this.#byOne(() => {
      this.#addToAll({ bytesIn: bytes });
      this.#add(this.#row(reader), { bytesOut: bytes, reductions: 1 });
    });
  }

  /** A write through one port that goes out through all. */
  multicast(bytes: Value<'u64'>, writer: Value<'u32'>): void {
    this.#byOne(() => {
      this.#add(this.#row(writer), { bytesIn: bytes, multicasts: 1 });
      this.#addToAll({ bytesOut: bytes });
    });
  }

  /** Everybody sends, and everybody gets the reduction. */
  allReduced(bytes: Value<'u64'>): void {
    this.#byOne(() => this.#addToAll({ bytesIn: bytes, bytesOut: bytes, reductions: 1 }));
  }

  #row(port: Value<'u32'>): Value<'ptr'> {
    return this.#rows.offset(port.mul(PortCounters.size));
  }

  #byOne(body: () => void): void {
    this.#k.if(this.#k.threadIndex.eq(0), body);
  }

  #addToAll(what: Partial<Record<Counter, Value<'u64'> | number>>): void {
    const end = this.#rows.offset(this.#ports * PortCounters.size);
    this.#k.for(this.#rows, end, PortCounters.size, (row) => this.#add(row, what));
  }

  #add(row: Value<'ptr'>, what: Partial<Record<Counter, Value<'u64'> | number>>): void {
    for (const [counter, amount] of Object.entries(what) as [Counter, Value<'u64'> | number][]) {
      const before = this.#k.field(row, PortCounters, counter);
      this.#k.setField(row, PortCounters, counter, before.add(amount));
    }
  }
}
