/**
 * The algorithms with connections of their own, by name, and what all ranks of a communicator set for them.
 */

import { type Collective, MAX_POOLS } from '../collectives/control-block.js';
import { usualNodeSize } from '../collectives/node-size.js';
import { CONNECTED_NAMES, type ConnectedName } from '../collectives/registry.js';
import { STEPS } from '../collectives/ring-connection.js';
import type { SwitchedName } from '../collectives/switched.js';
import type { ConnectedAlgorithm, ConnectedCall, ConnectedSetting } from './connected-plan.js';
import { slotElements } from './connected-plan.js';
import { HIERARCHICAL } from './hierarchical-plan.js';
import { PAT } from './pat-plan.js';
import { RECURSIVE } from './recursive-plan.js';
import { headCount, switchedAlgorithm } from './switched-plan.js';
import { treeAlgorithm, treeShares } from './tree-plan.js';
import { usualSwitchedNodeSize } from './virtual-nodes.js';

/**
 * Bytes of the slots of one connection unless NCCL_BUFFSIZE or NCCL_LL_BUFFSIZE asks for less: a rank has several
 * connections, and what travels should stay in a second-level cache of a core (1 to 2 MiB).
 */
export const CONNECTION_BYTES = 524288;

/** The limits that a user may have set. */
export interface ConnectedLimits {
  readonly ranks: number;
  /** Undefined where nobody has said. */
  readonly ranksPerNode: number | undefined;
  readonly channels: number;
  readonly llBytes: number;
  readonly simpleBytes: number;
}

export function connectedSetting(
  algorithm: ConnectedName,
  protocol: 'LL' | 'Simple',
  { ranks, ranksPerNode, channels, llBytes, simpleBytes }: ConnectedLimits,
): ConnectedSetting {
  const buffer = Math.min(CONNECTION_BYTES, protocol === 'LL' ? llBytes : simpleBytes);
  const perNode = ranksPerNode ?? usualPerNode(algorithm, ranks);
  // A rank fills a slot for every head at the same time.
  const heads = isSwitched(algorithm) ? headCount(algorithm, { ranks, perNode }) : 1;
  return {
    ranks,
    perNode,
    channels,
    protocol,
    slotBytes: Math.max(1, Math.floor(buffer / STEPS / heads / 512)) * 512,
  };
}

/** The algorithms over switches. */
export const SWITCHED_NAMES: readonly SwitchedName[] = ['NVLS', 'NVLSTree', 'CollNetDirect', 'CollNetChain'];

export function isSwitched(algorithm: string): algorithm is SwitchedName {
  return algorithm in SWITCHED;
}

const SWITCHED: Readonly<Record<SwitchedName, ConnectedAlgorithm>> = {
  NVLS: switchedAlgorithm('NVLS'),
  NVLSTree: switchedAlgorithm('NVLSTree'),
  CollNetDirect: switchedAlgorithm('CollNetDirect'),
  CollNetChain: switchedAlgorithm('CollNetChain'),
};

/** Whether an algorithm does a collective only where all nodes have the same number of ranks. */
export function needsEqualNodes(algorithm: string, collective: Collective): boolean {
  return algorithm === 'Hierarchical' || (isSwitched(algorithm) && collective !== 'allReduce');
}

/** A tree treats every rank as a node of its own where nobody speaks of nodes: that is the shallowest. */
function usualPerNode(algorithm: ConnectedName, ranks: number): number {
  switch (algorithm) {
    case 'Hierarchical':
      return usualNodeSize(ranks);
    case 'PAT':
    case 'Recursive':
    case 'Tree':
      return 1;
    case 'NVLS':
      return ranks;
    case 'NVLSTree':
    case 'CollNetDirect':
    case 'CollNetChain':
      return usualSwitchedNodeSize(ranks);
  }
}

const UNSPLIT_TREE = treeAlgorithm('unsplit');
const SPLIT_TREE = treeAlgorithm('split');

/** The form of an algorithm for a call; every form has the same connections. */
export function connectedAlgorithm(
  name: ConnectedName,
  setting: ConnectedSetting,
  call: ConnectedCall,
): { readonly algorithm: ConnectedAlgorithm; readonly resumable: boolean } {
  switch (name) {
    case 'Hierarchical':
      return { algorithm: HIERARCHICAL, resumable: false };
    case 'PAT':
      return { algorithm: PAT, resumable: false };
    case 'Recursive':
      return { algorithm: RECURSIVE, resumable: false };
    case 'NVLS':
    case 'NVLSTree':
    case 'CollNetDirect':
    case 'CollNetChain':
      return { algorithm: SWITCHED[name], resumable: false };
    case 'Tree': {
      const chunk = slotElements(setting, call.elementBytes);
      const most = Math.max(...treeShares(setting, call.elementBytes, call.count).map(({ count }) => count));
      // Both directions at once pay where there are chunks to go both ways.
      const splits = setting.protocol === 'Simple' && most > SPLIT_CHUNKS * chunk;
      return { algorithm: splits ? SPLIT_TREE : UNSPLIT_TREE, resumable: splits };
    }
  }
}

/**
 * Chunks of a channel up to which a tree stays unsplit: one window, which goes up and down once. Measured with 2 and 4
 * processes on two busy cores: at 256 KiB unsplit takes half of the time with 2 and is equal with 4, at 8 MiB split
 * takes two thirds with 4.
 */
const SPLIT_CHUNKS = STEPS;

/** Number of the pool word of an algorithm and protocol in every control block. */
export function poolIndex(algorithm: ConnectedName, protocol: 'LL' | 'Simple'): number {
  const index = 2 * CONNECTED_NAMES.indexOf(algorithm) + (protocol === 'LL' ? 0 : 1);
  if (index >= MAX_POOLS) throw new RangeError(`there are ${MAX_POOLS} pools, not ${index + 1}`);
  return index;
}
