/** Our own results in the shape of a golden file. */
import type { GraphChannel, TopoGraph } from '#src/topology/search/graph.js';
import { NODE_TYPES, type NodeType, type TopoNode, type TopoSystem } from '#src/topology/system/node.js';
import { LINK_TYPE_NAMES, PATH_TYPE_NAMES } from '#src/topology/system/path-type.js';
import type {
  GoldenChannel,
  GoldenGraph,
  GoldenLink,
  GoldenNode,
  GoldenPath,
  GoldenSystem,
} from './format.js';

/** Most GPUs and NICs of a system whose hops are written out. */
const HOPS_LISTED = 40;

/** Types whose paths are listed: from, to. */
const PATH_TABLES: readonly (readonly [from: NodeType, to: NodeType])[] = [
  ['GPU', 'GPU'],
  ['GPU', 'NET'],
  ['GPU', 'NVS'],
  ['GPU', 'CPU'],
  ['NET', 'GPU'],
  ['NET', 'CPU'],
  ['NET', 'NET'],
  ['NVS', 'GPU'],
  ['CPU', 'GPU'],
  ['CPU', 'NET'],
];

/** A system; `rankOffset` is added to the ranks in it. */
export function systemShape(system: TopoSystem, rankOffset: number): GoldenSystem {
  const { nodes } = system;
  const present = NODE_TYPES.filter((type) => nodes[type].length > 0);
  const listed = nodes.GPU.length + nodes.NET.length <= HOPS_LISTED;
  return {
    maxBw: system.maxBw,
    totalBw: system.totalBw,
    inter: Number(system.inter),
    nHosts: system.hosts.length,
    nodes: Object.fromEntries(
      present.map((type) => [type, nodes[type].map((node) => nodeShape(node, rankOffset))]),
    ),
    paths: Object.fromEntries(
      PATH_TABLES.filter(([from, to]) => present.includes(from) && present.includes(to)).map(([from, to]) => [
        `${from}-${to}`,
        nodes[from].map((node: TopoNode) => pathsShape(node, to, listed)),
      ]),
    ),
  };
}

const nameOf = ({ type, index }: TopoNode): string => `${type}/${index}`;

/** An id, or a number of 64 bits, as text. */
export const hex = (value: bigint): string => `0x${value.toString(16)}`;

function nodeShape(node: TopoNode, rankOffset: number): GoldenNode {
  const links = node.links.map(
    ({ type, bandwidth, to }): GoldenLink => [LINK_TYPE_NAMES[type], bandwidth, nameOf(to)],
  );
  return { i: node.index, id: hex(node.id), ...detailsOf(node, rankOffset), links };
}

function detailsOf(node: TopoNode, rankOffset: number): Record<string, number | string> {
  switch (node.type) {
    case 'GPU':
      return {
        dev: node.dev,
        rank: node.rank + rankOffset,
        sm: node.sm,
        gdr: Number(node.gdr),
        mloPart: node.mloPart,
        parentDev: node.parent.index,
      };
    case 'DEV':
      return { dev: node.dev, sm: node.sm, nGpus: node.gpuCount, device: hex(node.device) };
    case 'PCI':
      return { device: hex(node.device) };
    case 'CPU':
      return { arch: node.arch, vendor: node.vendor, model: node.model };
    case 'NET':
    case 'GIN':
    case 'RMA':
      return {
        dev: node.dev,
        asic: hex(node.asic),
        port: node.port,
        bw: node.bandwidth,
        latency: node.latency,
        gdr: Number(node.gdr),
        coll: Number(node.coll),
        maxChannels: node.maxConnections,
        localGpu: node.localGpu,
        rail: node.rail,
        plane: node.plane,
      };
    default:
      return {};
  }
}

function pathsShape(from: TopoNode, to: NodeType, listed: boolean): readonly GoldenPath[] {
  return (from.paths[to] ?? []).map(({ type, bandwidth, hops }): GoldenPath => {
    const name = PATH_TYPE_NAMES[type];
    if (!listed) return [name, bandwidth, hops.length];
    return [name, bandwidth, hops.length, hops.map((hop) => nameOf(hop.to)).join(' ')];
  });
}

/** The result of a search in `system`; `rankOffset` is added to the ranks. */
export function graphShape(graph: TopoGraph, system: TopoSystem, rankOffset: number): GoldenGraph {
  return {
    ...alignedShape(graph),
    channels: graph.channels.map((channel) => channelShape(channel, system, rankOffset)),
  };
}

/** A graph without its channels. */
export function alignedShape(graph: TopoGraph): GoldenGraph {
  return {
    id: graph.id,
    pattern: graph.pattern,
    crossNic: graph.crossNic,
    collNet: Number(graph.collNet),
    minChannels: graph.minChannels,
    maxChannels: graph.maxChannels,
    nChannels: graph.nChannels,
    bwIntra: graph.bwIntra,
    bwInter: graph.bwInter,
    latencyInter: graph.latencyInter,
    typeIntra: PATH_TYPE_NAMES[graph.typeIntra],
    typeInter: PATH_TYPE_NAMES[graph.typeInter],
    sameChannels: Number(graph.sameChannels),
    nHops: graph.nHops,
  };
}

function channelShape({ intra, inter }: GraphChannel, system: TopoSystem, rankOffset: number): GoldenChannel {
  const ranks = intra.map((rank) => rank + rankOffset);
  if (inter === null) return { intra: ranks };
  const devOf = (id: bigint) => system.nodes.NET.find((net) => net.id === id)?.dev ?? -1;
  return { intra: ranks, inter: inter.map(hex), interDev: inter.map(devOf) };
}
