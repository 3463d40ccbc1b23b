/**
 * Makes the graphs of all ranks agree: what every rank can do is the worst of what each can do.
 *
 * (NCCL 2.30.7, init.cc: the second all-gather.)
 */
import type { GraphChannel, TopoGraph, TopoGraphs } from '../search/graph.js';
import type { PathType } from '../system/path-type.js';
import type { DomainInfo } from './domain.js';

/** The graphs as all ranks use them, and what only the comparison shows. */
export interface Alignment {
  /** Patterns, limits, hops, latency and orders are those of the first domain given. */
  readonly graphs: TopoGraphs;
  /** Channels that ring and tree have everywhere; the communicator has twice as many. */
  readonly nChannels: number;
  /** The most spread-out tree pattern of all ranks. */
  readonly maxTreePattern: number;
}

/** Aligns the graphs of all domains; `domains[0]` is the one that asks. */
export function alignGraphs(domains: readonly DomainInfo[]): Alignment {
  const distinct = [...new Set(domains.map(({ graphs }) => graphs))];
  const align = (name: keyof TopoGraphs) =>
    aligned(
      domains[0]!,
      name,
      distinct.map((graphs) => graphs[name]),
    );
  const ring = align('ring');
  const tree = align('tree');
  const nChannels = Math.min(ring.nChannels, tree.nChannels);
  for (const graph of [ring, tree]) {
    graph.nChannels = nChannels;
    graph.channels.length = nChannels;
  }
  return {
    graphs: {
      ring,
      tree,
      collnetChain: align('collnetChain'),
      collnetDirect: align('collnetDirect'),
      nvls: align('nvls'),
    },
    nChannels,
    maxTreePattern: Math.max(...distinct.map((graphs) => graphs.tree.pattern)),
  };
}

function aligned(own: DomainInfo, name: keyof TopoGraphs, all: readonly TopoGraph[]): TopoGraph {
  const least = (pick: (graph: TopoGraph) => number) => Math.min(...all.map(pick));
  const most = (pick: (graph: TopoGraph) => number) => Math.max(...all.map(pick));
  const nChannels = least((graph) => graph.nChannels);
  return {
    ...own.graphs[name],
    nChannels,
    sameChannels: all.every((graph) => graph.sameChannels),
    bwIntra: least((graph) => graph.bwIntra),
    bwInter: least((graph) => graph.bwInter),
    typeIntra: most((graph) => graph.typeIntra) as PathType,
    typeInter: most((graph) => graph.typeInter) as PathType,
    crossNic: most((graph) => graph.crossNic),
    channels: own.graphs[name].channels.slice(0, nChannels).map((channel) => moved(channel, own.rankOffset)),
  };
}

/** The channel with ranks of the communicator instead of ranks of the domain. */
function moved({ intra, inter }: GraphChannel, offset: number): GraphChannel {
  return { intra: intra.map((rank) => rank + offset), inter };
}
