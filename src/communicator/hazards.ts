/**
 * When one operation must wait for another of the same rank to be finished, not only to be handed over.
 *
 * The executor runs programs in order, so operations on heap arrays may follow each other closely. Arrays outside
 * of the heap are copied on the calling side, before and after the program: an operation that reads what an
 * earlier one writes must not copy before the other has, and staging memory holds one operation at a time.
 */

/** Bytes [from, to) of some memory. */
export interface ByteRange {
  readonly memory: ArrayBufferLike;
  readonly from: number;
  readonly to: number;
}

/** What an operation touches on this rank. */
export interface Accesses {
  readonly reads: readonly ByteRange[];
  readonly writes: readonly ByteRange[];
  /** It copies between its arrays and staging memory. */
  readonly staged: boolean;
  /** Its staging memory is that of the communicator, which others use too. */
  readonly sharesStage: boolean;
}

export function overlap(some: readonly ByteRange[], others: readonly ByteRange[]): boolean {
  return some.some((a) => others.some((b) => a.memory === b.memory && a.from < b.to && b.from < a.to));
}

/** Whether `later` may begin only when `earlier` is finished. */
export function mustFollow(later: Accesses, earlier: Accesses): boolean {
  if (!later.staged && !earlier.staged) return false;
  if (later.sharesStage && earlier.sharesStage) return true;
  return (
    overlap(earlier.writes, later.reads) ||
    overlap(earlier.writes, later.writes) ||
    overlap(earlier.reads, later.writes)
  );
}
