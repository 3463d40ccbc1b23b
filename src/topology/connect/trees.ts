/**
 * Joins the chains of GPUs inside the nodes to two trees over all ranks, by the double binary tree over nodes.
 *
 * Channel c of the first half uses the first tree, channel c of the second half the second one, both with the same
 * chain inside the nodes. (NCCL 2.30.7, connect.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { TreePlace } from './binary-tree.js';
import { doubleTree } from './double-tree.js';
import type { CommNode } from './nodes.js';
import { channelOrder, type TreeEnds, treeEnds } from './preset.js';

/** Children of a rank in a tree at most: the next of the chain and two nodes. */
export const TREE_ARITY = 3;

/** Neighbours of each rank in each tree, -1 where there is none. */
export interface TreeNeighbours {
  /** `[channel * nRanks + rank]` */
  readonly up: Int32Array;
  /** `[(channel * nRanks + rank) * 3 + slot]`, used slots first. */
  readonly down: Int32Array;
}

/**
 * Trees of `total` channels over all nodes: both trees for each of `half` channels of the search.
 *
 * @param total 2 * half, or less where the number of channels is at its limit
 */
export function connectTrees(
  nodes: readonly CommNode[],
  nRanks: number,
  half: number,
  total: number,
): TreeNeighbours {
  const up = new Int32Array(total * nRanks).fill(-1);
  const down = new Int32Array(total * nRanks * TREE_ARITY).fill(-1);
  const places = nodes.map(({ index }) => doubleTree(nodes.length, index));
  for (let channel = 0; channel < total; channel++) {
    const base = channel * nRanks;
    const orders = nodes.map((node) => nodeOrder(node, channel % half));
    const ends = nodes.map((node, m) => treeEnds(node.domain.graphs.tree.pattern, orders[m]!));
    for (const [m, order] of orders.entries()) connectChain(base, order, nodes[m]!.domain.rankOffset);
    for (const [m, both] of places.entries()) connectNode(base, m, both[channel < half ? 0 : 1], ends);
  }
  return { up, down };

  function connectChain(base: number, order: readonly number[], offset: number): void {
    let before = -1;
    for (const local of order) {
      const rank = local + offset;
      up[base + rank] = before;
      if (before !== -1) down[(base + before) * TREE_ARITY] = rank;
      before = rank;
    }
  }

  function connectNode(base: number, m: number, place: TreePlace, ends: readonly TreeEnds[]): void {
    const real = (node: number, end: keyof TreeEnds) => ends[node]![end] + nodes[node]!.domain.rankOffset;
    if (place.parent !== -1) {
      const end = place.childType === 0 ? 'toChild0' : 'toChild1';
      up[base + real(m, 'toParent')] = real(place.parent, end);
    }
    if (place.child0 !== -1) addDown(base, real(m, 'toChild0'), real(place.child0, 'toParent'));
    if (place.child1 !== -1) addDown(base, real(m, 'toChild1'), real(place.child1, 'toParent'));
  }

  function addDown(base: number, rank: number, child: number): void {
    const slots = (base + rank) * TREE_ARITY;
    for (let slot = slots; slot < slots + TREE_ARITY; slot++) {
      if (down[slot] === -1) {
        down[slot] = child;
        return;
      }
    }
    const children = down.subarray(slots, slots + TREE_ARITY).join(' ');
    throw new TuttiError('internalError', `Internal error : tree already has 3 children (${children})`, {
      rank,
    });
  }
}

/** Order of a node's GPUs in a tree channel; unlike a ring, a tree is not followed afterwards, so it is checked here. */
function nodeOrder({ domain }: CommNode, channel: number): readonly number[] {
  const order = channelOrder(domain.graphs.tree, channel, domain.ranks.length);
  if (new Set(order).size === order.length) return order;
  throw new TuttiError(
    'internalError',
    `tree ${channel} lists a GPU twice (${order.join(' ')}): search again, or correct the file that ` +
      'NCCL_GRAPH_FILE names',
  );
}

/** Steps from a leaf to the root, roughly: the chain in a node, then the levels of nodes. For the cost model. */
export function treeDepth(nRanks: number, nNodes: number): number {
  return Math.floor(nRanks / nNodes) - 1 + Math.floor(Math.log2(nNodes));
}
