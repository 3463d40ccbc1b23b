/**
 * What the connection of channels takes from each domain: the GPUs that share one topology system, and what the
 * searches found there.
 *
 * Domains that look alike may share `system`, `graphs` and `nets`; everything that depends on those alone is then
 * computed once.
 */
import { type NetCapacity, netCapacity } from '../paths/local-nics.js';
import type { TopoGraphs } from '../search/graph.js';
import type { TopologySettings } from '../settings.js';
import type { TopoSystem } from '../system/node.js';

/** GPUs that NCCL keeps together: a host, a part of one, or an NVLink clique of several. */
export interface DomainInfo {
  /** Ranks of the communicator in order of the system's GPUs. */
  readonly ranks: readonly number[];
  /** To be added to ranks in `system` and `graphs`. */
  readonly rankOffset: number;
  /** After trimming, with paths. */
  readonly system: TopoSystem;
  /** What the searches found, before alignment. */
  readonly graphs: TopoGraphs;
  /** NICs of each GPU, by index; computed from `system` if absent. */
  readonly nets?: readonly NetCapacity[] | undefined;
  /** Devices that the plugins report to these ranks; ranks must agree. Absent: not compared. */
  readonly devices?: { readonly net: number; readonly collnet: number } | undefined;
}

const NO_NETS: NetCapacity = { minBandwidth: 0, count: 0, total: 0 };

/** NICs of each GPU of a system, by index; zeros if it has no network port. */
export function netCapacities(system: TopoSystem, { netDevsPolicy }: TopologySettings): NetCapacity[] {
  const { GPU, NET } = system.nodes;
  return GPU.map((gpu) => (NET.length === 0 ? NO_NETS : netCapacity(system, gpu, netDevsPolicy)));
}
