/**
 * Best paths between all nodes, by a breadth-first walk from each base node.
 *
 * A path is better with a better type, then with more bandwidth, then with fewer hops. Traffic does not pass through
 * the device of a GPU, except by one NVLink hop between devices (NVB). An improvement acts at once, also on nodes
 * that stand later in the same level; copies that were made before stay. (NCCL 2.30.7, paths.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { LOCAL_BANDWIDTH } from '../system/bandwidth.js';
import { nodeName } from '../system/edit.js';
import {
  NODE_TYPES,
  type NodeType,
  type TopoLink,
  type TopoNode,
  type TopoPath,
  type TopoSystem,
} from '../system/node.js';
import { LINK_TYPE_NAMES, LinkType, PathType } from '../system/path-type.js';
import { UNREACHED } from './path.js';

/** Types of base nodes in the order of their walks. */
const BASES: readonly NodeType[] = ['CPU', 'DEV', 'GPU', 'NET', 'GIN', 'RMA', 'NVS'];

/** Forgets all paths and computes the plain ones, before any rule of transports. */
export function walkPaths(system: TopoSystem, nvbDisable: boolean): void {
  for (const type of NODE_TYPES) for (const node of system.nodes[type]) node.paths = {};
  for (const type of BASES) for (const base of system.nodes[type]) walkFrom(system, base, nvbDisable);
}

function walkFrom(system: TopoSystem, base: TopoNode, nvbDisable: boolean): void {
  const { type } = base;
  const nodes: readonly TopoNode[] = system.nodes[type];
  // Nodes with the same id share the slot of the first.
  const slot = nodes.findIndex(({ id }) => id === base.id);
  const tableOf = (node: TopoNode): TopoPath[] => {
    let table = node.paths[type];
    if (table === undefined) {
      table = new Array<TopoPath>(nodes.length).fill(UNREACHED);
      node.paths[type] = table;
    }
    return table;
  };
  tableOf(base)[slot] = { type: PathType.LOC, bandwidth: LOCAL_BANDWIDTH, hops: [] };

  const ownDevice = base.type === 'GPU' ? base.parent : base;
  // A GPU is one hop away from its device.
  const bridgeHops = base.type === 'GPU' ? 2 : 1;

  let level: TopoNode[] = [base];
  while (level.length > 0) {
    const next = new Set<TopoNode>();
    for (const node of level) {
      const path = tableOf(node)[slot]!;
      for (const link of node.links) {
        const far = link.to;
        const farTable = tableOf(far);
        if (
          node.type === 'DEV' &&
          node !== ownDevice &&
          !(link.type === LinkType.LOC && far.type === 'GPU')
        ) {
          const bridges = !nvbDisable && link.type === LinkType.NVL && far.type === 'DEV';
          if (!bridges || path.hops.length > bridgeHops) continue;
        }
        const bandwidth = Math.min(path.bandwidth, link.bandwidth);
        const reached = typeThrough(node, path, link, bridgeHops);
        const old = farTable[slot]!;
        const better =
          reached < old.type ||
          (reached === old.type &&
            (bandwidth > old.bandwidth ||
              (bandwidth === old.bandwidth && old.hops.length > path.hops.length + 1)));
        if (!better) continue;
        const back = far.links.find(({ to, type: kind }) => to === node && kind === link.type);
        if (back === undefined) {
          throw new TuttiError(
            'internalError',
            `Failed to find reverse path from ${nodeName(far)} to ${nodeName(node)}: the ${
              LINK_TYPE_NAMES[link.type]
            } link between them goes one way only; give both devices the link in the topology`,
          );
        }
        farTable[slot] = { type: reached, bandwidth, hops: [back, ...path.hops] };
        next.add(far);
      }
    }
    level = [...next];
  }
}

/** Type of the path that goes on from `node` over `link`. */
function typeThrough(node: TopoNode, path: TopoPath, link: TopoLink, bridgeHops: number): PathType {
  let type: PathType = link.type === LinkType.NET ? PathType.LOC : link.type;
  const far = link.to;
  if (node.type === 'PCI' && far.type === 'PCI') type = PathType.PXB;
  if (link.type === LinkType.PCI && (node.type === 'CPU' || far.type === 'CPU')) type = PathType.PHB;
  const bridges = node.type === 'DEV' && path.type === PathType.NVL && path.hops.length === bridgeHops;
  if (bridges && type === PathType.NVL) type = PathType.NVB;
  return Math.max(path.type, type) as PathType;
}
