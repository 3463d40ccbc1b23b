/** From a machine of machine-xml.ts to what a test looks at: its graph, its paths, its searches, its domains. */
import { type Cluster, type ClusterOptions, type Domain, describeCluster } from '#src/topology/cluster.js';
import type { CommInfo } from '#src/topology/communicator.js';
import { ranksOf } from '#src/topology/domains.js';
import { computePaths } from '#src/topology/paths/compute.js';
import { pathBetween } from '#src/topology/paths/path.js';
import type { ReachContext } from '#src/topology/paths/reach.js';
import {
  computeGraph,
  type SearchRequest,
  type SearchResult,
  type SearchRun,
} from '#src/topology/search/compute.js';
import { GraphId, Pattern, type TopoGraph } from '#src/topology/search/graph.js';
import { SearchSpace } from '#src/topology/search/space.js';
import { type Environment, topologySettings } from '#src/topology/settings.js';
import { buildSystem } from '#src/topology/system/build.js';
import type { NodeType, TopoNode, TopoSystem } from '#src/topology/system/node.js';
import { LINK_TYPE_NAMES, PATH_TYPE_NAMES } from '#src/topology/system/path-type.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { HOST } from './machine-xml.js';

export interface ReachOptions {
  readonly env?: Environment;
  readonly mnnvl?: boolean;
  readonly nvmlP2p?: CommInfo['nvmlP2p'];
  readonly pxnSupported?: boolean;
  readonly log?: NonNullable<ReachContext['log']>;
}

/** The untrimmed system of a machine with its paths, and what they were computed from. */
export function reach(xml: XmlElement, options: ReachOptions = {}): ReachContext {
  const { env, mnnvl = false, nvmlP2p = () => true, pxnSupported = true, log } = options;
  const ranks = ranksOf(xml, mnnvl);
  const comm: CommInfo = { nRanks: ranks.length, ranks, mnnvl, nvmlP2p, pxnSupported };
  const settings = topologySettings(env);
  const localHost = ranks[0]?.hostHash ?? HOST;
  const system = buildSystem(xml, { localHost, splitMloPart: settings.splitMloPart });
  computePaths(system, comm, settings, localHost, log);
  return { system, comm, settings, localHost, ...(log === undefined ? {} : { log }) };
}

/** As many equal hosts, with NVLink multicast. */
export const cluster = (
  xml: XmlElement,
  hosts: number,
  options: Partial<Omit<ClusterOptions, 'nodes'>> = {},
): Cluster => describeCluster({ nodes: Array.from({ length: hosts }, () => ({ xml })), ...options });

/** The domain of rank 0 of as many equal hosts. */
export const firstDomain = (...args: Parameters<typeof cluster>): Domain => cluster(...args).domains[0]!;

/** A system as domains have it: trimmed to the GPUs of rank 0. */
export const searchSpace = (
  xml: XmlElement,
  hosts: number,
  env: Environment = {},
  mnnvl = false,
): SearchSpace => new SearchSpace(firstDomain(xml, hosts, { env, mnnvl }).system, topologySettings(env));

/** A search with bounds of its own: the whole way down from `Pattern`. */
export function search(
  space: SearchSpace,
  pattern: Pattern,
  channels: readonly [number, number],
): SearchResult {
  const [minChannels, maxChannels] = channels;
  const id = IDS[pattern];
  const collNet = pattern === Pattern.COLLNET_DIRECT;
  return computeGraph(space, { id, pattern, collNet, minChannels, maxChannels });
}

const IDS: Readonly<Record<Pattern, SearchRequest['id']>> = {
  [Pattern.BALANCED_TREE]: GraphId.TREE,
  [Pattern.SPLIT_TREE]: GraphId.TREE,
  [Pattern.TREE]: GraphId.TREE,
  [Pattern.RING]: GraphId.RING,
  [Pattern.NVLS]: GraphId.NVLS,
  [Pattern.COLLNET_DIRECT]: GraphId.COLLNET_DIRECT,
};

/** `4/48/PIX`: hops, GB/s (one decimal), type; `none` without a table. */
export function pathText(from: TopoNode, to: TopoNode): string {
  const path = pathBetween(from, to);
  if (path === undefined) return 'none';
  return `${path.hops.length}/${round(path.bandwidth)}/${PATH_TYPE_NAMES[path.type]}`;
}

/** Nodes of a path after its start: `DEV0 PCI0 NIC0 NET0`. */
export const hopText = (from: TopoNode, to: TopoNode): string =>
  (pathBetween(from, to)?.hops ?? []).map((hop) => hop.to.type + hop.to.index).join(' ');

/** The first node of a type whose name the tests use: `NET0`. */
export function node(system: TopoSystem, name: string): TopoNode {
  const [, type, index] = /^([A-Z]+)(\d+)$/.exec(name)!;
  return system.nodes[type as NodeType][Number(index)]!;
}

/** Links of a node in order: `PCI 24 PCI0`. */
export const linkTexts = ({ links }: TopoNode): string[] =>
  links.map(
    ({ type, bandwidth, to }) => `${LINK_TYPE_NAMES[type]} ${round(bandwidth)} ${to.type}${to.index}`,
  );

const round = (bandwidth: number): string => String(Math.round(bandwidth * 1000) / 1000);

/** What a search found, in one line: pattern, channels x speeds, types, and whether channels cross and are equal. */
export function graphText(graph: TopoGraph): string {
  const { pattern, nChannels, bwIntra, bwInter, typeIntra, typeInter, crossNic, sameChannels } = graph;
  const types = `${PATH_TYPE_NAMES[typeIntra]}/${PATH_TYPE_NAMES[typeInter]}`;
  return `${pattern}: ${nChannels} x ${round(bwIntra)}/${round(bwInter)} ${types} cross ${crossNic} same ${sameChannels ? 1 : 0}`;
}

/** Order of a channel with the NICs at both ends: `NET0 0 1 2 NET0`. */
export function channelText(graph: TopoGraph, channel: number): string {
  const { intra, inter } = graph.channels[channel]!;
  const ends = inter === null ? ['', ''] : inter.map((id) => `NET${id & 0xffffn}`);
  return [ends[0], ...intra, ends[1]].join(' ').trim();
}

/** A run in one line: `40 NVL/PIX cross 0 same 1`, with the pattern before it for trees. */
export function runText(run: SearchRun): string {
  const { pattern, bwIntra, bwInter, typeIntra, typeInter, crossNic, sameChannels } = run;
  const types = `${PATH_TYPE_NAMES[typeIntra]}/${PATH_TYPE_NAMES[typeInter]}`;
  const bandwidth = bwIntra === bwInter ? round(bwIntra) : `${round(bwIntra)}/${round(bwInter)}`;
  return `${pattern}: ${bandwidth} ${types} cross ${crossNic} same ${sameChannels ? 1 : 0}`;
}
