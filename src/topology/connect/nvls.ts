/**
 * NVLS: heads of each node multicast and reduce through the NVSwitch; between nodes, equal heads form double trees.
 *
 * The NVSwitch stands as ranks of its own, numbered after the ranks and the network: nRanks + 1 + head.
 * (NCCL 2.30.7, connect.cc.)
 */
import { leastOf } from '../extremes.js';
import { doubleTree } from './double-tree.js';
import type { CommNode } from './nodes.js';
import { graphHeads } from './preset.js';

/** NVSwitch ports that a rank can address at most. */
export const NVLS_ARITY = 32;

/** Children of a rank in an NVLS tree: the NVSwitch and two nodes. */
export const NVLS_TREE_ARITY = 3;

/** Places of all ranks, the same in every NVLS channel but for the trees, of which even channels use the first. */
export interface NvlsPlaces {
  readonly nHeads: number;
  /** `[head]`: nRanks + 1 + head, which stands for this head's part of the multicast memory. */
  readonly up: readonly number[];
  /** `[rank]`: which head of its node a rank is, -1 for none. */
  readonly headRank: Int32Array;
  /** `[rank]`: the own head's part of the multicast memory; nRanks for a rank that is no head. */
  readonly down: Int32Array;
  /** `[rank]`: nRanks for the network if CollNet goes on from here, else -1. */
  readonly out: Int32Array;
  /** `[tree * nRanks + rank]`: -1 at the root, outside the heads, and on a single node. */
  readonly treeUp: Int32Array;
  /** `[(tree * nRanks + rank) * 3 + slot]`: `down`, then the children; all -1 on a single node. */
  readonly treeDown: Int32Array;
}

/** Connects the heads of all nodes; as many as every node has. Zero heads: nothing to connect. */
export function connectNvls(nodes: readonly CommNode[], nRanks: number, collnet: boolean): NvlsPlaces {
  const heads = nodes.map(({ domain: { graphs, rankOffset } }) =>
    graphHeads(graphs.nvls).map((local) => local + rankOffset),
  );
  const nHeads = leastOf(heads.map(({ length }) => length));
  const headRank = new Int32Array(nRanks).fill(-1);
  const down = new Int32Array(nRanks).fill(nRanks);
  const out = new Int32Array(nRanks).fill(-1);
  const treeUp = new Int32Array(2 * nRanks).fill(-1);
  const treeDown = new Int32Array(2 * nRanks * NVLS_TREE_ARITY).fill(-1);
  for (const [m, own] of heads.entries()) {
    for (let head = 0; head < nHeads; head++) {
      const rank = own[head]!;
      headRank[rank] = head;
      down[rank] = nRanks + 1 + head;
      if (collnet) out[rank] = nRanks;
      if (nodes.length > 1) connectHead(m, head, rank);
    }
  }
  if (nodes.length > 1) {
    for (let at = 0; at < 2 * nRanks; at++) treeDown[at * NVLS_TREE_ARITY] = down[at % nRanks]!;
  }
  const up = Array.from({ length: nHeads }, (_, head) => nRanks + 1 + head);
  return { nHeads, up, headRank, down, out, treeUp, treeDown };

  function connectHead(m: number, head: number, rank: number): void {
    for (const [tree, { parent, child0, child1 }] of doubleTree(nodes.length, m).entries()) {
      const at = tree * nRanks + rank;
      if (parent !== -1) treeUp[at] = heads[parent]![head]!;
      let slot = at * NVLS_TREE_ARITY + 1;
      for (const child of [child0, child1]) {
        if (child !== -1) treeDown[slot++] = heads[child]![head]!;
      }
    }
  }
}
