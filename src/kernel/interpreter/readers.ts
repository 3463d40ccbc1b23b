/**
 * Sets of readers. A byte has a small number that names the set of epochs that loaded it since its last
 * store; sets are made once and shared, so that marking a byte as read is one array store.
 *
 * A set is a chain: its newest reader and the set before it. Buffers that hundreds of threads load in every
 * order have very many sets, which must not be copied each.
 */

import type { Stamp } from './clock.js';
import type { Thread } from './thread.js';

export interface ReaderSet {
  readonly stamp: Stamp;
  /** Loaded by a synchronising access, which only conflicts with weak stores. */
  readonly sync: boolean;
  readonly before: ReaderSet | undefined;
  readonly id: number;
  /** Readers in the chain. */
  readonly size: number;
  /** The set with one more reader, by twice the stamp plus one for synchronising. */
  next: Map<number, number> | undefined;
}

export class ReaderSets {
  readonly #sets: (ReaderSet | undefined)[] = [undefined];
  /** Sets that follow the empty one. */
  readonly #first = new Map<number, number>();

  /** The newest reader of a set, which leads to the others; undefined for the empty set 0. */
  of(id: number): ReaderSet | undefined {
    return this.#sets[id];
  }

  /** The number of the set `id` with the present epoch of a thread added. */
  with(id: number, thread: Thread, sync: boolean): number {
    const alone = sync ? thread.syncReader : thread.weakReader;
    if (alone !== 0 && (id === 0 || id === alone)) return alone;
    const set = this.#sets[id];
    const key = thread.stamp * 2 + (sync ? 1 : 0);
    const known = set === undefined ? this.#first.get(key) : set.next?.get(key);
    if (known !== undefined) return known;
    const result = this.#added(set, thread, sync);
    if (set === undefined) this.#first.set(key, result);
    else (set.next ??= new Map()).set(key, result);
    const { before } = this.#sets[result]!;
    if (before === undefined) {
      if (sync) thread.syncReader = result;
      else thread.weakReader = result;
    }
    return result;
  }

  #added(set: ReaderSet | undefined, thread: Thread, sync: boolean): number {
    let covered = 0;
    for (let r = set; r !== undefined; r = r.before) {
      if (r.stamp === thread.stamp && r.sync === sync) return set!.id;
      if (this.#covers(thread, sync, r)) covered++;
    }
    let kept = set;
    if (set !== undefined && covered * 2 >= set.size) {
      kept = undefined;
      for (let r: ReaderSet | undefined = set; r !== undefined; r = r.before) {
        if (!this.#covers(thread, sync, r)) kept = this.#push(r.stamp, r.sync, kept);
      }
    }
    return this.#push(thread.stamp, sync, kept).id;
  }

  /**
   * A reader that happens before this load is covered by it: whoever is ordered after the one is after both.
   * Only a weak load covers a weak load.
   */
  #covers(thread: Thread, sync: boolean, reader: ReaderSet): boolean {
    return (reader.sync || !sync) && thread.knows(reader.stamp);
  }

  #push(stamp: Stamp, sync: boolean, before: ReaderSet | undefined): ReaderSet {
    const id = this.#sets.length;
    const size = before === undefined ? 1 : before.size + 1;
    const set: ReaderSet = { stamp, sync, before, id, size, next: undefined };
    this.#sets.push(set);
    return set;
  }
}
