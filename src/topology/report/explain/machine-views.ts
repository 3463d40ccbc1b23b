/**
 * The machines of a cluster, each different one once.
 */
import type { Cluster, Domain } from '../../cluster.js';
import type { MachineView } from './peer-to-peer.js';

/** Each different machine with its domains. */
export function machineViews({ domains, settings }: Cluster): MachineView[] {
  const byNode = new Map<number, Domain[]>();
  for (const domain of domains) byNode.set(domain.node, [...(byNode.get(domain.node) ?? []), domain]);
  const views = new Map<unknown, MachineView>();
  for (const own of byNode.values()) {
    if (!views.has(own[0]!.whole)) views.set(own[0]!.whole, { domains: own, settings });
  }
  return [...views.values()];
}
