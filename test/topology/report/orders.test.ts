/** Texts of rings and trees, read back into the orders that they stand for. */
import { describe, expect, it } from 'vitest';
import type { ConnectedCommunicator } from '#src/topology/connect/communicator.js';
import { ringOrders, ringText, type TreeOrder, treeOrders, treeText } from '#src/topology/report/orders.js';
import { randomMachine } from '../random-machine.js';
import { clusterOf, goldenDocument } from './clusters.js';

const ALL = { words: Number.POSITIVE_INFINITY, joins: false };
const JOINED = { words: Number.POSITIVE_INFINITY, joins: true };

/** Ranks that a word stands for: `3`, or `7..1`. */
function ranksOf(word: string): number[] {
  const [from, to = from] = word.split('..').map(Number) as [number, number?];
  const step = to! < from ? -1 : 1;
  return Array.from({ length: Math.abs(to! - from) + 1 }, (_, at) => from + at * step);
}

const readRing = (text: string): number[] =>
  text
    .split(' ')
    .filter((word) => word !== '|')
    .flatMap(ranksOf);

/** Parent of each rank, as brackets say it. */
function readTree(text: string, nRanks: number): number[] {
  const up = new Array<number>(nRanks).fill(-2);
  const open: number[] = [];
  let above = -1;
  for (const token of text.match(/[()]|[\d.]+/g) ?? []) {
    if (token === '(') open.push(above);
    else if (token === ')') above = open.pop()!;
    else {
      for (const rank of ranksOf(token)) {
        up[rank] = above;
        above = rank;
      }
    }
  }
  return up;
}

function check(comm: ConnectedCommunicator, what: string): void {
  const rings = ringOrders(comm);
  const trees = treeOrders(comm);
  for (const orders of [rings, trees]) {
    const channels = orders.flatMap((order) => order.channels).sort((a, b) => a - b);
    expect(channels, what).toEqual(Array.from({ length: comm.nChannels }, (_, channel) => channel));
  }
  for (const ring of rings) {
    for (const channel of ring.channels) expect(ring.order, what).toEqual(comm.ringOf(channel));
    for (const limits of [ALL, JOINED]) {
      const text = ringText(ring, comm.rankToNode, limits);
      expect(readRing(text), what).toEqual([...ring.order]);
      const changes = [...ring.order].filter(
        (rank, at) => at > 0 && comm.rankToNode[ring.order[at - 1]!] !== comm.rankToNode[rank],
      ).length;
      expect(text.split('|').length - 1, what).toBe(changes);
    }
  }
  for (const tree of trees) {
    for (const channel of tree.channels) {
      const up = comm.treeUp.slice(channel * comm.nRanks, (channel + 1) * comm.nRanks);
      expect(tree.up, what).toEqual(up);
    }
    for (const limits of [ALL, JOINED]) {
      expect(readTree(treeText(tree, comm.rankToNode, limits), comm.nRanks), what).toEqual([...tree.up]);
    }
  }
}

describe('texts of rings and trees', () => {
  it.each([
    ['azure-ndv5-h100x8-8x400g', 1],
    ['azure-ndv5-h100x8-8x400g', 6],
    ['dgx1-v100x8-4x100g', 3],
    ['l20-x8-cx8', 2],
    ['gh200-x1-1x400g', 5],
  ])('of golden machine %s on %i nodes stand for the orders, every channel once', (name, nodes) => {
    check(clusterOf(goldenDocument(name), nodes).cluster.comm, name);
  });

  it('of random machines stand for the orders', () => {
    for (let seed = 0; seed < 10; seed++) {
      const { xml, text } = randomMachine(seed);
      for (const nodes of [1, 3]) {
        // Several nodes need a NIC each.
        if (nodes > 1 && /no NIC/.test(text)) continue;
        let comm: ConnectedCommunicator;
        try {
          ({ comm } = clusterOf(xml, nodes).cluster);
        } catch {
          continue; // a machine that NCCL refuses too
        }
        check(comm, text);
      }
    }
  });

  const ring = (order: readonly number[]) => ({ channels: [0], order: Int32Array.from(order) });
  const nodeOf = (perNode: number, nRanks: number) =>
    Int32Array.from({ length: nRanks }, (_, rank) => Math.floor(rank / perNode));

  it('join runs of four or more ranks, up or down, but not across nodes', () => {
    const { order } = ring([0, 7, 6, 5, 4, 3, 2, 1, 8, 9, 10, 11, 13, 12, 15, 14]);
    expect(ringText(ring([...order]), nodeOf(8, 16), JOINED)).toBe('0 7..1 | 8..11 13 12 15 14');
    expect(ringText(ring([0, 1, 2, 3, 4, 5]), nodeOf(3, 6), JOINED)).toBe('0 1 2 | 3 4 5');
  });

  it('say how many ranks they leave out', () => {
    const limits = { words: 3, joins: false };
    expect(ringText(ring([0, 1, 2, 3, 4, 5]), nodeOf(2, 6), limits)).toBe('0 1 | 2 ... 3 more');
    const chain: TreeOrder = {
      channels: [0],
      root: 2,
      up: Int32Array.of(2, 0, -1, 2, 3),
      below: (rank) => ({ 2: [0, 3], 0: [1], 3: [4] })[rank] ?? [],
    };
    expect(treeText(chain, nodeOf(5, 5), ALL)).toBe('2 (0 1) (3 4)');
    expect(treeText(chain, nodeOf(2, 5), ALL)).toBe('2 (| 0 1) (3 | 4)');
    expect(treeText(chain, nodeOf(5, 5), { words: 2, joins: false })).toBe('2 (0) ... 3 more');
    expect(treeText(chain, nodeOf(5, 5), { words: 1, joins: false })).toBe('2 ... 4 more');
  });
});
