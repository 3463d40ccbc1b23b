/**
 * Two-level Broadcom PCI switches become one node.
 *
 * Such a switch shows itself as a tree of virtual switches although every pair of its ports has full bandwidth; left
 * alone, the search would see a bottleneck that does not exist. (NCCL 2.30.7, topo.cc.)
 */
import { removeNode } from './edit.js';
import type { PciNode, TopoSystem } from './node.js';

/** Vendor, device and subsystem of the fourth generation; the low 12 bits vary. */
const GEN4 = 0x1000c0101000a000n;
/** The fifth generation; the level stands above the low 12 bits. */
const GEN5 = 0x1000c03010000000n;
const VARYING_BITS = 0xfffn;

/** Subsystem device of a switch that was looked at, so that it is not looked at again. */
const DONE = 0xffffn;

/** 4 or 5 if the device is a Broadcom switch at this level of its fabric, else 0. */
function generation(device: bigint, level: bigint): number {
  const kind = device & ~VARYING_BITS;
  if (kind === GEN4) return 4;
  return kind === (GEN5 | (level << 12n)) ? 5 : 0;
}

/** Merges the lower switches of each such fabric into the upper one. */
export function flattenSwitches(system: TopoSystem): void {
  let next: PciNode | undefined;
  do {
    next = system.nodes.PCI.find(({ device }) => generation(device, 0n) !== 0);
    if (next !== undefined) flatten(system, next);
  } while (next !== undefined);
}

function flatten(system: TopoSystem, upper: PciNode): void {
  const kind = generation(upper.device, 0n);
  const lower: PciNode[] = [];
  for (const { to } of upper.links) {
    if (to.type === 'PCI' && generation(to.device, 1n) === kind) lower.push(to);
  }
  upper.links = upper.links.filter(({ to }) => !lower.includes(to as PciNode));
  for (const node of lower) {
    for (const link of node.links) {
      if (link.to === upper) continue;
      upper.links.push({ ...link });
      const back = link.to.links.find(({ to }) => to === node);
      if (back !== undefined) back.to = upper;
    }
    removeNode(system, node);
  }
  upper.device |= DONE;
}
