/** What can be found out about a failed call, by whoever knows what the ranks have left in memory. */

import type { TuttiError } from '../errors/tutti-error.js';
import type { Trouble } from './team.js';

/** An error, and what the other ranks are told of it. */
export interface Finding {
  readonly error: TuttiError;
  readonly trouble: Trouble;
}

/** What can be found out about a call of a rank that has failed. */
export interface Witness {
  /** For a program that has ended with a status of its own: in what the ranks differ. */
  difference(status: number): Finding | undefined;
  /** Who keeps this rank waiting. */
  timeout(timeoutMs: number): Finding;
  /** More words than others have sent, where they stand in memory. */
  heard?(trouble: Trouble): TuttiError | undefined;
}
