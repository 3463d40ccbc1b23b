/**
 * A machine of many ranks that runs device programs under a seeded, adversarial scheduler, and reports what
 * would go wrong on some real machine: deadlocks, races, reads of data that was not published, accesses out
 * of bounds or out of alignment. The same seed gives the same run, step by step.
 *
 * ```ts
 * const machine = new Machine({ seed: 7, memory: 'weak' });
 * const data = machine.region('data', 64, 0, { zeroed: true });
 * machine.launch(program, { rank: 0, descriptor: machine.struct(Work, 0, { data, count: 4n }) });
 * machine.run();
 * machine.readArray(data, Uint32Array, 4);
 * ```
 *
 * In the interpreter a fence of order `both` is acquire and release, not sequentially consistent; atomics see
 * the newest value. Warp operations give no memory order. `wake` and `sleepOn` do nothing. A thread may not
 * come back from `wait` without the condition, except when its rank was aborted: then it ends, and the other
 * threads of its block that wait for it at a barrier end too.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { MEMORY_BYTES, type MemoryType, type Program, STATUS } from '../ir.js';
import type { FieldType, Struct } from '../layout.js';
import { Block } from './block.js';
import { joined, MAX_THREADS, stampThread } from './clock.js';
import { compileProgram } from './compile.js';
import { type FaultKind, MachineFault } from './fault.js';
import { Memory } from './memory.js';
import type { Packet } from './packet.js';
import { Random } from './random.js';
import { REGION_SPAN, Region, type RegionOptions } from './region.js';
import { Scheduler, type Strategy } from './scheduler.js';
import { Thread } from './thread.js';
import { Trace } from './trace.js';

export interface MachineOptions {
  seed: number;
  /** `weak`: synchronising loads may see older values, as on Arm and GPUs. */
  memory: 'strong' | 'weak';
  /** Steps (accesses and turns) after which a run counts as endless; 5 million by default. */
  maxSteps?: number;
  /** Accesses that a fault reports; 0 by default, because keeping them costs time. */
  traceLength?: number;
  /** Threads of a warp; 32 by default. Tests of small blocks may have smaller warps. */
  warpSize?: number;
  /** The device of a rank, for scopes; by default every rank has its own. */
  deviceOf?: (rank: number) => number;
  /** The way of scheduling; by default the seed chooses. */
  strategy?: Strategy;
  /** Is told every access, before it takes effect. Not together with `traceLength`. */
  observe?: (access: Access) => void;
}

/** An access of a program to memory. */
export interface Access {
  /** Rank of the program. */
  readonly rank: number;
  readonly kind: 'load' | 'store' | 'atomic';
  /** Address of the region, its owner, and where in it. */
  readonly region: number;
  readonly owner: number;
  readonly at: number;
  readonly bytes: number;
}

export interface LaunchOptions {
  rank: number;
  /** Address of the work descriptor. */
  descriptor: number;
  blocks?: number;
  /** Threads per block; 1 for single-thread programs. */
  threads?: number;
}

/** A launch and, after the run, the statuses that its threads ended with. */
export interface Launch {
  readonly program: string;
  readonly rank: number;
  /** By block, then thread. */
  readonly statuses: readonly number[];
}

/** Launches of a stream run one after the other. */
export interface Stream {
  launch(program: Program, options: Omit<LaunchOptions, 'rank'>): Launch;
}

export interface Outcome {
  /** `aborted` when any thread ended because its rank was aborted. */
  status: 'done' | 'aborted';
  steps: number;
  launches: readonly Launch[];
}

interface QueuedLaunch {
  readonly program: Program;
  readonly options: Required<LaunchOptions>;
  readonly result: { program: string; rank: number; statuses: number[] };
  readonly after: QueuedLaunch | undefined;
  readonly threads: Thread[];
  alive: number;
}

/** Most threads that the report of a deadlock describes. */
const REPORTED_THREADS = 24;
/** Lanes of a warp that store a line together. */
const LINE_LANES = 8;
/** Loop rounds without an access before others get a turn. */
const SLACK = 2000;

