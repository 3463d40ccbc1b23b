/**
 * Which thread runs next, and for how long: adversaries chosen by the seed.
 *
 * Bugs hide from any single way of scheduling: fine interleaving misses those that need one thread far ahead,
 * long bursts those that need a switch at one place. So every seed picks one of several strategies. Every
 * strategy is fair in the end, so that a program that spins by a loop of its own does not run for ever.
 */

import type { Random } from './random.js';
import type { Thread } from './thread.js';

/**
 * - `uniform`: any thread, one operation.
 * - `bursts`: any thread, up to a few hundred operations.
 * - `starve`: one rank, block or thread runs only when nobody else can; another victim after a while.
 * - `priorities`: the thread of highest random priority runs, with a few points where it falls to the lowest
 *   (PCT: Burckhardt, Kothari, Musuvathi, Nagarakatte, 2010).
 * - `roundRobin`: everybody in turn.
 */
export const STRATEGIES = ['uniform', 'bursts', 'starve', 'priorities', 'roundRobin'] as const;
export type Strategy = (typeof STRATEGIES)[number];

/** Steps that one thread may run before others get a turn under `priorities`. */
const FAIRNESS = 5000;

export class Scheduler {
  readonly strategy: Strategy;
  readonly runnable: Thread[] = [];
  readonly #random: Random;
  #turn = 0;
  readonly #burst: number;
  #victim: ((t: Thread) => boolean) | undefined;
  #victimUntil = 0;
  readonly #changes: number[] = [];
  #lowest = 0;
  #favourite: Thread | undefined;
  #favouriteSince = 0;

  constructor(random: Random, strategy?: Strategy) {
    this.#random = random;
    this.strategy = strategy ?? random.pick(STRATEGIES);
    this.#burst = random.pick([8, 60, 400]);
    // Change points spread over the orders of magnitude that runs have.
    for (let i = random.below(4); i > 0; i--) this.#changes.push(random.below(10 ** (1 + random.below(4))));
    this.#changes.sort((a, b) => b - a);
  }

  add(t: Thread): void {
    if (t.slot >= 0) return;
    if (t.priority === 0) t.priority = 1 + this.#random.bits();
    t.slot = this.runnable.length;
    this.runnable.push(t);
  }

  remove(t: Thread): void {
    const last = this.runnable.pop()!;
    if (last !== t) {
      this.runnable[t.slot] = last;
      last.slot = t.slot;
    }
    t.slot = -1;
  }

  /** The next thread, with its fuel for this turn. There must be a runnable one. */
  next(step: number): Thread {
    const t = this.#choose(step);
    switch (this.strategy) {
      case 'uniform':
      case 'starve':
      case 'roundRobin':
        t.fuel = 0;
        break;
      case 'bursts':
        t.fuel = this.#random.below(this.#burst);
        break;
      case 'priorities':
        t.fuel = Math.min(FAIRNESS, Math.max(0, (this.#changes.at(-1) ?? Infinity) - step));
        break;
    }
    return t;
  }

  #choose(step: number): Thread {
    const { runnable } = this;
    switch (this.strategy) {
      case 'uniform':
      case 'bursts':
        return this.#random.pick(runnable);
      case 'roundRobin':
        this.#turn = (this.#turn + 1) % runnable.length;
        return runnable[this.#turn]!;
      case 'starve': {
        if (this.#victim === undefined || step > this.#victimUntil) this.#chooseVictim(step);
        // Mostly a few tries find another thread; looking through all of them is for the end of a run.
        for (let i = 0; i < 4; i++) {
          const t = this.#random.pick(runnable);
          if (!this.#victim!(t)) return t;
        }
        const others = runnable.filter((t) => !this.#victim!(t));
        return this.#random.pick(others.length > 0 ? others : runnable);
      }
      case 'priorities': {
        let best = runnable[0]!;
        for (const t of runnable) if (t.priority > best.priority) best = t;
        if (best !== this.#favourite) {
          this.#favourite = best;
          this.#favouriteSince = step;
        }
        const changed = this.#changes.length > 0 && step >= this.#changes.at(-1)!;
        if (changed || step - this.#favouriteSince > FAIRNESS) {
          if (changed) this.#changes.pop();
          // Below every priority so far; -1 and down.
          best.priority = --this.#lowest;
          this.#favourite = undefined;
        }
        return best;
      }
    }
  }

  #chooseVictim(step: number): void {
    const { rank, block, launch, id } = this.#random.pick(this.runnable);
    this.#victim = this.#random.pick([
      (t: Thread) => t.rank === rank,
      (t: Thread) => t.launch === launch && t.block === block,
      (t: Thread) => t.id === id,
    ]);
    this.#victimUntil = step + 50 + this.#random.below(3000);
  }

  /** A thread became runnable while another runs: whether that one must stop for it. */
  preempts(t: Thread, running: Thread | undefined): boolean {
    return this.strategy === 'priorities' && running !== undefined && t.priority > running.priority;
  }
}
