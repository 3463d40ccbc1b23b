/**
 * Changes to the graph of a machine: nodes and links come and go here, with NCCL's limits and order.
 *
 * Links of a node stand by decreasing bandwidth, equal ones in the order they came: the search looks at them in that
 * order. (NCCL 2.30.7, topo.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { NODE_TYPES, type NodeOfType, type NodeType, type TopoNode, type TopoSystem } from './node.js';
import { type LinkType, PATH_TYPE_NAMES } from './path-type.js';

/** Nodes of one type in one system. */
export const MAX_NODES = 640;

/** Links of one node. */
export const MAX_LINKS = 576;

/** A system without nodes. */
export function emptySystem(): TopoSystem & { hosts: bigint[] } {
  const nodes = Object.fromEntries(NODE_TYPES.map((type) => [type, []]));
  return { nodes: nodes as unknown as TopoSystem['nodes'], hosts: [], inter: false, maxBw: 0, totalBw: 0 };
}

/** Appends a node to those of its type. */
export function addNode<T extends NodeType>(
  system: TopoSystem,
  node: Omit<NodeOfType[T], 'index' | 'links' | 'paths'> & { readonly type: T },
): NodeOfType[T] {
  const list = system.nodes[node.type] as NodeOfType[T][];
  if (list.length >= MAX_NODES) {
    throw new TuttiError(
      'internalError',
      `tried to create too many nodes of type ${node.type}: a system has at most ${MAX_NODES}; describe fewer devices`,
    );
  }
  const added = { ...node, index: list.length, links: [], paths: {} } as unknown as NodeOfType[T];
  list.push(added);
  return added;
}

/** The first node of a type with this id. */
export function findNode<T extends NodeType>(
  system: TopoSystem,
  type: T,
  id: bigint,
): NodeOfType[T] | undefined {
  return (system.nodes[type] as NodeOfType[T][]).find((node) => node.id === id);
}

/** Adds a one-way link, or its bandwidth to the link of this type that is already there. */
export function addLink(from: TopoNode, to: TopoNode, type: LinkType, bandwidth: number): void {
  const { links } = from;
  let at = links.findIndex((link) => link.to === to && link.type === type);
  if (at < 0) {
    if (links.length >= MAX_LINKS) {
      throw new TuttiError(
        'internalError',
        `too many links (${links.length + 1}) at ${from.type}/${from.index}: a node has at most ${MAX_LINKS}`,
      );
    }
    at = links.length;
    links.push({ type, to, bandwidth: Math.fround(bandwidth) });
  } else {
    links[at]!.bandwidth = Math.fround(links[at]!.bandwidth + bandwidth);
  }
  const link = links[at]!;
  while (at > 0 && links[at - 1]!.bandwidth < link.bandwidth) {
    links[at] = links[at - 1]!;
    at -= 1;
  }
  links[at] = link;
}

/** Adds a link in both directions. */
export function connect(a: TopoNode, b: TopoNode, type: LinkType, bandwidth: number): void {
  addLink(a, b, type, bandwidth);
  addLink(b, a, type, bandwidth);
}

/** Takes a node out, with all links to it; the nodes behind it move up. */
export function removeNode(system: TopoSystem, node: TopoNode): void {
  for (const type of NODE_TYPES) {
    for (const other of system.nodes[type]) {
      if (other.links.some((link) => link.to === node)) {
        other.links = other.links.filter((link) => link.to !== node);
      }
    }
  }
  const list = system.nodes[node.type] as TopoNode[];
  list.splice(list.indexOf(node), 1);
  for (const [index, rest] of list.entries()) rest.index = index;
}

/** `GPU/0-83000`: type, host number and local id in hexadecimal, as NCCL prints nodes. */
export function nodeName(node: { readonly type: string; readonly id: bigint }): string {
  return `${node.type}/${(node.id >> 56n).toString(16)}-${(node.id & ((1n << 56n) - 1n)).toString(16)}`;
}

/** Name of a link or path type. */
export const typeName = (type: number): string => PATH_TYPE_NAMES[type] ?? `${type}`;
