/**
 * Whether the emulated switches can serve a communicator: what NCCL finds out when it sets NVLS and CollNet up.
 *
 * A switch has a finite buffer, the slots of its ports; an algorithm that needs more is not set up, and calls take
 * another one of those that are allowed. All ranks come to the same answer, since all have the same settings.
 */

import type { Collective } from '../collectives/control-block.js';
import { STEPS } from '../collectives/ring-connection.js';
import { hasNodeSwitch, type SwitchedName } from '../collectives/switched.js';
import { MAX_COLLNET_DIRECT_RANKS } from '../topology/connect/collnet-direct.js';
import { NVLS_ARITY } from '../topology/connect/nvls.js';
import { type ConnectedLimits, connectedSetting, needsEqualNodes } from './connected-algorithms.js';
import type { ConnectedSetting } from './connected-plan.js';
import { headCount } from './switched-plan.js';
import { nodeCount } from './virtual-nodes.js';

export interface SwitchSettings {
  /** Buffer of a switch, bytes: of that of a node, and of that between the nodes. */
  readonly bytes: number;
  /** NVLS may be used (NCCL_NVLS_ENABLE), CollNet may (NCCL_COLLNET_ENABLE). */
  readonly nvls: boolean;
  readonly collnet: boolean;
}

/** Room for NVLS of 8 ranks over 8 channels with slots of 8 KiB. */
export const SWITCH_BYTES = 33554432;

/** Bytes of the slots in which the ports of each switch leave their data. */
export function switchBuffers(
  name: SwitchedName,
  setting: ConnectedSetting,
): { readonly node: number; readonly network: number } {
  const { ranks, channels, slotBytes } = setting;
  const perNode = Math.min(setting.perNode, ranks);
  const nodes = nodeCount({ ranks, perNode });
  const ofPort = headCount(name, setting) * channels * STEPS * slotBytes;
  const inNode = hasNodeSwitch(name);
  const hasNetwork = name !== 'NVLSTree' && (!inNode || nodes > 1);
  return { node: inNode ? perNode * ofPort : 0, network: hasNetwork ? nodes * ofPort : 0 };
}

/** Emulated nodes of an algorithm. */
export function switchedNodes(name: SwitchedName, limits: ConnectedLimits): number {
  const { ranks, perNode } = connectedSetting(name, 'Simple', limits);
  return nodeCount({ ranks, perNode });
}

/** Why the switches do not serve an algorithm here; undefined where they do. */
export function switchObstacle(
  name: SwitchedName,
  collective: Collective,
  limits: ConnectedLimits,
  { bytes, nvls, collnet }: SwitchSettings,
): string | undefined {
  const setting = connectedSetting(name, 'Simple', limits);
  const { ranks } = setting;
  const perNode = Math.min(setting.perNode, ranks);
  const nodes = nodeCount({ ranks, perNode });
  const inNode = hasNodeSwitch(name);
  const { node, network } = switchBuffers(name, setting);
  if (inNode && !nvls) return 'is switched off by NCCL_NVLS_ENABLE';
  if (network > 0 && !collnet) return 'needs CollNet, which NCCL_COLLNET_ENABLE switches off';
  if (name !== 'NVLS' && nodes < 2) return `needs several nodes, and all ${ranks} ranks are on one`;
  const most = inNode ? NVLS_ARITY : MAX_COLLNET_DIRECT_RANKS;
  if (perNode > most) return `serves at most ${most} ranks of a node, not ${perNode}`;
  if (needsEqualNodes(name, collective) && ranks % perNode !== 0) {
    return `needs nodes of one size, and ${ranks} ranks make none of ${perNode}`;
  }
  const needed = Math.max(node, network);
  return needed > bytes
    ? `needs ${needed} bytes of a switch's buffer, which has ${bytes} (TUTTI_SWITCH_BYTES)`
    : undefined;
}
