/** Send and receive: who meets whom in which round, on which channels, in which parts. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  cutMessage,
  decodeSize,
  encodeSize,
  type P2pLimits,
  p2pBaseChannel,
  p2pSchedule,
  partBounds,
} from '#src/planning/p2p-schedule.js';

/** Ranks of nodes of these sizes. */
function nodesOf(sizes: readonly number[]): number[][] {
  let next = 0;
  return sizes.map((size) => Array.from({ length: size }, () => next++));
}

const show = (rank: number, sizes: readonly number[]) =>
  p2pSchedule(rank, nodesOf(sizes))
    .rounds.map(({ sendPeer, recvPeer }) => `${sendPeer},${recvPeer}`)
    .join(' ');

const sizesOfNodes = fc.array(fc.integer({ min: 1, max: 17 }), { minLength: 1, maxLength: 12 });

describe('the schedule', () => {
  it('is that of NCCL', () => {
    expect(show(1, [4])).toBe('1,1 2,0 3,3 0,2');
    expect(show(0, [2, 2, 2])).toBe('0,0 1,1 2,4 3,5 4,2 5,3');
    expect(show(7, [6, 4])).toBe('7,7 6,6 9,5 8,4 3,1 2,0 1,3 0,2 5,9 4,8');
  });

  it('meets every rank once, in the round in which that rank meets this one', () => {
    fc.assert(
      fc.property(sizesOfNodes, (sizes) => {
        const nodes = nodesOf(sizes);
        const ranks = nodes.flat();
        const rounds = ranks.map((rank) => p2pSchedule(rank, nodes).rounds);
        for (const rank of ranks) {
          const own = rounds[rank]!;
          expect(own[0]).toEqual({ sendPeer: rank, recvPeer: rank });
          expect(new Set(own.map(({ sendPeer }) => sendPeer)).size).toBe(ranks.length);
          expect(own).toHaveLength(ranks.length);
          expect(own.map(({ sendPeer }, round) => rounds[sendPeer]![round]!.recvPeer)).toEqual(
            own.map(() => rank),
          );
        }
      }),
      { numRuns: 40 },
    );
  });

  it('spreads rounds over channels by reversed bits [C02-10]', () => {
    const bases = (rounds: number, channels: number, nNodes: number) =>
      Array.from({ length: rounds }, (_, round) => p2pBaseChannel(round, channels, { groupSize: 8 }, nNodes));
    expect(bases(8, 8, 1)).toEqual([0, 4, 2, 6, 1, 5, 3, 7]);
    expect(bases(16, 16, 1)).toEqual([0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15]);
    // Rounds of a group of eight share their channels where there are several nodes.
    expect(bases(64, 8, 2)).toEqual([0, 4, 2, 6, 1, 5, 3, 7].flatMap((base) => Array(8).fill(base)));
    expect(bases(16, 32, 2)).toEqual([0, 16].flatMap((base) => Array(8).fill(base)));
    expect(p2pBaseChannel(5, 1, { groupSize: 8 }, 1)).toBe(0);
  });
});

describe('a message', () => {
  const one: P2pLimits = {
    nNodes: 1,
    nRanks: 8,
    channels: 32,
    channelsPerPeer: 32,
    stepBytes: 524288,
    llBufferBytes: 524288,
  };
  const several: P2pLimits = {
    ...one,
    nNodes: 2,
    nRanks: 16,
    channels: 16,
    channelsPerPeer: 4,
    stepBytes: 131072,
  };
  const local = { self: false, network: false, ll: true };
  const remote = { self: false, network: true, ll: true };

  it.each([
    [1, 1, 1],
    [65537, 2, 1],
    [200000, 4, 2],
    [2 ** 20, 4, 4],
    [2 ** 26, 4, 4],
    [2 ** 27, 8, 4],
    [2 ** 28, 16, 4],
  ])('of %i bytes takes the channels that NCCL takes', (bytes, inside, across) => {
    expect(cutMessage(bytes, one, local).channels).toBe(inside);
    expect(cutMessage(bytes, several, remote).channels).toBe(across);
  });

  it('is cut at pages, without gap, into parts that its channels hold', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.integer({ min: 0, max: 200_000 }), fc.integer({ min: 0, max: 2 ** 33 })),
        fc.constantFrom(one, several),
        fc.constantFrom(local, remote),
        (bytes, limits, way) => {
          const cut = cutMessage(bytes, limits, way);
          expect(cut.channels).toBeGreaterThan(0);
          expect(cut.channels).toBeLessThanOrEqual(limits.channelsPerPeer);
          const parts = Array.from({ length: cut.channels }, (_, part) => partBounds(bytes, cut, part));
          expect(parts.map(([start]) => start)).toEqual([0, ...parts.slice(0, -1).map(([, end]) => end)]);
          expect(parts.at(-1)![1]).toBe(bytes);
          expect(parts.every(([start]) => start === bytes || start % 4096 === 0)).toBe(true);
          expect(cut.protocol === 'LL').toBe(bytes <= cut.channels * 16384);
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('that is absent takes no channel; an empty one still takes one, to synchronise', () => {
    expect(cutMessage(undefined, one, local).channels).toBe(0);
    expect(cutMessage(0, one, local).channels).toBe(1);
    expect(cutMessage(10, one, { ...local, self: true }).protocol).toBe('Simple');
    expect(cutMessage(10, one, { ...local, ll: false }).protocol).toBe('Simple');
  });

  it('has a chunk whose size fits in 8 bits, rounded down to four digits of it', () => {
    expect([0, 7, 15, 100, 150000, 65536].map((size) => decodeSize(encodeSize(size)))).toEqual([
      0, 7, 15, 96, 147456, 65536,
    ]);
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 30 }), (size) => {
        const code = encodeSize(size);
        expect(code).toBeLessThan(256);
        const decoded = decodeSize(code);
        expect(decoded).toBeLessThanOrEqual(size);
        expect(decoded * 9).toBeGreaterThanOrEqual(size * 8);
      }),
    );
    // Over the network, messages below a step go in quarters, below eight in halves.
    expect(cutMessage(100_000, several, remote).chunkBytes).toBe(32768);
    expect(cutMessage(500_000, several, remote).chunkBytes).toBe(65536);
    expect(cutMessage(2 ** 22, several, remote).chunkBytes).toBe(131072);
    expect(cutMessage(2 ** 22, { ...several, chunkBytes: 100 }, remote).chunkBytes).toBe(96);
  });
});
