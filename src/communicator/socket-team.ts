/**
 * Teams whose ranks do not share memory: rings over sockets.
 */

import type { Bootstrap } from '../bootstrap/bootstrap.js';
import type { HostDevice } from '../device/host/host-device.js';
import type { WaitPeer } from '../device/host/waiting.js';
import { TuttiError } from '../errors/tutti-error.js';
import type { Settings } from './settings.js';
import type { Team } from './team.js';

export interface SocketTeamParts {
  readonly bootstrap: Bootstrap;
  readonly device: HostDevice;
  readonly settings: Settings;
  /** Own area (see rank-area.ts); belongs to the team from now on. */
  readonly area: number;
  readonly localSize: number;
  readonly peers: readonly WaitPeer[];
  readonly control: Pick<Team, 'allGather' | 'barrier' | 'onTrouble' | 'tell'>;
  /** Why memory is not shared. */
  readonly reason: string;
}

export async function openSocketTeam(parts: SocketTeamParts): Promise<Team> {
  throw new TuttiError('systemError', `the ranks cannot share memory: ${parts.reason}`);
}
