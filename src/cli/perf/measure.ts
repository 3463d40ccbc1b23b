/**
 * The measuring loop of `tutti perf`: one row after the other, on the ranks that live in this process.
 *
 * Order and rules are those of nccl-tests: warm-up by doubling sizes, one untimed operation, barrier, timed
 * loop, barrier, check runs with fresh data. Times of ranks are combined as asked.
 */

import { type Combination, labels } from './combinations.js';
import { dataPlan } from './data-plan.js';
import type { PerfOptions } from './options.js';
import type { PerfOperation, PerfRanks, Region, Sides, Timed, TimedLoop } from './perf-ranks.js';
import { formatTimestamp, type ResultRow, type SideResult } from './report.js';
import {
  bandwidthFor,
  type Counts,
  countsFor,
  hasInPlace,
  iterationsFor,
  rotationOffset,
  sweepSizes,
  warmupSizes,
} from './sizes.js';
import { combineTimes, iterationStatistics, slowestPerIteration } from './statistics.js';
import type { TimeBudget } from './time-budget.js';
import { elementBytes } from './type-names.js';

/** Seed of the data that the timed operations work on, as in nccl-tests. */
const TIMED_SEED = 99;

/** Places in the buffers that the operations of a row take turns in, at most: enough to leave the nearest cache. */
const PLACES = 64;

/** Calls of a portion of those that let ranks get acquainted: a function that is called again is compiled whole. */
const PORTION = 250;

/** Most time for all portions, ms: on a crowded machine compiling takes turns with the calls. */
const ACQUAINTANCE_MS = 500;

/** On a crowded machine the loop of a small row does not take much longer than this, ms. */
const PATIENCE_MS = 100;

/** Below this size a call's first run tells little of what it takes, and more runs and a warm-up cost nothing. */
const UNHURRIED_BYTES = 1048576;

const NOTHING_TIMED: Timed = { microseconds: 0, cpu: 0, samples: [] };

/** One side of a row, with the iterations that it was timed over. */
interface TimedSide {
  readonly result: SideResult;
  readonly iterations: number;
}

export interface MeasureEvents {
  row(row: ResultRow): void;
  progress(text: string): void;
}

export class Measurement<O extends PerfOperation> {
  readonly #options: PerfOptions;
  readonly #ranks: PerfRanks<O>;
  readonly #size: number;
  readonly maxBytes: number;
  readonly #budget: TimeBudget | undefined;
  readonly #loop: TimedLoop;
  #seed = 0;
  /** Microseconds of a small operation while the ranks were getting acquainted; the same on all ranks. */
  #smallUs = 1;
  failedChecks = 0;

  /**
   * `maxBytes` is the largest size that fits, the same on all ranks. With a budget slow sizes are timed less often; all
   * ranks have one, or none.
   */
  constructor(options: PerfOptions, ranks: PerfRanks<O>, maxBytes: number, budget?: TimeBudget) {
    this.#options = options;
    const { blocking, perIteration, aggregated } = options;
    this.#loop = { blocking, perIteration, aggregated };
    this.#budget = budget;
    this.#ranks = ranks;
    this.#size = ranks.size;
    this.maxBytes = maxBytes;
  }

