/**
 * Lamport lines: packets of floats that travel without a number of their round. A slot is empty, all zeros, until a
 * packet comes; its reader empties it again. So 16 bytes of data take 16 bytes on the link, and what a reader waits for is
 * what it loads: there is no second look.
 *
 * A packet's halves (8 bytes each, which arrive whole) are sent inverted. One that would look empty is all ones before
 * that: a NaN at least in its lowest element, which a NaN of the other sign replaces. Sums, products, minima and maxima
 * of floats give NaN for either; data of other types, and data that are only copied, cannot travel so.
 *
 * Each rank uses the replaced NaN of its own data too, so that all of them compute with the same bits.
 * Source: the Lamport-style buffers of TensorRT-LLM's all-reduce, with negative zeros there.
 */

import type { KernelBuilder, Value, Variable } from '../../kernel/builder.js';
import { areAligned } from '../alignment.js';
import type { DirectArithmetic } from '../arithmetic.js';
import type { RoundLines } from './round-lines.js';
import { type ThreadPlace, threadPlaces } from './thread-places.js';

const PACKET = 16;
const ALL_ONES = 0xffffffffffffffffn;

/** The packet without halves that would look empty: what is sent, and what its own rank computes with too. */
export function sendableOf(k: KernelBuilder, value: Value<'packet'>, elementBytes: number): Value<'packet'> {
  const sign = 1n << BigInt(8 * elementBytes - 1);
  const [low, high] = [value.half(0), value.half(1)].map((half) =>
    k.select(half.eq(ALL_ONES), k.u64(ALL_ONES ^ sign), half),
  ) as [Value<'u64'>, Value<'u64'>];
  return k.packet(low, high);
}

/** A packet as it travels, and the same back again. */
export function lineOf(k: KernelBuilder, value: Value<'packet'>): Value<'packet'> {
  return k.packet(value.half(0).not(), value.half(1).not());
}

/** What a slot holds before a line comes. */
export function emptyOf(k: KernelBuilder): Value<'packet'> {
  return k.packet(0n, 0n);
}

export class LamportLines implements RoundLines<'packet'> {
  readonly #k: KernelBuilder;
  readonly #elementBytes: number;
  readonly #places: readonly ThreadPlace[];

  /** `count`: packets of a thread; `bytes`: the data of the block; `pointers`: all that must be aligned for packets. */
  constructor(
    k: KernelBuilder,
    count: number,
    elementBytes: number,
    bytes: Value<'u32'>,
    pointers: readonly Value<'u32'>[],
  ) {
    this.#k = k;
    this.#elementBytes = elementBytes;
    this.#places = threadPlaces(k, count, PACKET, bytes, areAligned(k, pointers, PACKET));
  }

  data(): Variable<'packet'>[] {
    const k = this.#k;
    return this.#places.map(() => k.variable('packet', k.packet(0n, 0n)));
  }

  load(from: Value<'ptr'>, to: readonly Variable<'packet'>[]): void {
    const k = this.#k;
    this.#places.forEach(({ at, bytes, active, whole }, u) => {
      const address = from.offset(at);
      k.if(
        whole,
        () => to[u]!.set(k.load('packet', address)),
        () => k.if(active, () => to[u]!.set(k.loadPart(address, bytes, this.#elementBytes))),
      );
    });
  }

  store(to: Value<'ptr'>, values: readonly Value<'packet'>[]): void {
    const k = this.#k;
    this.#places.forEach(({ at, bytes, active, whole }, u) => {
      const address = to.offset(at);
      k.if(
        whole,
        () => k.store('packet', address, values[u]!),
        () => k.if(active, () => k.storePart(address, values[u]!, bytes, this.#elementBytes)),
      );
    });
  }

  /** The data without halves that would look empty. */
  sendable(values: readonly Value<'packet'>[]): Value<'packet'>[] {
    return values.map((value) => sendableOf(this.#k, value, this.#elementBytes));
  }

  push(outbox: Value<'ptr'>, values: readonly Value<'packet'>[]): void {
    const k = this.#k;
    this.#places.forEach(({ at, active }, u) => {
      k.if(active, () => k.store('packet', outbox.offset(at), lineOf(k, values[u]!), { order: 'volatile' }));
    });
  }

  receive(inboxes: readonly Value<'ptr'>[]): Value<'packet'>[][] {
    const k = this.#k;
    if (inboxes.length === 0) return [];
    let rows: Value<'packet'>[][] = [];
    k.wait(() => {
      rows = inboxes.map((inbox) =>
        this.#places.map(({ at }) => k.load('packet', inbox.offset(at), { order: 'volatile' })),
      );
      let all = k.bool(true);
      this.#places.forEach(({ active }, u) => {
        let here = k.bool(true);
        for (const row of rows) here = here.and(row[u]!.half(0).ne(0n)).and(row[u]!.half(1).ne(0n));
        all = all.and(here.or(active.not()));
      });
      return all;
    });
    const empty = emptyOf(k);
    for (const inbox of inboxes) {
      for (const { at, active } of this.#places) {
        k.if(active, () => k.store('packet', inbox.offset(at), empty, { order: 'volatile' }));
      }
    }
    return rows.map((row) => row.map((line) => lineOf(k, line)));
  }

  combine(rows: readonly (readonly Value<'packet'>[])[], combine: DirectArithmetic): Value<'packet'>[] {
    return this.#places.map((_, u) => combine(rows.map((row) => row[u]!)));
  }
}
