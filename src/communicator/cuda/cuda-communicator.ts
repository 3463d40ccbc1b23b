/// <reference lib="esnext.disposable" preserve="true" />
/**
 * A communicator on GPUs: one rank's membership in a group of ranks that each work on a GPU, and the collectives they
 * do together.
 *
 * Calls are those of a communicator on host memory; buffers are memory of the rank's GPU. Every rank makes the same
 * calls in the same order. A call puts a kernel into a stream and returns a promise: without options it settles when
 * the result is there, with a `stream` when the work is in that stream. Nothing blocks the event loop.
 *
 * After a failure the communicator is of no more use: every later call throws the first error again. The other ranks
 * learn of it and fail too, and kernels that wait are ended.
 */
import { GPU_COLLECTIVES } from '../../collectives/gpu/call.js';
import { TuttiError } from '../../errors/tutti-error.js';
import type { Buffer } from '../buffers.js';
import type { CheckedCollective } from '../call-check.js';
import { isGroupOpen } from '../group.js';
import { Completions } from './completions.js';
import { CudaCallChecks, type PlacedCall } from './cuda-call-checks.js';
import {
  type CudaArguments,
  CudaCollectiveCalls,
  type CudaCollectives,
  readArguments,
  type StreamOption,
} from './cuda-collectives.js';
import { CudaFailure } from './cuda-failure.js';
import { CudaMemory, type DeviceAddress } from './cuda-memory.js';
import { CudaMessages } from './cuda-messages.js';
import { CudaOperation } from './cuda-operation.js';
import {
  type CudaRunner,
  type PreparedCudaOperation,
  PreparedLaunch,
  type PreparedWork,
} from './cuda-prepared.js';
import type { CudaTeam } from './cuda-team.js';
import type { ArrayClass, DeviceBuffer } from './device-buffer.js';
import { KeptOperations } from './kept-operations.js';
import { LaunchQueue } from './launch-queue.js';
import { PreparedKernel } from './prepared-kernel.js';
import { RecordedGraph, type Recording } from './recorded-graph.js';
import { type Watch, watchRank } from './watchdog.js';

/** How long kernels that were told to end are waited for, ms: far more than their waits between two looks. */
const END_MS = 10_000;

/** The class of functions that are written with `async`. */
const AsyncFunction = (async () => {}).constructor as new () => unknown;

export class CudaCommunicator extends CudaCollectiveCalls implements AsyncDisposable {
  readonly #team: CudaTeam;
  readonly #failure: CudaFailure;
  readonly #completions: Completions;
  readonly #queue: LaunchQueue;
  readonly #memory: CudaMemory;
  readonly #prepared = new Set<PreparedLaunch>();
  /** Released work that nobody could wait for. */
  readonly #left: PreparedWork[] = [];
  readonly #kept: KeptOperations;
  /** While a graph is recorded. */
  #recording: Recording | undefined;
  readonly #gate = { open: true };
  readonly #checks: CudaCallChecks;
  readonly #messages: CudaMessages;
  readonly #watch: Watch;
  #closing: Promise<void> | undefined;
  /** Everything of this rank is done: what happens to the others is no trouble any more. */
  #leaving = false;

