/**
 * An executor: a thread that runs device programs in the order of their submission, as a stream does.
 *
 * Commands travel through a ring in the private area of the heap, so submitting one is a few stores. A full
 * ring never blocks the submitter, which may be the one thread that all ranks of a test share: commands wait
 * in a queue until there is room. Every rank has its own executor, because programs of different ranks wait
 * for each other.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { TuttiError } from '../../errors/tutti-error.js';
import { isThreadAlive } from '../../system/process-liveness.js';
import { threadFailure } from '../../system/thread-failure.js';
import {
  CAPACITY,
  CONTROL,
  CONTROL_BYTES,
  LAUNCH_STATUS,
  REASONS,
  SLOT,
  slotWord,
  WAITER_OFFSET,
} from './executor-control.js';
import { type ExecutorThread, type ThreadEnd, takeThread } from './executor-thread.js';
import type { ExecutorFailure, ExecutorMessage, ExecutorStart } from './executor-worker.js';
import type { HostDevice } from './host-device.js';
import { loadModule, programNames } from './kernels.js';
import { stopWaiter, type WaiterSettings, type WaitPeer, type WaitReason } from './waiting.js';
import type { WasmModule } from './webassembly.js';

/** Microseconds that an idle worker spins: longer than the pause between back-to-back submissions. */
const IDLE_SPIN_US = 30;

/** Looks at the counter before a synchronous wait sleeps: about 20 us. */
const SYNC_SPINS = 2000;

/** Milliseconds between two checks that the worker still lives, in a synchronous wait. */
const SYNC_SLICE_MS = 100;

/** Milliseconds in which a worker must have started. */
const START_LIMIT_MS = 30_000;

/** Milliseconds that a program has to give up its wait before its thread is terminated. */
const CLOSE_GRACE_MS = 250;

/** Failures of commands that are remembered after their slot has been used again. */
const KEPT_FAILURES = 1024;

export interface ExecutorOptions extends WaiterSettings {
  /**
   * When a command has not ended well, give all later ones up at once (status "aborted" without a reason): for
   * programs that only make sense after their predecessors. Default false.
   */
  stopsAtFailure?: boolean;
}

interface Command {
  readonly module: number;
  readonly program: number;
  readonly descriptor: number;
  readonly blocks: number;
  readonly timeoutMs: number;
  readonly doorbell: number;
  readonly frames: number;
  readonly frameBytes: number;
  readonly requests: number;
}

interface Ending {
  readonly status: number;
  readonly reason: WaitReason | undefined;
  readonly error: TuttiError | undefined;
}

interface Pending {
  readonly command: number;
  readonly resolve: (status: number) => void;
  readonly reject: (error: unknown) => void;
}

interface LoadedModule {
  readonly names: readonly string[];
  readonly index: ReadonlyMap<string, number>;
}

/** `Atomics.waitAsync` (ES2024), which the language level we compile for does not know yet. */
const waitAsync = (
  Atomics as unknown as {
    waitAsync(
      array: Int32Array,
      index: number,
      value: number,
    ): { async: true; value: Promise<string> } | { async: false };
  }
).waitAsync;

export class Executor {
  readonly #device: HostDevice;
  readonly #i32: Int32Array;
  readonly #control: number;
  readonly #word: number;
  readonly #thread: ExecutorThread;
  readonly #port: MessagePort;
  readonly #started = performance.now();
  readonly #modules: LoadedModule[] = [];
  readonly #moduleIds = new WeakMap<WasmModule, number>();
  /** Commands that found the ring full, oldest first; numbers follow those in the ring. */
  #queue: Command[] = [];
  /** Commands that have been submitted, in the ring or queued. */
  #submitted = 0;
  /** Commands that have been put in the ring. */
  #accepted = 0;
  #completed = 0;
  #messages = 0;
  readonly #pending: Pending[] = [];
  /** The loop that follows the worker, while there is one. */
  #following: Promise<void> | undefined;
  #isFollowing = false;
  /** Endings other than "done" of commands whose slot has been used again, by number. */
  readonly #kept = new Map<number, Ending>();
  /** Endings up to this command may have been forgotten. */
  #forgotten = 0;
  readonly #errors = new Map<number, TuttiError>();
  /** Why no command can run any more. */
  #dead: TuttiError | undefined;
  #closing: Promise<void> | undefined;
  /** The thread does nothing for this executor any more. */
  readonly #left: Promise<void>;
  readonly #detach: () => void;

