/**
 * Sets of readers. A byte has a small number that names the set of epochs that loaded it since its last
 * store; sets are made once and shared, so that marking a byte as read is one array store.
 */

import { type Stamp, stampThread } from './clock.js';
import type { Thread } from './thread.js';

export interface Reader {
  readonly stamp: Stamp;
  /** Loaded by a synchronising access, which only conflicts with weak stores. */
  readonly sync: boolean;
}

interface ReaderSet {
  readonly readers: readonly Reader[];
  /** The set with one more reader, by twice the stamp plus one for synchronising. */
  next: Map<number, number> | undefined;
}

export class ReaderSets {
  readonly #sets: ReaderSet[] = [{ readers: [], next: undefined }];

  of(id: number): readonly Reader[] {
    return this.#sets[id]!.readers;
  }

  /** The number of the set `id` with the present epoch of a thread added. */
  with(id: number, thread: Thread, sync: boolean): number {
    const alone = sync ? thread.syncReader : thread.weakReader;
    if (alone !== 0 && (id === 0 || id === alone)) return alone;
    const key = thread.stamp * 2 + (sync ? 1 : 0);
    const set = this.#sets[id]!;
    // Adding the same epoch again changes nothing.
    const last = set.readers.at(-1);
    if (last !== undefined && last.stamp === thread.stamp && last.sync === sync) return id;
    const known = set.next?.get(key);
    if (known !== undefined) return known;
    // A reader that happens before this load is covered by it: whoever is ordered after one is after both.
    // Only a weak load covers a weak load.
    const kept = set.readers.filter((r) => {
      const covered = stampThread(r.stamp) === thread.id || thread.knows(r.stamp);
      return !(covered && (r.sync || !sync));
    });
    const readers = [...kept, { stamp: thread.stamp, sync }];
    let result: number;
    if (readers.length === 1 && alone !== 0) result = alone;
    else {
      result = this.#sets.length;
      this.#sets.push({ readers, next: undefined });
      if (readers.length === 1) {
        if (sync) thread.syncReader = result;
        else thread.weakReader = result;
      }
    }
    (set.next ??= new Map()).set(key, result);
    return result;
  }
}
