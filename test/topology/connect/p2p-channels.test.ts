import { describe, expect, it } from 'vitest';
import type { ConnectConfig } from '#src/topology/connect/config.js';
import { channelsPerPeer, type P2pFacts, p2pChannels } from '#src/topology/connect/p2p-channels.js';
import { type Environment, topologySettings } from '#src/topology/settings.js';
import { PathType } from '#src/topology/system/path-type.js';
import { madeSystem, ONE_NIC, type SystemOptions, upTo } from './machines.js';

const perPeer = (
  options: SystemOptions,
  nets?: { minBandwidth: number; count: number; total: number },
  env: Environment = {},
  config: ConnectConfig = {},
  count = 4,
) => {
  const system = madeSystem(count, options);
  const outside = nets === undefined ? undefined : { nets };
  return channelsPerPeer(system, system.nodes.GPU[0]!, outside, topologySettings(env), config);
};

const path = (type: PathType, bandwidth: number) => ({
  gpuPath: () => ({ type, bandwidth: Math.fround(bandwidth) }),
});

describe('channels for one peer', () => {
  it('are two per NVLink of the own generation, at least two', () => {
    expect(perPeer(path(PathType.NVL, 370.8))).toBe(36);
    expect(perPeer({ sm: 80, ...path(PathType.NVL, 240) })).toBe(24);
    expect(perPeer({ sm: 86, ...path(PathType.NVL, 48) })).toBe(8);
    expect(perPeer({ sm: 80, ...path(PathType.NVB, 50) })).toBe(4);
    expect(perPeer({ sm: 80, ...path(PathType.NVL, 10) })).toBe(2);
  });

  it('are two where NVLink does not lead, and the fewest that a peer allows', () => {
    expect(perPeer(path(PathType.PIX, 48))).toBe(2);
    const mesh = (from: number, to: number) => {
      expect(from).not.toBe(to);
      return { type: PathType.NVL, bandwidth: from === 2 ? 20 : 80 };
    };
    expect(perPeer({ sm: 80, gpuPath: mesh })).toBe(2);
    // The way from the peer counts, not the way to it.
    const toPeer = (_: number, to: number) => ({ type: PathType.NVL, bandwidth: to === 2 ? 20 : 80 });
    expect(perPeer({ sm: 80, gpuPath: toPeer })).toBe(8);
  });

  it('follow the NICs for peers outside: their number, or one per 14 GB/s', () => {
    const nvlink = path(PathType.NVL, 370.8);
    expect(perPeer(nvlink, ONE_NIC)).toBe(4);
    expect(perPeer(nvlink, { minBandwidth: 12.5, count: 1, total: 12.5 })).toBe(1);
    expect(perPeer(nvlink, { minBandwidth: 1.25, count: 3, total: 3.75 })).toBe(3);
    expect(perPeer(nvlink, { minBandwidth: 14.5, count: 1, total: 14.5 })).toBe(1);
    expect(perPeer(nvlink, { minBandwidth: 15, count: 1, total: 15 })).toBe(2);
    expect(perPeer(nvlink, { minBandwidth: 0, count: 0, total: 0 })).toBe(2);
    expect(perPeer(nvlink, ONE_NIC, { NCCL_P2P_PER_CHANNEL_NET_BW: '7' })).toBe(7);
    expect(perPeer(nvlink, ONE_NIC, {}, { nChannelsPerNetPeer: 9 })).toBe(9);
    const wanted = { NCCL_NCHANNELS_PER_NET_PEER: '5' };
    expect(perPeer(nvlink, ONE_NIC, wanted, { nChannelsPerNetPeer: 9 })).toBe(5);
    expect(perPeer(path(PathType.PIX, 48), ONE_NIC)).toBe(2);
  });

  it('are 64 for a rank without peers', () => {
    expect(perPeer({}, undefined, {}, {}, 1)).toBe(64);
    expect(perPeer({}, ONE_NIC, {}, {}, 1)).toBe(4);
  });
});

const FACTS: P2pFacts = { nRanks: 8, nNodes: 1, nChannels: 24, perPeer: 36 };

