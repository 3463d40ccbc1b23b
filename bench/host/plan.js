/**
 * What is measured: sizes and, for each, how many calls warm up and how many are timed. Every program gets the
 * same plan as text (`BYTES:WARMUP:ITERATIONS,...`), so none can count differently.
 */

/** Sizes in bytes of the published tables: from pure latency to far beyond the caches. */
export const DEFAULT_SIZES = [8, 64, 1024, 8192, 65536, 1 << 20, 16 << 20, 64 << 20];

/** Calls timed at most: 10000 calls of half a microsecond make 5 ms, far above the clock's grain. */
const MOST_ITERATIONS = 10_000;

/** Bytes that a loop moves once the size limits it: about 20 ms at the speed of one core's memory copies. */
const LOOP_BYTES = 60e6;

/** Calls timed at least: fewer would let one disturbance decide. */
const FEWEST_ITERATIONS = 4;

/** Ranks that wait for each other's time slice are about a hundred times slower; a tenth of the calls is enough. */
const OVERSUBSCRIBED_SHARE = 0.1;

/** As many calls before the clock starts as after, at least two: caches, connections and compilers settle. */
const WARMUP_SHARE = 1;

/** The first size warms up longer, since it comes when a program has just begun. Every program gets the same. */
const FIRST_WARMUP_SHARE = 2;

/** One part in five of everything, for a look rather than a result. */
const QUICK_SHARE = 0.2;

/**
 * @param {number[]} sizes bytes
 * @param {{ oversubscribed: boolean, quick: boolean }} options oversubscribed: more ranks than cores
 * @returns {{ size: number, warmup: number, iterations: number }[]}
 */
export function makePlan(sizes, { oversubscribed, quick }) {
  const share = (oversubscribed ? OVERSUBSCRIBED_SHARE : 1) * (quick ? QUICK_SHARE : 1);
  return sizes.map((size, index) => {
    const wanted = Math.min(MOST_ITERATIONS, LOOP_BYTES / size) * share;
    const iterations = Math.max(FEWEST_ITERATIONS, Math.round(wanted));
    const warmupShare = index === 0 ? FIRST_WARMUP_SHARE : WARMUP_SHARE;
    return { size, warmup: Math.max(2, Math.round(iterations * warmupShare)), iterations };
  });
}

/**
 * The plan as the programs read it, twice: the first time is a rehearsal whose times are overwritten. A just-in-time
 * compiler meets every path of the code in it, and its background work, which takes the processor from the ranks for
 * milliseconds, is over when the times that count are taken.
 */
export function planText(plan) {
  return [...plan, ...plan]
    .map(({ size, warmup, iterations }) => `${size}:${warmup}:${iterations}`)
    .join(',');
}

const UNITS = { '': 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 };

/**
 * Bytes of `64`, `8K`, `1M`.
 * @throws {RangeError} where the text is no size, or no whole number of floats
 */
export function parseSize(text) {
  const match = /^(\d+)([KMG]?)$/.exec(text.trim().toUpperCase());
  const bytes = match === null ? Number.NaN : Number(match[1]) * UNITS[match[2]];
  if (!Number.isSafeInteger(bytes) || bytes < 4 || bytes % 4 !== 0) {
    throw new RangeError(`size '${text}': give bytes in whole floats, such as 8, 64K or 16M`);
  }
  return bytes;
}

/** `64K` of 65536: the largest unit that divides it. */
export function sizeName(bytes) {
  for (const [name, unit] of Object.entries(UNITS).reverse()) {
    if (bytes >= unit && bytes % unit === 0) return `${bytes / unit}${name}`;
  }
  return String(bytes);
}
