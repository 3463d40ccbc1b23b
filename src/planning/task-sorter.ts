/**
 * Orders the collectives of a group by size, roughly: larger ones first, in bins of 25 %.
 *
 * A bin takes new tasks at its front, so tasks of one bin come out in reverse program order; later steps turn that
 * around again. (NCCL 2.30.7, enqueue.cc.)
 */

/** Sizes are compared in units of 1 KiB up to 1 GiB. */
const UNIT_SHIFT = 10;
const LARGEST = 2 ** 30;

/** Bins per power of two. */
const SUB_BINS = 4;

/** Number of bins. */
export const SORT_BINS = 81;

/** Bin of a size in bytes; a lower bin is a larger size. */
export function sortBin(bytes: number): number {
  const units = Math.floor(Math.min(bytes, LARGEST) / 2 ** UNIT_SHIFT);
  const high = Math.floor(Math.log2(Math.max(1, units)));
  const code =
    high < 2 ? units : (high - 1) * SUB_BINS + (Math.floor(units / 2 ** (high - 2)) & (SUB_BINS - 1));
  return SORT_BINS - 1 - code;
}

/** The tasks in the order in which the planner meets them. */
export function sortTasks<T>(tasks: readonly T[], bytesOf: (task: T) => number): T[] {
  const bins: T[][] = Array.from({ length: SORT_BINS }, () => []);
  for (const task of tasks) bins[sortBin(bytesOf(task))]!.push(task);
  return bins.flatMap((bin) => bin.reverse());
}
