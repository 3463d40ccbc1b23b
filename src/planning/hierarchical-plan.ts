/** The rings of a hierarchical all-reduce, inside the emulated nodes and between them. */

import type { HierarchicalRole } from '../collectives/hierarchical.js';
import { type ConnectedAlgorithm, type ConnectedSetting, slotElements } from './connected-plan.js';
import { channelShares } from './ring-plan.js';
import { nodeCount, nodeOf } from './virtual-nodes.js';

interface Place {
  readonly ranks: number;
  readonly place: number;
  readonly nodes: number;
  readonly node: number;
}

function placeOf({ ranks, perNode }: ConnectedSetting, rank: number): Place {
  const size = Math.min(perNode, ranks);
  const nodes = { ranks, perNode: size };
  return { ranks: size, place: rank % size, nodes: nodeCount(nodes), node: nodeOf(nodes, rank) };
}

/** Predecessor and successor on the ring inside the node and on that between the nodes, where there is one. */
function neighbours({ ranks, place, nodes, node }: Place): { before: number[]; after: number[] } {
  const rank = (inNode: number, ofNode: number) => ofNode * ranks + inNode;
  const around = (at: number, step: number, size: number) => (at + step + size) % size;
  const both = (step: number) => [
    ...(ranks > 1 ? [rank(around(place, step, ranks), node)] : []),
    ...(nodes > 1 ? [rank(place, around(node, step, nodes))] : []),
  ];
  return { before: both(-1), after: both(1) };
}

export const HIERARCHICAL: ConnectedAlgorithm = {
  connections: (setting, rank) => {
    const { before, after } = neighbours(placeOf(setting, rank));
    const channels = Array.from({ length: setting.channels }, (_, channel) => channel);
    const join = (peers: readonly number[]) =>
      channels.flatMap((channel) => peers.map((peer) => ({ channel, peer })));
    return { sends: join(after), receives: join(before) };
  },
  plan: (setting, { elementBytes, count }, rank) => {
    const place = placeOf(setting, rank);
    const { before, after } = neighbours(place);
    const role: HierarchicalRole = place.ranks === 1 ? 'between' : place.nodes === 1 ? 'inside' : 'both';
    const chunk = slotElements(setting, elementBytes);
    return channelShares(count, elementBytes, setting.channels, setting.protocol).map((share, channel) => ({
      role,
      channel,
      receives: before,
      sends: after,
      ...share,
      chunk,
      window: chunk * place.ranks * place.nodes,
      table: [place.ranks, place.place, place.nodes, place.node],
    }));
  },
  cut: (setting, { elementBytes }) => {
    const { ranks, nodes } = placeOf(setting, 0);
    return slotElements(setting, elementBytes) * ranks * nodes;
  },
};
