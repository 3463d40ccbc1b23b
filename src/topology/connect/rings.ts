/**
 * Joins the rings inside the nodes to rings over all ranks: the last GPU of a node sends to the first of the next.
 *
 * Where channels come in pairs that enter by one NIC and leave by another, odd nodes exchange the two channels of a
 * pair, so that the NIC a node sends with faces the same NIC of the next node. (NCCL 2.30.7, connect.cc.)
 */
import type { CommNode } from './nodes.js';
import { channelOrder } from './preset.js';

/** Neighbours of each rank in each ring: `[channel * nRanks + rank]`, -1 for a rank that no ring reaches. */
export interface RingNeighbours {
  readonly prev: Int32Array;
  readonly next: Int32Array;
}

/** Mark of a search that found pairs of channels with exchanged NICs. */
const CROSS_NIC_PAIRS = 2;

/** Rings of `channels` channels over all nodes. */
export function connectRings(nodes: readonly CommNode[], nRanks: number, channels: number): RingNeighbours {
  const prev = new Int32Array(channels * nRanks).fill(-1);
  const next = new Int32Array(channels * nRanks).fill(-1);
  for (let channel = 0; channel < channels; channel++) {
    const base = channel * nRanks;
    const firstOrder = orderOf(nodes[0]!, channel, channels);
    const first = firstOrder[0]! + nodes[0]!.domain.rankOffset;
    let before = -1;
    for (const node of nodes) {
      const order = node.index === 0 ? firstOrder : orderOf(node, channel, channels);
      for (const local of order) {
        const rank = local + node.domain.rankOffset;
        if (before !== -1) {
          next[base + before] = rank;
          prev[base + rank] = before;
        }
        before = rank;
      }
    }
    next[base + before] = first;
    prev[base + first] = before;
  }
  return { prev, next };
}

function orderOf({ index, domain }: CommNode, channel: number, channels: number): readonly number[] {
  const { ring } = domain.graphs;
  const swap = channels % 2 === 0 && ring.crossNic === CROSS_NIC_PAIRS && index % 2 === 1;
  return channelOrder(ring, swap ? channel ^ 1 : channel, domain.ranks.length);
}
