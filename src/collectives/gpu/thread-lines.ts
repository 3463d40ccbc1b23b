/**
 * The LL lines of one thread in a round that gives every thread a fixed number of them: line u of thread t is line
 * t + u x threads. The code has no loops, and loads of all lines are under way together.
 */

import type { KernelBuilder, Value, Variable } from '../../kernel/builder.js';
import { areAligned } from '../alignment.js';
import type { DirectArithmetic } from '../arithmetic.js';
import { LINE_BYTES, LINE_DATA } from './area.js';
import { flagOf, storeLine } from './line.js';
import type { RoundLines } from './round-lines.js';
import { type ThreadPlace, threadPlaces } from './thread-places.js';

export class ThreadLines implements RoundLines<'u64'> {
  readonly lines: readonly ThreadPlace[];
  readonly #k: KernelBuilder;
  readonly #elementBytes: number;

  /** `bytes`: the data of the block; `pointers`: all that must be aligned for accesses of 8 bytes. */
  constructor(
    k: KernelBuilder,
    count: number,
    elementBytes: number,
    bytes: Value<'u32'>,
    pointers: readonly Value<'u32'>[],
  ) {
    this.#k = k;
    this.#elementBytes = elementBytes;
    const aligned = elementBytes === LINE_DATA ? k.bool(true) : areAligned(k, pointers, LINE_DATA);
    this.lines = threadPlaces(k, count, LINE_DATA, bytes, aligned);
  }

  data(): Variable<'u64'>[] {
    return this.lines.map(() => this.#k.variable('u64', 0n));
  }

  load(from: Value<'ptr'>, to: readonly Variable<'u64'>[]): void {
    const k = this.#k;
    this.lines.forEach(({ at, bytes, active, whole }, u) => {
      const address = from.offset(at);
      k.if(
        whole,
        () => to[u]!.set(k.load('u64', address)),
        () => k.if(active, () => to[u]!.set(k.loadPart(address, bytes, this.#elementBytes).half(0))),
      );
    });
  }

  store(to: Value<'ptr'>, values: readonly Value<'u64'>[]): void {
    const k = this.#k;
    this.lines.forEach(({ at, bytes, active, whole }, u) => {
      const address = to.offset(at);
      const value = values[u]!;
      k.if(
        whole,
        () => k.store('u64', address, value),
        () => k.if(active, () => k.storePart(address, k.packet(value, 0n), bytes, this.#elementBytes)),
      );
    });
  }

  push(outbox: Value<'ptr'>, values: readonly Value<'u64'>[], round: Value<'u32'>): void {
    const k = this.#k;
    const flag = flagOf(round);
    this.lines.forEach(({ index, active }, u) => {
      k.if(active, () => storeLine(k, outbox.offset(index.mul(LINE_BYTES)), values[u]!, flag));
    });
  }

  /** Two lines make a packet. */
  combine(rows: readonly (readonly Value<'u64'>[])[], combine: DirectArithmetic): Value<'u64'>[] {
    const results: Value<'u64'>[] = [];
    for (let u = 0; u < this.lines.length; u += 2) {
      const result = combine(rows.map((row) => this.#k.packet(row[u]!, row[u + 1] ?? 0n)));
      results.push(result.half(0), result.half(1));
    }
    return results.slice(0, this.lines.length);
  }

  receive(inboxes: readonly Value<'ptr'>[], round: Value<'u32'>): Value<'u64'>[][] {
    const k = this.#k;
    if (inboxes.length === 0) return [];
    let rows: Value<'packet'>[][] = [];
    k.wait(() => {
      rows = inboxes.map((inbox) =>
        this.lines.map(({ index }) =>
          k.load('packet', inbox.offset(index.mul(LINE_BYTES)), { order: 'volatile' }),
        ),
      );
      let all = k.bool(true);
      this.lines.forEach(({ active }, u) => {
        let here = k.bool(true);
        for (const row of rows) {
          for (const half of [row[u]!.half(0), row[u]!.half(1)]) {
            here = here.and(half.shr(32).cast('u32').eq(round));
          }
        }
        all = all.and(here.or(active.not()));
      });
      return all;
    });
    return rows.map((row) => row.map((line) => line.half(0).and(0xffffffffn).or(line.half(1).shl(32))));
  }
}
