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

/**
 * The different rings, by first channel.
 *
 * @param mark tells apart rings that have the same order but differ in something else, such as their NICs
 */
export function ringOrders(
  comm: ConnectedCommunicator,
  mark: (channel: number, order: Int32Array) => string = () => '',
): (RingOrder & { readonly mark: string })[] {
  const rings: { channels: number[]; order: Int32Array; mark: string }[] = [];
  for (let channel = 0; channel < comm.nChannels; channel++) {
    const order = comm.ringOf(channel);
    const own = mark(channel, order);
    const same = rings.find((ring) => ring.mark === own && isEqual(ring.order, order));
    if (same === undefined) rings.push({ channels: [channel], order, mark: own });
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

/** Ranks that follow each other by one, up or down, are joined from this many on: `7..1`. */
const SHORTEST_RUN = 4;

/** What orders are cut to. */
export interface OrderLimits {
  /** Ranks, or runs of them, at most. */
  readonly words: number;
  /** Join runs of ranks. */
  readonly joins: boolean;
}

/** Ranks of a ring with bars where it goes to another node: `0 1 2 3 | 4 5 6 7`. */
export function ringText({ order }: RingOrder, rankToNode: Int32Array, limits: OrderLimits): string {
  const words: string[] = [];
  let part: number[] = [];
  let shown = 0;
  let room = limits.words;
  const close = () => {
    for (const { text, ranks } of runsOf(part, limits.joins)) {
      if (room <= 0) return;
      words.push(text);
      shown += ranks;
      room -= 1;
    }
    part = [];
  };
  for (const [at, rank] of order.entries()) {
    if (at > 0 && rankToNode[order[at - 1]!] !== rankToNode[rank]) {
      close();
      if (room <= 0) break;
      words.push('|');
    }
    part.push(rank);
  }
  close();
  const hidden = order.length - shown;
  return words.join(' ') + (hidden > 0 ? ` ... ${hidden} more` : '');
}

/**
 * A tree as chains; a rank with several below it opens a bracket for each, bars stand where it goes to another node:
 * `0 (1 2 3) (| 4 5 6 7)`.
 */
export function treeText(tree: TreeOrder, rankToNode: Int32Array, limits: OrderLimits): string {
  let room = limits.words;
  let hidden = 0;
  const write = (start: number, above: number): string => {
    const parts: number[][] = [[]];
    let before = above;
    let length = 0;
    let below: readonly number[] = [start];
    for (; below.length === 1 && length <= tree.up.length; length++) {
      const rank = below[0]!;
      if (before !== -1 && rankToNode[before] !== rankToNode[rank]) parts.push([]);
      parts.at(-1)!.push(rank);
      before = rank;
      below = tree.below(rank);
    }
    const words: string[] = [];
    let shown = 0;
    for (const [at, part] of parts.entries()) {
      if (at > 0 && room > 0) words.push('|');
      for (const { text, ranks } of runsOf(part, limits.joins)) {
        if (room <= 0) break;
        words.push(text);
        shown += ranks;
        room -= 1;
      }
    }
    hidden += length - shown;
    for (const child of below) {
      if (room <= 0) hidden += countBelow(tree, child);
      else words.push(`(${write(child, before)})`);
    }
    return words.join(' ');
  };
  const text = write(tree.root, -1);
  return hidden > 0 ? `${text} ... ${hidden} more` : text;
}

/** Ranks as words; if wanted, long runs by one up or down are one word. */
function runsOf(ranks: readonly number[], joins: boolean): { text: string; ranks: number }[] {
  const words: { text: string; ranks: number }[] = [];
  for (let at = 0; at < ranks.length; ) {
    const step = (ranks[at + 1] ?? Number.NaN) - ranks[at]!;
    let end = at;
    if (joins && Math.abs(step) === 1) {
      while (end + 1 < ranks.length && ranks[end + 1]! - ranks[end]! === step) end += 1;
    }
    if (end - at + 1 < SHORTEST_RUN) {
      words.push({ text: `${ranks[at]}`, ranks: 1 });
      at += 1;
    } else {
      words.push({ text: `${ranks[at]}..${ranks[end]}`, ranks: end - at + 1 });
      at = end + 1;
    }
  }
  return words;
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
