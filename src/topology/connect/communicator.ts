/**
 * From the graphs of all domains to the channels of the communicator: nodes, aligned graphs, rings, trees, CollNet and
 * NVLS places, channel counts.
 *
 * The result holds every rank's view at once, in flat arrays, so that thousands of ranks cost megabytes. Each array
 * says how it is indexed; -1 stands for "nobody". (NCCL 2.30.7, init.cc and connect.cc.)
 */
import { greatestOf, leastOf } from '../extremes.js';
import { type LogSink, SILENT } from '../log.js';
import type { NetCapacity } from '../paths/local-nics.js';
import { worstGpuPath } from '../paths/trim.js';
import type { TopoGraphs } from '../search/graph.js';
import { MAX_CHANNELS, type TopologySettings } from '../settings.js';
import type { TopoSystem } from '../system/node.js';
import { PathType } from '../system/path-type.js';
import { alignGraphs } from './align.js';
import { bothTrees, channelSources, copyChannels } from './channel-counts.js';
import { connectCollnetChains } from './collnet-chain.js';
import { type CollnetDirectPlace, collnetDirectPlace, MAX_COLLNET_DIRECT_RANKS } from './collnet-direct.js';
import type { ConnectConfig } from './config.js';
import { type CommCpu, commonCpu } from './cpu.js';
import { checkDeviceCounts } from './device-counts.js';
import { type DomainInfo, netCapacities } from './domain.js';
import { type NodeNumbers, numberNodes } from './nodes.js';
import { connectNvls, type NvlsPlaces } from './nvls.js';
import { nvlsSizes } from './nvls-sizes.js';
import { channelsPerPeer, p2pChannels } from './p2p-channels.js';
import { followRing } from './ring-check.js';
import { connectRings } from './rings.js';
import { connectTrees, TREE_ARITY, treeDepth } from './trees.js';

export interface ConnectInput {
  /** In any order; together they hold every rank once. */
  readonly domains: readonly DomainInfo[];
  readonly settings: TopologySettings;
  readonly config?: ConnectConfig | undefined;
  readonly log?: LogSink | undefined;
}

/** CollNet of a communicator. */
export interface CollnetConnection {
  /** `[channel * nRanks + rank]`: the rank before in the chain, or nRanks for the network. */
  readonly chainUp: Int32Array;
  /** `[channel * nRanks + rank]`: the rank after. */
  readonly chainDown: Int32Array;
  readonly chainDepth: number;
  /** Place of a rank in CollNet direct, the same in all channels; undefined if nodes have more than 8 ranks. */
  readonly direct: ((rank: number) => CollnetDirectPlace) | undefined;
}

/** NVLS of a communicator. */
export interface NvlsConnection extends NvlsPlaces {
  readonly nChannels: number;
  /** Bytes. */
  readonly chunkSize: number;
  readonly treeMaxChunkSize: number;
}

export interface ConnectedCommunicator extends NodeNumbers, CommCpu {
  readonly nNodes: number;
  /** Compute capability times 10 of the GPUs, lowest and highest. */
  readonly minSm: number;
  readonly maxSm: number;

  /** Graphs that all ranks agree on; orders, patterns and limits are those of rank 0. */
  readonly aligned: TopoGraphs;
  readonly maxTreePattern: number;
  /** Channels of the aligned ring and tree; channel c and c + searchChannels are the two trees of one order. */
  readonly searchChannels: number;
  /** Channels of collectives. */
  readonly nChannels: number;

  /** `[channel * nRanks + rank]` */
  readonly ringPrev: Int32Array;
  readonly ringNext: Int32Array;
  readonly treeUp: Int32Array;
  /** `[(channel * nRanks + rank) * 3 + slot]` */
  readonly treeDown: Int32Array;
  readonly treeDepth: number;

  readonly collnetEnabled: boolean;
  readonly collnet: CollnetConnection | undefined;
  readonly nvls: NvlsConnection | undefined;

  readonly p2pnChannels: number;
  readonly p2pnChannelsPerPeer: number;
  readonly p2pMaxPeers: number;

  /** GB/s of the slowest way from a rank to a NIC it uses; 0 without NICs. */
  readonly minNetBw: number;
  /** NICs of the rank that needs fewest. */
  readonly minNetCount: number;
  /** GPUs of every node, and those of rank 0's node by direct links, are joined by NVLink (or better). */
  readonly isAllNvlink: boolean;
  readonly isAllDirectNvlink: boolean;

  /** Ranks of a ring in order from rank 0. */
  ringOf(channel: number): Int32Array;
}

/**
 * Connects the channels of all ranks.
 *
 * @throws TuttiError invalidArgument if the domains do not hold each rank once; internalError if a graph (from a graph
 * file) makes no ring or tree; systemError if ranks see different numbers of network devices.
 */
