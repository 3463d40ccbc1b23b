/**
 * The measuring loop of `tutti perf`: one row after the other, on the ranks that live in this process.
 *
 * In a process of its own a rank runs prepared operations synchronously, as a program in a hurry would. Ranks
 * that share a process are threads: their operations are submitted to executors and awaited together.
 * Order and rules are those of nccl-tests: warm-up by doubling sizes, one untimed operation, barrier, timed
 * loop, barrier, check runs with fresh data. Times of ranks are combined as asked.
 */

import type { Buffer } from '../../communicator/buffers.js';
import type { Communicator } from '../../communicator/communicator.js';
import type { PreparedOperation } from '../../communicator/prepared-operation.js';
import type { HostDevice } from '../../device/host/host-device.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { arrayFor } from '../../kernel/numeric.js';
import { type Combination, labels } from './combinations.js';
import { dataPlan } from './data-plan.js';
import type { PerfOptions } from './options.js';
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
import { TestData } from './test-data.js';
import { elementBytes } from './type-names.js';

/** Seed of the data that the timed operations work on, as in nccl-tests. */
const TIMED_SEED = 99;

/** Calls before the first row: V8 optimises a function after some hundreds of calls. */
const ACQUAINTANCE = { inline: 2000, threads: 200 } as const;

/** Places in the buffers that the operations of a row take turns in, at most: enough to leave the nearest cache. */
const PLACES = 64;

/** The first of them tell how long a call takes here, ... */
const FIRST_CALLS = 50;

/** ... so that on a crowded machine neither the rest nor the loop of a small row takes much longer than this, ms. */
const PATIENCE_MS = 100;

/** A rank of this process with its buffers. */
interface LocalRank {
  readonly comm: Communicator;
  readonly send: Uint8Array;
  readonly recv: Uint8Array;
}

/** Where one operation reads and writes, in bytes of the rank's buffers. */
interface Sides {
  readonly input: Uint8Array;
  readonly output: Uint8Array;
}

export interface MeasureEvents {
  row(row: ResultRow): void;
  progress(text: string): void;
}

export class Measurement {
  readonly #options: PerfOptions;
  readonly #ranks: LocalRank[];
  readonly #data: TestData;
  readonly #size: number;
  /** True when ranks share this thread and only promises can be used. */
  readonly #threads: boolean;
  readonly maxBytes: number;
  #seed = 0;
  /** Microseconds of a small operation while the ranks were getting acquainted; the same on all ranks. */
  #smallUs = 1;
  failedChecks = 0;

  /** `maxBytes` is the largest size that fits, the same on all ranks. */
  constructor(options: PerfOptions, comms: readonly Communicator[], device: HostDevice, maxBytes: number) {
    this.#options = options;
    this.#size = comms[0]!.size;
    this.#threads = comms.length > 1;
    this.maxBytes = maxBytes;
    this.#data = new TestData(device);
    // Room for the widest type at the largest offset.
    const bytes = Math.max(8, maxBytes) + 8 * options.unalign;
    const make = (comm: Communicator) =>
      options.memory === 'window' ? comm.alloc(Uint8Array, bytes) : new Uint8Array(bytes);
    this.#ranks = comms.map((comm) => ({ comm, send: make(comm), recv: make(comm) }));
  }

  close(): void {
    this.#data.close();
  }

  // ---- ranks together ----

  async #each(action: (rank: LocalRank) => Promise<unknown>): Promise<void> {
    await Promise.all(this.#ranks.map(action));
  }

