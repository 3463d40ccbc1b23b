/** Random cases from a printed seed. */

/** A generator of numbers in [0, 1) (mulberry32). */
export function randomFrom(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const below = (n) => Math.floor(next() * n);
  return {
    below,
    pick: (list) => list[below(list.length)],
    chance: (p) => next() < p,
    /** Small numbers more often than large ones. */
    size: (most) => Math.floor(most ** next()) - 1 + below(2),
    word: () => (next() * 4294967296) >>> 0,
  };
}

/** Seed of this run: TUTTI_GPU_SEED, or the time. */
export const SEED = Number(process.env.TUTTI_GPU_SEED ?? Date.now() % 1_000_000);
