/** What all operations of one communicator share. */

import type { HostSelector } from '../tuning/host/selector.js';
import type { ConnectionPools } from './connection-pools.js';
import type { MessagePool } from './message-pool.js';
import type { Settings } from './settings.js';
import type { SharedStage } from './shared-stage.js';
import type { Team } from './team.js';

/** What operations of one communicator share. */
export interface OperationContext {
  readonly team: Team;
  readonly settings: Settings;
  /** Address of the PeerTable. */
  readonly peerTable: number;
  /** Addresses of each channel's table of ranks by ring distance. */
  readonly orders: readonly number[];
  readonly stage: SharedStage;
  readonly pools: ConnectionPools;
  readonly messages: MessagePool;
  readonly selector: HostSelector;
}
