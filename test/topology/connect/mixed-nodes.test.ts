/**
 * Communicators that golden data does not have: nodes of different sizes, ranks spread over nodes in any order, any
 * number of orders and patterns, checked for what must always hold.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ConnectedCommunicator, connectCommunicator } from '#src/topology/connect/communicator.js';
import type { DomainInfo } from '#src/topology/connect/domain.js';
import { Pattern } from '#src/topology/search/graph.js';
import { topologySettings } from '#src/topology/settings.js';
import { madeGraphs, madeSystem, ONE_NIC, upTo } from './machines.js';

interface Shape {
  /** GPUs of each node. */
  readonly sizes: readonly number[];
  /** Number of channels that each node found. */
  readonly channels: readonly number[];
  readonly patterns: readonly Pattern[];
  readonly crossNic: readonly number[];
  /** Makes orders and, where ranks are spread, who is where. */
  readonly seed: number;
  readonly spread: boolean;
}

const shapes: fc.Arbitrary<Shape> = fc.integer({ min: 1, max: 9 }).chain((nodes) => {
  const perNode = <T>(value: fc.Arbitrary<T>) => fc.array(value, { minLength: nodes, maxLength: nodes });
  return fc.record({
    sizes: perNode(fc.integer({ min: 1, max: 9 })),
    channels: perNode(fc.integer({ min: 1, max: 6 })),
    patterns: perNode(fc.constantFrom(Pattern.BALANCED_TREE, Pattern.SPLIT_TREE, Pattern.TREE)),
    crossNic: perNode(fc.constantFrom(0, 1, 2)),
    seed: fc.integer({ min: 1, max: 1 << 30 }),
    spread: fc.boolean(),
  });
});

/** Random orders by a linear congruence: the shape alone decides them. */
function shuffler(seed: number) {
  let state = seed;
  const below = (count: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * count);
  };
  return <T>(items: readonly T[]): T[] => {
    const left = [...items];
    return items.map(() => left.splice(below(left.length), 1)[0]!);
  };
}

function domainsOf({ sizes, channels, patterns, crossNic, seed, spread }: Shape): DomainInfo[] {
  const shuffled = shuffler(seed);
  const nRanks = sizes.reduce((sum, size) => sum + size, 0);
  const ranks = spread ? shuffled(upTo(nRanks)) : upTo(nRanks);
  let first = 0;
  return sizes.map((size, m) => {
    const own = ranks.slice(first, first + size).sort((a, b) => a - b);
    first += size;
    const orders = () => upTo(channels[m]!).map(() => shuffled(own));
    const graphs = madeGraphs({
      ring: orders(),
      tree: orders(),
      treePattern: size === 1 ? Pattern.TREE : patterns[m]!,
      crossNic: crossNic[m]!,
      collnetChain: orders(),
      collnetDirect: orders(),
      nvls: shuffled(own).map((head) => [head]),
    });
    const system = madeSystem(size);
    for (const gpu of system.nodes.GPU) Object.assign(gpu, { rank: own[gpu.index]! });
    return { ranks: own, rankOffset: 0, system, graphs, nets: own.map(() => ONE_NIC) };
  });
}

const settings = topologySettings();
const connected = (shape: Shape) => connectCommunicator({ domains: domainsOf(shape), settings });
const holds = (check: (comm: ConnectedCommunicator, shape: Shape, domains: DomainInfo[]) => void) =>
  fc.assert(
    fc.property(shapes, (shape) => check(connected(shape), shape, domainsOf(shape))),
    { numRuns: 150 },
  );

