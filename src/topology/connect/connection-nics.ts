/**
 * Which NIC a connection between nodes uses, and which rank's proxy drives it.
 *
 * Rings and trees take the NIC that the search gave to their channel; send and receive take the NIC near the peer's
 * GPU of the same number, through that GPU's rank if NVLink leads there (PXN), so that all traffic to one remote GPU
 * leaves on its rail. All ranks here are those of the system. (NCCL 2.30.7, paths.cc and search.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { preferredNic } from '../paths/local-nics.js';
import { pathOrNone } from '../paths/path.js';
import { checkGdr, type ReachContext, relayOf } from '../paths/reach.js';
import { GraphId, type TopoGraph } from '../search/graph.js';
import { type GpuNode, hostOf, type NetNode, type TopoSystem } from '../system/node.js';
import { PathType } from '../system/path-type.js';

/** How one rank reaches the network. */
export interface NicChoice {
  readonly net: NetNode;
  /** GPU whose rank's proxy drives the NIC; the rank's own one unless it is a relay. */
  readonly relay: GpuNode;
}

/**
 * NIC of a rank in a channel of a graph: the receiving end's for the first GPU of the channel, the sending end's for
 * all others; for NVLS one of those that lead to the rank's head.
 *
 * @throws TuttiError internalError if the graph knows no NIC for the rank.
 */
export function graphNic(system: TopoSystem, graph: TopoGraph, gpu: GpuNode, channel: number): NicChoice {
  const id = graph.id === GraphId.NVLS ? nvlsNicId(graph, gpu, channel) : channelNicId(graph, gpu, channel);
  const net = system.nodes.NET.find((node) => node.id === id);
  if (net !== undefined) return { net, relay: proxyOf(system, gpu, net) };
  throw new TuttiError(
    'internalError',
    `graph ${graph.id} names NIC ${id?.toString(16) ?? 'none'} for rank ${gpu.rank} in channel ${channel}, which the ` +
      'topology does not have: a communicator of several nodes needs a network port in each',
    { rank: gpu.rank },
  );
}

function channelNicId(graph: TopoGraph, gpu: GpuNode, channel: number): bigint | undefined {
  const { intra, inter } = graph.channels[channel % graph.nChannels] ?? { intra: [], inter: null };
  return inter?.[intra[0] === gpu.rank ? 0 : 1];
}

function nvlsNicId(graph: TopoGraph, gpu: GpuNode, channel: number): bigint | undefined {
  const own = graph.channels.slice(0, graph.nChannels).filter(({ intra }) => intra[0] === gpu.rank);
  if (own.length > 0) return own[channel % own.length]!.inter?.[0];
  throw new TuttiError('internalError', `Could not find NIC for rank ${gpu.rank} in NVLS graph`, {
    rank: gpu.rank,
  });
}

/** The GPU whose proxy a path uses: the relay of a PXN path, else the own one. */
function proxyOf(system: TopoSystem, gpu: GpuNode, net: NetNode): GpuNode {
  return pathOrNone(gpu, net).type === PathType.PXN ? relayOf(system, gpu, net) : gpu;
}

/**
 * NIC for sending to and receiving from a peer on another node.
 *
 * @param peerDev NVML device index of the peer's GPU, on its own host
 */
export function p2pNic(context: ReachContext, gpu: GpuNode, peerDev: number, channel: number): NicChoice {
  const { system, settings } = context;
  const policy = settings.netDevsPolicy;
  const own: NicChoice = { net: preferredNic(system, gpu, channel, policy), relay: gpu };
  const level = settings.pxnDisable || !context.comm.pxnSupported ? 0 : settings.p2pPxnLevel;
  const sameRailOnly = settings.crossNic === 0;
  if (!sameRailOnly && level === 0) return own;

  const twin = system.nodes.GPU.find((node) => hostOf(node) === hostOf(gpu) && node.dev === peerDev);
  if (twin === undefined) return own;
  const net = preferredNic(system, twin, channel, policy);
  const kept = sameRailOnly ? { net, relay: gpu } : own;
  if (level === 1 && pathOrNone(gpu, net).type <= PathType.PXN) {
    return { net, relay: levelOneRelay(system, gpu, net) };
  }
  if (level === 2) {
    const relay = system.nodes.GPU[net.localGpu];
    if (relay !== undefined && canRelay(context, relay, gpu, net)) return { net, relay };
  }
  return kept;
}

/**
 * NCCL looks for the relay with the NIC's device number in place of its id, which are the same on host 0 only; on
 * other hosts of a clique it thus judges by the NIC of that number of host 0.
 */
function levelOneRelay(system: TopoSystem, gpu: GpuNode, { dev }: NetNode): GpuNode {
  const judged = system.nodes.NET.find(({ id }) => id === BigInt(dev));
  return judged === undefined ? gpu : proxyOf(system, gpu, judged);
}

function canRelay(context: ReachContext, relay: GpuNode, gpu: GpuNode, net: NetNode): boolean {
  const worst = context.settings.pxnC2c ? PathType.P2C : PathType.PXB;
  return (
    pathOrNone(relay, gpu).type <= PathType.NVL &&
    pathOrNone(relay, net).type <= worst &&
    checkGdr(context, relay, net, false).refused === undefined
  );
}

/**
 * Relays that a rank must be connected to before it can send to these peers, in order of the peers.
 *
 * @param peerDevs NVML device index of each peer's GPU
 */
export function pxnRelays(context: ReachContext, gpu: GpuNode, peerDevs: Iterable<number>): GpuNode[] {
  if (!context.system.inter) return [];
  const relays = new Set<GpuNode>();
  // The choice depends on a peer's device number alone.
  for (const dev of new Set(peerDevs)) {
    const { net, relay } = p2pNic(context, gpu, dev, 0);
    if (relay !== gpu && checkGdr(context, gpu, net, true).refused === undefined) relays.add(relay);
  }
  return [...relays];
}
