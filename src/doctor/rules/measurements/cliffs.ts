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

/** A single slow row is an accident; a cliff goes on to larger sizes, unless it is at the end of the table. */
export function cliffs(job: Job): Cliff[] {
  return job.benches.flatMap(({ rows }) => {
    const sorted = [...rows].sort((a, b) => a.bytes - b.bytes);
    const found: Cliff[] = [];
    for (let i = 1; i < sorted.length; i++) {
      const before = sorted[i - 1]!;
      const after = sorted[i]!;
      const rest = sorted.slice(i);
      const limit = before.outOfPlace.busGBs / STEEP;
      const isBelow = limit > 0 && rest.every(({ outOfPlace }) => outOfPlace.busGBs < limit);
      const factor = before.outOfPlace.busGBs / Math.max(after.outOfPlace.busGBs, 1e-9);
      if (isBelow && after.bytes > before.bytes && factor >= STEEP) found.push({ before, after, factor });
    }
    return found.slice(0, 1);
  });
}
