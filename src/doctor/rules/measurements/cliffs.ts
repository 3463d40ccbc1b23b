/** Where a bandwidth falls from one size to the next and does not come back. */
import type { BenchRow } from '../../model/bench.js';
import type { Job } from '../../model/job.js';

export interface Cliff {
  readonly before: BenchRow;
  readonly after: BenchRow;
  /** Bandwidth before over bandwidth after. */
  readonly factor: number;
}

/** Changes of algorithm or protocol cost some percent; this is more. */
const STEEP = 2;

/** Sizes from which on a bandwidth says something of links, in bytes. */
const SMALLEST = 1024 * 1024;

/** A single slow row is an accident; a cliff goes on to larger sizes, unless it is at the end of the table. */
export function cliffs(job: Job): Cliff[] {
  return job.benches.flatMap(({ rows }) => {
    const sorted = [...rows].sort((a, b) => a.bytes - b.bytes);
    // The best of each row and all that come after it.
    const bestFrom = sorted.map(({ outOfPlace }) => outOfPlace.busGBs);
    for (let i = bestFrom.length - 2; i >= 0; i--) bestFrom[i] = Math.max(bestFrom[i]!, bestFrom[i + 1]!);
    const found: Cliff[] = [];
    for (let i = 1; i < sorted.length; i++) {
      const before = sorted[i - 1]!;
      const after = sorted[i]!;
      const limit = before.outOfPlace.busGBs / STEEP;
      const isBelow = limit > 0 && bestFrom[i]! < limit;
      const factor = before.outOfPlace.busGBs / Math.max(after.outOfPlace.busGBs, 1e-9);
      // Below, latency decides; and a last row alone must be slow in both of its measurements.
      const isLast = i === sorted.length - 1 && sorted.length > 2;
      const isOnce = isLast && (after.inPlace?.busGBs ?? 0) >= limit;
      if (after.bytes < SMALLEST || isOnce) continue;
      if (isBelow && after.bytes > before.bytes && factor >= STEEP) found.push({ before, after, factor });
    }
    return found.slice(0, 1);
  });
}
