/**
 * LL128 lines: 120 bytes of data and the number of the round in 128, stored by eight lanes of a warp at once. A line
 * arrives whole, so that no fence is needed and data take little more than their own bytes.
 *
 * A warp moves a chunk: 960 bytes of data in two stores of each lane, eight lines. The data are 60 packets; lane
 * l has packet l, and packet 32 + l - l / 8 if it is not the last of its eight. Those have half a packet in each of their
 * lines beside the flag: the two halves of packet l. So loads and stores of user data are whole packets next to each
 * other.
 *
 * A reader first waits for the flags, which all eight lanes of a line look at, and then loads the data: they have come
 * with the flag, but not necessarily to a load that was under way before.
 * Source: NCCL 2.30, LL128 protocol.
 */

import type { KernelBuilder, Value, Variable } from '../../kernel/builder.js';
import type { DirectArithmetic } from '../arithmetic.js';
import { CHUNK128_BYTES, CHUNK128_DATA, LINE128_BYTES } from './area.js';
import type { RoundLines } from './round-lines.js';

const PACKET = 16;
const WARP = 32;
/** Lanes of a line; the last one has the flag. */
const LANES = LINE128_BYTES / PACKET;
/** Bytes of a chunk's lines that one store of a warp writes. */
const ROW_BYTES = WARP * PACKET;

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
  /** This lane has the flag of its line. */
  readonly #hasFlag: Value<'pred'>;
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
    let bits = k.u32(0);
    for (const pointer of pointers) bits = bits.or(pointer);
    const aligned = bits.and(PACKET - 1).eq(0);
    const lane = k.threadIndex.and(WARP - 1);
    const firstLane = lane.and(WARP - LANES);
    const warp = k.threadIndex.shr(5);
    const start = warp.mul(CHUNK128_DATA);
    const wire = warp.mul(CHUNK128_BYTES);
    const place = (packet: Value<'u32'>, mine: Value<'pred'>): Place => {
      const at = start.add(packet.mul(PACKET));
      return { at, bytes: bytes.sub(at).min(PACKET), active: at.lt(bytes).and(mine) };
    };
    this.#hasFlag = lane.and(LANES - 1).eq(LANES - 1);
    // Lanes with flags load their only packet twice: that needs no branch.
    const second = k.select(this.#hasFlag, lane, lane.sub(lane.shr(3)).add(WARP));
    this.#places = [place(lane, k.bool(true)), place(second, this.#hasFlag.not())];
    this.#whole = start.add(CHUNK128_DATA).le(bytes).and(aligned);
    this.#active = start.add(firstLane.mul(PACKET)).lt(bytes);
    this.#wire = wire.add(lane.mul(PACKET));
    this.#flag = wire.add(firstLane.mul(PACKET)).add(LINE128_BYTES - 8);
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
        k.if(this.#hasFlag.not(), () => k.store('packet', addresses[1]!, values[1]!));
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
    const flag = round.cast('u64');
    const hasFlag = this.#hasFlag;
    const [first, second] = values as [Value<'packet'>, Value<'packet'>];
    const address = outbox.offset(this.#wire);
    const high = k.select(hasFlag, flag, first.half(1));
    k.storeLine(address, k.packet(first.half(0), high), this.#active);
    const low = k.select(hasFlag, first.half(1), second.half(0));
    const last = k.select(hasFlag, flag, second.half(1));
    k.storeLine(address.offset(ROW_BYTES), k.packet(low, last), this.#active);
  }

  receive(inboxes: readonly Value<'ptr'>[], round: Value<'u32'>): Value<'packet'>[][] {
    const k = this.#k;
    if (inboxes.length === 0) return [];
    const wanted = round.cast('u64');
    const rows = [0, ROW_BYTES];
    const flags = inboxes.map((inbox) => inbox.offset(this.#flag));
    const lines = inboxes.map((inbox) => inbox.offset(this.#wire));
    k.if(this.#active, () => {
      k.wait(() =>
        flags
          .flatMap((address) => rows.map((offset) => k.load('u64', address, { order: 'volatile', offset })))
          .map((found) => found.eq(wanted))
          .reduce((all, here) => all.and(here)),
      );
    });
    return lines.map((address) => {
      const [first, second] = rows.map((offset) =>
        k.load('packet', address, { order: 'volatile', offset }),
      ) as [Value<'packet'>, Value<'packet'>];
      const high = k.select(this.#hasFlag, second.half(0), first.half(1));
      return [k.packet(first.half(0), high), second];
    });
  }

  combine(rows: readonly (readonly Value<'packet'>[])[], combine: DirectArithmetic): Value<'packet'>[] {
    return this.#places.map((_, u) => combine(rows.map((row) => row[u]!)));
  }
}
