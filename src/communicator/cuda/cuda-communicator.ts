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
import type { Stream } from '../../device/cuda/stream.js';
import { TuttiError } from '../../errors/tutti-error.js';
import type { Buffer } from '../buffers.js';
import { type CallOptions, type CheckedCollective, checkCallOf } from '../call-check.js';
import { failGroup, type GroupMember, isGroupOpen, joinGroup } from '../group.js';
import { checkKnownOptions } from '../known-options.js';
import { Completions } from './completions.js';
import { CudaFailure } from './cuda-failure.js';
import { CudaMemory, type DeviceAddress } from './cuda-memory.js';
import { CudaOperation, type DeviceCall } from './cuda-operation.js';
import {
  type CudaRunner,
  type PreparedCudaOperation,
  PreparedLaunch,
  type PreparedWork,
} from './cuda-prepared.js';
import type { CudaTeam } from './cuda-team.js';
import { type ArrayClass, DeviceBuffer, describeDeviceBuffer } from './device-buffer.js';
import { LaunchQueue, type StreamHandle } from './launch-queue.js';
import { type Message, MessageBatch } from './message-batch.js';
import { PreparedKernel } from './prepared-kernel.js';
import { RecordedGraph } from './recorded-graph.js';
import { Watchdog } from './watchdog.js';

/** Options of every call on a GPU. */
export interface StreamOption {
  /**
   * Stream of another library (CUstream, cudaStream_t) to work in. The promise then settles as soon as the work is in
   * the stream, and the result is there for what comes later in it. The stream must outlive the next call.
   */
  readonly stream?: StreamHandle;
}

type CopyOptions = Pick<CallOptions, 'type'>;
type ReduceOptions = Pick<CallOptions, 'type' | 'op'>;
type RootOptions = Pick<CallOptions, 'type' | 'root'>;

/** The collectives on GPUs, each giving R: a promise or a prepared operation. O is what options may hold besides. */
export interface CudaCollectives<R, O = StreamOption> {
  /** recv = op over all ranks of send, on every rank. In place: the same buffer twice. */
  allReduce<B extends Buffer>(send: DeviceBuffer<B>, recv: DeviceBuffer<B>, options?: ReduceOptions & O): R;
  /** recv of the root = op over all ranks of send. Other ranks may pass null. In place: the same buffer twice. */
  reduce<B extends Buffer>(send: DeviceBuffer<B>, recv: DeviceBuffer<B> | null, options?: CallOptions & O): R;
  /** recv of every rank = send of the root. With one buffer: in place. */
  broadcast(buffer: DeviceBuffer, options?: RootOptions & O): R;
  broadcast<B extends Buffer>(
    send: DeviceBuffer<B> | null,
    recv: DeviceBuffer<B>,
    options?: RootOptions & O,
  ): R;
  /** recv = the send of rank 0, 1, ... one behind the other. In place: send is block `rank` of recv. */
  allGather<B extends Buffer>(send: DeviceBuffer<B>, recv: DeviceBuffer<B>, options?: CopyOptions & O): R;
  /** recv = block `rank` of (op over all ranks of send). In place: recv is block `rank` of send. */
  reduceScatter<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B>,
    options?: ReduceOptions & O,
  ): R;
  /** Block r of recv = block `rank` of the send of rank r; buffers hold a block per rank. Never in place. */
  allToAll<B extends Buffer>(send: DeviceBuffer<B>, recv: DeviceBuffer<B>, options?: CopyOptions & O): R;
  /** recv of the root = the send of rank 0, 1, ... one behind the other. Other ranks may pass null. */
  gather<B extends Buffer>(send: DeviceBuffer<B>, recv: DeviceBuffer<B> | null, options?: RootOptions & O): R;
  /** recv of rank r = block r of the send of the root. Other ranks may pass null. */
  scatter<B extends Buffer>(
    send: DeviceBuffer<B> | null,
    recv: DeviceBuffer<B>,
    options?: RootOptions & O,
  ): R;
}

type Arguments = [first: DeviceBuffer | null, second?: unknown, third?: unknown];

/** A graph that is being recorded: what it holds so far, and the first error of a call. */
interface Recording {
  readonly works: PreparedWork[];
  error?: unknown;
}

/** In a group nobody has to await single messages: the group's promise tells of their errors. */
function quiet(message: Promise<void>): Promise<void> {
  if (isGroupOpen()) message.catch(() => {});
  return message;
}

