/** An operation that was checked and planned once and runs as often as wanted. */

import type { WasmFunction } from '../device/host/webassembly.js';
import { TuttiError } from '../errors/tutti-error.js';
import type { CallBoard } from './call-board.js';
import type { Engine, RunFailure } from './engine.js';
import type { Gate } from './gate.js';
import type { QueuedWork } from './queued-work.js';
import type { StagedCopy } from './staged-copy.js';

/** An operation that was checked and planned once. */
export interface PreparedOperation {
  /** Does it now, on the calling thread; returns when the result may be read. */
  run(): void;
  /** Does it in the background; resolves when the result may be read. */
  start(): Promise<void>;
  /** Gives its memory back, as soon as it is not under way any more; it may not be used afterwards. */
  release(): void;
  /** What will run and why. */
  readonly explanation: string;
}

/** What is to be done, planned. */
export interface Plan {
  readonly name: string;
  readonly arrays: readonly (ArrayBufferView | null)[];
  /** Null for a communicator of one rank, which does it with `alone`. */
  readonly work: QueuedWork | null;
  readonly explanation: string;
  alone(): void;
  /** The same for the background, where arrays must not be reached in place. */
  background?(): QueuedWork;
}

/** What prepared operations need of their communicator. */
export interface Runner {
  rankOf(): number;
  check(name: string): void;
  refuseBlocking(name: string): void;
  inline(operation: QueuedWork): WasmFunction;
  /** For an operation that is one call of its program, besides copies: what it takes to call it while the gate is open. */
  shortcut(operation: QueuedWork): { gate: Gate; engine: Engine; board: CallBoard } | undefined;
  failureOf(operation: QueuedWork, failure: RunFailure): TuttiError;
  run(operation: QueuedWork, program: WasmFunction): void;
  /** Copies between ordinary arrays and staging memory, of an operation in one piece. */
  copyIn(operation: QueuedWork): void;
  copyOut(operation: QueuedWork): void;
  /** The error of an operation in one piece of which an array cannot be copied. */
  copyFailure(operation: QueuedWork, error: unknown): unknown;
  enqueue(operation: QueuedWork): Promise<void>;
  /** The operation was released. */
  forget(prepared: Prepared): void;
}

export class Prepared implements PreparedOperation {
  readonly #runner: Runner;
  readonly #plan: Plan;
  /** Null for a communicator of one rank. */
  readonly #operation: QueuedWork | null;
  #program: WasmFunction | undefined;
  /** Set with the program, when running is nothing but calling it. */
  #gate: Gate | undefined;
  #engine: Engine | undefined;
  #board: CallBoard | undefined;
  #meets = false;
  /** Messages are compared with what others call later: see the board. */
  #onlyMessages = false;
  #copiesIn: readonly StagedCopy[] | undefined;
  #copiesOut: readonly StagedCopy[] | undefined;
  /** Moving arrays takes more than these copies. */
  #isStaged = false;
  /** What looks for others that call something else. */
  #whenSlow: (() => void) | undefined;
  #signature = 0;
  #count = 0;
  #descriptor = 0;
  #blocks = 0;
  #frames = 0;
  #frameBytes = 0;
  #requests = 0;
  /** What runs in the background, where that is something else. */
  #background: QueuedWork | undefined;
  #underWay = 0;
  #released = false;
  /** Why it can never run again. */
  #spoilt: string | undefined;

  constructor(runner: Runner, plan: Plan) {
    this.#runner = runner;
    this.#plan = plan;
    this.#operation = plan.work;
  }

  get explanation(): string {
    return this.#plan.explanation;
  }

