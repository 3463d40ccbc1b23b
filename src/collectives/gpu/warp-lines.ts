/**
 * A round of LL128 lines: a warp moves one chunk (warp-chunk.ts).
 *
 * A reader first waits for the flags, which all eight lanes of a line look at, and then loads the data: they have come
 * with the flag, but not necessarily to a load that was under way before.
 * Source: NCCL 2.30, LL128 protocol.
 */

import type { KernelBuilder, Value, Variable } from '../../kernel/builder.js';
import { areAligned } from '../alignment.js';
import type { DirectArithmetic } from '../arithmetic.js';
import {
  CHUNK128_BYTES,
  CHUNK128_DATA,
  type LanePackets,
  ROW_BYTES,
  ROWS,
  WarpChunk,
} from '../warp-chunk.js';
import type { RoundLines } from './round-lines.js';

const PACKET = 16;

/** One packet of a thread: where it lies in the block's data. */
interface Place {
  readonly at: Value<'u32'>;
  /** Its bytes, 16 but at the end; where it has none it is not `active`. */
  readonly bytes: Value<'u32'>;
  readonly active: Value<'pred'>;
}

export class WarpLines implements RoundLines<'packet'> {
  readonly #k: KernelBuilder;
  readonly #elementBytes: number;
  readonly #chunk: WarpChunk;
  readonly #places: readonly Place[];
  /** All data of the chunk are there, and can be accessed by packets. */
  readonly #whole: Value<'pred'>;
  /** The two lines of this lane are used. */
  readonly #active: Value<'pred'>;
  /** Bytes in a slot before this lane's part of its first line, and before the flag of that. */
  readonly #wire: Value<'u32'>;
  readonly #flag: Value<'u32'>;

  /** `bytes`: the data of the block; `pointers`: all that must be aligned for accesses of 16 bytes. */
  constructor(
    k: KernelBuilder,
    elementBytes: number,
    bytes: Value<'u32'>,
    pointers: readonly Value<'u32'>[],
  ) {
    this.#k = k;
    this.#elementBytes = elementBytes;
    const aligned = areAligned(k, pointers, PACKET);
    const chunk = new WarpChunk(k);
    this.#chunk = chunk;
    const warp = k.threadIndex.shr(5);
    const start = warp.mul(CHUNK128_DATA);
    const wire = warp.mul(CHUNK128_BYTES);
    const place = (before: Value<'u32'>, mine: Value<'pred'>): Place => {
      const at = start.add(before);
      return { at, bytes: bytes.sub(at).min(PACKET), active: at.lt(bytes).and(mine) };
    };
    const [first, second] = chunk.data;
    this.#places = [place(first, k.bool(true)), place(second, chunk.hasFlag.not())];
    this.#whole = start.add(CHUNK128_DATA).le(bytes).and(aligned);
    this.#active = start.add(chunk.line).lt(bytes);
    this.#wire = wire.add(chunk.wire);
    this.#flag = wire.add(chunk.flag);
  }

  data(): Variable<'packet'>[] {
    const k = this.#k;
    return this.#places.map(() => k.variable('packet', k.packet(0n, 0n)));
  }

  load(from: Value<'ptr'>, to: readonly Variable<'packet'>[]): void {
    const k = this.#k;
    const addresses = this.#places.map(({ at }) => from.offset(at));
    k.if(
      this.#whole,
      () => {
        addresses.forEach((address, u) => {
          to[u]!.set(k.load('packet', address));
        });
      },
      () => {
        this.#places.forEach(({ bytes, active }, u) => {
          k.if(active, () => to[u]!.set(k.loadPart(addresses[u]!, bytes, this.#elementBytes)));
        });
      },
    );
  }

  store(to: Value<'ptr'>, values: readonly Value<'packet'>[]): void {
    const k = this.#k;
    const addresses = this.#places.map(({ at }) => to.offset(at));
    k.if(
      this.#whole,
      () => {
        k.store('packet', addresses[0]!, values[0]!);
        k.if(this.#chunk.hasFlag.not(), () => k.store('packet', addresses[1]!, values[1]!));
      },
      () => {
        this.#places.forEach(({ bytes, active }, u) => {
          k.if(active, () => k.storePart(addresses[u]!, values[u]!, bytes, this.#elementBytes));
        });
      },
    );
  }

  push(outbox: Value<'ptr'>, values: readonly Value<'packet'>[], round: Value<'u32'>): void {
    const k = this.#k;
    const address = outbox.offset(this.#wire);
    const packed = this.#chunk.pack(values as unknown as LanePackets, round.cast('u64'));
    packed.forEach((packet, row) => {
      k.storeLine(address.offset(row * ROW_BYTES), packet, this.#active);
    });
  }

  receive(inboxes: readonly Value<'ptr'>[], round: Value<'u32'>): Value<'packet'>[][] {
    const k = this.#k;
    if (inboxes.length === 0) return [];
    const wanted = round.cast('u64');
    const flags = inboxes.map((inbox) => inbox.offset(this.#flag));
    const lines = inboxes.map((inbox) => inbox.offset(this.#wire));
    k.if(this.#active, () => {
      k.wait(() =>
        flags
          .flatMap((address) => ROWS.map((offset) => k.load('u64', address, { order: 'volatile', offset })))
          .map((found) => found.eq(wanted))
          .reduce((all, here) => all.and(here)),
      );
    });
    return lines.map((address) => {
      const loaded = ROWS.map((offset) => k.load('packet', address, { order: 'volatile', offset }));
      return [...this.#chunk.unpack(loaded as unknown as LanePackets)];
    });
  }

  combine(rows: readonly (readonly Value<'packet'>[])[], combine: DirectArithmetic): Value<'packet'>[] {
    return this.#places.map((_, u) => combine(rows.map((row) => row[u]!)));
  }
}
