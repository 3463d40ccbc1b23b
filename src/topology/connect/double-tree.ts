/**
 * Two binary trees over the same nodes such that a leaf of one works inside the other: each carries half of the data,
 * and together they use both directions of every link.
 *
 * The second tree is the first one mirrored (even count: no node is inside in both) or shifted by one (odd count: a
 * mirror would leave the middle node a leaf twice). (NCCL 2.30.7, trees.cc; Sanders, Speck, Träff 2009.)
 */
import { binaryTree, type TreePlace } from './binary-tree.js';

/** Places of `node` in both trees over nodes 0..count-1. */
export function doubleTree(count: number, node: number): readonly [TreePlace, TreePlace] {
  const first = binaryTree(count, node);
  const second =
    count % 2 === 0
      ? mapped(binaryTree(count, count - 1 - node), (other) => count - 1 - other)
      : mapped(binaryTree(count, (node - 1 + count) % count), (other) => (other + 1) % count);
  return [first, second];
}

function mapped({ parent, child0, child1, childType }: TreePlace, to: (node: number) => number): TreePlace {
  const map = (node: number) => (node === -1 ? -1 : to(node));
  return { parent: map(parent), child0: map(child0), child1: map(child1), childType };
}
