/**
 * The NICs of a rank of a cluster: by channel of rings and trees, and for send and receive by the peer's device.
 */
import type { Cluster, Domain } from '../cluster.js';
import { graphNic, type NicChoice, p2pNic } from '../connect/connection-nics.js';
import type { GpuNode } from '../system/node.js';

export class RankNics {
  readonly #cluster: Cluster;
  readonly #places = new Map<number, { readonly domain: Domain; readonly gpu: GpuNode }>();
  readonly #devices: readonly number[];

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    const { domains } = cluster;
    const devices = new Set(domains.flatMap((one) => one.system.nodes.GPU.map(({ dev }) => dev)));
    this.#devices = [...devices].filter((dev) => dev >= 0).sort((a, b) => a - b);
    for (const domain of domains) {
      for (const gpu of domain.system.nodes.GPU)
        this.#places.set(gpu.rank + domain.rankOffset, { domain, gpu });
    }
  }

  /** Where a rank is. */
  placeOf(rank: number): { readonly domain: Domain; readonly gpu: GpuNode } {
    return this.#places.get(rank)!;
  }

  /** NIC of a rank in a ring or tree; undefined where the graph (of a file, or of one node) knows none. */
  ofChannel(graph: 'ring' | 'tree', rank: number, channel: number): NicChoice | undefined {
    const { domain, gpu } = this.placeOf(rank);
    const own = domain.graphs[graph];
    if (own.nChannels === 0 || (own.channels[channel % own.nChannels]?.inter ?? null) === null)
      return undefined;
    return graphNic(domain.system, own, gpu, channel);
  }

  /**
   * NIC of a rank for send and receive, by number of the peer's device, in ascending order; empty within one node. The
   * numbers are those of a file and need not be small.
   */
  ofPeers(rank: number): ReadonlyMap<number, NicChoice> {
    const { comm, settings } = this.#cluster;
    if (comm.nNodes <= 1) return new Map();
    const { domain, gpu } = this.placeOf(rank);
    const context = { system: domain.system, comm: domain.comm, settings, localHost: domain.localHost };
    return new Map(this.#devices.map((dev) => [dev, p2pNic(context, gpu, dev, 0)]));
  }
}