/** Messages that wait for the end of their group, and the promise of their calls. */
class PendingMessages {
  readonly list: Message[] = [];
  stream: StreamHandle | undefined;
  readonly done: Promise<void>;
  resolve!: () => void;
  reject!: (error: unknown) => void;

  constructor() {
    this.done = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // The group's promise tells of errors too.
    this.done.catch(() => {});
  }
}

/** Has somebody look after a rank while its event loop is blocked; returns what ends that. */
function watch(team: CudaTeam, stream: number, timeoutMs: number): () => Promise<void> {
  const { rank, size, host, calls, processes, device } = team;
  if (size === 1) return async () => {};
  const { own: board, all: boards } = calls.addresses;
  const peers = processes.flatMap((process, peer) =>
    process === undefined ? [] : [{ rank: peer, process }],
  );
  const { context } = device;
  return Watchdog.shared().watch({
    rank,
    heap: host.buffer,
    board,
    boards,
    timeoutMs,
    context,
    streams: [stream],
    peers,
  });
}

/** Operations that are kept for calls that repeat. */
const KEPT_OPERATIONS = 256;

/** How long kernels that were told to end are waited for, ms: far more than their waits between two looks. */
const END_MS = 10_000;

function readArguments(
  collective: CheckedCollective,
  [first, second, third]: Arguments,
): { send: DeviceBuffer | null; recv: DeviceBuffer | null; options: CallOptions & StreamOption } {
  const isOptions = second !== null && !(second instanceof DeviceBuffer) && !ArrayBuffer.isView(second);
  if (collective === 'broadcast' && third === undefined && isOptions) {
    return { send: first, recv: first, options: (second ?? {}) as CallOptions };
  }
  return {
    send: first,
    recv: (second ?? null) as DeviceBuffer | null,
    options: (third ?? {}) as CallOptions,
  };
}

export class CudaCommunicator implements AsyncDisposable, GroupMember, CudaCollectives<Promise<void>> {
  readonly #team: CudaTeam;
  readonly #failure: CudaFailure;
  readonly #completions: Completions;
  readonly #queue: LaunchQueue;
  readonly #memory: CudaMemory;
  readonly #prepared = new Set<PreparedLaunch>();
  /** Operations by what they do with which addresses. */
  readonly #kept = new Map<string, CudaOperation>();
  /** While a graph is recorded. */
  #recording: Recording | undefined;
  readonly #gate = { open: true };
  /** Messages of the open group. */
  #messages: PendingMessages | undefined;
  readonly #unwatch: () => Promise<void>;
  #closing: Promise<void> | undefined;
  /** Everything of this rank is done: what happens to the others is no trouble any more. */
  #leaving = false;

