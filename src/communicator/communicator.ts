/**
 * A communicator: one rank's membership in a group of ranks, and the collectives they do together.
 *
 * Every rank makes the same calls in the same order. A call may be waited for as a promise, done at once
 * (`Sync` forms), or prepared and run many times. Operations of one communicator never overlap.
 *
 * After a failure the communicator is of no more use: every later call throws the first error again. The other
 * ranks learn of it and fail too, so nobody waits for ever.
 */

import { Bootstrap } from '../bootstrap/bootstrap.js';
import { ControlBlock, MAX_DIRECT_RANKS, PeerTable } from '../collectives/control-block.js';
import { STATUS_MISMATCH } from '../collectives/direct.js';
import type { ProgramRequest } from '../collectives/registry.js';
import { wakeDoorbell } from '../device/host/doorbell.js';
import type { TypedArrayConstructor } from '../device/host/host-device.js';
import { HostDevice } from '../device/host/host-device.js';
import type { WasmFunction } from '../device/host/webassembly.js';
import { TuttiError } from '../errors/tutti-error.js';
import { coreCount } from '../system/core-count.js';
import { type Buffer, type CallOptions, type CheckedCall, checkCall } from './buffers.js';
import { describeCall, describeMismatch, describeTimeout, describeTrouble } from './diagnosis.js';
import { Engine, type RunFailure } from './engine.js';
import { createLocalTeams } from './local-team.js';
import { Operation, type OperationContext, STAGE_BYTES } from './operation.js';
import { openProcessTeam } from './process-team.js';
import { type CommunicatorOptions, resolveSettings, type Settings } from './settings.js';
import { decodeTrouble, encodeTrouble, type Team, type Trouble } from './team.js';

/** Options of a reduction. */
export type ReduceOptions = Pick<CallOptions, 'type' | 'op'>;
/** Options of a collective with a root. */
export type RootOptions = Pick<CallOptions, 'type' | 'root'>;
/** Options of a reduction to a root. */
export type RootReduceOptions = CallOptions;
/** Options of a collective that only moves data. */
export type CopyOptions = Pick<CallOptions, 'type'>;

/** Which communicator, and which rank of it. */
export interface Place {
  readonly id: Uint8Array;
  readonly rank: number;
  readonly size: number;
}

type DataCollective = Exclude<CheckedCall['collective'], 'barrier'>;

/** An operation that was checked and planned once. */
export interface PreparedOperation {
  /** Does it now, on the calling thread; returns when the result may be read. */
  run(): void;
  /** Does it in the background; resolves when the result may be read. */
  start(): Promise<void>;
  /** Gives its memory back; it may not be used afterwards. */
  release(): void;
  /** What will run and why. */
  readonly explanation: string;
}

/** The collectives, each giving R: nothing (done), a promise, or a prepared operation. */
export interface Collectives<R> {
  /** recv = op over all ranks of send, on every rank. In place: the same buffer twice. */
  allReduce(send: Buffer, recv: Buffer, options?: ReduceOptions): R;
  /** recv of the root = op over all ranks of send. Other ranks may pass null. In place: the same buffer twice. */
  reduce(send: Buffer, recv: Buffer | null, options?: RootReduceOptions): R;
  /** recv of every rank = send of the root. With one buffer: in place. */
  broadcast(buffer: Buffer, options?: RootOptions): R;
  broadcast(send: Buffer | null, recv: Buffer, options?: RootOptions): R;
  /** recv = the send of rank 0, 1, ... one behind the other. In place: send is block `rank` of recv. */
  allGather(send: Buffer, recv: Buffer, options?: CopyOptions): R;
  /** recv = block `rank` of (op over all ranks of send). In place: recv is block `rank` of send. */
  reduceScatter(send: Buffer, recv: Buffer, options?: ReduceOptions): R;
}

/** Ranks of one process: each takes a thread. */
const MAX_LOCAL_RANKS = 512;

type Arguments = [first: Buffer | null, second?: unknown, third?: unknown];

/** broadcast(buffer, options) or broadcast(send, recv, options): which is it? */
function readArguments(
  collective: DataCollective,
  [first, second, third]: Arguments,
): { send: Buffer | null; recv: Buffer | null; options: CallOptions } {
  const single = collective === 'broadcast' && !ArrayBuffer.isView(second);
  if (single) return { send: first, recv: first, options: (second ?? {}) as CallOptions };
  return { send: first, recv: (second ?? null) as Buffer | null, options: (third ?? {}) as CallOptions };
}