  /** Not for users: see `Communicator.init`, `Communicator.fromEnv` and `createLocalCommunicators`. */
  constructor(team: CudaTeam, timeoutMs: number) {
    super();
    this.#team = team;
    this.#kept = new KeptOperations(team);
    this.#failure = new CudaFailure(team, timeoutMs, (error) => {
      this.#gate.open = false;
      this.#completions.fail(error);
    });
    this.#completions = new Completions(team.device, timeoutMs, this.#failure, team.calls);
    this.#queue = new LaunchQueue(team, this.#failure, this.#completions, (mark) =>
      this.#watch.addEvent(mark),
    );
    this.#memory = new CudaMemory(team, this.#queue, this.#failure, this.#completions, (buffer) =>
      this.#forgetBuffer(buffer),
    );
    this.#checks = new CudaCallChecks(team, this.#queue);
    this.#messages = new CudaMessages({
      team,
      checks: this.#checks,
      queue: this.#queue,
      completions: this.#completions,
      checkUsable: (what) => this.#checkUsable(what),
      recording: () => this.#recording,
    });
    this.#watch = watchRank(team, this.#queue.stream.handle, timeoutMs);
    team.onDeparture(() => {
      this.#gate.open = false;
    });
    team.onTrouble((trouble, detail) => {
      if (!this.#leaving) this.#failure.hear(trouble, detail);
    });
  }

  /** This rank's number in the communicator, from 0. */
  get rank(): number {
    return this.#team.rank;
  }

  /** Number of ranks. */
  get size(): number {
    return this.#team.size;
  }

  /** Index of the rank's GPU. */
  get device(): number {
    return this.#team.device.index;
  }

  /** One line on how the ranks are connected. */
  get description(): string {
    return this.#team.description;
  }

  /**
   * Whether all data go through memory of the host: GPUs do not reach each other's memory, or may not
   * (NCCL_P2P_DISABLE=1).
   */
  get throughHost(): boolean {
    return this.#team.onHost;
  }

  /** One line on the order of rings over connections; undefined where lists ask for no such algorithm. */
  get rings(): string | undefined {
    return this.#team.rings;
  }

  /** Handle of the stream that calls use which name none: for other libraries that want to work in order with them. */
  get stream(): number {
    return this.#queue.stream.handle;
  }

  /** A buffer of zeros in the memory of this rank's GPU that all ranks reach. */
  alloc<B extends Buffer>(ArrayType: ArrayClass<B>, length: number): DeviceBuffer<B> {
    this.#checkUsable('alloc');
    return this.#memory.allocate(ArrayType, length);
  }

  /**
   * Memory of another library as a buffer: `length` elements at a device pointer of this rank's GPU. The memory must
   * stay until the buffer is freed. Throws `invalidArgument` for a pointer to memory of the host or of another GPU.
   */
  wrap<B extends Buffer>(pointer: DeviceAddress, ArrayType: ArrayClass<B>, length: number): DeviceBuffer<B> {
    this.#checkUsable('wrap');
    return this.#memory.wrap(pointer, ArrayType, length);
  }

  /** Gives a buffer of `alloc` or `wrap` back, as `buffer.free()` does. */
  free(buffer: DeviceBuffer): void {
    this.#memory.checkOwn('free', buffer);
    buffer.free();
  }

  #forgetBuffer(buffer: DeviceBuffer): void {
    for (const prepared of [...this.#prepared]) {
      if (prepared.uses(buffer)) prepared.spoil('a buffer that it works on was given back');
    }
    const recording = this.#recording;
    if (recording?.works.some((work) => work.uses(buffer)) === true) {
      recording.error ??= new TuttiError(
        'invalidUsage',
        'capture: a buffer was given back that a call of the graph works on; free it when the graph is not used any more',
        { rank: this.rank },
      );
    }
    this.#kept.forget(buffer);
  }

  /**
   * Sends all elements of a buffer to rank `peer`, which receives as many bytes. Several sends and receives that
   * depend on each other belong into one `group`. Sends of one pair of ranks are received in their order.
   */
  send(buffer: DeviceBuffer, peer: number, options?: StreamOption): Promise<void> {
    return this.#messages.call('send', buffer, peer, options);
  }

  /** Receives what rank `peer` sends. */
  recv(buffer: DeviceBuffer, peer: number, options?: StreamOption): Promise<void> {
    return this.#messages.call('recv', buffer, peer, options);
  }

  /** Checks and plans an operation once, to be run many times: the way to the lowest cost on the host. */
  readonly prepare = Object.fromEntries(
    GPU_COLLECTIVES.filter((collective) => collective !== 'barrier').map((collective) => [
      collective,
      (...args: CudaArguments) => this.#prepareCall(collective, args),
    ]),
  ) as unknown as CudaCollectives<PreparedCudaOperation, unknown>;

  /**
   * Records the calls that `record` makes on this communicator in a CUDA graph, which replays them with one launch.
   * Every rank records the same calls. The calls' promises are of no use; nothing is done yet.
   */
  capture(record: () => void): PreparedCudaOperation {
    this.#checkUsable('capture');
    if (this.#recording !== undefined) {
      throw new TuttiError('invalidUsage', 'capture: a graph is being recorded already', { rank: this.rank });
    }
    if (typeof record !== 'function') {
      throw new TuttiError(
        'invalidArgument',
        `capture: what is due is a function that makes the calls, not ${String(record)}; as capture(() => { comm.allReduce(a, b); })`,
        { rank: this.rank },
      );
    }
    if (record instanceof AsyncFunction) {
      throw new TuttiError(
        'invalidUsage',
        'capture: the function must make its calls before it returns; it may not be async',
        { rank: this.rank },
      );
    }
    if (isGroupOpen()) {
      throw new TuttiError(
        'invalidUsage',
        'capture: a group is open, whose messages would come after the graph; record the group inside of it',
        { rank: this.rank },
      );
    }
    const recording: Recording = { works: [] };
    this.#recording = recording;
    try {
      const graph = new RecordedGraph(this.#queue, () => {
        const result: unknown = record();
        // A call's promise may be returned; but an async function goes on after the capture is over.
        if (result instanceof Promise) result.catch(() => {});
        if ('error' in recording) throw recording.error;
        return recording.works;
      });
      return this.#keep(new PreparedLaunch(this.#runner, graph));
    } finally {
      this.#recording = undefined;
    }
  }

  /** Resolves when everything that was called for so far is done, in all streams, and peers reach all buffers. */
  async synchronize(): Promise<void> {
    this.#checkUsable('synchronize');
    await this.#queue.settled('synchronize');
  }

  /** Resolves when all ranks have called it and everything called for before is done. */
  async barrier(): Promise<void> {
    await this.synchronize();
    try {
      await this.#team.barrier('barrier');
    } catch (error) {
      this.#failure.check();
      throw this.#failure.meetingFailed(error);
    }
  }

  #checkUsable(what: string): void {
    // After the end of its own a communicator does not ask who else has left.
    if (this.#closing === undefined || this.#failure.error !== undefined) this.#failure.check();
    if (this.#closing === undefined) return;
    throw new TuttiError('invalidUsage', `${what}: the communicator is closed`, { rank: this.rank });
  }

  #check(collective: CheckedCollective, args: CudaArguments): PlacedCall {
    this.#checkUsable(collective);
    return this.#checks.collective(collective, args);
  }

  /** A call that is made at once; errors of arguments come as a rejected promise. */
  protected override async callCollective(collective: CheckedCollective, args: CudaArguments): Promise<void> {
    if (this.#recording !== undefined) {
      this.#record(this.#recording, collective, args);
      return;
    }
    const { call, stream, named } = this.#check(collective, args);
    const launched = this.#queue.submit(this.#kept.of(call), stream);
    if (launched !== undefined) await launched;
    if (named) this.#completions.launched(stream);
    else await this.#completions.after(stream.handle, collective);
  }

  /** Records a call; an error comes out of `capture`, since nobody waits for the promise. */
  #record(recording: Recording, collective: CheckedCollective, args: CudaArguments): void {
    try {
      const { call, stream } = this.#check(collective, args);
      // Not a kept one: it lives as long as the graph.
      const operation = new CudaOperation(this.#team, call);
      this.#queue.submit(operation, stream);
      recording.works.push(operation);
    } catch (error) {
      recording.error ??= error;
    }
  }

  #prepareCall(collective: CheckedCollective, args: CudaArguments): PreparedLaunch {
    const { options } = readArguments(collective, args);
    if (options.stream !== undefined) {
      throw new TuttiError(
        'invalidArgument',
        `${collective}: a prepared operation gets its stream when it is run: prepared.run(stream)`,
        { rank: this.rank },
      );
    }
    const { call } = this.#check(collective, args);
    const operation = new CudaOperation(this.#team, call);
    return this.#keep(new PreparedLaunch(this.#runner, new PreparedKernel(this.#team, operation)));
  }

  #keep(prepared: PreparedLaunch): PreparedLaunch {
    this.#prepared.add(prepared);
    return prepared;
  }

  /** What prepared operations need of the communicator. Made last: it holds the parts above. */
  get #runner(): CudaRunner {
    return {
      team: this.#team,
      queue: this.#queue,
      completions: this.#completions,
      gate: this.#gate,
      checkUsable: (what) => this.#checkUsable(what),
      forget: (prepared) => this.#prepared.delete(prepared),
      leave: (work) => this.#left.push(work),
      recorded: (work) => this.#recording?.works.push(work),
    };
  }

  /** Gives the communicator up: everything under way here and at the other ranks ends with an error. */
  abort(reason = 'aborted by the program'): void {
    if (this.#closing === undefined) this.#failure.abort(reason);
  }

  /**
   * Leaves the communicator. Waits for what is under way; buffers must not be used afterwards. Every rank closes;
   * after a failure it does not wait for the others.
   */
  close(): Promise<void> {
    this.#gate.open = false;
    this.#memory.leave();
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#queue.drained('close').catch(() => {});
    this.#leaving = true;
    const healthy = this.#failure.error === undefined;
    const graceful = healthy && (await this.#team.farewell());
    if (healthy && !graceful) this.#failure.leave();
    if (!graceful) await this.#ended();
    await this.#watch.stop();
    for (const prepared of [...this.#prepared]) prepared.releaseNow();
    for (const work of this.#left.splice(0)) work.release?.();
    this.#kept.clear();
    this.#memory.close();
    this.#completions.close();
    this.#queue.close();
    await this.#team.close(graceful);
  }

  /** Kernels that were told to end have ended, or will not. */
  async #ended(): Promise<void> {
    const until = performance.now() + END_MS;
    while (performance.now() < until) {
      try {
        if (this.#queue.isIdle) return;
      } catch {
        // The context is broken: nothing runs there any more.
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
