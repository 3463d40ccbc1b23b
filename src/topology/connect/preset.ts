/**
 * What one domain's graphs say about each channel: the order of its GPUs, and at which of them the channel leaves the
 * node.
 *
 * All ranks here are those of the graphs; the domain's offset is not added. (NCCL 2.30.7, connect.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { Pattern, type TopoGraph } from '../search/graph.js';

/**
 * Order of the GPUs in a channel of a graph, `count` of them. Channels beyond the last repeat the first ones.
 *
 * @throws TuttiError internalError if the graph lists another number of GPUs, as a graph file can.
 */
export function channelOrder(graph: TopoGraph, channel: number, count: number): readonly number[] {
  const order = graph.channels[channel % graph.channels.length]?.intra;
  if (order !== undefined && order.length === count) return order;
  throw new TuttiError(
    'internalError',
    `channel ${channel} of graph ${graph.id} lists ${order?.length ?? 0} GPUs, the node has ${count}: search again, ` +
      'or correct the file that NCCL_GRAPH_FILE names',
  );
}

/** GPUs of a node that talk to other nodes in a tree channel. */
export interface TreeEnds {
  /** Sends to and receives from the parent node. */
  readonly toParent: number;
  /** The same for the first and the second child node. */
  readonly toChild0: number;
  readonly toChild1: number;
}

/**
 * Ends of a tree channel by pattern: all at the first GPU of the order (tree), the first child at the second GPU
 * (balanced tree), or both children there (split tree).
 */
export function treeEnds(pattern: Pattern, order: readonly number[]): TreeEnds {
  const first = order[0]!;
  const second = order[1] ?? first;
  return {
    toParent: first,
    toChild0: pattern === Pattern.TREE ? first : second,
    toChild1: pattern === Pattern.SPLIT_TREE ? second : first,
  };
}

/** First GPUs of a graph's channels, each once, in channel order: heads of NVLS and of CollNet direct. */
export function graphHeads(graph: TopoGraph): readonly number[] {
  const heads = new Set<number>();
  for (const { intra } of graph.channels.slice(0, graph.nChannels)) heads.add(intra[0]!);
  return [...heads];
}