  constructor(device: HostDevice, options: ExecutorOptions = {}) {
    const { stopsAtFailure = false, ...waiting } = options;
    this.#device = device;
    this.#i32 = device.i32;
    this.#control = device.allocatePrivate(CONTROL_BYTES);
    this.#word = this.#control / 4;
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const start: ExecutorStart = {
      memory: device.memory,
      baseAddress: device.baseAddress,
      control: this.#control,
      idleSpinUs: (options.threadsPerCore ?? 1) > 1 ? 0 : IDLE_SPIN_US,
      waiting,
      stopsAtFailure,
      port: port2,
    };
    this.#thread = takeThread();
    this.#left = new Promise((resolve) => {
      this.#thread.run(start, port2, (end) => {
        this.#fail(this.#closing === undefined ? lostError(end) : closedError());
        resolve();
      });
    });
    // An executor alone does not keep the process running; commands under way do.
    this.#thread.unref();
    this.#detach = device.attach(() => this.close());
  }

  /** True when every submitted command has ended. */
  get idle(): boolean {
    return this.#updateCompleted() === this.#submitted;
  }

  /** Commands that have been submitted and have not ended. */
  get depth(): number {
    return this.#submitted - this.#updateCompleted();
  }

  /** Makes a compiled program known to the worker and returns its number here. The same module has one number. */
  load(program: WasmModule | Uint8Array): number {
    this.#checkOpen();
    const module = program instanceof Uint8Array ? loadModule(program) : program;
    const known = this.#moduleIds.get(module);
    if (known !== undefined) return known;
    const names = programNames(module);
    const id = this.#modules.length;
    this.#modules.push({ names, index: new Map(names.map((name, index) => [name, index])) });
    this.#moduleIds.set(module, id);
    this.#send({ kind: 'load', id, module });
    return id;
  }

  /** Index of a program in a loaded module by the name of its export. */
  programIndex(moduleId: number, name: string): number {
    const module = this.#modules[moduleId];
    if (module === undefined) {
      throw new TuttiError('invalidArgument', `module ${moduleId} is not loaded in this executor`);
    }
    const index = module.index.get(name);
    if (index === undefined) {
      const names = module.names.join(', ');
      throw new TuttiError('invalidArgument', `module ${moduleId} has no program ${name}; it has ${names}`);
    }
    return index;
  }

  /** The processes whose end ends every wait of commands submitted from now on. */
  setPeers(peers: readonly WaitPeer[]): void {
    this.#checkOpen();
    this.#send({ kind: 'peers', peers });
  }

  #send(message: ExecutorMessage): void {
    // Types of postMessage ask for DOM or Node classes; a module can be cloned, which they do not know.
    this.#port.postMessage(message);
    this.#messages = (this.#messages + 1) | 0;
    Atomics.store(this.#i32, this.#word + CONTROL.messages, this.#messages);
  }

  /**
   * Submits a launch: `program(descriptor, block, blocks)` for block 0 to `blocks - 1`, after everything
   * submitted before. Waits in it may take `timeoutMs` in all (0: no limit). A resumable program, whose blocks
   * take turns, also needs `frames`, the address of `frameBytes` bytes for each block, and sleeps on `doorbell`
   * when none of its blocks can go on; one that asks for copies needs the address of its `requests`. Returns the
   * command's number, from 1.
   */
  submit(
    moduleId: number,
    program: number | string,
    descriptor: number,
    blocks = 1,
    timeoutMs = 0,
    doorbell = 0,
    frames = 0,
    frameBytes = 0,
    requests = 0,
  ): number {
    this.#checkOpen();
    const index = typeof program === 'string' ? this.programIndex(moduleId, program) : program;
    if (this.#modules[moduleId]?.names[index] === undefined) {
      throw new TuttiError('invalidArgument', `module ${moduleId} has no program ${index}`);
    }
    if (!Number.isSafeInteger(blocks) || blocks < 1) {
      throw new TuttiError('invalidArgument', `cannot launch ${blocks} blocks`);
    }
    this.#submitted += 1;
    if (this.#queue.length > 0 || this.#accepted - this.#updateCompleted() >= CAPACITY) {
      const command = { module: moduleId, program: index, descriptor, blocks, timeoutMs, doorbell };
      this.#queue.push({ ...command, frames, frameBytes, requests });
      this.#watch();
    } else {
      this.#accept(moduleId, index, descriptor, blocks, timeoutMs, doorbell, frames, frameBytes, requests);
    }
    return this.#submitted;
  }

  #accept(
    module: number,
    program: number,
    descriptor: number,
    blocks: number,
    timeoutMs: number,
    doorbell: number,
    frames: number,
    frameBytes: number,
    requests: number,
  ): void {
    const i32 = this.#i32;
    const command = this.#accepted + 1;
    const slot = slotWord(this.#control, command | 0);
    if (i32[slot + SLOT.status] !== LAUNCH_STATUS.done) this.#keep(command - CAPACITY);
    i32[slot + SLOT.module] = module;
    i32[slot + SLOT.program] = program;
    i32[slot + SLOT.descriptor] = descriptor;
    i32[slot + SLOT.blocks] = blocks;
    i32[slot + SLOT.timeoutMs] = timeoutMs;
    i32[slot + SLOT.doorbell] = doorbell;
    i32[slot + SLOT.frames] = frames;
    i32[slot + SLOT.frameBytes] = frameBytes;
    i32[slot + SLOT.requests] = requests;
    i32[slot + SLOT.status] = LAUNCH_STATUS.done;
    this.#accepted = command;
    Atomics.store(i32, this.#word + CONTROL.submitted, command | 0);
    if (Atomics.load(i32, this.#word + CONTROL.sleeping) !== 0) this.#signal();
  }

  #signal(): void {
    Atomics.add(this.#i32, this.#word + CONTROL.signal, 1);
    Atomics.notify(this.#i32, this.#word + CONTROL.signal);
  }

  /** Moves queued commands into the ring as far as there is room. */
  #refill(): void {
    const room = CAPACITY - (this.#accepted - this.#completed);
    if (room <= 0 || this.#queue.length === 0) return;
    const moved = this.#queue.slice(0, room);
    this.#queue = this.#queue.slice(room);
    for (const c of moved) {
      const { module, program, descriptor, blocks, timeoutMs, doorbell, frames, frameBytes, requests } = c;
      this.#accept(module, program, descriptor, blocks, timeoutMs, doorbell, frames, frameBytes, requests);
    }
  }

  #updateCompleted(): number {
    const low = Atomics.load(this.#i32, this.#word + CONTROL.completed);
    this.#completed += (low - this.#completed) | 0;
    return this.#completed;
  }

  /**
   * Settles with the launch's status (0 done, 1 given up: see `reason`, 16 and more: the program's own) when the
   * command has ended. Rejects with `internalError` when the program trapped or the thread died.
   */
  done(command: number): Promise<number> {
    this.#checkNumber(command);
    if (this.#updateCompleted() >= command) {
      try {
        return Promise.resolve(this.#statusOf(command));
      } catch (error) {
        return Promise.reject(error);
      }
    }
    if (this.#dead !== undefined) return Promise.reject(this.#dead);
    return new Promise((resolve, reject) => {
      this.#pending.push({ command, resolve, reject });
      this.#watch();
    });
  }

  /** Blocks the thread until the command has ended; like `done` otherwise. */
  waitSync(command: number): number {
    this.#checkNumber(command);
    for (let i = 0; i < SYNC_SPINS && this.#queue.length === 0; i++) {
      if (this.#updateCompleted() >= command) return this.#statusOf(command);
    }
    const i32 = this.#i32;
    Atomics.add(i32, this.#word + CONTROL.completionWaiters, 1);
    try {
      while (this.#updateCompleted() < command) {
        if (this.#dead !== undefined) throw this.#dead;
        this.#refill();
        const seen = this.#completed | 0;
        const result = Atomics.wait(i32, this.#word + CONTROL.completed, seen, SYNC_SLICE_MS);
        if (result === 'timed-out') this.#checkThread();
      }
    } finally {
      Atomics.sub(i32, this.#word + CONTROL.completionWaiters, 1);
    }
    return this.#statusOf(command);
  }

  /** Why a command ended with status "aborted"; undefined for other endings. */
  reason(command: number): WaitReason | undefined {
    this.#checkNumber(command);
    return this.#updateCompleted() >= command ? this.#endingOf(command).reason : undefined;
  }

  /**
   * Ends the thread: commands that have not begun never run, a program that waits gives up, and one that does
   * neither is terminated. Everything unfinished is rejected. Takes at most about a quarter of a second.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#detach();
    Atomics.store(this.#i32, this.#word + CONTROL.closing, 1);
    stopWaiter({ i32: this.#i32 }, this.#control + WAITER_OFFSET);
    this.#signal();
    this.#thread.ref();
    const timer = setTimeout(() => this.#thread.terminate(), CLOSE_GRACE_MS);
    await this.#left;
    clearTimeout(timer);
    await this.#following;
    this.#port.close();
    this.#device.freePrivate(this.#control);
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw closedError();
    if (this.#dead !== undefined) throw this.#dead;
  }

  #checkNumber(command: number): void {
    if (Number.isSafeInteger(command) && command >= 1 && command <= this.#submitted) return;
    throw new TuttiError('invalidArgument', `there is no command ${command} of ${this.#submitted}`);
  }

  /** In a synchronous wait no events arrive, so the worker's end is noticed by looking at its thread. */
  #checkThread(): void {
    const thread = Atomics.load(this.#i32, this.#word + CONTROL.thread);
    if (thread !== 0) {
      if (!isThreadAlive(thread))
        this.#fail(new TuttiError('internalError', "the executor's thread has ended"));
    } else if (performance.now() - this.#started > START_LIMIT_MS) {
      const text = `the executor's thread has not started within ${START_LIMIT_MS / 1000} s`;
      this.#fail(new TuttiError('internalError', text));
    }
  }

  #fail(error: TuttiError): void {
    if (this.#dead !== undefined) return;
    this.#updateCompleted();
    this.#dead = error;
    this.#queue = [];
    this.#settle();
    for (const { reject } of this.#pending.splice(0)) reject(error);
    // Ends the wait of the loop below, which the worker cannot end any more.
    Atomics.notify(this.#i32, this.#word + CONTROL.completed);
  }

  /** Settles what waits for commands that have ended. */
  #settle(): void {
    const { length } = this.#pending;
    let left = 0;
    for (let i = 0; i < length; i++) {
      const pending = this.#pending[i]!;
      if (pending.command > this.#completed) {
        this.#pending[left++] = pending;
        continue;
      }
      try {
        pending.resolve(this.#statusOf(pending.command));
      } catch (error) {
        pending.reject(error);
      }
    }
    this.#pending.length = left;
  }

  /** Follows the worker as long as somebody waits or commands are queued, and keeps the process running. */
  #watch(): void {
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    this.#thread.ref();
    this.#following = this.#follow();
  }

  async #follow(): Promise<void> {
    const waiters = this.#word + CONTROL.completionWaiters;
    Atomics.add(this.#i32, waiters, 1);
    for (;;) {
      this.#updateCompleted();
      this.#settle();
      this.#refill();
      if (this.#pending.length === 0 && this.#queue.length === 0) break;
      if (this.#dead !== undefined) break;
      const wait = waitAsync(this.#i32, this.#word + CONTROL.completed, this.#completed | 0);
      if (wait.async) await wait.value;
    }
    Atomics.sub(this.#i32, waiters, 1);
    // At once and not when the promise settles: whoever was settled above may wait anew before that.
    this.#isFollowing = false;
    if (this.#closing === undefined) this.#thread.unref();
  }

  #statusOf(command: number): number {
    const { status, error } = this.#endingOf(command);
    if (error !== undefined) throw error;
    return status;
  }

  #endingOf(command: number): Ending {
    if (command > this.#accepted - CAPACITY) return this.#readEnding(command);
    const kept = this.#kept.get(command);
    if (kept !== undefined) return kept;
    if (command > this.#forgotten) return { status: LAUNCH_STATUS.done, reason: undefined, error: undefined };
    throw new TuttiError('invalidUsage', `how command ${command} ended is not known any more: ask sooner`);
  }

  /** The ending as it stands in the command's slot. */
  #readEnding(command: number): Ending {
    const i32 = this.#i32;
    const slot = slotWord(this.#control, command | 0);
    const status = i32[slot + SLOT.status]! >>> 0;
    const kind = REASONS[i32[slot + SLOT.reason]!] ?? 'none';
    const peer = i32[slot + SLOT.peer]!;
    let reason: WaitReason | undefined;
    if (status === LAUNCH_STATUS.aborted && kind !== 'none') reason = peer < 0 ? { kind } : { kind, peer };
    const error = status === LAUNCH_STATUS.failed ? this.#errorOf(command) : undefined;
    return { status, reason, error };
  }

  #errorOf(command: number): TuttiError {
    for (
      let received = receiveMessageOnPort(this.#port);
      received;
      received = receiveMessageOnPort(this.#port)
    ) {
      const failure = received.message as ExecutorFailure;
      const cause = new Error(failure.message);
      cause.name = failure.name;
      cause.stack = failure.stack;
      const error = new TuttiError('internalError', `a device program failed: ${failure.message}`, { cause });
      this.#errors.set(failure.command, error);
    }
    return (
      this.#errors.get(command | 0) ??
      new TuttiError('internalError', 'a device program failed, reason unknown')
    );
  }

  /** Remembers how a command ended before its slot is used again. */
  #keep(command: number): void {
    this.#kept.set(command, this.#readEnding(command));
    this.#errors.delete(command | 0);
    if (this.#kept.size <= KEPT_FAILURES) return;
    const oldest = this.#kept.keys().next().value!;
    this.#kept.delete(oldest);
    this.#forgotten = oldest;
  }
}

function lostError({ exitCode, cause }: ThreadEnd): TuttiError {
  return threadFailure("the executor's thread", exitCode, cause);
}

function closedError(): TuttiError {
  return new TuttiError('invalidUsage', 'the executor has been closed');
}
