/**
 * What is measured on GPUs: operations, sizes and, for each size, how many calls make a sample. All programs get the
 * same plan as text (`BYTES:CALLS:LAUNCHES,...`), so none can count differently.
 */

/** Operations under the names of our API. `bytes` of a row is the larger side of one rank. */
export const OPERATIONS = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'broadcast',
  'reduce',
  'allToAll',
  'sendRecv',
];

/** 8 bytes to 512 MiB in steps of 4, with all sizes that the targets name. */
export const DEFAULT_SIZES = Array.from({ length: 14 }, (_, step) => 8 * 4 ** step);

/** Calls in a captured graph. */
export const GRAPH_CALLS = 20;

/** By size: calls of a sample of plain launches, and launches of the graph in a sample of graph launches. */
const AMOUNTS = [
  { upTo: 2 ** 17, calls: 200, launches: 20 },
  { upTo: 2 ** 21, calls: 100, launches: 10 },
  { upTo: 2 ** 23, calls: 50, launches: 5 },
  { upTo: 2 ** 25, calls: 30, launches: 2 },
  { upTo: 2 ** 27, calls: 16, launches: 1 },
  { upTo: Number.POSITIVE_INFINITY, calls: 8, launches: 1 },
];

/**
 * @param {number[]} sizes bytes
 * @returns {{ bytes: number, calls: number, launches: number }[]}
 */
export function makePlan(sizes) {
  return sizes.map((bytes) => {
    const { calls, launches } = AMOUNTS.find(({ upTo }) => bytes <= upTo);
    return { bytes, calls, launches };
  });
}

export function planText(plan) {
  return plan.map(({ bytes, calls, launches }) => `${bytes}:${calls}:${launches}`).join(',');
}

/** @throws {RangeError} where the text is no plan */
export function parsePlan(text) {
  return text.split(',').map((entry) => {
    const match = /^(\d+):(\d+):(\d+)$/.exec(entry);
    if (match === null) throw new RangeError(`plan '${entry}': it must be BYTES:CALLS:LAUNCHES`);
    const [bytes, calls, launches] = match.slice(1).map(Number);
    return { bytes, calls, launches };
  });
}
