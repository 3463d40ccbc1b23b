/**
 * How many channels send and receive use, in all and for one peer.
 *
 * A peer over NVLink gets two channels per link, a peer over the network as many as its NICs can feed. Both counts
 * are powers of two, because ranks find each other's channels by bit operations. (NCCL 2.30.7, paths.cc and init.cc.)
 */
import { type LogSink, SILENT } from '../log.js';
import type { NetCapacity } from '../paths/local-nics.js';
import { pathOrNone } from '../paths/path.js';
import { MAX_CHANNELS, type TopologySettings } from '../settings.js';
import { nvlinkBandwidth } from '../system/bandwidth.js';
import type { GpuNode, TopoSystem } from '../system/node.js';
import { PathType } from '../system/path-type.js';
import { argumentChannels, type ConnectConfig, channelsPerNetPeer } from './config.js';

/** Channels to a peer inside the system that NVLink does not reach, and where no NIC is counted. */
const DEFAULT_PER_PEER = 2;

/** P2P work items of one batch: peers that a launch serves at once. */
const BATCH_PEERS = 8;

/** Channels that one rank wants for each peer: the least over its peers; 64 if it has none. */
export function channelsPerPeer(
  system: TopoSystem,
  gpu: GpuNode,
  outside: { readonly nets: NetCapacity } | undefined,
  settings: TopologySettings,
  config: ConnectConfig = {},
): number {
  let least = MAX_CHANNELS;
  for (const peer of system.nodes.GPU) {
    if (peer !== gpu) least = Math.min(least, channelsInside(peer, gpu));
  }
  return outside === undefined ? least : Math.min(least, channelsToNet(outside.nets, settings, config));
}

function channelsInside(peer: GpuNode, gpu: GpuNode): number {
  const { type, bandwidth } = pathOrNone(peer, gpu);
  if (type !== PathType.NVL && type !== PathType.NVB) return DEFAULT_PER_PEER;
  const links = Math.trunc(Math.fround(bandwidth / nvlinkBandwidth(gpu.sm)));
  return 2 * Math.max(1, links);
}

function channelsToNet(nets: NetCapacity, settings: TopologySettings, config: ConnectConfig): number {
  const wanted = channelsPerNetPeer(settings, config);
  if (wanted !== undefined) return wanted;
  if (nets.count === 0) return DEFAULT_PER_PEER;
  return Math.max(nets.count, Math.ceil(Math.trunc(nets.total) / settings.p2pPerChannelNetBw));
}

export interface P2pChannels {
  readonly nChannels: number;
  readonly perPeer: number;
  /** Peers that a rank talks to at once. */
  readonly maxPeers: number;
}

export interface P2pFacts {
  readonly nRanks: number;
  readonly nNodes: number;
  /** Channels of collectives. */
  readonly nChannels: number;
  /** Least over ranks of `channelsPerPeer`. */
  readonly perPeer: number;
}

/** The communicator's counts. */
export function p2pChannels(
  { nRanks, nNodes, nChannels, perPeer: wanted }: P2pFacts,
  settings: TopologySettings,
  config: ConnectConfig = {},
  log: LogSink = SILENT,
): P2pChannels {
  const most = config.parent?.p2pnChannels ?? MAX_CHANNELS;
  const count = Math.min(
    Math.max(Math.min(nChannels, settings.maxP2pChannels), settings.minP2pChannels),
    most,
  );
  const p2pnChannels = Math.min(powerUp(count), powerDown(argumentChannels(settings)));
  const maxPeers = Math.min(settings.p2pMaxPeers ?? config.maxP2pPeers ?? nRanks, nRanks);
  let perPeer = powerUp(wanted);
  if (nNodes === 1 || channelsPerNetPeer(settings, config) !== undefined) {
    perPeer = Math.min(p2pnChannels, perPeer);
  } else {
    log('INFO', 'INIT', `Tuning P2P operations with maxP2pPeers = ${maxPeers}`);
    while (perPeer > 1 && perPeer * Math.ceil(maxPeers / BATCH_PEERS) > p2pnChannels) perPeer /= 2;
  }
  return { nChannels: p2pnChannels, perPeer, maxPeers };
}

/** The next power of two from `value` on, at least 1. */
function powerUp(value: number): number {
  let power = 1;
  while (power < value) power *= 2;
  return power;
}

/** The largest power of two up to `value`, at least 1. */
function powerDown(value: number): number {
  let power = 1;
  while (power * 2 <= value) power *= 2;
  return power;
}