  /** Not for users: see `Communicator.init`, `Communicator.fromEnv` and `createLocalCommunicators`. */
  constructor(team: CudaTeam, timeoutMs: number) {
    this.#team = team;
    this.#failure = new CudaFailure(team, timeoutMs, (error) => {
      this.#gate.open = false;
      this.#completions.fail(error);
    });
    this.#completions = new Completions(team.device, timeoutMs, this.#failure, team.calls);
    this.#queue = new LaunchQueue(team, this.#failure, this.#completions);
    this.#memory = new CudaMemory(team, this.#queue, this.#failure, this.#completions, (buffer) =>
      this.#forgetBuffer(buffer),
    );
    this.#unwatch = watch(team, this.#queue.stream.handle, timeoutMs);
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
    buffer.free();
  }

  #forgetBuffer(buffer: DeviceBuffer): void {
    for (const prepared of [...this.#prepared]) {
      if (prepared.uses(buffer)) prepared.spoil('a buffer that it works on was given back');
    }
    for (const [key, operation] of this.#kept) if (operation.uses(buffer)) this.#kept.delete(key);
  }

  // ---- collectives ----

  allReduce<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B>,
    options?: ReduceOptions & StreamOption,
  ): Promise<void> {
    return this.#call('allReduce', [send as unknown as DeviceBuffer, recv, options]);
  }
  reduce<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B> | null,
    options?: CallOptions & StreamOption,
  ): Promise<void> {
    return this.#call('reduce', [send as unknown as DeviceBuffer, recv, options]);
  }
  broadcast(buffer: DeviceBuffer, options?: RootOptions & StreamOption): Promise<void>;
  broadcast<B extends Buffer>(
    send: DeviceBuffer<B> | null,
    recv: DeviceBuffer<B>,
    options?: RootOptions & StreamOption,
  ): Promise<void>;
  broadcast(...args: unknown[]): Promise<void> {
    return this.#call('broadcast', args as Arguments);
  }
  allGather<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B>,
    options?: CopyOptions & StreamOption,
  ): Promise<void> {
    return this.#call('allGather', [send as unknown as DeviceBuffer, recv, options]);
  }
  reduceScatter<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B>,
    options?: ReduceOptions & StreamOption,
  ): Promise<void> {
    return this.#call('reduceScatter', [send as unknown as DeviceBuffer, recv, options]);
  }
  allToAll<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B>,
    options?: CopyOptions & StreamOption,
  ): Promise<void> {
    return this.#call('allToAll', [send as unknown as DeviceBuffer, recv, options]);
  }
  gather<B extends Buffer>(
    send: DeviceBuffer<B>,
    recv: DeviceBuffer<B> | null,
    options?: RootOptions & StreamOption,
  ): Promise<void> {
    return this.#call('gather', [send as unknown as DeviceBuffer, recv, options]);
  }
  scatter<B extends Buffer>(
    send: DeviceBuffer<B> | null,
    recv: DeviceBuffer<B>,
    options?: RootOptions & StreamOption,
  ): Promise<void> {
    return this.#call('scatter', [send as unknown as DeviceBuffer | null, recv, options]);
  }

  /**
   * Sends all elements of a buffer to rank `peer`, which receives as many bytes. Several sends and receives that
   * depend on each other belong into one `group`. Sends of one pair of ranks are received in their order.
   */
  send(buffer: DeviceBuffer, peer: number, options?: StreamOption): Promise<void> {
    return quiet(this.#message('send', buffer, peer, options));
  }

  /** Receives what rank `peer` sends. */
  recv(buffer: DeviceBuffer, peer: number, options?: StreamOption): Promise<void> {
    return quiet(this.#message('recv', buffer, peer, options));
  }

  async #message(
    kind: Message['kind'],
    buffer: DeviceBuffer,
    peer: number,
    options: StreamOption = {},
  ): Promise<void> {
    const message = this.#checkMessage(kind, buffer, peer, options);
    this.#messages ??= new PendingMessages();
    const pending = this.#messages;
    pending.list.push(message);
    pending.stream = options.stream;
    if (!joinGroup(this)) await this.submitGroup();
    else await pending.done;
  }

  #checkMessage(kind: Message['kind'], buffer: unknown, peer: number, options: StreamOption): Message {
    this.#checkUsable(kind);
    try {
      checkKnownOptions(kind, options, ['stream']);
      describeDeviceBuffer(kind, 'the buffer', buffer);
      const own = buffer as DeviceBuffer;
      this.#checkPlace(kind, 'the buffer', own);
      if (!Number.isInteger(peer) || peer < 0 || peer >= this.size) {
        throw new TuttiError(
          'invalidArgument',
          `${kind}: invalid peer ${String(peer)}; it must be a rank from 0 to ${this.size - 1}`,
        );
      }
      this.#queue.streamOf(options.stream);
      const pending = this.#messages;
      if (pending !== undefined && pending.list.length > 0 && pending.stream !== options.stream) {
        throw new TuttiError('invalidUsage', `${kind}: all messages of a group must be in the same stream`);
      }
      return { kind, peer, buffer: own };
    } catch (error) {
      const known = TuttiError.is(error)
        ? new TuttiError(error.code, error.message, { rank: this.rank, cause: error })
        : error;
      failGroup(known);
      throw known;
    }
  }

  /** Not for users: see `group`. */
  async submitGroup(): Promise<void> {
    const pending = this.#messages;
    this.#messages = undefined;
    if (pending === undefined) return;
    try {
      const batch = new MessageBatch(this.#team, pending.list);
      const stream = this.#queue.streamOf(pending.stream);
      const launched = this.#queue.submit(batch, stream);
      this.#recording?.works.push(batch);
      if (launched !== undefined) await launched;
      if (this.#recording === undefined) {
        if (pending.stream !== undefined) this.#completions.launched(stream);
        else await this.#completions.after(stream.handle, batch.name);
      }
      pending.resolve();
    } catch (error) {
      if (this.#recording !== undefined) this.#recording.error ??= error;
      pending.reject(error);
      throw error;
    }
  }

  /** Not for users: see `group`. */
  discardGroup(): void {
    this.#messages?.reject(
      new TuttiError('invalidUsage', 'the group was given up before its end', { rank: this.rank }),
    );
    this.#messages = undefined;
  }

  /** Checks and plans an operation once, to be run many times: the way to the lowest cost on the host. */
  readonly prepare = Object.fromEntries(
    GPU_COLLECTIVES.filter((collective) => collective !== 'barrier').map((collective) => [
      collective,
      (...args: Arguments) => this.#prepareCall(collective, args),
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
    const recording: Recording = { works: [] };
    this.#recording = recording;
    try {
      const graph = new RecordedGraph(this.#queue, () => {
        record();
        if ('error' in recording) throw recording.error;
        return recording.works;
      });
      return this.#keep(new PreparedLaunch(this.#runner, graph));
    } finally {
      this.#recording = undefined;
    }
  }

  /** Resolves when everything that was called for so far is done, in all streams. */
  async synchronize(): Promise<void> {
    this.#checkUsable('synchronize');
    await this.#queue.drained('synchronize');
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
    this.#failure.check();
    if (this.#closing === undefined) return;
    throw new TuttiError('invalidUsage', `${what}: the communicator is closed`, { rank: this.rank });
  }

  #check(
    collective: CheckedCollective,
    args: Arguments,
  ): { call: DeviceCall; stream: Stream; named: boolean } {
    this.#checkUsable(collective);
    const { send, recv, options } = readArguments(collective, args);
    const { stream, ...rest } = options;
    try {
      const place = { rank: this.rank, size: this.size };
      const call = checkCallOf(describeDeviceBuffer, collective, send, recv, rest, place);
      this.#checkPlace(call.collective, 'send', call.send);
      this.#checkPlace(call.collective, 'recv', call.recv);
      return { call, stream: this.#queue.streamOf(stream), named: stream !== undefined };
    } catch (error) {
      if (!TuttiError.is(error)) throw error;
      throw new TuttiError(error.code, error.message, { rank: this.rank, cause: error });
    }
  }

  /** Refuses buffers of another GPU and those that were given back. */
  #checkPlace(call: string, name: string, buffer: DeviceBuffer | null): void {
    if (buffer === null) return;
    if (buffer.freed) {
      throw new TuttiError(
        'invalidUsage',
        `${call}: ${name} was given back, or belongs to a communicator that is closed; make a new buffer with comm.alloc`,
      );
    }
    if (buffer.owner.device === this.#team.device) return;
    throw new TuttiError(
      'invalidArgument',
      `${call}: ${name} is memory of GPU ${buffer.device}, but rank ${this.rank} works on GPU ${this.device}; pass a buffer of this communicator`,
    );
  }

  /** The operation of a call, a kept one if it was made before. */
  #operationOf(call: DeviceCall): CudaOperation {
    const { collective, type, op, root, count, send, recv } = call;
    const key = `${collective} ${type} ${op} ${root} ${count} ${send?.address} ${recv?.address}`;
    let operation = this.#kept.get(key);
    if (operation !== undefined) return operation;
    operation = new CudaOperation(this.#team, call);
    if (this.#kept.size >= KEPT_OPERATIONS) this.#kept.delete(this.#kept.keys().next().value!);
    this.#kept.set(key, operation);
    return operation;
  }

  /** A call that is made at once; errors of arguments come as a rejected promise. */
  async #call(collective: CheckedCollective, args: Arguments): Promise<void> {
    if (this.#recording !== undefined) {
      this.#record(this.#recording, collective, args);
      return;
    }
    const { call, stream, named } = this.#check(collective, args);
    const launched = this.#queue.submit(this.#operationOf(call), stream);
    if (launched !== undefined) await launched;
    if (named) this.#completions.launched(stream);
    else await this.#completions.after(stream.handle, collective);
  }

  /** Records a call; an error comes out of `capture`, since nobody waits for the promise. */
  #record(recording: Recording, collective: CheckedCollective, args: Arguments): void {
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

  #prepareCall(collective: CheckedCollective, args: Arguments): PreparedLaunch {
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
    await this.#unwatch();
    for (const prepared of [...this.#prepared]) prepared.releaseNow();
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
