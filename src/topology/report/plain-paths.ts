/**
 * A copy of a system with the paths as the hardware offers them, before peer-to-peer, network and GPUDirect rules
 * changed them: reasons of refusals can only be read off these.
 */
import { walkPaths } from '../paths/breadth-first.js';
import { NODE_TYPES, type NodeType, type TopoNode, type TopoSystem } from '../system/node.js';

/** Copies nodes and links, and walks the paths anew. Indices are those of the original. */
export function withPlainPaths(system: TopoSystem, nvbDisable: boolean): TopoSystem {
  const copies = new Map<TopoNode, TopoNode>();
  const nodes = {} as Record<NodeType, TopoNode[]>;
  for (const type of NODE_TYPES) {
    nodes[type] = system.nodes[type].map((node) => {
      const copy = { ...node, links: [], paths: {} } as TopoNode;
      copies.set(node, copy);
      return copy;
    });
  }
  for (const [node, copy] of copies) {
    copy.links = node.links.map((link) => ({ ...link, to: copies.get(link.to) ?? link.to }));
    if (node.type === 'GPU') Object.assign(copy, { parent: copies.get(node.parent) });
  }
  const plain: TopoSystem = { ...system, nodes: nodes as unknown as TopoSystem['nodes'] };
  walkPaths(plain, nvbDisable);
  return plain;
}
