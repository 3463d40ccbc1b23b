/**
 * The paths that NCCL uses from each GPU to all GPUs and NICs of its machine, as a table of type and GB/s.
 *
 * Inside a domain the paths are those of the domain (after the machine was split, if it was); between domains of one
 * host the path is the one that split them.
 */
import type { Domain } from '../cluster.js';
import { pathOrNone } from '../paths/path.js';
import type { GpuNode, NetNode, TopoPath } from '../system/node.js';
import { PathType } from '../system/path-type.js';

export interface PathRow {
  /** Real rank of the GPU. */
  readonly rank: number;
  /** By column of `gpuRanks`. */
  readonly toGpus: readonly TopoPath[];
  /** By column of `nics`. */
  readonly toNics: readonly TopoPath[];
}

export interface PathTable {
  /** Ranks of the columns. */
  readonly gpuRanks: readonly number[];
  /** NICs of the columns: those with an id of their own. */
  readonly nics: readonly NetNode[];
  readonly rows: readonly PathRow[];
}

/** Table of the domains of one machine. */
export function pathTable(domains: readonly Domain[]): PathTable {
  const [first] = domains;
  const { whole, rankOffset } = first!;
  const gpus = whole.nodes.GPU.toSorted((a, b) => a.rank - b.rank);
  const { NET } = whole.nodes;
  const nics = NET.filter((net, at) => NET.findIndex(({ id }) => id === net.id) === at);
  const rows = gpus.map((gpu): PathRow => {
    const domain = domains.find(({ system }) => system.nodes.GPU.some(({ rank }) => rank === gpu.rank));
    const own = domain?.system.nodes.GPU.find(({ rank }) => rank === gpu.rank);
    return {
      rank: gpu.rank + rankOffset,
      toGpus: gpus.map((other) => pathTo(gpu, other, domain, own)),
      toNics: nics.map((nic) =>
        own === undefined ? pathOrNone(gpu, nic) : pathOrNone(own, domain!.system.nodes.NET[nic.index]!),
      ),
    };
  });
  return { gpuRanks: gpus.map(({ rank }) => rank + rankOffset), nics, rows };
}

function pathTo(
  gpu: GpuNode,
  other: GpuNode,
  domain: Domain | undefined,
  own: GpuNode | undefined,
): TopoPath {
  const near = domain?.system.nodes.GPU.find(({ rank }) => rank === other.rank);
  return own !== undefined && near !== undefined ? pathOrNone(own, near) : pathOrNone(gpu, other);
}

/** Types that occur between different GPUs and to NICs. */
export function typesIn({ rows, gpuRanks }: PathTable): Set<PathType> {
  const types = new Set<PathType>();
  for (const { rank, toGpus, toNics } of rows) {
    for (const [at, { type }] of toGpus.entries()) if (gpuRanks[at] !== rank) types.add(type);
    for (const { type } of toNics) types.add(type);
  }
  types.delete(PathType.LOC);
  return types;
}