/** Ranks with the same thread cannot run one after the other: the first would wait for ever. */
function refuseBlocking(team: Team, call: string): void {
  if (!team.sharesThread) return;
  throw new TuttiError(
    'invalidUsage',
    `${call} would block the thread that all ${team.size} local ranks share; await ${call.replace('Sync', '')} instead`,
    { rank: team.rank },
  );
}

export class Communicator implements AsyncDisposable {
  readonly #team: Team;
  readonly #settings: Settings;
  readonly #engine: Engine;
  readonly #context: OperationContext;
  readonly #peerTable: number;
  readonly #stages: { address: number; bytes: number; which: 'send' | 'recv' }[] = [];
  readonly #arrays: ArrayBufferView[] = [];
  /** Last operation of each synchronous collective, since loops repeat the same call. */
  readonly #recent = new Map<DataCollective, { key: readonly unknown[]; prepared: Prepared }>();
  readonly #barrierRequest: ProgramRequest;
  #failure: TuttiError | undefined;
  #trouble: Trouble | undefined;
  #detail: string | undefined;
  /** Settles when the operation before the next one has been handed to the executor completely. */
  #turn: Promise<void> | undefined;
  /** Asynchronous operations that are not finished, and a promise for the last of them. */
  #unfinished = 0;
  #lastDone: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | undefined;

