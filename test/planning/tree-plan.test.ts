/** Trees over emulated nodes: whole, consistent, of few children, and different roots; shares without gap or overlap. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConnectionPool } from '#src/planning/connection-pool.js';
import { treeAlgorithm, treeNeighbours, treeShares } from '#src/planning/tree-plan.js';
import { Pattern } from '#src/topology/search/graph.js';

const shapes = fc.record({
  ranks: fc.integer({ min: 1, max: 70 }),
  perNode: fc.integer({ min: 1, max: 9 }),
  pattern: fc.constantFrom(Pattern.TREE, Pattern.BALANCED_TREE, Pattern.SPLIT_TREE),
  which: fc.constantFrom(0 as const, 1 as const),
});

describe('trees', () => {
  it('join all ranks, each child knows its parent, and nobody has more than three children', () => {
    fc.assert(
      fc.property(shapes, ({ ranks, perNode, pattern, which }) => {
        const places = Array.from({ length: ranks }, (_, rank) =>
          treeNeighbours({ ranks, perNode }, rank, which, pattern),
        );
        const roots = places.flatMap(({ parent }, rank) => (parent === -1 ? [rank] : []));
        expect(roots).toHaveLength(1);
        const seen = new Set<number>();
        const visit = (rank: number) => {
          expect(seen.has(rank)).toBe(false);
          seen.add(rank);
          const { children } = places[rank]!;
          expect(children.length).toBeLessThanOrEqual(3);
          for (const child of children) {
            expect(places[child]!.parent).toBe(rank);
            visit(child);
          }
        };
        visit(roots[0]!);
        expect(seen.size).toBe(ranks);
      }),
    );
  });

  it('make a leaf of one tree an inner rank of the other where every rank is a node, but for one', () => {
    for (let ranks = 3; ranks <= 40; ranks++) {
      const leaf = (rank: number, which: 0 | 1) =>
        treeNeighbours({ ranks, perNode: 1 }, rank, which).children.length === 0;
      const both = Array.from({ length: ranks }, (_, rank) => rank).filter((r) => leaf(r, 0) && leaf(r, 1));
      expect(both.length).toBeLessThanOrEqual(1);
    }
  });

  it('have different roots [C10-12]', () => {
    for (let ranks = 2; ranks <= 40; ranks++) {
      const root = (which: 0 | 1) =>
        Array.from({ length: ranks }, (_, rank) => rank).find(
          (rank) => treeNeighbours({ ranks, perNode: 1 }, rank, which).parent === -1,
        );
      expect(root(0)).not.toBe(root(1));
    }
  });

  it('are these over eight ranks, and over four nodes of two', () => {
    const edges = (ranks: number, perNode: number, which: 0 | 1) =>
      Array.from({ length: ranks }, (_, rank) => treeNeighbours({ ranks, perNode }, rank, which).children);
    expect(edges(8, 1, 0)).toEqual([[4], [], [1, 3], [], [2, 6], [], [5, 7], []]);
    expect(edges(8, 1, 1)).toEqual([[], [2, 0], [], [5, 1], [], [6, 4], [], [3]]);
    // Chains 0-1, 2-3, 4-5, 6-7; the first child of a node hangs at its second rank.
    expect(edges(8, 2, 0)).toEqual([[1, 4], [], [3], [], [5, 6], [2], [7], []]);
  });
});

describe('shares', () => {
  it('cover every element once, small data in one channel', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.nat(5000), fc.nat(10_000_000)),
        fc.constantFrom(1, 2, 4, 8),
        fc.integer({ min: 1, max: 5 }),
        fc.constantFrom('LL' as const, 'Simple' as const),
        (count, size, channels, protocol) => {
          const setting = { ranks: 4, perNode: 1, channels, protocol, slotBytes: 4096 };
          const shares = treeShares(setting, size, count);
          expect(shares).toHaveLength(2 * channels);
          let at = 0;
          for (const share of shares) {
            expect(share.offset).toBe(at);
            at += share.count;
          }
          expect(at).toBe(count);
          if (count * size <= 8192) expect(shares[0]!.count).toBe(count);
        },
      ),
    );
  });
});

describe('pools', () => {
  it('hold every structure apart from the others, where both sides of a connection look for it', () => {
    fc.assert(
      fc.property(shapes, fc.integer({ min: 1, max: 2 }), ({ ranks, perNode, pattern }, channels) => {
        const setting = { ranks, perNode, channels, protocol: 'Simple' as const, slotBytes: 1024 };
        const algorithm = treeAlgorithm('split', pattern);
        for (let rank = 0; rank < ranks; rank++) {
          const connections = algorithm.connections(setting, rank);
          const pool = new ConnectionPool(connections, setting.slotBytes);
          const ranges = [
            ...connections.sends.map(({ channel, peer }) => [pool.sender(channel, peer), 4096] as const),
            ...connections.receives.map(
              ({ channel, peer }) => [pool.receiver(channel, peer), 4096 + 8 * 1024] as const,
            ),
          ].sort(([a], [b]) => a - b);
          let at = 0;
          for (const [from, bytes] of ranges) {
            expect(from % 4096).toBe(0);
            expect(from).toBeGreaterThanOrEqual(at);
            at = from + bytes;
          }
          expect(at).toBeLessThanOrEqual(pool.bytes);
          for (const { channel, peer } of connections.sends) {
            const other = algorithm.connections(setting, peer).receives;
            expect(other).toContainEqual({ channel, peer: rank });
          }
        }
      }),
      { numRuns: 40 },
    );
  });
});
