/**
 * The LL128 protocol: lines of 128 bytes with 120 bytes of data and a flag, stored by eight lanes of a warp at once and
 * arriving whole, so that no fence is needed and data take little more than their own bytes.
 *
 * The flag of step s is s + 1 in 64 bits, which never repeats: no lines are cleaned. A transfer fills one slot; a warp
 * takes every so-many-th slice of it, two chunks (warp-chunk.ts) of which a lane has four packets under way. A reader waits
 * for the flags of all connections and then loads the data: they have come with the flag, but not necessarily to a load that
 * was under way before.
 *
 * For targets with warps, and memory in which such stores arrive whole.
 * Source: NCCL 2.30, LL128 protocol (line, flag, slice of a warp, credit, operand order received then own).
 */

import type { KernelBuilder, Value } from '../kernel/builder.js';
import { ELEMENT_TYPES, type ElementType } from '../kernel/element-types.js';
import { areAligned } from './alignment.js';
import type { StepArithmetic } from './arithmetic.js';
import type { Ends } from './ends.js';
import { LineConnections } from './line-connections.js';
import type { Protocol, Transfer } from './primitives.js';
import {
  CHUNK128_BYTES,
  CHUNK128_DATA,
  type LanePackets,
  ROW_BYTES,
  ROWS,
  WARP_LANES,
  WarpChunk,
} from './warp-chunk.js';

const PACKET = 16;

/** Chunks that a warp has under way, and bytes of data of such a slice. */
const CHUNKS = 2;
const SLICE_DATA = CHUNKS * CHUNK128_DATA;
const SLICE_BYTES = CHUNKS * CHUNK128_BYTES;

/** One packet of a lane: where it lies in the data, and its bytes, where it has one. */
interface Place {
  readonly at: Value<'u32'>;
  readonly bytes: Value<'u32'>;
  readonly active: Value<'pred'>;
}

export class LowLatency128Protocol implements Protocol {
  readonly ends: Ends;
  readonly #k: KernelBuilder;
  readonly #size: number;
  readonly #arithmetic: StepArithmetic;
  readonly #connections: LineConnections;
  readonly #chunk: WarpChunk;

  constructor(k: KernelBuilder, ends: Ends, type: ElementType, arithmetic: StepArithmetic) {
    this.#k = k;
    this.ends = ends;
    this.#size = ELEMENT_TYPES[type].size;
    this.#arithmetic = arithmetic;
    this.#connections = new LineConnections(k, ends);
    this.#chunk = new WarpChunk(k);
  }

