/**
 * Happens-before by vector clocks, in the manner of FastTrack (Flanagan and Freund, 2009).
 *
 * Every thread counts epochs: a new one begins after each operation that may publish (release store or
 * fence, atomic, barrier). A *stamp* names one epoch of one thread. What a thread knows of the others is its
 * `base`: the latest epoch of every other thread that happens before now. Bases are never changed in place,
 * so that publishing takes a reference, and only taking over somebody's knowledge copies.
 */

import type { Scope } from '../ir.js';

/** Bits of a stamp that name the thread. Thread 0 is the host, which comes before everything. */
const THREAD_BITS = 12;
export const MAX_THREADS = 2 ** THREAD_BITS - 1;
const THREAD_MASK = MAX_THREADS;
/** Stamps are unsigned 32-bit numbers. */
export const MAX_EPOCH = 2 ** (32 - THREAD_BITS) - 1;

export type Stamp = number;

export const HOST_STAMP: Stamp = 0;

export function stampOf(thread: number, epoch: number): Stamp {
  return epoch * (THREAD_MASK + 1) + thread;
}

export function stampThread(stamp: Stamp): number {
  return stamp & THREAD_MASK;
}

/** What a thread knew at the end of an epoch: its base, and itself up to that epoch. */
export interface Clock {
  readonly thread: number;
  readonly epoch: number;
  readonly base: Int32Array;
}

/** Whether whoever has this base knows the epoch of a stamp. */
export function baseKnows(base: Int32Array, stamp: Stamp): boolean {
  const thread = stamp & THREAD_MASK;
  return thread === 0 || base[thread]! >= stamp >>> THREAD_BITS;
}

/** The base that knows what `base` and the clock know; the same object where nothing is new. */
export function joined(base: Int32Array, clock: Clock): Int32Array {
  // An epoch is only ever known together with everything that its thread knew then.
  if (base[clock.thread]! >= clock.epoch) return base;
  const result = base.slice();
  const other = clock.base;
  for (let i = 0; i < other.length; i++) if (other[i]! > result[i]!) result[i] = other[i]!;
  if (clock.epoch > result[clock.thread]!) result[clock.thread] = clock.epoch;
  return result;
}

/** Scopes from narrow to wide. */
export const SCOPE_LEVEL: Readonly<Record<Scope, 0 | 1 | 2>> = { block: 0, device: 1, system: 2 };

/** Who a thread is, as far as scopes go. */
export interface Located {
  readonly device: number;
  readonly launch: number;
  readonly block: number;
}

/** Whether a scope of one thread reaches another. */
export function reaches(level: number, from: Located, to: Located): boolean {
  if (level === 2) return true;
  if (from.device !== to.device) return false;
  return level === 1 || (from.launch === to.launch && from.block === to.block);
}

/**
 * What a synchronising store publishes, by scope level. A store may carry more than one: its own release and
 * those of earlier fences with other scopes.
 */
export type Publication = readonly [Clock | undefined, Clock | undefined, Clock | undefined];

export const NOTHING: Publication = [undefined, undefined, undefined];

/** A publication with one more clock; two clocks of one level are merged. */
export function publishing(publication: Publication, level: number, clock: Clock): Publication {
  const result: [Clock | undefined, Clock | undefined, Clock | undefined] = [...publication];
  const before = result[level];
  // A later clock of the same thread knows all that its earlier one did.
  const covers = before === undefined || before.thread === clock.thread;
  result[level] = covers ? clock : { ...clock, base: joined(clock.base, before) };
  return result;
}