  /** Not for users: see `Communicator.init`, `Communicator.fromEnv` and `createLocalCommunicators`. */
  constructor(team: Team, settings: Settings) {
    this.#team = team;
    this.#settings = settings;
    const { device, rank, size, shape } = team;
    // A rank that uses sockets has a second busy thread, its proxy.
    const threads = team.localSize * (team.shared ? 1 : 2);
    this.#engine = new Engine(
      team,
      { oversubscribed: threads > coreCount(), peers: team.peers },
      settings.timeoutMs,
    );
    const orderBytes = size * 4;
    this.#peerTable = device.allocatePrivate(PeerTable.size + orderBytes);
    const table = PeerTable.at(device.dataView, this.#peerTable);
    if (team.shared) {
      // Direct programs reach no more ranks than the table holds; beyond it rings are chosen.
      for (let peer = 0; peer < Math.min(size, MAX_DIRECT_RANKS); peer++) {
        table.set('control', team.areas[peer]!, peer).set('segment', team.segments[peer]!, peer);
      }
    }
    const order = this.#peerTable + PeerTable.size;
    for (let k = 0; k < size; k++) device.dataView.setUint32(order + 4 * k, (rank + k) % size, true);
    this.#context = {
      team,
      settings,
      peerTable: this.#peerTable,
      orders: new Array<number>(shape.channels).fill(order),
      stage: (which, bytes) => this.#stage(which, bytes),
    };
    this.#barrierRequest = {
      algorithm: 'OneShot',
      collective: 'barrier',
      protocol: 'Simple',
      type: 'uint8',
      op: 'sum',
      ranks: size,
    };
    team.onTrouble((trouble, detail) => this.#hear(trouble, detail));
  }

  /**
   * Joins the communicator of a unique id (`createUniqueId`); every rank calls it with its own rank. Resolves
   * when all ranks are there.
   * Throws `invalidArgument` for a bad id, rank or size (also another rank's), `timeout` naming the ranks that
   * did not come, `remoteError` naming a rank that died meanwhile.
   */
  static async init(place: Place & CommunicatorOptions): Promise<Communicator> {
    const settings = resolveSettings(place, process.env);
    const { id, rank, size } = place;
    const bootstrap = await Bootstrap.connect({ id, rank, size, timeoutMs: settings.initTimeoutMs });
    return new Communicator(await openProcessTeam(bootstrap, settings), settings);
  }

  /**
   * Joins the communicator that the launcher describes in the environment: `tutti run`, torchrun, Open MPI,
   * MPICH, Slurm. Throws as `init`, and `invalidUsage` when no launcher is recognised.
   */
  static async fromEnv(options: CommunicatorOptions = {}): Promise<Communicator> {
    const settings = resolveSettings(options, process.env);
    const bootstrap = await Bootstrap.fromLaunchEnvironment({ timeoutMs: settings.initTimeoutMs });
    return new Communicator(await openProcessTeam(bootstrap, settings), settings);
  }

  /** This process's (or thread's) number in the communicator, from 0. */
  get rank(): number {
    return this.#team.rank;
  }

  /** Number of ranks. */
  get size(): number {
    return this.#team.size;
  }

  /** One line on how the ranks are connected. */
  get description(): string {
    return this.#team.description;
  }

  /** A typed array of zeros in memory that all ranks of this host can reach: collectives do not copy it. */
  alloc<T extends Buffer>(ArrayType: TypedArrayConstructor<T>, length: number): T {
    this.#checkUsable('alloc');
    const made = this.#team.device.alloc(ArrayType, length);
    this.#arrays.push(made);
    return made;
  }

  /** Gives an array of `alloc` back before the communicator is closed. */
  free(array: Buffer): void {
    const index = this.#arrays.indexOf(array);
    if (index < 0) {
      throw new TuttiError('invalidArgument', 'free: the array was not made by alloc of this communicator');
    }
    this.#arrays.splice(index, 1);
    this.#team.device.freeArray(array);
  }

  // ---- collectives ----

  allReduce(send: Buffer, recv: Buffer, options?: ReduceOptions): Promise<void> {
    return this.#queueCall('allReduce', [send, recv, options]);
  }
  reduce(send: Buffer, recv: Buffer | null, options?: RootReduceOptions): Promise<void> {
    return this.#queueCall('reduce', [send, recv, options]);
  }
  broadcast(buffer: Buffer, options?: RootOptions): Promise<void>;
  broadcast(send: Buffer | null, recv: Buffer, options?: RootOptions): Promise<void>;
  broadcast(...args: Arguments): Promise<void> {
    return this.#queueCall('broadcast', args);
  }
  allGather(send: Buffer, recv: Buffer, options?: CopyOptions): Promise<void> {
    return this.#queueCall('allGather', [send, recv, options]);
  }
  reduceScatter(send: Buffer, recv: Buffer, options?: ReduceOptions): Promise<void> {
    return this.#queueCall('reduceScatter', [send, recv, options]);
  }

  allReduceSync(send: Buffer, recv: Buffer, options?: ReduceOptions): void {
    this.#runCall('allReduce', [send, recv, options]);
  }
  reduceSync(send: Buffer, recv: Buffer | null, options?: RootReduceOptions): void {
    this.#runCall('reduce', [send, recv, options]);
  }
  broadcastSync(buffer: Buffer, options?: RootOptions): void;
  broadcastSync(send: Buffer | null, recv: Buffer, options?: RootOptions): void;
  broadcastSync(...args: Arguments): void {
    this.#runCall('broadcast', args);
  }
  allGatherSync(send: Buffer, recv: Buffer, options?: CopyOptions): void {
    this.#runCall('allGather', [send, recv, options]);
  }
  reduceScatterSync(send: Buffer, recv: Buffer, options?: ReduceOptions): void {
    this.#runCall('reduceScatter', [send, recv, options]);
  }

  /** Checks and plans an operation once, to be run many times: the way to the lowest latency. */
  readonly prepare: Collectives<PreparedOperation> = {
    allReduce: (...args) => this.#prepareCall('allReduce', args),
    reduce: (...args) => this.#prepareCall('reduce', args),
    broadcast: (...args: Arguments) => this.#prepareCall('broadcast', args),
    allGather: (...args) => this.#prepareCall('allGather', args),
    reduceScatter: (...args) => this.#prepareCall('reduceScatter', args),
  };

  /** Resolves when all ranks have called it and everything queued before is done. */
  async barrier(): Promise<void> {
    this.#checkUsable('barrier');
    if (this.#unfinished > 0) await this.#lastDone;
    this.#checkUsable('barrier');
    try {
      await this.#team.barrier('barrier');
    } catch (error) {
      throw this.#failure ?? error;
    }
  }

  #check(collective: DataCollective, args: Arguments): CheckedCall {
    this.#checkUsable(collective);
    const { send, recv, options } = readArguments(collective, args);
    try {
      return checkCall(collective, send, recv, options, { rank: this.rank, size: this.size });
    } catch (error) {
      if (!TuttiError.is(error)) throw error;
      throw new TuttiError(error.code, error.message, { rank: this.rank, cause: error });
    }
  }

  #prepareCall(collective: DataCollective, args: Arguments): Prepared {
    const call = this.#check(collective, args);
    return new Prepared(this.#runner, this.#context, call);
  }

  #runCall(collective: DataCollective, args: Arguments): void {
    refuseBlocking(this.#team, `${collective}Sync`);
    const { send, recv, options } = readArguments(collective, args);
    const key = [send, recv, send?.length, recv?.length, options.type, options.op, options.root];
    let recent = this.#recent.get(collective);
    if (recent === undefined || !recent.key.every((part, i) => part === key[i])) {
      const prepared = this.#prepareCall(collective, args);
      recent?.prepared.release();
      recent = { key, prepared };
      this.#recent.set(collective, recent);
    }
    recent.prepared.run();
  }

  async #queueCall(collective: DataCollective, args: Arguments): Promise<void> {
    const call = this.#check(collective, args);
    if (this.size === 1) return copyAlone(call);
    const operation = new Operation(this.#context, call, 'whole');
    try {
      await this.#enqueue(operation);
    } finally {
      operation.release();
    }
  }

  /** What prepared operations need of the communicator. */
  readonly #runner: Runner = {
    check: (name) => this.#checkUsable(name),
    refuseBlocking: (name) => refuseBlocking(this.#team, name),
    inline: (operation) => this.#engine.inline(operation.request),
    run: (operation, program) => this.#run(operation, program),
    enqueue: (operation) => this.#enqueue(operation),
  };

  #run(operation: Operation, program: WasmFunction): void {
    if (this.#failure !== undefined || this.#closing !== undefined)
      this.#checkUsable(operation.call.collective);
    if (this.#turn !== undefined) {
      throw new TuttiError(
        'invalidUsage',
        `${operation.call.collective}: an asynchronous call before this one is still moving ordinary arrays; await it first`,
        { rank: this.rank },
      );
    }
    if (this.#settings.check) this.#compareNow(operation);
    const { pieces, descriptor, blocks } = operation;
    for (let piece = 0; piece < pieces; piece++) {
      operation.before(piece);
      const failure = this.#engine.run(program, descriptor, blocks);
      if (failure !== undefined) throw this.#fail(operation, failure);
      operation.after(piece);
    }
  }

  /**
   * Hands an operation to the executor, which keeps the order. Only operations that are cut into pieces hold up
   * the ones behind them on this side.
   */
  async #enqueue(operation: Operation): Promise<void> {
    this.#checkUsable(operation.call.collective);
    this.#unfinished += 1;
    const done =
      this.#turn === undefined && operation.pieces === 1 && !this.#settings.check
        ? this.#submit(operation, 0)
        : this.#enqueueInTurn(operation);
    this.#lastDone = done.catch(() => {});
    try {
      await done;
    } finally {
      this.#unfinished -= 1;
    }
  }

  async #enqueueInTurn(operation: Operation): Promise<void> {
    const before = this.#turn;
    let finish!: () => void;
    const turn = new Promise<void>((resolve) => {
      finish = resolve;
    });
    this.#turn = turn;
    try {
      await before;
      if (this.#settings.check) await this.#compareSoon(operation);
      for (let piece = 0; piece < operation.pieces; piece++) await this.#submit(operation, piece);
    } finally {
      if (this.#turn === turn) this.#turn = undefined;
      finish();
    }
  }

  async #submit(operation: Operation, piece: number): Promise<void> {
    this.#checkUsable(operation.call.collective);
    operation.before(piece);
    const { request, descriptor, blocks } = operation;
    const failure = await this.#engine.queue(request, descriptor, blocks);
    if (failure !== undefined) throw this.#fail(operation, failure);
    operation.after(piece);
  }

  // ---- comparing calls before an operation that does not do it by itself ----

  #compareNow(operation: Operation): void {
    if (operation.request.algorithm !== 'Ring') return;
    if (operation.comparison === 0) {
      throw new TuttiError(
        'invalidUsage',
        `${operation.call.collective}Sync: with check on and ranks that share no memory, use the asynchronous form`,
        { rank: this.rank },
      );
    }
    const program = this.#engine.inline(this.#barrierRequest);
    const failure = this.#engine.run(program, operation.comparison, 1);
    if (failure !== undefined) throw this.#fail(operation, failure, true);
  }

  async #compareSoon(operation: Operation): Promise<void> {
    if (operation.request.algorithm !== 'Ring') return;
    if (operation.comparison !== 0) {
      const failure = await this.#engine.queue(this.#barrierRequest, operation.comparison, 1);
      if (failure !== undefined) throw this.#fail(operation, failure, true);
      return;
    }
    const own = Float64Array.of(operation.signature, operation.call.count);
    const all = await this.#team.allGather(new Uint8Array(own.buffer), 'check');
    all.forEach((bytes, peer) => {
      const other = new Float64Array(bytes.slice().buffer);
      if (other[0] === own[0] && other[1] === own[1]) return;
      const describe = (values: Float64Array) => describeCall(values[0]!, values[1]!);
      throw this.#failWith(
        new TuttiError(
          'invalidUsage',
          `the ranks do different things: rank ${this.rank} calls ${describe(own)}, rank ${peer} calls ${describe(other)}`,
          { rank: peer },
        ),
        { kind: 'mismatch', culprit: peer },
      );
    });
  }

  // ---- failure ----

  #checkUsable(what: string): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#closing !== undefined) {
      throw new TuttiError('invalidUsage', `${what}: the communicator is closed`, { rank: this.rank });
    }
    if (this.#trouble !== undefined)
      throw this.#failWith(describeTrouble(this.#trouble, this.rank, this.#detail));
  }

  /** Turns the end of a program into an error and tells the other ranks. */
  #fail(operation: Operation, failure: RunFailure, comparing = false): TuttiError {
    if (this.#failure !== undefined) return this.#failure;
    const what = operation.call.collective;
    const direct = comparing || operation.request.algorithm !== 'Ring';
    if (failure.status === STATUS_MISMATCH) {
      const { error, trouble } = describeMismatch(this.#team);
      return this.#failWith(error, trouble);
    }
    const reason = failure.reason;
    if (reason?.kind === 'timeout') {
      const { error, trouble } = describeTimeout(this.#team, what, this.#settings.timeoutMs, direct);
      return this.#failWith(error, trouble);
    }
    if (reason?.kind === 'peerDied') {
      const trouble: Trouble = { kind: 'peerDied', culprit: reason.peer ?? this.rank };
      return this.#failWith(describeTrouble(trouble, this.rank, `noticed during ${what}`), trouble);
    }
    const heard = this.#trouble ?? decodeTrouble(this.#abortWord(this.#team.area));
    if (heard !== undefined)
      return this.#failWith(describeTrouble(heard, this.rank, this.#detail ?? `noticed during ${what}`));
    return this.#failWith(
      new TuttiError('internalError', `${what} ended with status ${failure.status}`, { rank: this.rank }),
      { kind: 'aborted', culprit: this.rank },
    );
  }

  /** Records the failure; with `trouble`, this rank is the first to know and tells the others. */
  #failWith(error: TuttiError, trouble?: Trouble): TuttiError {
    if (this.#failure !== undefined) return this.#failure;
    this.#failure = error;
    if (trouble !== undefined) {
      if (this.#team.shared) {
        this.#team.areas.forEach((area, peer) => {
          if (peer !== this.rank) this.#raise(area, trouble);
        });
      }
      this.#team.tell(trouble);
    }
    return error;
  }

  /** News from the others: whatever waits here gives up. */
  #hear(trouble: Trouble, detail?: string): void {
    if (this.#trouble !== undefined || this.#closing !== undefined) return;
    this.#trouble = trouble;
    this.#detail = detail;
    this.#raise(this.#team.area, trouble);
  }

  #abortWord(area: number): number {
    return Atomics.load(this.#team.device.i32, (area + ControlBlock.fields.abort.offset) >>> 2);
  }

  /** Sets the abort word of a control block, unless it is set, and wakes whoever sleeps there. */
  #raise(area: number, trouble: Trouble): void {
    const { device } = this.#team;
    Atomics.compareExchange(
      device.i32,
      (area + ControlBlock.fields.abort.offset) >>> 2,
      0,
      encodeTrouble(trouble),
    );
    wakeDoorbell(device, area);
  }

  /** Gives the communicator up: everything under way here and at the other ranks ends with an error. */
  abort(reason = 'aborted by the program'): void {
    if (this.#failure !== undefined || this.#closing !== undefined) return;
    const trouble: Trouble = { kind: 'aborted', culprit: this.rank };
    this.#trouble = trouble;
    this.#detail = reason;
    this.#raise(this.#team.area, trouble);
    this.#failWith(describeTrouble(trouble, this.rank, reason), trouble);
  }

  /**
   * Leaves the communicator. Waits for what is under way; arrays of `alloc` must not be used afterwards.
   * Every rank closes; after a failure it does not wait for the others.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.#unfinished > 0) await this.#lastDone;
    const graceful = this.#failure === undefined && this.#trouble === undefined;
    try {
      // Nobody's memory may go while others still read it.
      if (graceful) await this.#team.barrier('close');
    } catch {
      // A rank that is gone cannot be waited for.
    }
    for (const { prepared } of this.#recent.values()) prepared.release();
    this.#recent.clear();
    await this.#engine.close();
    await this.#team.close(graceful);
    const { device } = this.#team;
    for (const array of this.#arrays.splice(0)) device.freeArray(array);
    for (const { address } of this.#stages.splice(0)) device.free(address);
    device.freePrivate(this.#peerTable);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Staging memory of at least so many bytes. Prepared operations keep the addresses, so memory that became too
   * small stays until the end.
   */
  #stage(which: 'send' | 'recv', bytes: number): number {
    const fitting = this.#stages.find((stage) => stage.which === which && stage.bytes >= bytes);
    if (fitting !== undefined) return fitting.address;
    const size = Math.max(bytes, STAGE_BYTES);
    const address = this.#team.device.allocate(size);
    this.#stages.push({ which, address, bytes: size });
    return address;
  }
}

