/**
 * Which NICs a ring goes through: where it leaves a node and where it enters the next one, and whether both are on one
 * rail (NICs of the same name, or number where they have none), as networks without a common spine need it.
 */
import type { Cluster, Domain } from '../cluster.js';
import { graphNic } from '../connect/connection-nics.js';
import type { GpuNode } from '../system/node.js';
import { Labels } from './labels.js';
import { countText } from './quantities.js';

/** A step of a ring from one node to another. */
export interface NodeHop {
  readonly fromNode: number;
  readonly toNode: number;
  /** Names of the NICs. */
  readonly out: string;
  readonly in: string;
}

/** Looks up the NICs of many hops. */
export class RailView {
  readonly #cluster: Cluster;
  readonly #places = new Map<
    number,
    { readonly domain: Domain; readonly gpu: GpuNode; readonly labels: Labels }
  >();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    for (const domain of cluster.domains) {
      const labels = new Labels(domain.system, domain.rankOffset);
      for (const gpu of domain.system.nodes.GPU) {
        this.#places.set(gpu.rank + domain.rankOffset, { domain, gpu, labels });
      }
    }
  }

  /** Steps of a channel's ring between nodes, from rank 0 on, the closing one last. */
  hopsOf(channel: number, order: Int32Array): NodeHop[] {
    const { rankToNode } = this.#cluster.comm;
    const hops: NodeHop[] = [];
    for (const [at, rank] of order.entries()) {
      const next = order[(at + 1) % order.length]!;
      const [fromNode, toNode] = [rankToNode[rank]!, rankToNode[next]!];
      if (fromNode === toNode) continue;
      hops.push({ fromNode, toNode, out: this.#nic(rank, channel), in: this.#nic(next, channel) });
    }
    return hops;
  }

  #nic(rank: number, channel: number): string {
    const { domain, gpu, labels } = this.#places.get(rank)!;
    const { ring } = domain.graphs;
    // A graph from a file, or the simple order, may have no NIC.
    if (ring.channels[channel % Math.max(1, ring.nChannels)]?.inter == null) return '';
    const { net } = graphNic(domain.system, ring, gpu, channel);
    return labels.of(net);
  }
}

/** Names of NICs that are listed of one ring. */
const MOST_NAMES = 3;

/** `mlx5_0`, or all names in the order in which the ring comes to them: `mlx5_0 mlx5_1`. */
export function hopNames(hops: readonly NodeHop[]): string {
  const names = [...new Set(hops.flatMap((hop) => [hop.out, hop.in]))].filter((name) => name !== '');
  const more = names.length - MOST_NAMES;
  return more > 0 ? `${names.slice(0, MOST_NAMES).join(' ')} and ${more} more` : names.join(' ');
}

/** What a cluster's rings ask of the network: how many of their hops change the rail, and the first of those. */
export interface RailChanges {
  readonly hops: number;
  readonly changes: number;
  readonly first: (NodeHop & { readonly channel: number }) | undefined;
}

export function railChanges(cluster: Cluster): RailChanges {
  const view = new RailView(cluster);
  const { comm } = cluster;
  let hops = 0;
  let changes = 0;
  let first: RailChanges['first'];
  for (let channel = 0; channel < comm.searchChannels; channel++) {
    for (const hop of view.hopsOf(channel, comm.ringOf(channel))) {
      hops += 1;
      if (hop.out === hop.in) continue;
      changes += 1;
      first ??= { ...hop, channel };
    }
  }
  return { hops, changes, first };
}

/** A sentence on the rails of the rings; '' where no ring leaves a node or there is one NIC only. */
export function railsText(cluster: Cluster): string {
  const several = cluster.domains.some(
    ({ system }) => new Set(system.nodes.NET.map(({ id }) => id)).size > 1,
  );
  const { hops, changes, first } = railChanges(cluster);
  if (hops === 0 || !several) return '';
  if (first === undefined) {
    return 'Every hop of the rings between nodes joins NICs of the same name, so that they need no way from rail to rail.';
  }
  return (
    `${changes} of ${countText(hops, 'hop')} of the rings between nodes ${changes === 1 ? 'joins' : 'join'} NICs of ` +
    `different names, which the network must connect: channel ${first.channel} goes from ${first.out} of node ` +
    `${first.fromNode} to ${first.in} of node ${first.toNode}.`
  );
}