  run(): void {
    // Whatever is not short takes one way, which every first run takes too: V8 has seen it when it optimises this function,
    // and does not throw the code away, and those of all callers, when something long comes.
    if (this.#gate?.open !== true) this.#runAnyWay();
    else {
      if (this.#isStaged) this.#runner.copyIn(this.#operation!);
      else if (this.#copiesIn !== undefined) this.#copyIn(this.#copiesIn);
      // Messages are nobody's business but that of their two ranks, unless all ranks call them alike.
      if (this.#meets) this.#board!.meeting(this.#signature, this.#count);
      else if (this.#onlyMessages) this.#board?.note(this.#signature, this.#count);
      else this.#board?.connected(this.#signature, this.#count);
      const failure = this.#engine!.runNow(
        this.#program!,
        this.#descriptor,
        this.#blocks,
        this.#frames,
        this.#frameBytes,
        this.#requests,
        this.#whenSlow,
      );
      if (failure !== undefined) throw this.#runner.failureOf(this.#operation!, failure);
      if (this.#isStaged) this.#runner.copyOut(this.#operation!);
      else if (this.#copiesOut !== undefined) this.#copyOut(this.#copiesOut);
    }
  }

  #copyIn(copies: readonly StagedCopy[]): void {
    try {
      for (let i = 0; i < copies.length; i++) copies[i]!.in();
    } catch (error) {
      throw this.#runner.copyFailure(this.#operation!, error);
    }
  }

  #copyOut(copies: readonly StagedCopy[]): void {
    try {
      for (let i = 0; i < copies.length; i++) copies[i]!.out();
    } catch (error) {
      throw this.#runner.copyFailure(this.#operation!, error);
    }
  }

  #runAnyWay(): void {
    if (this.#program === undefined) this.#firstRun();
    else this.#runner.run(this.#operation!, this.#program);
  }

  #firstRun(): void {
    this.#checkReady();
    const operation = this.#operation;
    if (operation === null) {
      this.#plan.alone();
      return;
    }
    this.#runner.refuseBlocking(`${this.#plan.name}Sync`);
    const program = this.#runner.inline(operation);
    const shortcut = this.#runner.shortcut(operation);
    this.#gate = shortcut?.gate;
    this.#engine = shortcut?.engine;
    const { copies } = operation;
    this.#isStaged = operation.accesses.staged && copies === undefined;
    this.#copiesIn = copies === undefined || copies.in.length === 0 ? undefined : copies.in;
    this.#copiesOut = copies === undefined || copies.out.length === 0 ? undefined : copies.out;
    this.#onlyMessages = operation.onlyMessages;
    this.#whenSlow = operation.onlyMessages ? shortcut?.board.settle : undefined;
    if (operation.announcement !== undefined) {
      this.#board = shortcut?.board;
      this.#meets = operation.announcement.meets;
      this.#signature = operation.announcement.signature;
      this.#count = operation.announcement.count;
    }
    this.#descriptor = operation.descriptor;
    this.#blocks = operation.blocks;
    this.#frames = operation.frames;
    this.#frameBytes = operation.frameBytes;
    this.#requests = operation.requests;
    this.#program = program;
    this.#runner.run(operation, program);
  }

  async start(): Promise<void> {
    this.#checkReady();
    if (this.#operation === null) return this.#plan.alone();
    this.#underWay += 1;
    try {
      if (this.#operation.reachesArrays) this.#background ??= this.#plan.background?.();
      await this.#runner.enqueue(this.#background ?? this.#operation);
    } finally {
      this.#underWay -= 1;
      if (this.#released && this.#underWay === 0) this.#giveBack();
    }
  }

  #checkReady(): void {
    this.#runner.check(this.#plan.name);
    const reason = this.#spoilt ?? (this.#released ? 'the prepared operation was released' : undefined);
    if (reason === undefined) return;
    throw new TuttiError('invalidUsage', `${this.#plan.name}: ${reason}; prepare it again`, {
      rank: this.#runner.rankOf(),
    });
  }

  /** Whether it works on bytes of the array. */
  uses(array: ArrayBufferView): boolean {
    const from = array.byteOffset;
    const to = from + array.byteLength;
    return this.#plan.arrays.some(
      (own) =>
        own !== null &&
        own.buffer === array.buffer &&
        own.byteOffset < to &&
        from < own.byteOffset + own.byteLength,
    );
  }

  /** Releases it for a reason that later calls are told. */
  spoil(reason: string): void {
    this.#spoilt ??= reason;
    this.release();
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#program = undefined;
    this.#gate = undefined;
    this.#runner.forget(this);
    if (this.#underWay === 0) this.#giveBack();
  }

  #giveBack(): void {
    this.#operation?.release();
    this.#background?.release();
  }
}
