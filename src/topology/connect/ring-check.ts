/**
 * Follows a ring through all ranks and makes sure that it is one: closed, and with every rank in it.
 *
 * Closing alone does not prove it: a cycle of 2 among 8 ranks is back at its start after 8 steps. (NCCL 2.30.7,
 * rings.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';

/**
 * Ranks of a ring in order, beginning with `start`.
 *
 * @param next the next rank of each rank, in this ring
 * @param ring number of the ring, for messages
 * @throws TuttiError internalError if the ring does not come back to `start` or leaves out a rank.
 */
export function followRing(next: Int32Array, start: number, ring: number): Int32Array {
  const nRanks = next.length;
  const order = new Int32Array(nRanks);
  const seen = new Uint8Array(nRanks);
  let rank = start;
  for (let step = 0; step < nRanks; step++) {
    if (rank < 0 || rank >= nRanks) break;
    order[step] = rank;
    seen[rank] = 1;
    rank = next[rank]!;
  }
  if (rank !== start) {
    throw new TuttiError(
      'internalError',
      `Error : ring ${ring} does not loop back to start (${rank} != ${start})`,
      { rank: start },
    );
  }
  const missing = seen.indexOf(0);
  if (missing !== -1) {
    throw new TuttiError('internalError', `Error : ring ${ring} does not contain rank ${missing}`, {
      rank: missing,
    });
  }
  return order;
}
