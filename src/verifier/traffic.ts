/**
 * Bytes per link, and the longest chain of messages, counted from the accesses of a run.
 *
 * A rank gives data to another by storing them in the other's memory, or by letting the other load them from its own.
 * Either counts once for the link between the two. A message has a depth: one more than that of what its sender had
 * received; the greatest depth is the number of steps that no machine can do at the same time.
 */
import type { Access } from '../kernel/interpreter/machine.js';
import type { MemoryMap } from './memory-map.js';

/** Payload from one rank to another. */
export interface LinkTraffic {
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
}

export interface Traffic {
  /** Links that carry something, by sender, then receiver. */
  readonly links: readonly LinkTraffic[];
  /** By rank. */
  readonly sent: readonly number[];
  readonly received: readonly number[];
  /** Messages that follow from each other, at most. */
  readonly depth: number;
}

/** Bytes that share a depth: what one access moves at least. */
const CELL = 8;

export class TrafficCounter {
  readonly #map: MemoryMap;
  readonly #ranks: number;
  /** `from * ranks + to` */
  readonly #bytes: Float64Array;
  readonly #depths: Int32Array;
  #deepest = 0;
  /** Depth of the data that programs have stored, by region and cell. */
  readonly #stored = new Map<number, Map<number, number>>();

  constructor(map: MemoryMap, ranks: number) {
    this.#map = map;
    this.#ranks = ranks;
    this.#bytes = new Float64Array(ranks * ranks);
    this.#depths = new Int32Array(ranks);
  }

  readonly observe = ({ rank, kind, region, owner, at, bytes }: Access): void => {
    const payload = this.#map.payloadOf(region, at, bytes);
    if (payload === undefined) return;
    const crosses = rank !== owner;
    if (kind === 'store') {
      if (crosses) this.#bytes[rank * this.#ranks + owner]! += payload;
      const depth = this.#depths[rank]! + (crosses ? 1 : 0);
      this.#deepest = Math.max(this.#deepest, depth);
      this.#note(region, at, bytes, depth);
      return;
    }
    if (crosses) this.#bytes[owner * this.#ranks + rank]! += payload;
    const depth = this.#depthOf(region, at, bytes) + (crosses ? 1 : 0);
    this.#depths[rank] = Math.max(this.#depths[rank]!, depth);
    this.#deepest = Math.max(this.#deepest, depth);
  };

  #note(region: number, at: number, bytes: number, depth: number): void {
    let cells = this.#stored.get(region);
    if (cells === undefined) {
      cells = new Map();
      this.#stored.set(region, cells);
    }
    for (let cell = Math.floor(at / CELL); cell * CELL < at + bytes; cell++) cells.set(cell, depth);
  }

  /** Depth of the data at a place; inputs have none. */
  #depthOf(region: number, at: number, bytes: number): number {
    const cells = this.#stored.get(region);
    let depth = 0;
    for (let cell = Math.floor(at / CELL); cells !== undefined && cell * CELL < at + bytes; cell++) {
      depth = Math.max(depth, cells.get(cell) ?? 0);
    }
    return depth;
  }

  result(): Traffic {
    const links: LinkTraffic[] = [];
    const sent = new Array<number>(this.#ranks).fill(0);
    const received = new Array<number>(this.#ranks).fill(0);
    for (let from = 0; from < this.#ranks; from++) {
      for (let to = 0; to < this.#ranks; to++) {
        const bytes = this.#bytes[from * this.#ranks + to]!;
        if (bytes === 0) continue;
        links.push({ from, to, bytes });
        sent[from]! += bytes;
        received[to]! += bytes;
      }
    }
    return { links, sent, received, depth: this.#deepest };
  }
}
