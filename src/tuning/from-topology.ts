/**
 * The model's input from what the topology part found, as one rank sees it.
 *
 * What needs plugins or drivers (whether CollNet and NVLS came up, and what they can do) is the caller's to say.
 */

import { TuttiError } from '../errors/tutti-error.js';
import type { ConnectedCommunicator } from '../topology/connect/communicator.js';
import { type ConnectConfig, ctaBounds } from '../topology/connect/config.js';
import { graphHeads } from '../topology/connect/preset.js';
import { countText } from '../topology/report/quantities.js';
import type { TopologySettings } from '../topology/settings.js';
import { resolveCtaPolicy } from './cta-policy.js';
import type { CollnetFacts, TuningInput } from './input.js';
import type { TuningSettings } from './settings.js';

/** What a CollNet plugin can do; everything if absent. */
export type CollnetAbilities = Partial<Pick<CollnetFacts, 'allGather' | 'reduceScatter' | 'supports'>>;

export interface CommunicatorView {
  readonly comm: ConnectedCommunicator;
  readonly topology: TopologySettings;
  readonly settings: TuningSettings;
  readonly config?: ConnectConfig & { readonly ctaPolicy?: number | undefined };
  /** The rank that decides; 0 if absent. */
  readonly rank?: number | undefined;
  readonly collnet?: CollnetAbilities | undefined;
  /** NVLink joins hosts. */
  readonly mnnvl?: boolean | undefined;
  readonly cuda118?: boolean | undefined;
}

/** @throws TuttiError invalidArgument for a rank that the communicator does not have, or a wrong CTA policy */
export function tuningInput(view: CommunicatorView): TuningInput {
  const { comm, topology, settings, config = {}, rank = 0, collnet = {} } = view;
  const node = comm.nodes[comm.rankToNode[rank] ?? -1];
  if (node === undefined) {
    throw new TuttiError(
      'invalidArgument',
      `rank ${rank} is not in a communicator of ${countText(comm.nRanks, 'rank')}`,
    );
  }
  const { system, ranks, graphs } = node.domain;
  const directHeads = graphHeads(graphs.collnetDirect).length;
  // Heads that CollNet sets up: those of NVLS where it is in use.
  const setup = graphHeads(comm.nvls === undefined ? graphs.collnetDirect : graphs.nvls);
  const bounds = ctaBounds(topology, config);
  return {
    nRanks: comm.nRanks,
    nNodes: comm.nNodes,
    localRanks: node.ranks.length,
    minLocalRanks: comm.minLocalRanks,
    maxLocalRanks: comm.maxLocalRanks,
    sm: system.nodes.GPU[ranks.indexOf(rank)]!.sm,
    minSm: comm.minSm,
    maxSm: comm.maxSm,
    cpuArch: comm.cpuArch,
    cpuVendor: comm.cpuVendor,
    graphs: comm.aligned,
    maxTreePattern: comm.maxTreePattern,
    hasNvswitch: system.nodes.NVS.length > 0,
    nChannels: comm.nChannels,
    collnet: {
      enabled: comm.collnetEnabled,
      chainSupported: graphHeads(graphs.collnetChain).every((head) => setup.includes(head)),
      allGather: collnet.allGather ?? true,
      reduceScatter: collnet.reduceScatter ?? true,
      supports: collnet.supports ?? (() => true),
      setupHeads: comm.nvls?.nHeads ?? directHeads,
      directHeads,
    },
    nvls: {
      enabled: comm.nvls !== undefined,
      nChannels: comm.nvls?.nChannels ?? 0,
      heads: comm.nvls?.nHeads ?? 0,
    },
    minNetBw: comm.minNetBw,
    mnnvl: view.mnnvl ?? false,
    plainNetDevice: config.unpackNetDevice !== true,
    minCtas: bounds.min,
    maxCtas: bounds.max,
    ctaPolicy: resolveCtaPolicy(settings.ctaPolicy, config.ctaPolicy),
    cuda118: view.cuda118 ?? false,
    settings,
  };
}