export function connectCommunicator(input: ConnectInput): ConnectedCommunicator {
  const { settings, config = {}, log = SILENT } = input;
  const numbers = numberNodes(input.domains);
  const { nRanks, nodes, rankToNode, minLocalRanks, maxLocalRanks } = numbers;
  const nNodes = nodes.length;
  // Rank 0's node is node 0: its view is the one that is shown.
  const domains = nodes.map(({ domain }) => domain);
  checkDeviceCounts(domains, settings, log);

  const { graphs: aligned, nChannels: half, maxTreePattern } = alignGraphs(domains);
  const systems = surveySystems(domains, nRanks, settings, config);
  const { minNetBw, minNetCount, minSm, maxSm } = systems;
  const collnetEnabled = aligned.collnetChain.nChannels > 0 && nNodes >= settings.collnetNodeThreshold;

  const total = bothTrees(half);
  const ring = connectRings(nodes, nRanks, half);
  const tree = connectTrees(nodes, nRanks, half, total);
  const sources = channelSources(
    {
      searchChannels: half,
      nNodes,
      nRanks,
      minSm,
      ringBwIntra: aligned.ring.bwIntra,
      collnet: collnetEnabled ? aligned.collnetChain : undefined,
    },
    settings,
    config,
  );
  const nChannels = sources.length;
  const ringSources = sources.map((channel) => channel % half);
  const ringPrev = copyChannels(ring.prev, ringSources, nRanks);
  const ringNext = copyChannels(ring.next, ringSources, nRanks);
  const ringOf = (channel: number) =>
    followRing(ringNext.subarray(channel * nRanks, (channel + 1) * nRanks), 0, channel);
  for (let channel = 0; channel < Math.min(half, nChannels); channel++) ringOf(channel);

  const p2p = p2pChannels({ nRanks, nNodes, nChannels, perPeer: systems.perPeer }, settings, config, log);
  return {
    ...numbers,
    ...commonCpu(domains, log),
    nNodes,
    minSm,
    maxSm,
    aligned,
    maxTreePattern,
    searchChannels: half,
    nChannels,
    ringPrev,
    ringNext,
    treeUp: copyChannels(tree.up, sources, nRanks),
    treeDown: copyChannels(tree.down, sources, nRanks * TREE_ARITY),
    treeDepth: treeDepth(nRanks, nNodes),
    collnetEnabled,
    collnet: collnetEnabled ? collnet() : undefined,
    nvls: aligned.nvls.nChannels > 0 ? nvls() : undefined,
    p2pnChannels: p2p.nChannels,
    p2pnChannelsPerPeer: p2p.perPeer,
    p2pMaxPeers: p2p.maxPeers,
    minNetBw,
    minNetCount,
    isAllNvlink: systems.worstGpuPath < PathType.PIX,
    isAllDirectNvlink: worstGpuPath(domains[0]!.system) <= PathType.NVL,
    ringOf,
  };

  function collnet(): CollnetConnection {
    const chains = connectCollnetChains(nodes, nRanks, half, total);
    const direct = (rank: number) => collnetDirectPlace(nodes[rankToNode[rank]!]!, rank, nRanks);
    return {
      chainUp: copyChannels(chains.up, sources, nRanks),
      chainDown: copyChannels(chains.down, sources, nRanks),
      chainDepth: Math.floor(nRanks / nNodes),
      direct: maxLocalRanks <= MAX_COLLNET_DIRECT_RANKS ? direct : undefined,
    };
  }

  function nvls(): NvlsConnection {
    const places = connectNvls(nodes, nRanks, collnetEnabled);
    const { sm } = domains[0]!.system.nodes.GPU[domains[0]!.ranks.indexOf(0)]!;
    const { typeInter } = aligned.nvls;
    const sizes = nvlsSizes({ nNodes, sm, minSm, minLocalRanks, minNetBw, typeInter }, settings, config);
    return { ...places, ...sizes, nChannels: places.nHeads > 0 ? sizes.nChannels : 0 };
  }
}

/** What all GPUs have in common; domains that share a system are looked at once. */
function surveySystems(
  domains: readonly DomainInfo[],
  nRanks: number,
  settings: TopologySettings,
  config: ConnectConfig,
) {
  let perPeer = MAX_CHANNELS;
  let worst: PathType = PathType.LOC;
  const sms: number[] = [];
  const allNets: NetCapacity[] = [];
  const seen = new Map<TopoSystem, DomainInfo['nets']>();
  for (const { system, nets, ranks } of domains) {
    if (seen.has(system) && seen.get(system) === nets) continue;
    seen.set(system, nets);
    const outside = nRanks > ranks.length;
    const capacities = nets ?? netCapacities(system, settings);
    for (const gpu of system.nodes.GPU) {
      const own = capacities[gpu.index]!;
      allNets.push(own);
      sms.push(gpu.sm);
      perPeer = Math.min(
        perPeer,
        channelsPerPeer(system, gpu, outside ? { nets: own } : undefined, settings, config),
      );
    }
    worst = Math.max(worst, worstGpuPath(system)) as PathType;
  }
  return {
    perPeer,
    worstGpuPath: worst,
    minSm: leastOf(sms),
    maxSm: greatestOf(sms),
    minNetBw: leastOf(allNets.map(({ minBandwidth }) => minBandwidth)),
    minNetCount: leastOf(allNets.map(({ count }) => count)),
  };
}