export class Machine {
  readonly seed: number;
  readonly memoryMode: 'strong' | 'weak';
  readonly #options: MachineOptions;
  readonly #maxSteps: number;
  readonly #memory: Memory;
  readonly #scheduler: Scheduler;
  readonly #random: Random;
  readonly #trace: Trace | undefined;
  /** 0 in runs that only switch threads at synchronising accesses, which race-free programs cannot notice. */
  readonly #weakCost: number;
  #queue: QueuedLaunch[] = [];
  readonly #results: Launch[] = [];
  /** By id; 0 is the host. */
  #threads: (Thread | undefined)[] = [undefined];
  readonly #blocks = new Map<number, Block>();
  /** By number. */
  readonly #started: QueuedLaunch[] = [];
  #running: Thread | undefined;
  readonly #aborted = new Set<number>();
  readonly #aborts: { rank: number; atStep: number }[] = [];
  #broken = false;

  constructor(options: MachineOptions) {
    this.#options = options;
    this.seed = options.seed;
    this.memoryMode = options.memory;
    this.#maxSteps = options.maxSteps ?? 5_000_000;
    const random = new Random(options.seed);
    this.#random = random;
    this.#scheduler = new Scheduler(random, options.strategy);
    this.#weakCost = random.below(2);
    this.#memory = new Memory({
      weak: options.memory === 'weak',
      random,
      staleness: random.pick([0.1, 0.5, 0.9]),
      delay: random.pick([10, 60, 400]),
      fault: (thread, kind, what) => this.#fault(thread, kind, what),
      wake: (thread) => this.#wake(thread),
    });
    this.#memory.nameOf = (stamp) => this.#name(this.#threads[stampThread(stamp)]);
    const { observe } = options;
    if (options.traceLength !== undefined && options.traceLength > 0) {
      this.#trace = new Trace(options.traceLength);
      this.#memory.listener = this.#trace;
    } else if (observe !== undefined) {
      this.#memory.listener = {
        access: ({ rank }, verb, { base, owner }, at, bytes) => {
          const kind = verb.endsWith('load') ? 'load' : verb.endsWith('store') ? 'store' : 'atomic';
          observe({ rank, kind, region: base, owner, at, bytes });
        },
      };
    }
  }

  get strategy(): Strategy {
    return this.#scheduler.strategy;
  }

  // ---- host side ----

  /** Makes a region of memory and returns its address, which is a multiple of any alignment. */
  region(name: string, bytes: number, owner: number, options: RegionOptions = {}): number {
    const region = new Region(this.#memory.regions.length, name, bytes, owner, options);
    this.#memory.regions.push(region);
    return region.base;
  }

  #place(address: number, bytes: number): { region: Region; at: number } {
    const region = this.#memory.regions[Math.floor(address / REGION_SPAN)];
    if (region === undefined || address - region.base + bytes > region.bytes) {
      const where = this.#memory.describe(address);
      throw new TuttiError('invalidArgument', `the host accesses ${bytes} bytes at ${where} out of bounds`);
    }
    return { region, at: address - region.base };
  }

  /** `name+0x10` of an address. */
  describe(address: number): string {
    return this.#memory.describe(address);
  }

  /** The raw bytes of the region at an address; stores through it must be told to `initialized`. */
  view(address: number): DataView {
    return this.#place(address, 0).region.view;
  }

  /** Says that the host stored these bytes. */
  initialized(address: number, bytes: number): void {
    const { region, at } = this.#place(address, bytes);
    region.stored(at, bytes);
  }

  write(memory: MemoryType, address: number, value: number | bigint): void {
    const bytes = MEMORY_BYTES[memory];
    const { region, at } = this.#place(address, bytes);
    region.stored(at, bytes);
    const { view } = region;
    if (memory === 'f32') view.setFloat32(at, Number(value), true);
    else if (memory === 'f64') view.setFloat64(at, Number(value), true);
    else {
      const bits = BigInt(value);
      for (let i = 0; i < bytes; i++) view.setUint8(at + i, Number((bits >> BigInt(8 * i)) & 255n));
    }
  }

  /** A number, or a bigint for 64-bit integers and packets. */
  read(memory: MemoryType, address: number): number | bigint {
    const bytes = MEMORY_BYTES[memory];
    const { region, at } = this.#place(address, bytes);
    const { view } = region;
    if (memory === 'f32') return view.getFloat32(at, true);
    if (memory === 'f64') return view.getFloat64(at, true);
    let bits = 0n;
    for (let i = bytes - 1; i >= 0; i--) bits = bits * 256n + BigInt(view.getUint8(at + i));
    if (memory === 'i64') return BigInt.asIntN(64, bits);
    if (memory === 'u64' || memory === 'packet') return bits;
    return memory[0] === 'i' ? Number(BigInt.asIntN(bytes * 8, bits)) : Number(bits);
  }

  /** Stores the content of a typed array. */
  writeArray(address: number, values: ArrayBufferView): void {
    const { region, at } = this.#place(address, values.byteLength);
    region.stored(at, values.byteLength);
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    new Uint8Array(region.view.buffer).set(bytes, at);
  }

  /** A copy of memory as a typed array of `length` elements. */
  readArray<A>(
    address: number,
    type: { new (buffer: ArrayBuffer): A; BYTES_PER_ELEMENT: number },
    length: number,
  ): A {
    const bytes = length * type.BYTES_PER_ELEMENT;
    const { region, at } = this.#place(address, bytes);
    return new type((region.view.buffer as ArrayBuffer).slice(at, at + bytes));
  }

  /**
   * Makes a region that holds a struct, its other fields zero, and returns its address. Say `readOnly` where
   * programs only load it: that also spares the bookkeeping of who did.
   */
  struct<F extends Record<string, FieldType>>(
    layout: Struct<F>,
    owner: number,
    values: { readonly [K in keyof F]?: number | bigint | readonly (number | bigint)[] },
    name = layout.name,
    options: RegionOptions = {},
  ): number {
    const address = this.region(name, layout.size, owner, { ...options, zeroed: true });
    const target = layout.at(this.view(address), 0);
    for (const [field, value] of Object.entries(values)) {
      if (value === undefined) continue;
      const cells = Array.isArray(value) ? value : [value];
      for (const [i, cell] of cells.entries()) target.set(field, cell, i);
    }
    return address;
  }

  // ---- launches ----

  #enqueue(program: Program, options: LaunchOptions, after: QueuedLaunch | undefined): QueuedLaunch {
    const { blocks = 1, threads = 1 } = options;
    if (program.traits.singleThread && threads !== 1) {
      const what = `${program.name} is a single-thread program, launched with ${threads} threads`;
      throw new TuttiError('invalidArgument', `${what}; use threads: 1`);
    }
    const result = { program: program.name, rank: options.rank, statuses: [] };
    const launch: QueuedLaunch = {
      program,
      options: { ...options, blocks, threads },
      result,
      after,
      threads: [],
      alive: blocks * threads,
    };
    this.#queue.push(launch);
    this.#results.push(result);
    return launch;
  }

  /** Queues a launch that may run at the same time as all others. */
  launch(program: Program, options: LaunchOptions): Launch {
    return this.#enqueue(program, options, undefined).result;
  }

  /** A stream of launches of one rank that run in order, each ordered after all of the one before. */
  stream(rank: number): Stream {
    let last: QueuedLaunch | undefined;
    return {
      launch: (program, options) => {
        // A launch of an earlier run is over.
        const after = last !== undefined && this.#queue.includes(last) ? last : undefined;
        last = this.#enqueue(program, { ...options, rank }, after);
        return last.result;
      },
    };
  }

  /** Aborts a rank once the machine has done so many steps: its waits that do not hold yet end. */
  abort(rank: number, options: { atStep?: number } = {}): void {
    this.#aborts.push({ rank, atStep: options.atStep ?? 0 });
  }

  /** Runs all queued launches to their end. */
  run(): Outcome {
    if (this.#broken) throw new TuttiError('invalidUsage', 'this machine had a fault; make a new one');
    this.#broken = true;
    const queue = this.#queue;
    this.#begin(queue);
    while (true) {
      if (this.#aborts.length > 0) this.#abortDue();
      if (this.#scheduler.runnable.length === 0) {
        if (!queue.some((l) => l.alive > 0)) break;
        if (!this.#resolveAborts()) this.#reportDeadlock(queue);
        continue;
      }
      this.#step();
    }
    this.#memory.settle();
    this.#queue = [];
    this.#threads = [undefined];
    this.#blocks.clear();
    this.#broken = false;
    const launches = queue.map((l) => l.result);
    const aborted = launches.some((l) => l.statuses.includes(STATUS.aborted));
    return { status: aborted ? 'aborted' : 'done', steps: this.#memory.steps, launches };
  }

  #begin(queue: readonly QueuedLaunch[]): void {
    const total = queue.reduce((n, l) => n + l.options.blocks * l.options.threads, 0);
    if (total > MAX_THREADS) {
      throw new TuttiError(
        'invalidArgument',
        `${total} threads; the interpreter runs ${MAX_THREADS} at most`,
      );
    }
    for (const l of queue) if (l.after === undefined) this.#start(l, new Int32Array(total + 1));
  }

  #start(l: QueuedLaunch, base: Int32Array): void {
    const { rank, descriptor, blocks, threads } = l.options;
    const program = compileProgram(l.program);
    const device = this.#options.deviceOf?.(rank) ?? rank;
    const number = this.#started.push(l) - 1;
    for (let b = 0; b < blocks; b++) {
      const block = new Block(this.#options.warpSize ?? 32, this);
      for (let i = 0; i < threads; i++) {
        const id = this.#threads.length;
        const { name } = l.program;
        const t = new Thread(id, name, program.sites, rank, device, number, b, i, threads, blocks, base);
        t.weakCost = this.#weakCost;
        t.fibre = program.start(t, this.#memory, this, descriptor);
        this.#threads.push(t);
        this.#blocks.set(id, block);
        block.threads.push(t);
        l.threads.push(t);
        l.result.statuses.push(-1);
        this.#scheduler.add(t);
      }
    }
  }

  #step(): void {
    const t = this.#scheduler.next(this.#memory.steps);
    t.slack = SLACK;
    if (++this.#memory.steps > this.#maxSteps) {
      this.#fault(t, 'limit', `still running after ${this.#maxSteps} steps`);
    }
    this.#running = t;
    const { done, value } = t.fibre!.next();
    this.#running = undefined;
    if (done) this.#end(t, value);
    else if (t.state !== 'runnable') this.#scheduler.remove(t);
  }

  #end(t: Thread, status: number): void {
    t.state = 'ended';
    t.status = status;
    t.fibre = undefined;
    if (t.slot >= 0) this.#scheduler.remove(t);
    const launch = this.#started[t.launch]!;
    launch.result.statuses[t.block * t.threadCount + t.index] = status;
    if (--launch.alive > 0) return;
    for (const next of this.#queue) {
      if (next.after !== launch) continue;
      let { base } = launch.threads[0]!;
      for (const before of launch.threads) base = joined(base, before.clock());
      this.#start(next, base);
    }
  }

  // ---- aborts and deadlocks ----

  #abortDue(): void {
    for (const { rank, atStep } of this.#aborts) {
      if (this.#memory.steps < atStep || this.#aborted.has(rank)) continue;
      this.#aborted.add(rank);
      for (const t of this.#threads) if (t?.rank === rank && t.state === 'waiting') this.release(t);
    }
  }

  /** Nobody can run: whether an abort, still to come or half done, changes that. */
  #resolveAborts(): boolean {
    const next = this.#aborts.filter((a) => !this.#aborted.has(a.rank));
    if (next.length > 0) {
      // Time passes while everybody waits.
      this.#memory.steps = Math.max(this.#memory.steps, Math.min(...next.map((a) => a.atStep)));
      return true;
    }
    const held = this.#threads.filter((t) => {
      if (t === undefined || (t.state !== 'barrier' && t.state !== 'warp')) return false;
      return this.#blocks.get(t.id)!.threads.some((o) => o.state === 'ended' && o.status === STATUS.aborted);
    });
    for (const t of held) this.#end(t!, STATUS.aborted);
    return held.length > 0;
  }

  #reportDeadlock(queue: readonly QueuedLaunch[]): never {
    const stuck = this.#threads.filter((t): t is Thread => t !== undefined && t.state !== 'ended');
    const lines = stuck.slice(0, REPORTED_THREADS).map((t) => {
      const where = `at ${t.sites[t.site]!.place} of ${t.program}`;
      if (t.state !== 'waiting') {
        return `${this.#name(t)} is held ${where} by ${this.#blocks.get(t.id)!.progress(t)}`;
      }
      const polled = t.watched.map(({ region, cell }) => {
        const value = region.view.getUint32(cell * 4, true);
        return `${region.name}+0x${(cell * 4).toString(16)} = ${value}`;
      });
      return `${this.#name(t)} waits ${where} on ${polled.join(', ') || 'nothing in memory'}`;
    });
    if (stuck.length > lines.length) lines.push(`and ${stuck.length - lines.length} more threads`);
    const unstarted = queue.filter((l) => l.threads.length === 0).length;
    if (unstarted > 0) lines.push(`${unstarted} launches have not begun`);
    this.#fault(stuck[0]!, 'deadlock', `nobody can go on:\n  ${lines.join('\n  ')}`);
  }

  #name(t: Thread | undefined): string {
    return t === undefined ? 'the host' : `rank ${t.rank} block ${t.block} thread ${t.index}`;
  }

  #fault(t: Thread, kind: FaultKind, what: string): never {
    throw new MachineFault({
      kind,
      what,
      program: t.program,
      rank: t.rank,
      block: t.block,
      thread: t.index,
      place: t.sites[t.site]?.place ?? '',
      seed: this.seed,
      memory: this.memoryMode,
      trace: this.#trace?.lines() ?? [],
    });
  }

  // ---- called by compiled programs, blocks and memory ----

  trap(t: Thread, what: string): never {
    return this.#fault(t, 'trap', what);
  }

  hold(t: Thread, state: 'barrier' | 'warp'): void {
    t.state = state;
  }

  release(t: Thread): void {
    t.state = 'runnable';
    this.#scheduler.add(t);
    if (this.#scheduler.preempts(t, this.#running)) this.#running!.fuel = 0;
  }

  #wake(t: Thread): void {
    t.woken = true;
    if (t.state === 'waiting') this.release(t);
  }

  beginPoll(t: Thread): void {
    t.woken = false;
    t.stale = false;
  }

  endPoll(t: Thread): void {
    t.polling = false;
    if (t.watched.length > 0) this.#memory.unwatch(t);
  }

  /** The condition does not hold: true when the thread has to end because its rank is aborted. */
  failPoll(t: Thread): boolean {
    if (this.#aborted.has(t.rank)) {
      this.endPoll(t);
      return true;
    }
    // The second poll watches what it loads; only after it may the thread sleep.
    if (!t.polling) t.polling = true;
    else if (!t.woken && !t.stale) t.state = 'waiting';
    return false;
  }

  arrive(t: Thread, id: number, count: number): boolean {
    this.#memory.steps++;
    return this.#blocks.get(t.id)!.arrive(t, id, count);
  }

  meetWarp(t: Thread): boolean {
    this.#memory.steps++;
    return this.#blocks.get(t.id)!.meetWarp(t);
  }

  shuffle(t: Thread, value: unknown, lane: number): boolean {
    return this.#blocks.get(t.id)!.shuffle(t, value, lane);
  }

  storeLine(t: Thread, address: number, packet: Packet, active: number): boolean {
    const lanes = this.#blocks.get(t.id)!.meet(t, { address, packet, active });
    if (lanes === undefined) return true;
    for (let first = 0; first < lanes.length; first += LINE_LANES) {
      const line = lanes.slice(first, first + LINE_LANES);
      const { address: start } = line[0]!.value;
      if (line.length < LINE_LANES) this.trap(t, `a line stored by ${line.length} lanes`);
      if (line.some(({ value }) => value.active !== line[0]!.value.active)) {
        this.trap(t, 'a line that only some of its lanes store');
      }
      if (line[0]!.value.active !== 1) continue;
      if (start % (LINE_LANES * 16) !== 0) {
        this.#fault(
          t,
          'misaligned',
          `${this.#memory.describe(start)} is not a multiple of ${LINE_LANES * 16}`,
        );
      }
      if (line.some(({ value }, i) => value.address !== start + 16 * i)) {
        this.trap(t, `lanes that store apart from each other, the first at ${this.#memory.describe(start)}`);
      }
      this.#memory.storeLine(line.map(({ thread, value }) => ({ thread, ...value })));
    }
    return false;
  }

  vote(t: Thread, all: boolean, value: number): boolean {
    return this.#blocks.get(t.id)!.vote(t, all, value);
  }

  /** Which half of a packet goes first: 0 or 8. */
  flip(): number {
    return this.#random.below(2) * 8;
  }

  checkPacket(t: Thread, address: number): void {
    if (address % 16 !== 0) {
      this.#fault(t, 'misaligned', `${this.#memory.describe(address)} is not a multiple of 16`);
    }
  }

  checkCopy(t: Thread, to: number, from: number, bytes: number): void {
    if (bytes > 0 && to !== from && Math.abs(to - from) < bytes) {
      this.#fault(t, 'trap', `copy of ${bytes} bytes between overlapping places`);
    }
  }
}
