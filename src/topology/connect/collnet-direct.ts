/**
 * CollNet direct: every head of a node sends its share of the data to the network itself, and the GPUs of the node
 * exchange shares with the heads directly.
 *
 * (NCCL 2.30.7, connect.cc.)
 */
import type { CommNode } from './nodes.js';
import { graphHeads } from './preset.js';

/** GPUs of one node that CollNet direct can connect at most. */
export const MAX_COLLNET_DIRECT_RANKS = 8;

/** One rank's place, the same in every channel. */
export interface CollnetDirectPlace {
  /** 2, or 1 for a node of a single GPU. */
  readonly depth: 1 | 2;
  /** The number of ranks, which stands for the network; -1 for a rank that is no head. */
  readonly out: number;
  readonly nHeads: number;
  /** Own place among the heads, -1 for a rank that is none. */
  readonly headRank: number;
  /** Where the rank begins when it goes through the heads, so that not all begin with the same one. */
  readonly shift: number;
  /** Heads, beginning with the rank itself if it is one. */
  readonly heads: readonly number[];
  /** The other heads. */
  readonly up: readonly number[];
  /** For a head: the other GPUs of the node. */
  readonly down: readonly number[];
}

/** Place of a rank of a node. */
export function collnetDirectPlace(node: CommNode, rank: number, nRanks: number): CollnetDirectPlace {
  const { graphs, rankOffset } = node.domain;
  const heads = graphHeads(graphs.collnetDirect).map((local) => local + rankOffset);
  const headRank = heads.indexOf(rank);
  const isHead = headRank !== -1;
  const order = isHead ? graphs.collnetDirect.channels[headRank]!.intra : [];
  const down = order.map((local) => local + rankOffset).filter((other) => other !== rank);
  const up = heads.filter((head) => head !== rank);
  const first = isHead ? headRank : 0;
  return {
    depth: up.length === 0 && down.length === 0 ? 1 : 2,
    out: isHead ? nRanks : -1,
    nHeads: heads.length,
    headRank,
    shift: heads.length === 0 ? 0 : (rank % node.ranks.length) % heads.length,
    heads: [...heads.slice(first), ...heads.slice(0, first)],
    up,
    down,
  };
}
