/**
 * Ranks that call what this one will never call, because it closes: they would wait until their time limit.
 *
 * Control blocks count the meetings and ring operations that each rank has begun, and all ranks make the same
 * calls. So a rank whose counters are ahead of those of a rank that is done has made a call too many. Messages are
 * counted by pair of ranks.
 */

import { ControlBlock } from '../collectives/control-block.js';
import type { MessagePool } from './message-pool.js';
import type { Team } from './team.js';

/** Milliseconds between two looks: short for a person, long enough to cost nothing. */
const LOOK_MS = 50;

/** Whether another rank has begun an operation that this rank has not. */
export function areOthersAhead(team: Team, messages: MessagePool): boolean {
  if (!team.shared) return false;
  if (messages.waitingPeer() !== undefined) return true;
  const control = (rank: number) => ControlBlock.at(team.device.dataView, team.areas[rank]!);
  const own = control(team.rank);
  return team.areas.some((_, rank) =>
    (['epoch', 'ringCalls'] as const).some(
      (counter) => ((control(rank).get(counter) - own.get(counter)) | 0) > 0,
    ),
  );
}

/** Looks from time to time, until `found` is called, the returned function, or the team is over. */
export function watchForStragglers(team: Team, messages: MessagePool, found: () => void): () => void {
  if (!team.shared) return () => {};
  const timer = setInterval(() => {
    const isOver = team.isOver === true;
    if (!isOver && !areOthersAhead(team, messages)) return;
    clearInterval(timer);
    if (!isOver) found();
  }, LOOK_MS);
  timer.unref();
  return () => clearInterval(timer);
}
