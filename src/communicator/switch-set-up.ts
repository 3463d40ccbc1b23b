/**
 * The emulated switches of a communicator: whether they serve a call, and what has passed through their ports.
 */

import { POOL_STATE } from '../collectives/connected-work.js';
import type { Algorithm } from '../collectives/registry.js';
import { PortCounters } from '../collectives/switch-ports.js';
import {
  connectedAlgorithm,
  connectedSetting,
  isSwitched,
  SWITCHED_NAMES,
} from '../planning/connected-algorithms.js';
import { ConnectionPool, type SwitchPort } from '../planning/connection-pool.js';
import { switchedNodes, switchObstacle } from '../planning/switch-limits.js';
import { switchRefusal } from '../tuning/switch-support.js';
import type { CheckedCall } from './buffers.js';
import { connectedLimits } from './connected-operation.js';
import { ConnectionPools } from './connection-pools.js';
import type { OperationContext } from './operation-context.js';

/** Why the switches that an algorithm needs do not serve a call; undefined where they do, or it needs none. */
export function switchHindrance(
  context: OperationContext,
  { collective, op, type }: CheckedCall,
  algorithm: Algorithm,
): string | undefined {
  if (!isSwitched(algorithm)) return undefined;
  const limits = connectedLimits(context);
  return (
    switchObstacle(algorithm, collective, limits, context.settings.switches) ??
    switchRefusal(algorithm, collective, op, type, switchedNodes(algorithm, limits))
  );
}

/** What has passed through a port since the communicator was made. */
export interface SwitchPortTraffic extends SwitchPort {
  /** From the rank into the switch, and from the switch to the rank. */
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** Writes of the rank that went out through every port. */
  readonly multicasts: number;
  /** Reductions over all ports whose result the rank got. */
  readonly reductions: number;
}

/**
 * Traffic of all ports that an algorithm of this communicator has set up, by level and rank; none where ranks do not
 * share memory. Programs of other ranks may still be counting: it is exact after a barrier.
 */
export function switchTraffic(context: Pick<OperationContext, 'team' | 'settings'>): SwitchPortTraffic[] {
  const { team } = context;
  if (!team.shared) return [];
  const found = new Map<string, SwitchPortTraffic>();
  for (const name of SWITCHED_NAMES) {
    const setting = connectedSetting(name, 'Simple', connectedLimits(context));
    const { algorithm } = connectedAlgorithm(name, setting, {
      collective: 'allReduce',
      elementBytes: 1,
      count: 0,
    });
    for (let rank = 0; rank < team.size; rank++) {
      const at = team.areas[rank]! + ConnectionPools.word(name, 'Simple');
      const word = Atomics.load(team.device.i32, at >>> 2) >>> 0;
      if ((word & POOL_MASK) !== POOL_STATE.ready) continue;
      const connections = algorithm.connections(setting, rank);
      const rows = new ConnectionPool(connections, setting.slotBytes);
      const pool = team.segments[rank]! + ((word & ~POOL_MASK) >>> 0);
      for (const [row, port] of (connections.ports ?? []).entries()) {
        const counters = PortCounters.at(team.device.dataView, pool + rows.ports(row));
        const key = `${port.level} ${port.rank}`;
        const before = found.get(key);
        found.set(key, {
          ...port,
          bytesIn: (before?.bytesIn ?? 0) + counters.get('bytesIn'),
          bytesOut: (before?.bytesOut ?? 0) + counters.get('bytesOut'),
          multicasts: (before?.multicasts ?? 0) + counters.get('multicasts'),
          reductions: (before?.reductions ?? 0) + counters.get('reductions'),
        });
      }
    }
  }
  return [...found.values()].sort((a, b) =>
    a.level === b.level ? a.rank - b.rank : a.level === 'node' ? -1 : 1,
  );
}

/** The bits of a pool word that are not the offset, which is a multiple of a page. */
const POOL_MASK = 4095;
