/** One simulated thread: its fibre, what the scheduler knows of it, what it knows of the others. */

import {
  baseKnows,
  type Clock,
  joined,
  MAX_EPOCH,
  NOTHING,
  type Publication,
  type Stamp,
  stampOf,
} from './clock.js';
import type { Message } from './messages.js';
import type { Region } from './region.js';

/** A statement as messages name it. */
export interface Site {
  readonly kind: string;
  /** Source place, or the number of the statement where places were not recorded. */
  readonly place: string;
}

export type ThreadState = 'runnable' | 'waiting' | 'barrier' | 'warp' | 'ended';

export class Thread {
  // -- what the compiled program touches --
  /** Operations that may still run before the scheduler gets its turn. */
  fuel = 0;
  /** Loop rounds that may still run before the scheduler gets its turn. */
  slack = 0;
  /** What a weak access costs of the fuel; 0 in runs that only interleave at synchronising accesses. */
  weakCost = 1;
  /** Number of the statement that runs. */
  site = 0;
  /** Result of the last warp operation. */
  result: unknown = 0;

  // -- scheduling --
  state: ThreadState = 'runnable';
  /** Position in the scheduler's list of runnable threads, or -1. */
  slot = -1;
  priority = 0;
  status = 0;
  fibre: Generator<undefined, number> | undefined;

  // -- waiting --
  /** Loads are being watched, because a poll failed before. */
  polling = false;
  /** A watched cell was stored to since the poll began. */
  woken = false;
  /** A load of this poll gave an older value than the newest. */
  stale = false;
  /** Watched cells: region and cell number alternate. */
  readonly watched: { region: Region; cell: number }[] = [];

  // -- happens-before --
  epoch = 1;
  stamp: Stamp;
  base: Int32Array;
  /** What release fences so far publish with every later store. */
  fences: Publication = NOTHING;
  /** Publications seen by relaxed loads, taken over by the next acquire fence. */
  readonly seen: Message[] = [];
  /** Reader sets that hold the present epoch of this thread alone, for weak and synchronising loads. */
  weakReader = 0;
  syncReader = 0;

  constructor(
    readonly id: number,
    /** Name of the program, and its statements for messages. */
    readonly program: string,
    readonly sites: readonly Site[],

    readonly rank: number,
    readonly device: number,
    readonly launch: number,
    readonly block: number,
    readonly index: number,
    readonly threadCount: number,
    readonly blockCount: number,
    base: Int32Array,
  ) {
    this.base = base;
    this.stamp = stampOf(id, 1);
  }

  /** Whether the store or load with this stamp happens before now. */
  knows(stamp: Stamp): boolean {
    return stamp === this.stamp || (stamp & 0xfff) === this.id || baseKnows(this.base, stamp);
  }

  /** Whether everything that a clock knows is known here. */
  has(clock: Clock): boolean {
    return clock.thread === this.id || this.base[clock.thread]! >= clock.epoch;
  }

  clock(): Clock {
    return { thread: this.id, epoch: this.epoch, base: this.base };
  }

  join(clock: Clock): void {
    if (clock.thread !== this.id) this.base = joined(this.base, clock);
  }

  /** Begins a new epoch; false when there are no more. */
  advance(): boolean {
    this.stamp = stampOf(this.id, ++this.epoch);
    this.weakReader = 0;
    this.syncReader = 0;
    return this.epoch < MAX_EPOCH;
  }
}
