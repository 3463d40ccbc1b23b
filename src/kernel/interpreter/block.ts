/** The meeting points of a block: named barriers, and warp operations. */

import type { Thread } from './thread.js';

/** What a block needs of the machine. */
export interface BlockHost {
  /** A thread that was held at a meeting point may go on. */
  release(thread: Thread): void;
  hold(thread: Thread, state: 'barrier' | 'warp'): void;
  trap(thread: Thread, what: string): never;
}

interface Barrier {
  readonly expected: number;
  readonly arrived: Thread[];
}

interface WarpMeeting {
  readonly site: number;
  readonly arrived: Thread[];
  readonly values: unknown[];
  /** Source lanes of a shuffle. */
  readonly lanes: number[];
}

/** All threads learn what each of them knew, and begin a new epoch. */
function shareKnowledge(threads: readonly Thread[]): void {
  const merged = threads[0]!.base.slice();
  const taken = new Set([threads[0]!.base]);
  for (const { base } of threads) {
    if (taken.has(base)) continue;
    taken.add(base);
    for (let i = 0; i < base.length; i++) if (base[i]! > merged[i]!) merged[i] = base[i]!;
  }
  for (const t of threads) if (t.epoch > merged[t.id]!) merged[t.id] = t.epoch;
  for (const t of threads) {
    t.base = merged;
    t.advance();
  }
}

export class Block {
  readonly threads: Thread[] = [];
  readonly #barriers = new Map<number, Barrier>();
  readonly #warps = new Map<number, WarpMeeting>();

  constructor(
    readonly warpSize: number,
    readonly host: BlockHost,
  ) {}

  /** A thread comes to a barrier; true when it has to stay for others. */
  arrive(t: Thread, id: number, count: number): boolean {
    const size = t.threadCount;
    if (count < 1 || count > size || (count % this.warpSize !== 0 && count !== size)) {
      const rule = `a multiple of the warp size ${this.warpSize}, or all ${size}`;
      this.host.trap(t, `barrier ${id} over ${count} threads: must be ${rule}`);
    }
    let barrier = this.#barriers.get(id);
    if (barrier === undefined) this.#barriers.set(id, (barrier = { expected: count, arrived: [] }));
    if (barrier.expected !== count) {
      const what = `barrier ${id} over ${count} threads, but others came to it for ${barrier.expected}`;
      this.host.trap(t, what);
    }
    barrier.arrived.push(t);
    if (barrier.arrived.length < count) {
      this.host.hold(t, 'barrier');
      return true;
    }
    this.#barriers.delete(id);
    shareKnowledge(barrier.arrived);
    for (const other of barrier.arrived) if (other !== t) this.host.release(other);
    return false;
  }

  /** How many threads of how many are at the barrier where a thread is held. */
  progress(t: Thread): string {
    for (const [id, { arrived, expected }] of this.#barriers) {
      if (arrived.includes(t)) return `barrier ${id} (${arrived.length} of ${expected} threads are there)`;
    }
    for (const { arrived } of this.#warps.values()) {
      if (arrived.includes(t)) {
        return `a warp operation (${arrived.length} of ${this.#warpOf(t).length} lanes are there)`;
      }
    }
    return 'nothing';
  }

  #warpOf(t: Thread): Thread[] {
    const first = t.index - (t.index % this.warpSize);
    return this.threads.slice(first, first + this.warpSize);
  }

  /** A thread comes to a shuffle or vote; the meeting when it is complete. */
  #meet(t: Thread, value: unknown, lane: number): WarpMeeting | undefined {
    const number = Math.floor(t.index / this.warpSize);
    let meeting = this.#warps.get(number);
    if (meeting === undefined) {
      meeting = { site: t.site, arrived: [], values: [], lanes: [] };
      this.#warps.set(number, meeting);
    }
    if (meeting.site !== t.site) {
      const where = t.sites[meeting.site]!.place;
      this.host.trap(t, `lanes of one warp come to different warp operations, others to that at ${where}`);
    }
    const at = t.index % this.warpSize;
    meeting.arrived.push(t);
    meeting.values[at] = value;
    meeting.lanes[at] = lane;
    if (meeting.arrived.length < this.#warpOf(t).length) {
      this.host.hold(t, 'warp');
      return undefined;
    }
    this.#warps.delete(number);
    for (const other of meeting.arrived) if (other !== t) this.host.release(other);
    return meeting;
  }

  /** True when the thread has to stay; its result is there when it goes on. Gives no memory order. */
  shuffle(t: Thread, value: unknown, lane: number): boolean {
    if (lane >= this.#warpOf(t).length) this.host.trap(t, `shuffle from lane ${lane}, which does not exist`);
    const meeting = this.#meet(t, value, lane);
    if (meeting === undefined) return true;
    for (const other of meeting.arrived) {
      other.result = meeting.values[meeting.lanes[other.index % this.warpSize]!];
    }
    return false;
  }

  /** A thread comes to a barrier of its warp; true when it has to stay for others. */
  meetWarp(t: Thread): boolean {
    const meeting = this.#meet(t, undefined, 0);
    if (meeting === undefined) return true;
    shareKnowledge(meeting.arrived);
    return false;
  }

  /** A thread comes to a meeting of its warp; what all lanes bring, in their order, when it is the last. */
  meet<T>(t: Thread, value: T): { readonly thread: Thread; readonly value: T }[] | undefined {
    const meeting = this.#meet(t, value, 0);
    if (meeting === undefined) return undefined;
    return this.#warpOf(t).map((thread, lane) => ({ thread, value: meeting.values[lane] as T }));
  }

  vote(t: Thread, all: boolean, value: number): boolean {
    const meeting = this.#meet(t, value, 0);
    if (meeting === undefined) return true;
    const holds = all ? meeting.values.every((v) => v === 1) : meeting.values.some((v) => v === 1);
    for (const other of meeting.arrived) other.result = holds ? 1 : 0;
    return false;
  }
}
