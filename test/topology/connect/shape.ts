/** A connected communicator in the shape of a golden file. */
import type { ConnectedCommunicator } from '#src/topology/connect/communicator.js';
import type { GoldenNvls, GoldenParts, GoldenRings } from '../golden/format.js';
import { alignedShape } from '../golden/shape.js';

/** The parts of a golden file that the connection of channels decides. */
export function communicatorShape(
  comm: ConnectedCommunicator,
): Required<Pick<GoldenParts, 'aligned' | 'comm' | 'channels'>> & Pick<GoldenParts, 'nvlsChannelsInfo'> {
  const { ring, tree, collnetChain, collnetDirect, nvls } = comm.aligned;
  return {
    aligned: {
      ring: alignedShape(ring),
      tree: alignedShape(tree),
      collnetChain: alignedShape(collnetChain),
      collnetDirect: alignedShape(collnetDirect),
      nvls: alignedShape(nvls),
    },
    comm: {
      nNodes: comm.nNodes,
      nChannels: comm.nChannels,
      collChannels: comm.nChannels,
      nvlsSupport: Number(comm.nvls !== undefined),
      nvlsChannels: comm.nvls?.nChannels ?? 0,
      nvlsChunkSize: comm.nvls?.chunkSize ?? 0,
      nvlsTreeMaxChunkSize: comm.nvls?.treeMaxChunkSize ?? 0,
      p2pnChannels: comm.p2pnChannels,
      p2pnChannelsPerPeer: comm.p2pnChannelsPerPeer,
      p2pMaxPeers: comm.p2pMaxPeers,
      isAllNvlink: Number(comm.isAllNvlink),
      isAllDirectNvlink: Number(comm.isAllDirectNvlink),
      minNetBw: comm.minNetBw,
      minNetCount: comm.minNetCount,
      cpuArch: comm.cpuArch,
      cpuVendor: comm.cpuVendor,
      maxTreePattern: comm.maxTreePattern,
      minLocalRanks: comm.minLocalRanks,
      maxLocalRanks: comm.maxLocalRanks,
      collnetEnable: Number(comm.collnetEnabled),
      rankToNode: [...comm.rankToNode],
    },
    channels: Array.from({ length: comm.nChannels }, (_, channel) => channelShape(comm, channel)),
    ...(comm.nvls === undefined ? {} : { nvlsChannelsInfo: nvlsShape(comm) }),
  };
}

function channelShape(comm: ConnectedCommunicator, channel: number): GoldenRings {
  const { nRanks, collnet } = comm;
  const ofRanks = (values: Int32Array) => [...values.subarray(channel * nRanks, (channel + 1) * nRanks)];
  const ring = [...comm.ringOf(channel)];
  const [prev, next] = [ofRanks(comm.ringPrev), ofRanks(comm.ringNext)];
  const shape = {
    ring,
    ringPrevNextConsistent: ring.every((rank, i) => {
      const following = ring[(i + 1) % nRanks]!;
      return next[rank] === following && prev[following] === rank;
    }),
    treeUp: ofRanks(comm.treeUp),
    treeDown: triples(comm.treeDown, channel, nRanks),
    treeDepth: comm.treeDepth,
  };
  if (collnet === undefined) return shape;
  const [up, down] = [ofRanks(collnet.chainUp), ofRanks(collnet.chainDown)];
  return {
    ...shape,
    collnetChain: up.map((before, rank) => [before, down[rank]!]),
    ...(collnet.direct === undefined
      ? {}
      : { collnetDirect: up.map((_, rank) => ({ ...collnet.direct!(rank) })) }),
  };
}

function nvlsShape({ nRanks, nvls }: ConnectedCommunicator): GoldenNvls {
  const { nHeads, headRank, treeUp, treeDown } = nvls!;
  return {
    nHeads,
    headRank: [...headRank],
    treeUp0: [...treeUp.subarray(0, nRanks)],
    treeDown0: triples(treeDown, 0, nRanks),
    treeUp1: [...treeUp.subarray(nRanks)],
    treeDown1: triples(treeDown, 1, nRanks),
  };
}

const triples = (values: Int32Array, block: number, nRanks: number): number[][] =>
  Array.from({ length: nRanks }, (_, rank) => {
    const at = (block * nRanks + rank) * 3;
    return [...values.subarray(at, at + 3)];
  });