/**
 * Communicators of `size` ranks in this process, in rank order. Their calls run on threads of their own; all
 * promises must be awaited together, since every rank waits for the others.
 */
export async function createLocalCommunicators(
  size: number,
  options: CommunicatorOptions = {},
): Promise<Communicator[]> {
  if (!Number.isInteger(size) || size < 1 || size > MAX_LOCAL_RANKS) {
    throw new TuttiError(
      'invalidArgument',
      `createLocalCommunicators: ${String(size)} ranks; it must be from 1 to ${MAX_LOCAL_RANKS}`,
    );
  }
  const settings = resolveSettings(options, process.env);
  const device = HostDevice.shared({ localRanks: 1 });
  return createLocalTeams(device, size, settings.shape).map((team) => new Communicator(team, settings));
}

/** What prepared operations need of their communicator. */
interface Runner {
  check(name: string): void;
  refuseBlocking(name: string): void;
  inline(operation: Operation): WasmFunction;
  run(operation: Operation, program: WasmFunction): void;
  enqueue(operation: Operation): Promise<void>;
}

class Prepared implements PreparedOperation {
  readonly #runner: Runner;
  readonly #context: OperationContext;
  readonly #call: CheckedCall;
  /** Null for a communicator of one rank. */
  readonly #operation: Operation | null;
  #program: WasmFunction | undefined;
  #released = false;