const counts = (facts: Partial<P2pFacts>, env: Environment = {}, config: ConnectConfig = {}) => {
  const lines: string[] = [];
  const settings = topologySettings(env);
  const {
    nChannels,
    perPeer: each,
    maxPeers,
  } = p2pChannels({ ...FACTS, ...facts }, settings, config, (_l, _s, text) => lines.push(text));
  return { counts: [nChannels, each, maxPeers], lines };
};

describe('P2P channels of a communicator', () => {
  it('are the next powers of two; a peer of one node may have them all', () => {
    expect(counts({})).toEqual({ counts: [32, 32, 8], lines: [] });
    expect(counts({ nChannels: 4, perPeer: 2 }).counts).toEqual([4, 2, 8]);
    expect(counts({ nChannels: 64, perPeer: 64, nRanks: 1 }).counts).toEqual([64, 64, 1]);
    expect(counts({ nChannels: 64, perPeer: 3 }).counts).toEqual([64, 4, 8]);
  });

  it('are shared out among batches of 8 peers over several nodes', () => {
    const line = (peers: number) => [`Tuning P2P operations with maxP2pPeers = ${peers}`];
    const of = (nRanks: number, nChannels: number, each: number) =>
      counts({ nRanks, nNodes: 2, nChannels, perPeer: each });
    expect(of(16, 16, 4)).toEqual({ counts: [16, 4, 16], lines: line(16) });
    expect(of(64, 16, 4).counts).toEqual([16, 2, 64]);
    expect(of(1024, 16, 4).counts).toEqual([16, 1, 1024]);
    expect(of(9, 16, 16).counts).toEqual([16, 8, 9]);
    expect(of(8, 16, 16).counts).toEqual([16, 16, 8]);
  });

  it('heed the peers that configuration or environment name', () => {
    const nodes = { nNodes: 2, nRanks: 64, nChannels: 16, perPeer: 4 };
    expect(counts(nodes, {}, { maxP2pPeers: 16 }).counts).toEqual([16, 4, 16]);
    expect(counts(nodes, {}, { maxP2pPeers: 100 }).counts).toEqual([16, 2, 64]);
    expect(counts(nodes, { NCCL_P2P_MAX_PEERS: '16' }, { maxP2pPeers: 64 }).counts).toEqual([16, 4, 16]);
    const configured = counts({ ...nodes, perPeer: 9 }, {}, { nChannelsPerNetPeer: 9 });
    expect(configured).toEqual({ counts: [16, 16, 64], lines: [] });
    expect(counts({ ...nodes, perPeer: 9 }, { NCCL_NCHANNELS_PER_NET_PEER: '9' })).toEqual(configured);
  });

  it('heed bounds, the parent and the size of arguments', () => {
    expect(counts({}, { NCCL_MAX_P2P_NCHANNELS: '10' }).counts).toEqual([16, 16, 8]);
    expect(counts({}, { NCCL_MIN_P2P_NCHANNELS: '40' }).counts).toEqual([64, 64, 8]);
    expect(counts({}, { NCCL_WORK_ARGS_BYTES: '352' }).counts).toEqual([16, 16, 8]);
    const parent = { nChannels: 24, nvlsChannels: 16, p2pnChannels: 16 };
    expect(counts({}, { NCCL_MIN_P2P_NCHANNELS: '40' }, { parent }).counts).toEqual([16, 16, 8]);
  });

  it('are powers of two whatever comes in', () => {
    for (const nChannels of upTo(64)) {
      for (const each of [1, 3, 9, 36, 64]) {
        for (const nNodes of [1, 3]) {
          const [all, peer] = counts({ nChannels: nChannels + 1, perPeer: each, nNodes, nRanks: 24 }).counts;
          for (const value of [all!, peer!]) expect(Math.log2(value) % 1).toBe(0);
          expect(peer).toBeLessThanOrEqual(all!);
          expect(all).toBeGreaterThanOrEqual(nChannels + 1);
        }
      }
    }
  });
});