  transfer(transfer: Transfer): void {
    const k = this.#k;
    const { input, output } = transfer;
    const slots = this.#connections.begin(transfer);
    const bytes = transfer.elements.mul(this.#size).cast('u32');
    const pointers = [input, output].filter((pointer) => pointer !== undefined);
    const aligned = areAligned(
      k,
      pointers.map((pointer) => pointer.cast('u64').cast('u32')),
      PACKET,
    );
    const warp = k.threadIndex.shr(5);
    const slices = bytes.add(SLICE_DATA - 1).div(SLICE_DATA);
    k.for(warp, slices, k.threadCount.div(WARP_LANES), (index) => {
      this.#slice(transfer, index, bytes, aligned, {
        incoming: slots.incoming.map(({ lines, step }) => ({ lines, flag: step.add(1) })),
        outgoing: slots.outgoing.map(({ lines, step }) => ({ lines, flag: step.add(1) })),
      });
    });
    this.#connections.release(slots);
    this.#connections.advance(slots);
  }

  close(): void {
    this.#connections.close();
  }

  /** What a warp does with slice `index` of `bytes` bytes of data. */
  #slice(
    transfer: Transfer,
    index: Value<'u32'>,
    bytes: Value<'u32'>,
    aligned: Value<'pred'>,
    lines: Record<'incoming' | 'outgoing', readonly { lines: Value<'ptr'>; flag: Value<'u64'> }[]>,
  ): void {
    const k = this.#k;
    const chunk = this.#chunk;
    const { input, output } = transfer;
    const start = index.mul(SLICE_DATA);
    const numbers = Array.from({ length: CHUNKS }, (_, c) => c);
    const places = numbers.flatMap((c) =>
      chunk.data.map((before, packet): Place => {
        const at = start.add(c * CHUNK128_DATA).add(before);
        const inside = at.lt(bytes);
        const active = packet === 0 ? inside : inside.and(chunk.hasFlag.not());
        return { at, bytes: bytes.sub(at).min(PACKET), active };
      }),
    );
    const whole = start.add(SLICE_DATA).le(bytes).and(aligned);
    /** Whether the lane uses its lines of a chunk. */
    const used = numbers.map((c) =>
      start
        .add(c * CHUNK128_DATA)
        .add(chunk.line)
        .lt(bytes),
    );
    let results: Value<'packet'>[] | undefined;
    if (input !== undefined) {
      const own = this.#load(input, places, whole);
      results = transfer.isResult === true ? own : own.map((packet) => this.#arithmetic.before(packet));
    }
    for (const row of this.#receive(lines.incoming, index, used)) {
      results = results?.map((result, u) =>
        transfer.receivedFirst === false
          ? this.#arithmetic.combine(result, row[u]!)
          : this.#arithmetic.combine(row[u]!, result),
      ) ?? [...row];
    }
    if (transfer.after === true) results = results!.map((result) => this.#arithmetic.after(result));
    for (const { lines: slot, flag } of lines.outgoing) {
      const to = slot.offset(index.mul(SLICE_BYTES).add(chunk.wire));
      for (const c of numbers) {
        const packed = chunk.pack([results![2 * c]!, results![2 * c + 1]!], flag);
        packed.forEach((packet, row) => {
          k.storeLine(to.offset(c * CHUNK128_BYTES + row * ROW_BYTES), packet, used[c]!);
        });
      }
    }
    if (output !== undefined) this.#store(output, places, whole, results!);
  }

  #load(from: Value<'ptr'>, places: readonly Place[], whole: Value<'pred'>): Value<'packet'>[] {
    const k = this.#k;
    const found = places.map(() => k.variable('packet', k.packet(0n, 0n)));
    const addresses = places.map(({ at }) => from.offset(at));
    k.if(
      whole,
      () => {
        addresses.forEach((address, u) => {
          found[u]!.set(k.load('packet', address));
        });
      },
      () => {
        places.forEach(({ bytes, active }, u) => {
          k.if(active, () => found[u]!.set(k.loadPart(addresses[u]!, bytes, this.#size)));
        });
      },
    );
    return found.map(({ value }) => value);
  }

  #store(
    to: Value<'ptr'>,
    places: readonly Place[],
    whole: Value<'pred'>,
    values: readonly Value<'packet'>[],
  ): void {
    const k = this.#k;
    const addresses = places.map(({ at }) => to.offset(at));
    const store = (first: number) => {
      for (let u = first; u < values.length; u += 2) k.store('packet', addresses[u]!, values[u]!);
    };
    k.if(
      whole,
      () => {
        store(0);
        k.if(this.#chunk.hasFlag.not(), () => store(1));
      },
      () => {
        places.forEach(({ bytes, active }, u) => {
          k.if(active, () => k.storePart(addresses[u]!, values[u]!, bytes, this.#size));
        });
      },
    );
  }

  /** Waits for the lines of a slice from all connections; gives their data by connection. */
  #receive(
    incoming: readonly { lines: Value<'ptr'>; flag: Value<'u64'> }[],
    index: Value<'u32'>,
    used: readonly Value<'pred'>[],
  ): Value<'packet'>[][] {
    const k = this.#k;
    if (incoming.length === 0) return [];
    const chunk = this.#chunk;
    const before = index.mul(SLICE_BYTES);
    // Lanes that use their lines of a later chunk use those of the first.
    k.if(used[0]!, () => {
      const places = incoming.map(({ lines }) => lines.offset(before.add(chunk.flag)));
      k.wait(() =>
        used
          .flatMap((uses, c) =>
            incoming.map(({ flag }, i) =>
              ROWS.map((row) =>
                k.load('u64', places[i]!, { order: 'volatile', offset: c * CHUNK128_BYTES + row }).eq(flag),
              )
                .reduce((all, here) => all.and(here))
                .or(uses.not()),
            ),
          )
          .reduce((all, here) => all.and(here)),
      );
    });
    const rows = incoming.map(({ lines }) => {
      const from = lines.offset(before.add(chunk.wire));
      return used.map((_, c) =>
        ROWS.map((row) => k.load('packet', from, { order: 'volatile', offset: c * CHUNK128_BYTES + row })),
      );
    });
    return rows.map((chunks) =>
      chunks.flatMap((loaded) => [...chunk.unpack(loaded as unknown as LanePackets)]),
    );
  }
}
