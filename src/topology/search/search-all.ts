/**
 * The searches of one system in NCCL's order, on one set of link bandwidths. (NCCL 2.30.7, init.cc.)
 */
import { type LogSink, SILENT } from '../log.js';
import type { TopologySettings } from '../settings.js';
import type { TopoSystem } from '../system/node.js';
import { computeGraph, type SearchRequest, type SearchResult } from './compute.js';
import { GraphId, Pattern, startGraph, type TopoGraph, type TopoGraphs } from './graph.js';
import { SearchSpace } from './space.js';

/** Names of the searches, as in `TopoGraphs`. */
export type GraphName = keyof TopoGraphs;

export interface SearchOptions {
  /** A CollNet plugin is present and enabled. */
  readonly collnet: boolean;
  /** All GPUs can use NVLink multicast; it still needs at least two of them, and no two ranks on one. */
  readonly nvls: boolean;
  readonly settings: TopologySettings;
  /** A graph that a file gives for a search; undefined: search. */
  readonly loadGraph?: (request: SearchRequest, system: TopoSystem) => TopoGraph | undefined;
  readonly log?: LogSink;
}

/** All graphs of a system, with the runs that led to them. */
export interface SearchedGraphs {
  readonly graphs: TopoGraphs;
  readonly results: Readonly<Partial<Record<GraphName, SearchResult>>>;
}

/** Channels of a ring at most. */
const MAX_RING_CHANNELS = 32;

/** Upper bound that stands in the request of NVLS and CollNet direct before the number of GPUs lowers it. */
const MAX_HEAD_CHANNELS = 64;

/** A multicast group has several members, each a device of its own. */
function canMulticast({ nodes: { GPU } }: TopoSystem): boolean {
  return GPU.length >= 2 && new Set(GPU.map(({ parent }) => parent)).size === GPU.length;
}

/** Searches ring, tree, CollNet chain, CollNet direct and NVLS. */
export function searchGraphs(system: TopoSystem, options: SearchOptions): SearchedGraphs {
  const { settings, collnet, nvls, loadGraph, log = SILENT } = options;
  const space = new SearchSpace(system, settings);
  const results: Partial<Record<GraphName, SearchResult>> = {};
  const search = (name: GraphName, request: SearchRequest, wanted: boolean): TopoGraph => {
    const { id, pattern, collNet, minChannels, maxChannels } = request;
    if (!wanted) return startGraph(id, pattern, collNet, minChannels, maxChannels);
    const loaded = loadGraph?.(request, system);
    if (loaded !== undefined && loaded.nChannels > 0) return loaded;
    const result = computeGraph(space, request, log);
    results[name] = result;
    return result.graph;
  };
  const ring = search(
    'ring',
    {
      id: GraphId.RING,
      pattern: Pattern.RING,
      collNet: false,
      minChannels: 1,
      maxChannels: MAX_RING_CHANNELS,
    },
    true,
  );
  const channels = ring.nChannels;
  const likeRing = { minChannels: channels, maxChannels: channels };
  const heads = { minChannels: 1, maxChannels: MAX_HEAD_CHANNELS };
  const graphs: TopoGraphs = {
    ring,
    tree: search(
      'tree',
      { id: GraphId.TREE, pattern: Pattern.BALANCED_TREE, collNet: false, ...likeRing },
      true,
    ),
    collnetChain: search(
      'collnetChain',
      { id: GraphId.COLLNET_CHAIN, pattern: Pattern.TREE, collNet: true, ...likeRing },
      collnet,
    ),
    collnetDirect: search(
      'collnetDirect',
      { id: GraphId.COLLNET_DIRECT, pattern: Pattern.COLLNET_DIRECT, collNet: true, ...heads },
      collnet,
    ),
    nvls: search(
      'nvls',
      { id: GraphId.NVLS, pattern: Pattern.NVLS, collNet: false, ...heads },
      nvls && canMulticast(system),
    ),
  };
  return { graphs, results };
}
