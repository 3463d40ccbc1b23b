/**
 * Ranks of one thread that are not called in turns: what a rank puts on its GPU waits there for the other ranks, and a
 * stream takes about a thousand launches (3000 did let the thread wait on H200). With the next one the driver lets the thread
 * wait, which then never comes to call the ranks that are waited for. So a rank that is that far ahead is refused before.
 */
import { isBehind } from './call-boards.js';

/** Launches by which a rank may be ahead of another one of its thread: on H200 so many did not let it wait. */
export const MOST_AHEAD = 600;

/** A power of two above that. */
const KEPT = 1024;

/** One launch of so many is checked. */
const CHECKED = 16;

export class LaunchesAhead {
  /** Operations that the rank had begun with each of its last launches. */
  readonly #begun = new Int32Array(KEPT);
  #launches = 0;

  /**
   * A launch is about to happen, before which so many operations had begun. Gives ranks that have not begun what came with
   * the launch MOST_AHEAD before; `begunBy` tells how far each has come.
   */
  next(begun: number, begunBy: () => readonly (number | undefined)[]): number[] {
    const launches = this.#launches;
    let behind: number[] = [];
    if (launches >= MOST_AHEAD && launches % CHECKED === 0) {
      const due = this.#begun[(launches - MOST_AHEAD) & (KEPT - 1)]!;
      behind = begunBy().flatMap((other, rank) =>
        other !== undefined && isBehind(other, due) ? [rank] : [],
      );
    }
    if (behind.length === 0) {
      // The operations of the launch before are known now.
      this.#begun[(launches - 1) & (KEPT - 1)] = begun;
      this.#launches = launches + 1;
    }
    return behind;
  }
}