describe('nodes of any sizes and ranks in any order', () => {
  it('counts a node for each domain, numbered by first appearance, local ranks ascending [C03-25] [C02-02]', () => {
    holds((comm, { sizes }, domains) => {
      expect(comm.nNodes).toBe(sizes.length);
      expect([comm.minLocalRanks, comm.maxLocalRanks]).toEqual([Math.min(...sizes), Math.max(...sizes)]);
      const order: DomainInfo[] = [];
      for (const rank of upTo(comm.nRanks)) {
        const domain = domains.find(({ ranks }) => ranks.includes(rank))!;
        if (!order.includes(domain)) order.push(domain);
        expect(comm.rankToNode[rank]).toBe(order.indexOf(domain));
        expect(comm.rankToLocalRank[rank]).toBe(domain.ranks.indexOf(rank));
        expect(comm.nodes[comm.rankToNode[rank]!]!.ranks[comm.rankToLocalRank[rank]!]).toBe(rank);
      }
      expect(comm.nodes.map(({ ranks }) => ranks)).toEqual(order.map(({ ranks }) => ranks));
    });
  });

  it('makes rings that visit every rank once, node after node, and close', () => {
    holds((comm) => {
      for (const channel of upTo(comm.nChannels)) {
        const ring = [...comm.ringOf(channel)];
        expect([...ring].sort((a, b) => a - b)).toEqual(upTo(comm.nRanks));
        for (const [i, rank] of ring.entries()) {
          expect(comm.ringPrev[channel * comm.nRanks + ring[(i + 1) % ring.length]!]).toBe(rank);
        }
        const crossings = ring.filter(
          (rank, i) => comm.rankToNode[rank] !== comm.rankToNode[ring[(i + 1) % ring.length]!],
        );
        expect(crossings.length).toBe(comm.nNodes === 1 ? 0 : comm.nNodes);
      }
    });
  });

  it('walks the nodes in the order of the search, pairs of channels exchanged on odd nodes that ask for it', () => {
    holds((comm, shape) => {
      const half = Math.min(...shape.channels);
      expect(comm.searchChannels).toBe(half);
      for (const channel of upTo(comm.nChannels)) {
        const ring = [...comm.ringOf(channel)];
        for (const { index, domain, ranks } of comm.nodes) {
          const { ring: found } = domain.graphs;
          const own = channel % half;
          const swap = half % 2 === 0 && index % 2 === 1 && found.crossNic === 2;
          const order = found.channels[swap ? own + 1 - 2 * (own % 2) : own]!.intra;
          const from = ring.indexOf(order[0]!);
          expect([...ring.slice(from), ...ring.slice(0, from)].slice(0, ranks.length)).toEqual(order);
        }
      }
    });
  });

  it('makes trees over all ranks: one root, every other rank once below its parent, none unreached', () => {
    holds((comm) => {
      const { nRanks, treeUp, treeDown } = comm;
      for (const channel of upTo(comm.nChannels)) {
        const upOf = (rank: number) => treeUp[channel * nRanks + rank]!;
        const roots = upTo(nRanks).filter((rank) => upOf(rank) === -1);
        expect(roots.length).toBe(1);
        const reached: number[] = [];
        const left = roots;
        for (let rank = left.pop(); rank !== undefined; rank = left.pop()) {
          reached.push(rank);
          const at = (channel * nRanks + rank) * 3;
          const downs = [...treeDown.subarray(at, at + 3)];
          const children = downs.filter((child) => child !== -1);
          expect(downs.slice(0, children.length)).toEqual(children);
          for (const child of children) {
            expect(upOf(child)).toBe(rank);
            left.push(child);
          }
        }
        expect(reached.sort((a, b) => a - b)).toEqual(upTo(nRanks));
      }
    });
  });

  it('makes CollNet chains from the network through each node, and NVLS trees of equal heads', () => {
    holds((comm, { sizes }) => {
      const { nRanks, nNodes, collnet, nvls } = comm;
      expect(comm.collnetEnabled).toBe(nNodes >= 2);
      for (const [channel, node] of collnet
        ? upTo(comm.nChannels).flatMap((c) => comm.nodes.map((n) => [c, n] as const))
        : []) {
        const at = channel * nRanks;
        const first = node.ranks.find((rank) => collnet!.chainUp[at + rank] === nRanks)!;
        const chain = [];
        for (let rank = first; rank !== -1; rank = collnet!.chainDown[at + rank]!) chain.push(rank);
        expect(chain.sort((a, b) => a - b)).toEqual(node.ranks);
      }
      expect(nvls!.nHeads).toBe(Math.min(...sizes));
      for (const tree of [0, 1]) {
        for (const head of upTo(nvls!.nHeads)) {
          const ranks = upTo(nRanks).filter((rank) => nvls!.headRank[rank] === head);
          expect(ranks.length).toBe(nNodes);
          const roots = ranks.filter((rank) => nvls!.treeUp[tree * nRanks + rank] === -1);
          expect(roots.length).toBe(1);
          const children: number[] = [];
          for (const rank of ranks) {
            const slots = [
              ...nvls!.treeDown.subarray((tree * nRanks + rank) * 3, (tree * nRanks + rank) * 3 + 3),
            ];
            expect(slots[0]).toBe(nNodes === 1 ? -1 : nRanks + 1 + head);
            for (const child of slots.slice(1)) {
              if (child === -1) continue;
              expect(nvls!.treeUp[tree * nRanks + child]).toBe(rank);
              children.push(child);
            }
          }
          // All but the root are somebody's child, once.
          expect([...children, ...roots].sort((a, b) => a - b)).toEqual(ranks);
        }
      }
    });
  });
});
