/**
 * The whole way from the descriptions of all machines to the channels of a communicator, as every rank would go it.
 *
 * Machines that are described by the same document are looked at once, so a thousand equal ones cost little more than
 * one. Ranks are counted through the machines in order.
 */
import { TuttiError } from '../errors/tutti-error.js';
import type { CommInfo } from './communicator.js';
import { type ConnectedCommunicator, connectCommunicator } from './connect/communicator.js';
import type { ConnectConfig } from './connect/config.js';
import { netCapacities } from './connect/domain.js';
import { describeDomains, type LocalDomain, ranksOf } from './domains.js';
import type { LogSink } from './log.js';
import type { NetCapacity } from './paths/local-nics.js';
import type { SearchOptions } from './search/search-all.js';
import { type Environment, type TopologySettings, topologySettings } from './settings.js';
import type { XmlElement } from './xml/element.js';

/** A host, or the hosts of one NVLink clique, in one fused document; its GPUs have the ranks 0, 1, 2, ... */
export interface ClusterNode {
  readonly xml: XmlElement;
  /** What NVML of this host reports; by default that of the cluster's options. */
  readonly nvmlP2p?: CommInfo['nvmlP2p'] | undefined;
}

export interface ClusterOptions {
  /** One element per host or clique; the same object may stand several times. */
  readonly nodes: readonly ClusterNode[];
  /** NCCL_* variables. */
  readonly env?: Environment;
  /** What the communicator's creator asks of its channels; variables come before it. */
  readonly config?: ConnectConfig;
  /** NVLink multicast can be used; true by default (the search still asks for NVSwitch and compute capability 9.0). */
  readonly nvls?: boolean;
  /** A CollNet plugin is present and enabled; false by default. */
  readonly collnet?: boolean;
  /** The hosts of each document form one NVLink clique. */
  readonly mnnvl?: boolean;
  readonly nvmlP2p?: CommInfo['nvmlP2p'];
  readonly pxnSupported?: boolean;
  /** A graph from a file in place of a search. */
  readonly loadGraph?: SearchOptions['loadGraph'];
  readonly log?: LogSink;
}

/** GPUs that NCCL keeps together as one node. Ranks in `system` and `graphs` are lower by `rankOffset`. */
export interface Domain extends LocalDomain {
  /** Real ranks, in GPU index order. */
  readonly ranks: readonly number[];
  readonly rankOffset: number;
  /** Position of its machine among the nodes that were given. */
  readonly node: number;
  /** NICs of each GPU, by index. */
  readonly nets: readonly NetCapacity[];
}

export interface Cluster {
  readonly nRanks: number;
  /** Machine by machine; within one by lowest rank. */
  readonly domains: readonly Domain[];
  readonly comm: ConnectedCommunicator;
  readonly settings: TopologySettings;
  /** What it was described from. */
  readonly options: ClusterOptions;
}

/**
 * Describes a communicator over all GPUs of all machines.
 *
 * @throws TuttiError if a document is wrong, or asks for what cannot be connected.
 */
export function describeCluster(options: ClusterOptions): Cluster {
  const { nodes, env = {}, log } = options;
  if (nodes.length === 0) {
    throw new TuttiError('invalidArgument', 'no machine was described; give at least one topology');
  }
  const settings = topologySettings(env, log);
  const sizes = new Map<XmlElement, number>();
  for (const { xml } of nodes) {
    if (!sizes.has(xml)) sizes.set(xml, ranksOf(xml, options.mnnvl ?? false).length);
  }
  const nRanks = nodes.reduce((sum, { xml }) => sum + sizes.get(xml)!, 0);

  const seen = new Map<XmlElement, Omit<Domain, 'rankOffset' | 'node'>[]>();
  const domains: Domain[] = [];
  let rankOffset = 0;
  for (const [node, { xml, nvmlP2p = options.nvmlP2p }] of nodes.entries()) {
    let local = seen.get(xml);
    if (local === undefined) {
      local = describeDomains(xml, {
        ...options,
        ...(nvmlP2p === undefined ? {} : { nvmlP2p }),
        settings,
        nRanks,
        nvls: options.nvls ?? true,
        collnet: options.collnet ?? false,
        mnnvl: options.mnnvl ?? false,
      }).map((domain) => ({ ...domain, nets: netCapacities(domain.system, settings) }));
      seen.set(xml, local);
    }
    for (const domain of local) {
      const offset = rankOffset;
      domains.push({ ...domain, ranks: domain.ranks.map((rank) => rank + offset), rankOffset, node });
    }
    rankOffset += sizes.get(xml)!;
  }
  const comm = connectCommunicator({ domains, settings, config: options.config, log });
  return { nRanks, domains, comm, settings, options };
}
