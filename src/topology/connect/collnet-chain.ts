/**
 * CollNet chain: in each node a chain of GPUs whose first one meets the network, which reduces for all nodes.
 *
 * The network stands in the chain as a rank of its own, numbered after the last one. (NCCL 2.30.7, connect.cc.)
 */
import type { CommNode } from './nodes.js';
import { channelOrder } from './preset.js';

/** Neighbours of each rank in each chain: `[channel * nRanks + rank]`. */
export interface ChainNeighbours {
  /** The rank before, or `nRanks` for the network. */
  readonly up: Int32Array;
  /** The rank after, -1 at the end. */
  readonly down: Int32Array;
}

/** Chains of `half` channels of the search, twice: `total` of them, as trees have (see trees.ts). */
export function connectCollnetChains(
  nodes: readonly CommNode[],
  nRanks: number,
  half: number,
  total: number,
): ChainNeighbours {
  const up = new Int32Array(total * nRanks).fill(-1);
  const down = new Int32Array(total * nRanks).fill(-1);
  for (let channel = 0; channel < total; channel++) {
    const base = channel * nRanks;
    for (const { domain } of nodes) {
      let before = nRanks;
      for (const local of channelOrder(domain.graphs.collnetChain, channel % half, domain.ranks.length)) {
        const rank = local + domain.rankOffset;
        up[base + rank] = before;
        if (before !== nRanks) down[base + before] = rank;
        before = rank;
      }
    }
  }
  return { up, down };
}
