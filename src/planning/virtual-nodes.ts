/**
 * Emulated nodes: the ranks of one machine in groups of neighbours, so that algorithms for clusters run, and can be
 * watched, on one host. (TUTTI_RANKS_PER_NODE; the last node may have fewer ranks.)
 */

import { MAX_COLLNET_DIRECT_RANKS } from '../topology/connect/collnet-direct.js';

export interface VirtualNodes {
  readonly ranks: number;
  /** Ranks of every node but perhaps the last. */
  readonly perNode: number;
}

export function nodeCount({ ranks, perNode }: VirtualNodes): number {
  return Math.ceil(ranks / perNode);
}

export function nodeOf({ perNode }: VirtualNodes, rank: number): number {
  return Math.floor(rank / perNode);
}

/** The ranks of a node, in order. */
export function ranksOfNode({ ranks, perNode }: VirtualNodes, node: number): number[] {
  const first = node * perNode;
  return Array.from({ length: Math.min(perNode, ranks - first) }, (_, i) => first + i);
}

/** Ranks per node for algorithms that want switches between nodes: the largest nodes of one size, two at least. */
export function usualSwitchedNodeSize(ranks: number): number {
  let perNode = Math.max(1, Math.min(MAX_COLLNET_DIRECT_RANKS, Math.floor(ranks / 2)));
  while (ranks % perNode !== 0) perNode -= 1;
  return perNode;
}
