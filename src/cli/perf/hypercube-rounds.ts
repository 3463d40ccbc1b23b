/**
 * An all-gather as nccl-tests' hypercube does it: the own block into place, then log2(n) groups, one behind the other, in
 * each of which ranks whose numbers differ in one bit exchange all blocks that they have so far.
 *
 * Source: behaviour of nccl-tests 2.19.6 (hypercube), restated from its description.
 */

/** What a rank does in a group: it sends `many` blocks from the first it holds, and receives as many. */
export interface HypercubeRound {
  readonly peer: number;
  readonly held: number;
  readonly wanted: number;
  readonly many: number;
}

/** The groups after the own block is in place; `size` must be a power of two. */
export function hypercubeRounds(rank: number, size: number): HypercubeRound[] {
  const rounds: HypercubeRound[] = [];
  for (let mask = 1; mask < size; mask *= 2) {
    const held = rank & ~(mask - 1);
    rounds.push({ peer: rank ^ mask, held, wanted: held ^ mask, many: mask });
  }
  return rounds;
}
