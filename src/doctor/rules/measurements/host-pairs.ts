/** Measurements between pairs or groups of hosts that are far below the best. */
import type { Job } from '../../model/job.js';
import type { Place } from '../../model/place.js';

/** Rows of a table of hosts that are far below its best. */
export function lowPairs(job: Job): { rows: Place[]; best: number; worst: number } | undefined {
  const values = job.pairRows.map(({ value }) => value);
  const best = Math.max(...values);
  const low = job.pairRows.filter(({ value }) => value < 0.7 * best);
  if (low.length === 0) return undefined;
  return { rows: low.map(({ at }) => at), best, worst: Math.min(...values) };
}
