/**
 * The double binary tree over emulated nodes, with a chain through the ranks of each node, and how an all-reduce is
 * laid over it.
 *
 * There are two channels, one for each tree, for every channel asked for: a rank that is a leaf in one tree is inside
 * the other. Source: NCCL 2.30, trees over nodes and chains inside (topology/connect).
 */

import { STEPS } from '../collectives/ring-connection.js';
import { TREE_ARITY, type TreeRole, treeRoleName } from '../collectives/tree.js';
import { TuttiError } from '../errors/tutti-error.js';
import { doubleTree } from '../topology/connect/double-tree.js';
import { treeEnds } from '../topology/connect/preset.js';
import { Pattern } from '../topology/search/graph.js';
import {
  type BlockPlan,
  type ConnectedAlgorithm,
  type ConnectedSetting,
  slotElements,
} from './connected-plan.js';
import { GRAIN_BYTES } from './ring-plan.js';
import { nodeCount, nodeOf, ranksOfNode, type VirtualNodes } from './virtual-nodes.js';

/** Neighbours of a rank in one tree. */
export interface TreeNeighbours {
  /** -1 at the root. */
  readonly parent: number;
  readonly children: readonly number[];
}

/** Data up to this many bytes take one tree: the second would only double the messages. */
export const ONE_TREE_BYTES = 8192;

/** A rank's place in the first (0) or second (1) tree. `pattern` says where the links between nodes end. */
export function treeNeighbours(
  nodes: VirtualNodes,
  rank: number,
  tree: 0 | 1,
  pattern: Pattern = Pattern.BALANCED_TREE,
): TreeNeighbours {
  const node = nodeOf(nodes, rank);
  const chain = ranksOfNode(nodes, node);
  const at = chain.indexOf(rank);
  const ends = (other: number) => treeEnds(pattern, ranksOfNode(nodes, other));
  const place = doubleTree(nodeCount(nodes), node)[tree];
  let parent = at > 0 ? chain[at - 1]! : -1;
  if (place.parent !== -1 && rank === ends(node).toParent) {
    parent = ends(place.parent)[place.childType === 0 ? 'toChild0' : 'toChild1'];
  }
  const children = at + 1 < chain.length ? [chain[at + 1]!] : [];
  if (place.child0 !== -1 && rank === ends(node).toChild0) children.push(ends(place.child0).toParent);
  if (place.child1 !== -1 && rank === ends(node).toChild1) children.push(ends(place.child1).toParent);
  if (children.length > TREE_ARITY) {
    throw new TuttiError('internalError', `rank ${rank} has ${children.length} children in a tree`);
  }
  return { parent, children };
}

/** A tree all-reduce: unsplit (one block a channel) or split (two). */
export function treeAlgorithm(form: 'unsplit' | 'split', pattern?: Pattern): ConnectedAlgorithm {
  const placeIn = ({ ranks, perNode, channels }: ConnectedSetting, rank: number, channel: number) =>
    treeNeighbours({ ranks, perNode }, rank, channel < channels ? 0 : 1, pattern);
  const allChannels = ({ channels }: ConnectedSetting) => Array.from({ length: 2 * channels }, (_, c) => c);
  return {
    connections: (setting, rank) => {
      const all = allChannels(setting).flatMap((channel) => {
        const { parent, children } = placeIn(setting, rank, channel);
        return [...(parent === -1 ? [] : [parent]), ...children].map((peer) => ({ channel, peer }));
      });
      return { sends: all, receives: all };
    },
    plan: (setting, { elementBytes, count }, rank) => {
      const chunk = slotElements(setting, elementBytes);
      const window = STEPS * chunk;
      const shares = treeShares(setting, elementBytes, count);
      const used = allChannels(setting).filter((channel) => channel === 0 || shares[channel]!.count > 0);
      return used.flatMap((channel): BlockPlan[] => {
        const { parent, children } = placeIn(setting, rank, channel);
        const parents = parent === -1 ? [] : [parent];
        const hasParent = parent !== -1;
        const common = { channel, ...shares[channel]!, chunk, window };
        const roleOf = (part: TreeRole['part']) =>
          treeRoleName({ part, parent: part !== 'root' && hasParent, children: children.length });
        if (form === 'unsplit') {
          const receives = [...children, ...parents];
          return [{ ...common, role: roleOf('both'), receives, sends: [...parents, ...children] }];
        }
        if (!hasParent) return [{ ...common, role: roleOf('root'), receives: children, sends: children }];
        return [
          { ...common, role: roleOf('up'), receives: children, sends: parents },
          { ...common, role: roleOf('down'), receives: parents, sends: children },
        ];
      });
    },
    cut: (setting, { elementBytes }) =>
      slotElements(setting, elementBytes) * (form === 'unsplit' ? STEPS : 1),
  };
}

/** Contiguous shares of the channels, in grains; small data take the first channel alone. */
export function treeShares(
  { channels, protocol }: ConnectedSetting,
  elementBytes: number,
  count: number,
): { offset: number; count: number }[] {
  const grain = GRAIN_BYTES[protocol] / elementBytes;
  const used = count * elementBytes <= ONE_TREE_BYTES ? 1 : 2 * channels;
  const grains = Math.ceil(count / grain);
  let at = 0;
  return Array.from({ length: 2 * channels }, (_, channel) => {
    const own = channel >= used ? 0 : Math.floor(grains / used) + (channel < grains % used ? 1 : 0);
    const share = { offset: at, count: Math.min(own * grain, count - at) };
    at += share.count;
    return share;
  });
}
