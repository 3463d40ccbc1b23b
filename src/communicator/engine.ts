/**
 * Runs operations of one rank: inline on the calling thread, or in order on the rank's executor thread.
 *
 * Both ways use the same programs and descriptors. An inline run waits for the executor to be idle first, so
 * the two never overlap. The executor is started when something is queued for the first time.
 */

import { Executor } from '../device/host/executor.js';
import { instantiate, programsOf } from '../device/host/kernels.js';
import { runBlocks } from '../device/host/launch.js';
import { createWaiter, type Waiter, type WaiterSettings, type WaitReason } from '../device/host/waiting.js';
import type { WasmFunction, WasmModule } from '../device/host/webassembly.js';
import { STATUS } from '../kernel/ir.js';
import { type HostProgram, hostProgramKey, moduleFor } from './program-cache.js';
import type { Team } from './team.js';

/** How a run ended that did not end well. */
export interface RunFailure {
  readonly status: number;
  readonly reason: WaitReason | undefined;
}

export class Engine {
  readonly #team: Team;
  readonly #waiterSettings: WaiterSettings;
  readonly #timeoutMs: number;
  readonly #inline = new Map<string, WasmFunction>();
  readonly #loaded = new Map<string, number>();
  #waiter: Waiter | undefined;
  #executor: Executor | undefined;
  #lastCommand = 0;
  /** All queued commands up to this one have ended well. */
  #succeeded = 0;

  constructor(team: Team, waiterSettings: WaiterSettings, timeoutMs: number) {
    this.#team = team;
    this.#waiterSettings = waiterSettings;
    this.#timeoutMs = timeoutMs;
  }

  get #inlineWaiter(): Waiter {
    this.#waiter ??= createWaiter({ device: this.#team.device, ...this.#waiterSettings });
    return this.#waiter;
  }

  /** The program as a function of this thread. */
  inline(request: HostProgram): WasmFunction {
    const key = hostProgramKey(request);
    let program = this.#inline.get(key);
    if (program === undefined) {
      const module: WasmModule = moduleFor(request);
      const resumable = request.resumable === true;
      const instance = instantiate(module, this.#team.device.memory, this.#inlineWaiter, resumable);
      program = programsOf(module, instance)[0]!;
      this.#inline.set(key, program);
    }
    return program;
  }

  /** Runs a program after all that is queued, block after block. Returns undefined, or why it failed. */
  run(
    program: WasmFunction,
    descriptor: number,
    blocks: number,
    frames = 0,
    frameBytes = 0,
    requests = 0,
  ): RunFailure | undefined {
    if (this.#succeeded !== this.#lastCommand) {
      // What runs after a failure would be taken by other ranks for what has failed.
      const failure = this.#finishQueued(this.#executor!);
      if (failure !== undefined) return failure;
    }
    return this.runNow(program, descriptor, blocks, frames, frameBytes, requests);
  }

  /** The same where the caller knows that nothing is queued; see runBlocks for `whenSlow`. */
  runNow(
    program: WasmFunction,
    descriptor: number,
    blocks: number,
    frames = 0,
    frameBytes = 0,
    requests = 0,
    whenSlow?: () => void,
  ): RunFailure | undefined {
    const waiter = this.#waiter ?? this.#inlineWaiter;
    waiter.begin(this.#timeoutMs);
    let status = STATUS.done as number;
    if (frames !== 0) {
      const { device, area } = this.#team;
      const launch = { descriptor, blocks, doorbell: area, frames, frameBytes, requests };
      try {
        status = runBlocks(program, launch, device, waiter.imports.relax, whenSlow);
      } finally {
        waiter.end();
      }
    } else {
      for (let block = 0; block < blocks && status === STATUS.done; block++) {
        status = program(descriptor, block, blocks) as number;
      }
    }
    waiter.end();
    return status === STATUS.done ? undefined : { status, reason: waiter.reason };
  }

  /** Waits for everything queued; the first failure, if any. */
  #finishQueued(executor: Executor): RunFailure | undefined {
    while (this.#succeeded < this.#lastCommand) {
      const command = this.#succeeded + 1;
      const status = executor.waitSync(command);
      if (status !== STATUS.done) return { status, reason: executor.reason(command) };
      this.#succeeded = command;
    }
    return undefined;
  }

  /** Queues a program; the promise tells undefined, or why it failed. */
  async queue(
    request: HostProgram,
    descriptor: number,
    blocks: number,
    frames = 0,
    frameBytes = 0,
    requests = 0,
  ): Promise<RunFailure | undefined> {
    const executor = this.#start();
    const key = hostProgramKey(request);
    let module = this.#loaded.get(key);
    if (module === undefined) {
      module = executor.load(moduleFor(request));
      this.#loaded.set(key, module);
    }
    const { area } = this.#team;
    const limit = this.#timeoutMs;
    const command = executor.submit(module, 0, descriptor, blocks, limit, area, frames, frameBytes, requests);
    this.#lastCommand = command;
    const status = await executor.done(command);
    if (status !== STATUS.done) return { status, reason: executor.reason(command) };
    this.#succeeded = Math.max(this.#succeeded, command);
    return undefined;
  }

  #start(): Executor {
    this.#executor ??= new Executor(this.#team.device, {
      ...this.#waiterSettings,
      stopsAtFailure: true,
    });
    return this.#executor;
  }

  async close(): Promise<void> {
    await this.#executor?.close();
    this.#executor = undefined;
    this.#waiter?.close();
    this.#waiter = undefined;
    this.#inline.clear();
    this.#loaded.clear();
  }
}
