/**
 * A binary tree over numbered nodes in which every node finds its neighbours by bit arithmetic alone.
 *
 * The level of a node is its lowest set bit: odd numbers are leaves, multiples of a high power of two are near the
 * root, 0 is the root. Nothing is stored, so a communicator of any size costs nothing here. (NCCL 2.30.7, trees.cc.)
 */

/** Neighbours of one node; -1 where there is none. */
export interface TreePlace {
  readonly parent: number;
  readonly child0: number;
  readonly child1: number;
  /** Which child of its parent this node is; 0 for the root, where it has no meaning. */
  readonly childType: 0 | 1;
}

/** Place of `node` in the tree over nodes 0..count-1. */
export function binaryTree(count: number, node: number): TreePlace {
  if (node === 0) {
    let power = 1;
    while (power < count) power *= 2;
    return { parent: -1, child0: -1, child1: count > 1 ? power / 2 : -1, childType: 0 };
  }
  const bit = node & -node;
  const upper = (node ^ bit) | (bit * 2);
  const parent = upper < count ? upper : node ^ bit;
  let half = bit >> 1;
  const child0 = half === 0 ? -1 : node - half;
  // The upper child moves down the levels until it exists.
  while (half !== 0 && node + half >= count) half >>= 1;
  return { parent, child0, child1: half === 0 ? -1 : node + half, childType: node < parent ? 0 : 1 };
}
