/**
 * Leaves in the system only the GPUs that belong together, and takes its totals.
 *
 * GPUs that reach each other best over the network are separate nodes, even in one host. Devices and NICs stay.
 * (NCCL 2.30.7, paths.cc and search.cc.)
 */

import { LOCAL_BANDWIDTH } from '../system/bandwidth.js';
import { removeNode } from '../system/edit.js';
import type { GpuNode, TopoSystem } from '../system/node.js';
import { LinkType, PathType } from '../system/path-type.js';
import { pathOrNone } from './path.js';

/** Removes the GPUs that are not in the domain of `own`; sets whether ranks are left outside. */
export function trimSystem(system: TopoSystem, own: GpuNode, nRanks: number): void {
  const { GPU } = system.nodes;
  const domains: number[] = [];
  for (const [g, gpu] of GPU.entries()) {
    let domain = g;
    for (let p = 0; p < g; p++) {
      if (pathOrNone(gpu, GPU[p]!).type < PathType.NET) domain = Math.min(domain, domains[p]!);
    }
    domains.push(domain);
  }
  const ownDomain = domains[own.index];
  const others = GPU.filter((_, index) => domains[index] !== ownDomain);
  for (const gpu of others) removeNode(system, gpu);
  system.inter = system.nodes.GPU.length !== nRanks;
}

/** Sets the ceilings of a channel and of a GPU. */
export function measureSystem(system: TopoSystem): void {
  const { GPU, DEV, NET } = system.nodes;
  if (!system.inter && GPU.length === 1) {
    system.maxBw = LOCAL_BANDWIDTH;
    system.totalBw = LOCAL_BANDWIDTH;
    return;
  }
  let maxBw = 0;
  let totalBw = 0;
  for (const device of DEV) {
    for (const other of system.inter ? NET : DEV) {
      const { hops, bandwidth } = pathOrNone(device, other);
      if (hops.length > 0) maxBw = Math.max(maxBw, bandwidth);
    }
    let nvlinks = 0;
    let pci = 0;
    for (const { type, bandwidth } of device.links) {
      if (type === LinkType.NVL) nvlinks = Math.fround(nvlinks + bandwidth);
      if (type === LinkType.PCI) pci = bandwidth;
    }
    totalBw = Math.max(totalBw, nvlinks, pci);
  }
  system.maxBw = maxBw;
  system.totalBw = totalBw;
}

/** Worst type of a path between two GPUs of the system; LOC for a single GPU. */
export function worstGpuPath({ nodes: { GPU } }: TopoSystem): PathType {
  let worst: PathType = PathType.LOC;
  for (const a of GPU) {
    for (const b of GPU) worst = Math.max(worst, pathOrNone(a, b).type) as PathType;
  }
  return worst;
}

/** Exactly two groups of GPUs with NVLink inside and none between them. */
export function hasSplitNvlink({ nodes: { GPU } }: TopoSystem): boolean {
  const domains = GPU.map((_, index) => index);
  for (const [g, gpu] of GPU.entries()) {
    for (let p = g + 1; p < GPU.length; p++) {
      if (pathOrNone(gpu, GPU[p]!).type === PathType.NVL) domains[p] = domains[g]!;
    }
  }
  const sizes = new Map<number, number>();
  for (const domain of domains) sizes.set(domain, (sizes.get(domain) ?? 0) + 1);
  return [...sizes.values()].filter((size) => size > 1).length === 2;
}
