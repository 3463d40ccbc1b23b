/** Seeds of property tests: printed with every failure, and repeated by TUTTI_SEED. */

/** The seed of this run. */
export const SEED =
  process.env.TUTTI_SEED === undefined ? Date.now() % 1_000_000 : Number(process.env.TUTTI_SEED);

/** Numbers in [0, 1) that depend on the seed alone (mulberry32). */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
