/**
 * The worker thread of an executor: runs device programs one after the other, in the order of the ring.
 *
 * It sleeps in `Atomics.wait` and not in its event loop, so messages (modules, peers) are read from its port
 * when the shared counter says that there are some. Between two commands it spins for a moment, because
 * waking a thread costs far more than a small collective.
 */
import { type MessagePort, parentPort, receiveMessageOnPort } from 'node:worker_threads';
import { ownThread } from '../../system/process-liveness.js';
import { CONTROL, LAUNCH_STATUS, REASONS, SLOT, slotWord, WAITER_OFFSET } from './executor-control.js';
import { instantiate, programNames } from './kernels.js';
import { runBlocks } from './launch.js';
import { Waiter, type WaiterSettings, type WaitPeer } from './waiting.js';
import type { WasmFunction, WasmMemory, WasmModule } from './webassembly.js';

/** What a worker is started with. */
export interface ExecutorStart {
  readonly memory: WasmMemory;
  readonly baseAddress: number;
  /** Address of the control block. */
  readonly control: number;
  /** Microseconds of spinning for the next command before the worker sleeps. */
  readonly idleSpinUs: number;
  readonly waiting: WaiterSettings;
  /** After a command that did not end well no other is carried out. */
  readonly stopsAtFailure: boolean;
  readonly port: MessagePort;
}

export type ExecutorMessage =
  | { readonly kind: 'load'; readonly id: number; readonly module: WasmModule }
  | { readonly kind: 'peers'; readonly peers: readonly WaitPeer[] };

/** A command that could not be carried out. */
export interface ExecutorFailure {
  /** Wrapped 32-bit number of the command. */
  readonly command: number;
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}

/** Looks at the ring between two looks at the clock. */
const LOOKS_PER_CLOCK = 64;

/** Parameters of a program that is not resumable: descriptor, block, blocks. A fourth one is a frame. */
const PLAIN_PARAMETERS = 3;

class ExecutorWorker {
  readonly #start: ExecutorStart;
  readonly #i32: Int32Array;
  readonly #word: number;
  readonly #waiter: Waiter;
  readonly #programs: WasmFunction[][] = [];
  readonly #modules: WasmModule[] = [];
  #messages = 0;
  #failed = false;

