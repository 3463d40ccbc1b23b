/**
 * Rings and trees of a communicator as people read them: channels with the same order are listed once.
 */
import type { ConnectedCommunicator } from '../connect/communicator.js';

/** Down slots of a rank in a tree. */
const TREE_ARITY = 3;

/** A ring, from rank 0 on, and the channels that have it. */
export interface RingOrder {
  readonly channels: readonly number[];
  readonly order: Int32Array;
}

/** A tree as parent of each rank (-1 at the root) and the channels that have it. */
export interface TreeOrder {
  readonly channels: readonly number[];
  readonly root: number;
  /** By rank. */
  readonly up: Int32Array;
  /** Ranks below a rank, in NCCL's order. */
  below(rank: number): readonly number[];
}

/** The different rings, by first channel. */
export function ringOrders(comm: ConnectedCommunicator): RingOrder[] {
  const rings: { channels: number[]; order: Int32Array }[] = [];
  for (let channel = 0; channel < comm.nChannels; channel++) {
    const order = comm.ringOf(channel);
    const same = rings.find((ring) => isEqual(ring.order, order));
    if (same === undefined) rings.push({ channels: [channel], order });
    else same.channels.push(channel);
  }
  return rings;
}

/** The different trees, by first channel. */
export function treeOrders({ nChannels, nRanks, treeUp, treeDown }: ConnectedCommunicator): TreeOrder[] {
  const trees: { channels: number[]; up: Int32Array; down: Int32Array }[] = [];
  for (let channel = 0; channel < nChannels; channel++) {
    const up = treeUp.subarray(channel * nRanks, (channel + 1) * nRanks);
    const down = treeDown.subarray(channel * nRanks * TREE_ARITY, (channel + 1) * nRanks * TREE_ARITY);
    const same = trees.find((tree) => isEqual(tree.up, up) && isEqual(tree.down, down));
    if (same === undefined) trees.push({ channels: [channel], up, down });
    else same.channels.push(channel);
  }
  return trees.map(({ channels, up, down }) => ({
    channels,
    up,
    root: up.indexOf(-1),
    below: (rank) =>
      [...down.subarray(rank * TREE_ARITY, (rank + 1) * TREE_ARITY)].filter((child) => child !== -1),
  }));
}

function isEqual(a: Int32Array, b: Int32Array): boolean {
  return a.length === b.length && a.every((value, at) => value === b[at]);
}

/** Ranks of a ring with bars where it goes to another node: `0 1 2 3 | 4 5 6 7`. */
export function ringText({ order }: RingOrder, rankToNode: Int32Array, most: number): string {
  const words: string[] = [];
  for (const [at, rank] of order.entries()) {
    if (words.length >= most) {
      words.push(`... ${order.length - at} more`);
      break;
    }
    if (at > 0 && rankToNode[order[at - 1]!] !== rankToNode[rank]) words.push('|');
    words.push(`${rank}`);
  }
  return words.join(' ');
}

/** A tree as chains; a rank with several below it opens a bracket for each: `0 (1 2 3) (4 5 6 7)`. */
export function treeText(tree: TreeOrder, most: number): string {
  let left = most;
  let hidden = 0;
  const write = (start: number): string => {
    const words: string[] = [];
    for (let rank: number | undefined = start; rank !== undefined; ) {
      if (left <= 0) {
        hidden += countBelow(tree, rank);
        break;
      }
      left -= 1;
      words.push(`${rank}`);
      const below: readonly number[] = tree.below(rank);
      if (below.length > 1) {
        for (const child of below) {
          const branch = write(child);
          if (branch !== '') words.push(`(${branch})`);
        }
        break;
      }
      rank = below[0];
    }
    return words.join(' ');
  };
  const text = write(tree.root);
  return hidden > 0 ? `${text} ... ${hidden} more` : text;
}

/** Ranks of a subtree; a loop, which no tree has, is not followed for ever. */
function countBelow(tree: TreeOrder, root: number): number {
  let count = 0;
  const open = [root];
  for (let rank = open.pop(); rank !== undefined && count <= tree.up.length; rank = open.pop()) {
    count += 1;
    open.push(...tree.below(rank));
  }
  return count;
}
