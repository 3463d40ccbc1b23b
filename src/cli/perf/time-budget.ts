/**
 * How often a size may be timed where a run has to end within a time: as often as asked, unless its calls take long.
 *
 * Every size is run and checked, however long that takes; what gives way is the number of timed iterations.
 */

/** Part of the time left that timed loops may take; filling, checking and warming up take about as much. */
const LOOP_PART = 1 / 2;

/** Milliseconds that a loop may take however little is left, so that small calls are not timed once. */
const LEAST_MS = 10;

/** Seconds for all tables of `--algo each` and `--proto each`, when nobody says. */
export const EACH_SECONDS = 90;

export interface Affordable {
  /** Iterations that would be timed without a budget. */
  readonly wanted: number;
  /** Microseconds of one iteration. */
  readonly iterationUs: number;
  /** Milliseconds left. */
  readonly leftMs: number;
  /** Sides of rows (out of place, in place) that have to share them. */
  readonly sides: number;
}

/** Timed iterations of a side, at least one: all sides to come get the same time. */
export function affordableIterations({ wanted, iterationUs, leftMs, sides }: Affordable): number {
  const shareUs = Math.max(LEAST_MS, (LOOP_PART * leftMs) / sides) * 1e3;
  return Math.max(1, Math.min(wanted, Math.floor(shareUs / iterationUs)));
}

/** A size that was timed less often than without a budget. */
export interface Cut {
  readonly bytes: number;
  readonly wanted: number;
  readonly iterations: number;
}

/** The time that is left for the sides of a table. */
export class TimeBudget {
  readonly #endsAt: number;
  #sides: number;
  /** In the order of the rows. */
  readonly cuts: Cut[] = [];

  /** @param now milliseconds, on the clock of later calls */
  constructor(seconds: number, sides: number, now: number) {
    this.#endsAt = now + seconds * 1e3;
    this.#sides = sides;
  }

  leftMs(now: number): number {
    return this.#endsAt - now;
  }

  /** Decides the next side, with the values of the slowest rank. */
  next(bytes: number, wanted: number, iterationUs: number, leftMs: number): number {
    const iterations = affordableIterations({ wanted, iterationUs, leftMs, sides: this.#sides });
    if (this.#sides > 1) this.#sides -= 1;
    if (iterations < wanted) this.cuts.push({ bytes, wanted, iterations });
    return iterations;
  }
}