  constructor(start: ExecutorStart) {
    this.#start = start;
    this.#i32 = new Int32Array(start.memory.buffer);
    this.#word = start.control / 4;
    const memory = { memory: start.memory, i32: this.#i32, baseAddress: start.baseAddress };
    this.#waiter = new Waiter(memory, start.control + WAITER_OFFSET, start.waiting);
  }

  /** Runs commands until told to leave. */
  run(): void {
    const i32 = this.#i32;
    Atomics.store(i32, this.#word + CONTROL.thread, ownThread());
    let command = 0;
    while (this.#awaitCommand(command)) {
      command = (command + 1) | 0;
      this.#execute(command);
      Atomics.store(i32, this.#word + CONTROL.completed, command);
      if (Atomics.load(i32, this.#word + CONTROL.completionWaiters) !== 0) {
        Atomics.notify(i32, this.#word + CONTROL.completed);
      }
    }
  }

  /** Returns when there is a command after the last one; false when the worker is to leave. */
  #awaitCommand(last: number): boolean {
    const i32 = this.#i32;
    const submitted = this.#word + CONTROL.submitted;
    const closing = this.#word + CONTROL.closing;
    const idleSince = performance.now();
    for (let looks = 1; ; looks++) {
      if (Atomics.load(i32, closing) !== 0) return false;
      if (Atomics.load(i32, submitted) !== last) return true;
      if (this.#start.idleSpinUs > 0) {
        if (looks % LOOKS_PER_CLOCK !== 0) continue;
        if ((performance.now() - idleSince) * 1000 < this.#start.idleSpinUs) continue;
      }
      this.#sleep(last);
    }
  }

  #sleep(last: number): void {
    const i32 = this.#i32;
    const sleeping = this.#word + CONTROL.sleeping;
    const signal = this.#word + CONTROL.signal;
    const before = Atomics.load(i32, signal);
    Atomics.store(i32, sleeping, 1);
    // Looked at after `sleeping` was set: whoever writes later sees it and signals.
    const isIdle = Atomics.load(i32, this.#word + CONTROL.submitted) === last;
    if (isIdle && Atomics.load(i32, this.#word + CONTROL.closing) === 0) Atomics.wait(i32, signal, before);
    Atomics.store(i32, sleeping, 0);
  }

  #execute(command: number): void {
    const i32 = this.#i32;
    const slot = slotWord(this.#start.control, command);
    if (this.#failed) {
      i32[slot + SLOT.status] = LAUNCH_STATUS.aborted;
      i32[slot + SLOT.reason] = REASONS.indexOf('none');
      return;
    }
    let status: number;
    try {
      if (Atomics.load(i32, this.#word + CONTROL.messages) !== this.#messages) this.#readMessages();
      const resumable = i32[slot + SLOT.frames] !== 0;
      const program = this.#program(i32[slot + SLOT.module]!, i32[slot + SLOT.program]!, resumable);
      this.#waiter.begin(i32[slot + SLOT.timeoutMs]! >>> 0);
      status = this.#launch(program, slot);
    } catch (error) {
      status = LAUNCH_STATUS.failed;
      this.#report(command, error);
    }
    this.#waiter.end();
    const reason = status === LAUNCH_STATUS.aborted ? this.#waiter.reason : undefined;
    this.#failed = this.#start.stopsAtFailure && status !== LAUNCH_STATUS.done;
    i32[slot + SLOT.status] = status;
    i32[slot + SLOT.reason] = REASONS.indexOf(reason?.kind ?? 'none');
    i32[slot + SLOT.peer] = reason?.peer ?? -1;
  }

  #launch(program: WasmFunction, slot: number): number {
    const i32 = this.#i32;
    const frames = i32[slot + SLOT.frames]! >>> 0;
    if (program.length > PLAIN_PARAMETERS && frames === 0) {
      throw new Error('the program is resumable: submit it with memory for the frames of its blocks');
    }
    const launch = {
      descriptor: i32[slot + SLOT.descriptor]!,
      blocks: i32[slot + SLOT.blocks]!,
      doorbell: i32[slot + SLOT.doorbell]!,
      frames,
      frameBytes: i32[slot + SLOT.frameBytes]!,
      requests: i32[slot + SLOT.requests]! >>> 0,
    };
    const memory = { i32, baseAddress: this.#start.baseAddress };
    return runBlocks(program, launch, memory, this.#waiter.imports.relax);
  }

  #program(module: number, program: number, resumable: boolean): WasmFunction {
    const found = this.#programs[module]?.[program];
    if (found !== undefined) return found;
    const loaded = this.#modules[module];
    if (loaded === undefined) throw new Error(`module ${module} has not been loaded`);
    const { exports } = instantiate(loaded, this.#start.memory, this.#waiter, resumable);
    const programs = programNames(loaded).map((name) => exports[name] as WasmFunction);
    this.#programs[module] = programs;
    return programs[program]!;
  }

  #readMessages(): void {
    const until = Atomics.load(this.#i32, this.#word + CONTROL.messages);
    while (this.#messages !== until) {
      const received = receiveMessageOnPort(this.#start.port) as { message: ExecutorMessage } | undefined;
      if (received === undefined) throw new Error('a message to the executor was lost');
      this.#messages = (this.#messages + 1) | 0;
      const { message } = received;
      if (message.kind === 'load') this.#modules[message.id] = message.module;
      else this.#waiter.setPeers(message.peers);
    }
  }

  #report(command: number, error: unknown): void {
    const known = error instanceof Error ? error : new Error(String(error));
    const { name, message, stack = '' } = known;
    this.#start.port.postMessage({ command, name, message, stack } satisfies ExecutorFailure);
  }
}

// Between executors the thread is in its event loop and waits for the next (see executor-thread.ts).
parentPort!.on('message', (start: ExecutorStart) => {
  new ExecutorWorker(start).run();
  start.port.close();
  parentPort!.postMessage('left');
});