  constructor(runner: Runner, context: OperationContext, call: CheckedCall) {
    this.#runner = runner;
    this.#context = context;
    this.#call = call;
    this.#operation =
      context.team.size === 1
        ? null
        : new Operation(context, call, context.team.sharesThread ? 'whole' : 'pieces');
  }

  get explanation(): string {
    if (this.#operation === null) return 'one rank: a copy';
    const { algorithm, protocol, reason } = this.#operation.selection;
    return `${algorithm}${algorithm === 'Ring' ? ` ${protocol}` : ''}: ${reason}`;
  }

  run(): void {
    const operation = this.#operation;
    if (this.#program === undefined) {
      this.#checkReady();
      if (operation === null) {
        copyAlone(this.#call);
        return;
      }
      this.#runner.refuseBlocking(`${this.#call.collective}Sync`);
      this.#program = this.#runner.inline(operation);
    }
    this.#runner.run(operation!, this.#program);
  }

  async start(): Promise<void> {
    this.#checkReady();
    if (this.#operation === null) return copyAlone(this.#call);
    await this.#runner.enqueue(this.#operation);
  }

  #checkReady(): void {
    this.#runner.check(this.#call.collective);
    if (this.#released) {
      throw new TuttiError('invalidUsage', `${this.#call.collective}: the prepared operation was released`, {
        rank: this.#context.team.rank,
      });
    }
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#program = undefined;
    this.#operation?.release();
  }
}

/** All collectives of one rank: its own data, moved where they belong. */
function copyAlone({ send, recv }: CheckedCall): void {
  if (send === null || recv === null || (send.buffer === recv.buffer && send.byteOffset === recv.byteOffset))
    return;
  (recv as Uint8Array).set(send as Uint8Array);
}