  /** Room for elements of a type at the largest offset. */
  #makeBuffers(type: Combination['type']): void {
    this.#ranks.makeBuffers(Math.max(8, this.maxBytes) + 8 * this.#options.unalign, type);
  }

  // ---- one operation ----

  #sides(index: number, type: Combination['type'], counts: Counts, inPlace: boolean, shift: number): Sides {
    const size = elementBytes(type);
    const base = this.#options.unalign * size + shift;
    const rank = this.#ranks.ranks[index]!;
    const at = (buffer: Region['buffer'], elements: number, length: number): Region => ({
      buffer,
      from: base + elements * size,
      bytes: length * size,
    });
    if (!inPlace) return { input: at('send', 0, counts.send), output: at('recv', 0, counts.expected) };
    return {
      input: at('recv', rank * counts.inPlaceSend, counts.send),
      output: at('recv', rank * counts.inPlaceReceive, counts.expected),
    };
  }

  /** The operation of every rank of this process. */
  #prepare(combination: Combination, counts: Counts, inPlace: boolean, shift: number): O[] {
    return this.#ranks.ranks.map((_, index) =>
      this.#ranks.prepare(index, combination, this.#sides(index, combination.type, counts, inPlace, shift)),
    );
  }

  // ---- one side of one row ----

  #iterations(counts: Counts): number {
    const { iterations, isIterationsGiven, perIteration } = this.#options;
    const wanted = iterationsFor(counts.bytes, iterations, isIterationsGiven || perIteration);
    return wanted === iterations
      ? wanted
      : Math.max(iterations, Math.min(wanted, this.#callsIn(PATIENCE_MS)));
  }

  /** Small operations that fit into a time. */
  #callsIn(milliseconds: number): number {
    return Math.floor((milliseconds * 1e3) / this.#smallUs);
  }

  async #side(combination: Combination, counts: Counts, inPlace: boolean): Promise<TimedSide> {
    const options = this.#options;
    const { checks } = options;
    // Where time is short, a large size may be timed and checked in one run, so its data are those of a check.
    const isHurried = this.#budget !== undefined && counts.bytes >= UNHURRIED_BYTES;
    if (isHurried) this.#seed += 1;
    if (checks > 0) await this.#fill(combination, counts, inPlace, isHurried ? this.#seed : TIMED_SEED);

    // Operations at every place that the rotation visits, ready before the clock starts.
    const shifts = new Map<number, O[]>();
    const placeOf = (index: number) => rotationOffset(index % PLACES, counts.bytes, this.maxBytes);
    const operationsAt = (shift: number): O[] => {
      let made = shifts.get(shift);
      if (made === undefined) {
        made = this.#prepare(combination, counts, inPlace, shift);
        shifts.set(shift, made);
      }
      return made;
    };
    const sequenceOf = (iterations: number) =>
      Array.from({ length: iterations * options.aggregated }, (_, index) => operationsAt(placeOf(index)));
    let timed: Timed;
    let iterations: number;
    let wrong: number | undefined;
    try {
      const first = await this.#firstRun(counts, sequenceOf(1), isHurried);
      ({ iterations } = first);
      if (isHurried && iterations === 1) {
        ({ timed } = first);
        if (checks === 1) wrong = await this.#wrongElements(combination, counts, inPlace);
      } else {
        const sequence = sequenceOf(iterations);
        // Each operation once, since the first run of a prepared operation looks its program up.
        for (const operations of shifts.values()) await this.#ranks.once(operations);
        await this.#ranks.barrier();
        // The barrier's messages reach the ranks tens of microseconds apart; one more operation lines them up.
        await this.#ranks.once(sequence[0]!);
        timed = await this.#ranks.time(sequence, this.#loop);
      }
    } finally {
      for (const operations of shifts.values()) for (const operation of operations) operation.release();
    }

    const times = await this.#ranks.gather(() => [timed.microseconds, timed.cpu, ...timed.samples]);
    const microseconds = combineTimes(
      times.map((values) => values[0]!),
      options.averaging,
    );
    const { algbw, busbw } = bandwidthFor(
      options.collective,
      counts.count,
      elementBytes(combination.type),
      this.#size,
      microseconds / 1e6,
    );
    await this.#ranks.barrier();
    if (checks > 0 && wrong === undefined) wrong = await this.#checks(combination, counts, inPlace);
    const statistics = options.perIteration
      ? iterationStatistics(
          slowestPerIteration(times.map((values) => values.slice(2))),
          options.perIterationSkip,
        )
      : undefined;
    const result = {
      timeUs: options.reportCpuTime ? times[0]![1]! : microseconds,
      algbw,
      busbw,
      ...(wrong === undefined ? {} : { wrong }),
      ...(statistics === undefined ? {} : { iterations: statistics }),
    };
    return { result, iterations };
  }

  /**
   * Decides how often a side is timed: the same on all ranks. Without a budget nothing is run; else one iteration is,
   * and its time tells.
   */
  async #firstRun(
    counts: Counts,
    sequence: readonly (readonly O[])[],
    isHurried: boolean,
  ): Promise<{ readonly iterations: number; readonly timed: Timed }> {
    const wanted = this.#iterations(counts);
    const budget = this.#budget;
    if (budget === undefined) return { iterations: wanted, timed: NOTHING_TIMED };
    // The first run of a small operation mostly looks its program up.
    if (!isHurried) await this.#ranks.once(sequence[0]!);
    await this.#ranks.barrier();
    const timed = await this.#ranks.time(sequence, this.#loop);
    const { aggregated } = this.#options;
    const all = await this.#ranks.gather(() => [
      timed.microseconds * aggregated,
      budget.leftMs(performance.now()),
    ]);
    const slowest = Math.max(...all.map(([microseconds]) => microseconds!));
    const leftMs = Math.min(...all.map(([, left]) => left!));
    return { iterations: budget.next(counts.bytes, wanted, slowest, leftMs), timed };
  }

  // ---- data ----

  #plan(index: number, combination: Combination, counts: Counts, inPlace: boolean, seed: number) {
    const rank = this.#ranks.ranks[index]!;
    const placement = { ranks: this.#size, rank, root: combination.root ?? 0, inPlace };
    return dataPlan(this.#options.collective, counts, placement, seed);
  }

  async #fill(combination: Combination, counts: Counts, inPlace: boolean, seed: number): Promise<void> {
    for (const index of this.#ranks.ranks.keys()) {
      const { input, output } = this.#sides(index, combination.type, counts, inPlace, 0);
      const { send } = this.#plan(index, combination, counts, inPlace, seed);
      await this.#ranks.clear(index, output);
      await this.#ranks.fill(index, input, send, combination);
    }
  }

  /** Up to `checks` runs with new data; the result is the number of wrong elements over all ranks. */
  async #checks(combination: Combination, counts: Counts, inPlace: boolean): Promise<number> {
    this.#seed += 1;
    let wrong = 0;
    for (let run = 0; run < this.#options.checks && wrong === 0; run++) {
      await this.#fill(combination, counts, inPlace, this.#seed);
      const operations = this.#prepare(combination, counts, inPlace, 0);
      try {
        await this.#ranks.barrier();
        await this.#ranks.once(operations);
      } finally {
        for (const operation of operations) operation.release();
      }
      wrong = await this.#wrongElements(combination, counts, inPlace);
    }
    return wrong;
  }

  /** Compares all outputs with what the last seed gives; the result is the number of wrong elements over all ranks. */
  async #wrongElements(combination: Combination, counts: Counts, inPlace: boolean): Promise<number> {
    const own: number[] = [];
    for (const index of this.#ranks.ranks.keys()) {
      const { expected } = this.#plan(index, combination, counts, inPlace, this.#seed);
      const { output } = this.#sides(index, combination.type, counts, inPlace, 0);
      own.push(expected === 'unchecked' ? 0 : await this.#ranks.verify(index, output, expected, combination));
    }
    const counted = await this.#ranks.gather((index) => [own[index]!]);
    this.failedChecks += counted.filter(([count]) => count! > 0).length;
    return counted.reduce((sum, [count]) => sum + count!, 0);
  }

  // ---- sweeps ----

  async #warmUp(combination: Combination): Promise<void> {
    const { sweep, collective, warmupIterations, isWarmupGiven } = this.#options;
    const size = elementBytes(combination.type);
    const isShort = this.#budget !== undefined && !isWarmupGiven;
    const most = isShort ? Math.max(sweep.minBytes, UNHURRIED_BYTES) : Number.POSITIVE_INFINITY;
    const capped = { ...sweep, maxBytes: Math.min(sweep.maxBytes, this.maxBytes, most) };
    for (const bytes of warmupSizes(capped, size)) {
      const counts = countsFor(collective, bytes, size, this.#size);
      const operations = this.#prepare(combination, counts, false, 0);
      try {
        for (let i = 0; i < warmupIterations; i++) await this.#ranks.once(operations);
      } finally {
        for (const operation of operations) operation.release();
      }
    }
  }

  /**
   * Lets the JavaScript engine see the calls often enough to compile them well, once per run: what is measured
   * afterwards is the library and not its first acquaintance.
   */
  async acquaint(combination: Combination): Promise<void> {
    const { collective, blocking } = this.#options;
    const loop: TimedLoop = { blocking, perIteration: false, aggregated: 1 };
    this.#makeBuffers(combination.type);
    const size = elementBytes(combination.type);
    const counts = countsFor(collective, 8 * this.#size, size, this.#size);
    const sides = hasInPlace(collective) ? [false, true] : [false];
    const portions = sides.map((inPlace) =>
      new Array<O[]>(PORTION).fill(this.#prepare(combination, counts, inPlace, 0)),
    );
    try {
      for (const [operations] of portions) await this.#ranks.once(operations!);
      const start = performance.now();
      let calls = 0;
      let elapsedMs = 0;
      // In turns, as rows have both, and in the loop of the rows.
      while (calls < this.#ranks.acquaintance && elapsedMs < ACQUAINTANCE_MS) {
        const { microseconds } = await this.#ranks.time(portions[(calls / PORTION) % portions.length]!, loop);
        calls += PORTION;
        const all = await this.#ranks.gather(() => [microseconds, performance.now() - start]);
        this.#smallUs = Math.max(...all.map(([us]) => us!));
        elapsedMs = Math.max(...all.map(([, ms]) => ms!));
      }
    } finally {
      for (const [operations] of portions) for (const operation of operations!) operation.release();
    }
  }

  /** All rows of one combination of type, operator and root. */
  async measure(combination: Combination, events: MeasureEvents): Promise<void> {
    const { sweep, collective, cycles, reportTimestamps } = this.#options;
    const size = elementBytes(combination.type);
    const capped = { ...sweep, maxBytes: Math.min(sweep.maxBytes, this.maxBytes) };
    this.#makeBuffers(combination.type);
    await this.#ranks.barrier();
    await this.#warmUp(combination);
    for (let cycle = 0; cycles === 0 || cycle < cycles; cycle++) {
      for (const bytes of sweepSizes(capped, size)) {
        const counts = countsFor(collective, bytes, size, this.#size);
        events.progress(`${collective} of ${combination.type}, ${counts.bytes} bytes`);
        const outOfPlace = await this.#side(combination, counts, false);
        const inPlace = hasInPlace(collective) ? await this.#side(combination, counts, true) : undefined;
        const stamp = reportTimestamps ? { timestamp: formatTimestamp(new Date()) } : {};
        events.row({
          bytes: counts.bytes,
          count: counts.count,
          ...labels(collective, combination),
          timedIterations: Math.min(outOfPlace.iterations, inPlace?.iterations ?? outOfPlace.iterations),
          outOfPlace: outOfPlace.result,
          ...(inPlace === undefined ? {} : { inPlace: inPlace.result }),
          ...stamp,
        });
      }
    }
  }
}
