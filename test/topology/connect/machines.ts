/** Made-up domains for tests: what the connection reads of a system, and graphs with the orders that a test wants. */
import type { DomainInfo } from '#src/topology/connect/domain.js';
import { GraphId, Pattern, startGraph, type TopoGraph, type TopoGraphs } from '#src/topology/search/graph.js';
import { addNode, emptySystem } from '#src/topology/system/edit.js';
import {
  CpuArch,
  CpuVendor,
  type GpuNode,
  type TopoPath,
  type TopoSystem,
} from '#src/topology/system/node.js';
import { PathType } from '#src/topology/system/path-type.js';

export interface SystemOptions {
  readonly sm?: number;
  readonly arch?: CpuArch;
  readonly vendor?: CpuVendor;
  /** Path between two different GPUs; NVLink by default. */
  readonly gpuPath?: (from: number, to: number) => { readonly type: PathType; readonly bandwidth: number };
}

/** Bandwidth of 18 NVLinks of Hopper. */
const NVLINK = { type: PathType.NVL, bandwidth: Math.fround(370.8) } as const;

/** A system of GPUs 0..count-1 (ranks too) below one CPU, without NICs. */
export function madeSystem(count: number, options: SystemOptions = {}): TopoSystem {
  const { sm = 90, arch = CpuArch.X86, vendor = CpuVendor.INTEL, gpuPath = () => NVLINK } = options;
  const system = emptySystem();
  addNode(system, { type: 'CPU', id: 0n, arch, vendor, model: 3, affinity: '', numaId: 0 });
  const gpus: GpuNode[] = [];
  for (let rank = 0; rank < count; rank++) {
    const place = { id: BigInt(rank + 1) << 12n, dev: rank, sm, mloPart: -1 };
    const busId = `0000:0${rank + 1}:00.0`;
    const parent = addNode<'DEV'>(system, { type: 'DEV', ...place, gpuCount: 1, device: 0n, busId });
    gpus.push(addNode<'GPU'>(system, { type: 'GPU', ...place, rank, gdr: true, parent }));
  }
  for (const from of gpus) {
    from.paths.GPU = gpus.map((to): TopoPath => {
      const own = { type: PathType.LOC, bandwidth: 5000 };
      return { ...(from === to ? own : gpuPath(from.index, to.index)), hops: [] };
    });
  }
  return system;
}

/** A graph of one channel for each order. */
export function madeGraph(
  id: GraphId,
  pattern: Pattern,
  orders: readonly (readonly number[])[],
  more: Partial<TopoGraph> = {},
): TopoGraph {
  const start = startGraph(id, pattern, pattern === Pattern.COLLNET_DIRECT, 1, 32);
  const channels = orders.map((intra) => ({ intra, inter: null }));
  return {
    ...start,
    bwIntra: 20,
    bwInter: 20,
    sameChannels: true,
    ...more,
    nChannels: orders.length,
    channels,
  };
}

export interface OrdersByUse {
  readonly ring: readonly (readonly number[])[];
  readonly tree?: readonly (readonly number[])[];
  readonly treePattern?: Pattern;
  readonly crossNic?: number;
  readonly collnetChain?: readonly (readonly number[])[];
  readonly collnetDirect?: readonly (readonly number[])[];
  readonly nvls?: readonly (readonly number[])[];
}

/** All graphs of a domain; trees as the rings, CollNet and NVLS not found where nothing is said. */
export function madeGraphs(orders: OrdersByUse): TopoGraphs {
  const { ring, tree = ring, treePattern = Pattern.TREE, crossNic = 0 } = orders;
  return {
    ring: madeGraph(GraphId.RING, Pattern.RING, ring, { crossNic }),
    tree: madeGraph(GraphId.TREE, treePattern, tree),
    collnetChain: madeGraph(GraphId.COLLNET_CHAIN, Pattern.TREE, orders.collnetChain ?? []),
    collnetDirect: madeGraph(GraphId.COLLNET_DIRECT, Pattern.COLLNET_DIRECT, orders.collnetDirect ?? []),
    nvls: madeGraph(GraphId.NVLS, Pattern.NVLS, orders.nvls ?? []),
  };
}

/** One 400 Gbit/s NIC for each GPU. */
export const ONE_NIC = { minBandwidth: 48, count: 1, total: 48 } as const;

/** Numbers 0..count-1. */
export const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/** A domain of ranks `first`.. with these graphs, or with one ring in index order. */
export function madeDomain(
  first: number,
  count: number,
  graphs: TopoGraphs = madeGraphs({ ring: [upTo(count)] }),
  system: TopoSystem = madeSystem(count),
): DomainInfo {
  return {
    ranks: upTo(count).map((rank) => rank + first),
    rankOffset: first,
    system,
    graphs,
    nets: upTo(count).map(() => ONE_NIC),
  };
}