  async #barrier(): Promise<void> {
    await this.#each(({ comm }) => comm.barrier());
  }

  /** Every local rank brings numbers; the result holds those of every rank, in rank order. */
  async #gather(own: (rank: LocalRank) => readonly number[]): Promise<number[][]> {
    let result: number[][] = [];
    await this.#each(async (rank) => {
      const values = Float64Array.from(own(rank));
      const all = new Float64Array(values.length * this.#size);
      await rank.comm.allGather(values, all);
      result = Array.from({ length: this.#size }, (_, r) =>
        Array.from(all.subarray(r * values.length, (r + 1) * values.length)),
      );
    });
    return result;
  }

  // ---- one operation ----

  #sides(rank: LocalRank, type: Combination['type'], counts: Counts, inPlace: boolean, shift: number): Sides {
    const size = elementBytes(type);
    const base = this.#options.unalign * size + shift;
    const { comm } = rank;
    const at = (buffer: Uint8Array, elements: number, length: number) =>
      buffer.subarray(base + elements * size, base + (elements + length) * size);
    if (!inPlace) return { input: at(rank.send, 0, counts.send), output: at(rank.recv, 0, counts.expected) };
    return {
      input: at(rank.recv, comm.rank * counts.inPlaceSend, counts.send),
      output: at(rank.recv, comm.rank * counts.inPlaceReceive, counts.expected),
    };
  }

  #prepare(
    rank: LocalRank,
    combination: Combination,
    counts: Counts,
    inPlace: boolean,
    shift: number,
  ): PreparedOperation {
    const { type, op, root } = combination;
    const { comm } = rank;
    const { input, output } = this.#sides(rank, type, counts, inPlace, shift);
    const ArrayType = arrayFor(type) as unknown as new (
      buffer: ArrayBufferLike,
      offset: number,
      length: number,
    ) => Buffer;
    const size = elementBytes(type);
    const view = (bytes: Uint8Array) =>
      new ArrayType(bytes.buffer, bytes.byteOffset, bytes.byteLength / size);
    const send = view(input);
    const recv = view(output);
    const reduction = op === undefined ? { type } : { type, op };
    const rooted = root === undefined ? {} : { root };
    switch (this.#options.collective) {
      case 'all_reduce':
        return comm.prepare.allReduce(send, recv, reduction);
      case 'reduce':
        return comm.prepare.reduce(send, recv, { ...reduction, ...rooted });
      case 'broadcast':
        return comm.prepare.broadcast(send, recv, { type, ...rooted });
      case 'all_gather':
        return comm.prepare.allGather(send, recv, { type });
      case 'reduce_scatter':
        return comm.prepare.reduceScatter(send, recv, reduction);
      case 'alltoall':
        return comm.prepare.allToAll(send, recv, { type });
      default:
        throw new TuttiError('invalidUsage', `${this.#options.collective} cannot be measured yet`);
    }
  }

  /** Runs an operation of every local rank to its end. */
  async #once(operations: readonly PreparedOperation[]): Promise<void> {
    if (this.#threads) await Promise.all(operations.map((operation) => operation.start()));
    else operations[0]!.run();
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

  async #side(combination: Combination, counts: Counts, inPlace: boolean): Promise<SideResult> {
    const options = this.#options;
    const { type } = combination;
    const { aggregated, checks } = options;
    const total = this.#iterations(counts) * aggregated;
    if (checks > 0) this.#fill(combination, counts, inPlace, TIMED_SEED);

    // Operations at every place that the rotation visits, ready before the clock starts.
    const shifts = new Map<number, PreparedOperation[]>();
    const placeOf = (index: number) => rotationOffset(index % PLACES, counts.bytes, this.maxBytes);
    const operationsAt = (shift: number): PreparedOperation[] => {
      let made = shifts.get(shift);
      if (made === undefined) {
        made = this.#ranks.map((rank) => this.#prepare(rank, combination, counts, inPlace, shift));
        shifts.set(shift, made);
      }
      return made;
    };
    const sequence = Array.from({ length: total }, (_, index) => operationsAt(placeOf(index)));
    let timed: { microseconds: number; cpu: number; samples: number[] };
    try {
      // Each operation once, since the first run of a prepared operation looks its program up.
      for (const operations of shifts.values()) await this.#once(operations);
      await this.#barrier();
      // The barrier's messages reach the ranks tens of microseconds apart; one more operation lines them up.
      await this.#once(sequence[0]!);
      timed = this.#threads ? await this.#timeThreads(sequence) : await this.#timeInline(sequence);
    } finally {
      for (const operations of shifts.values()) for (const operation of operations) operation.release();
    }

    const times = await this.#gather(() => [timed.microseconds, timed.cpu, ...timed.samples]);
    const microseconds = combineTimes(
      times.map((values) => values[0]!),
      options.averaging,
    );
    const { algbw, busbw } = bandwidthFor(
      options.collective,
      counts.count,
      elementBytes(type),
      this.#size,
      microseconds / 1e6,
    );
    await this.#barrier();
    const wrong = checks > 0 ? await this.#checks(combination, counts, inPlace) : undefined;
    const statistics = options.perIteration
      ? iterationStatistics(
          slowestPerIteration(times.map((values) => values.slice(2))),
          options.perIterationSkip,
        )
      : undefined;
    return {
      timeUs: options.reportCpuTime ? times[0]![1]! : microseconds,
      algbw,
      busbw,
      ...(wrong === undefined ? {} : { wrong }),
      ...(statistics === undefined ? {} : { iterations: statistics }),
    };
  }

  /** The loop of a rank that has this thread for itself. */
  async #timeInline(sequence: readonly PreparedOperation[][]) {
    const { blocking, perIteration, aggregated } = this.#options;
    const operations = sequence.map((all) => all[0]!);
    const samples: number[] = [];
    const start = performance.now();
    let last = start;
    for (let i = 0; i < operations.length; i++) {
      operations[i]!.run();
      if (blocking === 1) await this.#barrier();
      if (perIteration && (i + 1) % aggregated === 0) {
        const now = performance.now();
        samples.push(((now - last) * 1e3) / aggregated);
        last = now;
      }
    }
    const microseconds = ((performance.now() - start) * 1e3) / operations.length;
    // A synchronous operation is complete when it returns: enqueueing and completing take the same time.
    return { microseconds, cpu: microseconds, samples };
  }

  /** The loop of ranks that share this thread: submit to all executors, then wait for all. */
  async #timeThreads(sequence: readonly PreparedOperation[][]) {
    const { blocking, perIteration, aggregated } = this.#options;
    const samples: number[] = [];
    const start = performance.now();
    let last = start;
    let pending: Promise<void>[] = [];
    for (let i = 0; i < sequence.length; i++) {
      for (const operation of sequence[i]!) pending.push(operation.start());
      if (blocking !== 0 || perIteration) {
        await Promise.all(pending);
        pending = [];
        if (blocking === 1) await this.#barrier();
        if (perIteration && (i + 1) % aggregated === 0) {
          const now = performance.now();
          samples.push(((now - last) * 1e3) / aggregated);
          last = now;
        }
      }
    }
    const cpu = ((performance.now() - start) * 1e3) / sequence.length;
    await Promise.all(pending);
    return { microseconds: ((performance.now() - start) * 1e3) / sequence.length, cpu, samples };
  }

  // ---- data ----

  #plan(rank: LocalRank, combination: Combination, counts: Counts, inPlace: boolean, seed: number) {
    const placement = { ranks: this.#size, rank: rank.comm.rank, root: combination.root ?? 0, inPlace };
    return dataPlan(this.#options.collective, counts, placement, seed);
  }

  #fill(combination: Combination, counts: Counts, inPlace: boolean, seed: number): void {
    const { type, op } = combination;
    for (const rank of this.#ranks) {
      const { input, output } = this.#sides(rank, type, counts, inPlace, 0);
      output.fill(0);
      this.#data.fill(input, this.#plan(rank, combination, counts, inPlace, seed).send, type, op);
    }
  }

  /** Up to `checks` runs with new data; the result is the number of wrong elements over all ranks. */
  async #checks(combination: Combination, counts: Counts, inPlace: boolean): Promise<number> {
    const { type, op } = combination;
    this.#seed += 1;
    let wrong = 0;
    for (let run = 0; run < this.#options.checks && wrong === 0; run++) {
      this.#fill(combination, counts, inPlace, this.#seed);
      const operations = this.#ranks.map((rank) => this.#prepare(rank, combination, counts, inPlace, 0));
      try {
        await this.#barrier();
        await this.#once(operations);
      } finally {
        for (const operation of operations) operation.release();
      }
      const counted = await this.#gather((rank) => {
        const { expected } = this.#plan(rank, combination, counts, inPlace, this.#seed);
        if (expected === 'unchecked') return [0];
        const { output } = this.#sides(rank, type, counts, inPlace, 0);
        return [this.#data.verify(output, expected, type, op)];
      });
      wrong = counted.reduce((sum, [count]) => sum + count!, 0);
      this.failedChecks += counted.filter(([count]) => count! > 0).length;
    }
    return wrong;
  }

  // ---- sweeps ----

  async #warmUp(combination: Combination): Promise<void> {
    const { sweep, collective, warmupIterations } = this.#options;
    const size = elementBytes(combination.type);
    const capped = { ...sweep, maxBytes: Math.min(sweep.maxBytes, this.maxBytes) };
    for (const bytes of warmupSizes(capped, size)) {
      const counts = countsFor(collective, bytes, size, this.#size);
      const operations = this.#ranks.map((rank) => this.#prepare(rank, combination, counts, false, 0));
      try {
        for (let i = 0; i < warmupIterations; i++) await this.#once(operations);
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
    const size = elementBytes(combination.type);
    const counts = countsFor(this.#options.collective, 8 * this.#size, size, this.#size);
    const operations = this.#ranks.map((rank) => this.#prepare(rank, combination, counts, false, 0));
    const times = this.#threads ? ACQUAINTANCE.threads : ACQUAINTANCE.inline;
    try {
      await this.#once(operations);
      const start = performance.now();
      for (let i = 0; i < FIRST_CALLS; i++) await this.#once(operations);
      const own = ((performance.now() - start) * 1e3) / FIRST_CALLS;
      this.#smallUs = Math.max(...(await this.#gather(() => [own])).flat());
      const rest = Math.min(times - FIRST_CALLS, this.#callsIn(PATIENCE_MS));
      for (let i = 0; i < rest; i++) await this.#once(operations);
    } finally {
      for (const operation of operations) operation.release();
    }
  }

  /** All rows of one combination of type, operator and root. */
  async measure(combination: Combination, events: MeasureEvents): Promise<void> {
    const { sweep, collective, cycles, reportTimestamps } = this.#options;
    const size = elementBytes(combination.type);
    const capped = { ...sweep, maxBytes: Math.min(sweep.maxBytes, this.maxBytes) };
    await this.#barrier();
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
          timedIterations: this.#iterations(counts),
          outOfPlace,
          ...(inPlace === undefined ? {} : { inPlace }),
          ...stamp,
        });
      }
    }
  }

  /** Bytes that the buffers of one rank may have at most, given the memory that is left in the heap. */
  static largestBytes(device: HostDevice, ranksHere: number): number {
    // A send and a receive buffer per rank; a sixteenth stays free for control blocks and staging.
    return Math.floor((device.freeBytes * 15) / 16 / 2 / ranksHere / 64) * 64;
  }
}
