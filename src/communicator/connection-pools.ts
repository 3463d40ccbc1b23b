/**
 * The pools of this rank: memory of the connections of each algorithm that has connections of its own, taken when the
 * algorithm is first used and announced in the control block (see connected-work.ts).
 */

import { POOL_STATE } from '../collectives/connected-work.js';
import { ControlBlock } from '../collectives/control-block.js';
import type { ConnectedName } from '../collectives/registry.js';
import { wakeDoorbell } from '../device/host/doorbell.js';
import { poolIndex } from '../planning/connected-algorithms.js';
import type { ConnectedAlgorithm, ConnectedSetting } from '../planning/connected-plan.js';
import { ConnectionPool } from '../planning/connection-pool.js';
import type { Team } from './team.js';

/** Pools are aligned to pages: the low bits of their offsets carry the state. */
const PAGE = 4096;

export class ConnectionPools {
  readonly #team: Team;
  /** Addresses by index. */
  readonly #pools = new Map<number, number>();

  constructor(team: Team) {
    this.#team = team;
  }

  /** Byte offset of the algorithm's pool word in every control block. */
  static word(name: ConnectedName, protocol: 'LL' | 'Simple'): number {
    return ControlBlock.fields.pools.offset + 4 * poolIndex(name, protocol);
  }

  /** Address of the own pool. Throws `systemError` when there is no memory for it. */
  address(name: ConnectedName, algorithm: ConnectedAlgorithm, setting: ConnectedSetting): number {
    const index = poolIndex(name, setting.protocol);
    let address = this.#pools.get(index);
    if (address !== undefined) return address;
    const team = this.#team;
    const pool = new ConnectionPool(algorithm.connections(setting, team.rank), setting.slotBytes);
    address = team.extend(pool.bytes, PAGE);
    this.#pools.set(index, address);
    const { device } = team;
    const word = (team.area + ConnectionPools.word(name, setting.protocol)) >>> 2;
    Atomics.store(device.i32, word, (address - device.segmentBase) | POOL_STATE.ready);
    for (const area of team.areas) if (area !== team.area) wakeDoorbell(device, area);
    return address;
  }
}
