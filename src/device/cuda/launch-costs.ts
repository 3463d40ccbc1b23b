/**
 * What the host needs to put a kernel into a stream of a GPU, here and now. It differs between machines, and on one machine
 * between a processor that has just woken up and one that runs at its full speed: 2.6 to 5 us were seen on machines of one
 * kind. So some of the launches that happen anyway are timed, and the estimate goes a step towards each of them, which
 * makes it their median: a launch that was held up counts no more than any other.
 */

/** One launch of so many is timed: looking at the clock twice takes about a tenth of a microsecond. */
const TIMED = 8;

/** Before the first launch: kernels took 3 to 5.5 us on machines with H200 whose processors were cold. */
const FIRST_GUESS = 5;

/** A step of the estimate, as a part of it: 20 steps, 160 launches, from cold to warm. */
const STEP = 1 / 32;

/** The estimate's limits, us. */
const LEAST = 0.5;
const MOST = 10;

/** What a kernel takes longer than a graph of one kernel, us: the same on cold and on warm processors. */
const KERNEL_OVER_GRAPH = 1.4;

export class LaunchCosts {
  readonly #now: () => number;
  #kernel = FIRST_GUESS;
  #launches = 0;

  /** `now`: a clock in milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Microseconds of a launch of a kernel that may overlap the one before. */
  get kernel(): number {
    return this.#kernel;
  }

  /** Before a launch: the time, where this launch is to be timed, else 0. */
  begin(): number {
    this.#launches += 1;
    return this.#launches % TIMED === 0 ? this.#now() : 0;
  }

  /**
   * After a launch that is timed. `most`: microseconds from which on a graph's launch says nothing, since it waited for
   * the GPU.
   */
  end(began: number, asGraph: boolean, most: number): void {
    const took = (this.#now() - began) * 1e3;
    if (asGraph && took >= most) return;
    const seen = asGraph ? took + KERNEL_OVER_GRAPH : took;
    const next = this.#kernel * (seen > this.#kernel ? 1 + STEP : 1 - STEP);
    this.#kernel = Math.min(Math.max(next, LEAST), MOST);
  }
}
