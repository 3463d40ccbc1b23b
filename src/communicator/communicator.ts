/// <reference lib="esnext.disposable" preserve="true" />
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
import { MAX_DIRECT_RANKS, PeerTable } from '../collectives/control-block.js';
import type { TypedArrayConstructor } from '../device/host/host-device.js';
import { HostDevice } from '../device/host/host-device.js';
import { TuttiError } from '../errors/tutti-error.js';
import { coreCount } from '../system/core-count.js';
import { HostSelector } from '../tuning/host/selector.js';
import { type HostChoices, NO_CHOICES } from '../tuning/host-choices.js';
import {
  type Buffer,
  type CheckedCall,
  checkCall,
  checkMessageArray,
  checkMessageCollective,
  type SameClass,
} from './buffers.js';
import { CallBoard } from './call-board.js';
import type { CallOptions } from './call-check.js';
import { type AnyCall, CallPlans } from './call-plans.js';
import type { CommunicatorStatus } from './communicator-status.js';
import { Comparison } from './comparison.js';
import { ConnectionPools } from './connection-pools.js';
import { createLocalCudaCommunicators } from './cuda/create-local.js';
import type { CudaCommunicator } from './cuda/cuda-communicator.js';
import type { CudaDeviceName } from './cuda/cuda-device-name.js';
import { joinOnGpu } from './cuda/join.js';
import { Engine } from './engine.js';
import { FailureState } from './failure-state.js';
import { Gate } from './gate.js';
import type { MessageCollective } from './gather-scatter.js';
import {
  failGroup,
  finalizeInGroup,
  type GroupMember,
  isGroupOpen,
  joinGroup,
  recordGroup,
} from './group.js';
import { readHostModel } from './host-constants-file.js';
import { checkKnownOptions } from './known-options.js';
import { FAREWELL } from './local-control.js';
import { createLocalTeams } from './local-team.js';
import type { Message } from './message-batch.js';
import { MessagePool } from './message-pool.js';
import { STAGE_BYTES } from './operation.js';
import type { OperationContext } from './operation-context.js';
import { OperationQueue } from './operation-queue.js';
import { PendingGroup } from './pending-group.js';
import { type Plan, Prepared, type PreparedOperation, type Runner } from './prepared-operation.js';
import { openProcessTeam } from './process-team.js';
import { RecentCall } from './recent-call.js';
import { rehearsePrepared } from './rehearsal.js';
import {
  COMMUNICATOR_OPTIONS,
  type CommunicatorOptions,
  type CudaCommunicatorOptions,
  resolveSettings,
  type Settings,
} from './settings.js';
import { SharedStage } from './shared-stage.js';
import type { StagingForm } from './staging.js';
import { areOthersAhead, watchForStragglers } from './stragglers.js';
import { type SwitchPortTraffic, switchTraffic } from './switch-set-up.js';
import type { Team } from './team.js';

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

/** Everything with arguments like those of a collective. */
type CallName = DataCollective | MessageCollective;

/** The collectives, each giving R: nothing (done), a promise, or a prepared operation. */
export interface Collectives<R> {
  /** recv = op over all ranks of send, on every rank. In place: the same buffer twice. */
  allReduce<B extends Buffer>(send: B, recv: SameClass<B>, options?: ReduceOptions): R;
  /** recv of the root = op over all ranks of send. Other ranks may pass null. In place: the same buffer twice. */
  reduce<B extends Buffer>(send: B, recv: SameClass<B> | null, options?: RootReduceOptions): R;
  /** recv of every rank = send of the root. With one buffer: in place. */
  broadcast(buffer: Buffer, options?: RootOptions): R;
  broadcast<B extends Buffer>(send: SameClass<B> | null, recv: B, options?: RootOptions): R;
  /** recv = the send of rank 0, 1, ... one behind the other. In place: send is block `rank` of recv. */
  allGather<B extends Buffer>(send: B, recv: SameClass<B>, options?: CopyOptions): R;
  /** recv = block `rank` of (op over all ranks of send). In place: recv is block `rank` of send. */
  reduceScatter<B extends Buffer>(send: B, recv: SameClass<B>, options?: ReduceOptions): R;
  /** Block r of recv = block `rank` of the send of rank r; arrays hold a block per rank. Never in place. */
  allToAll<B extends Buffer>(send: B, recv: SameClass<B>, options?: CopyOptions): R;
  /** recv of the root = the send of rank 0, 1, ... one behind the other. Other ranks may pass null. */
  gather<B extends Buffer>(send: B, recv: SameClass<B> | null, options?: RootOptions): R;
  /** recv of rank r = block r of the send of the root. Other ranks may pass null. */
  scatter<B extends Buffer>(send: SameClass<B> | null, recv: B, options?: RootOptions): R;
}

/** Messages between two ranks, each call giving R. */
export interface MessageCalls<R> {
  /**
   * Sends all elements of an array to rank `peer`, which receives as many bytes. Several sends and receives that
   * depend on each other belong into one `group`. Sends of one pair of ranks are received in their order.
   */
  send(buffer: Buffer, peer: number): R;
  /** Receives what rank `peer` sends. */
  recv(buffer: Buffer, peer: number): R;
}

/** What can be prepared. */
export interface Preparations extends Collectives<PreparedOperation>, MessageCalls<PreparedOperation> {
  /** The messages that this communicator sends and receives inside `record`, as one operation. */
  group(record: () => void): PreparedOperation;
}

/** Ranks of one process: each takes a thread. */
const MAX_LOCAL_RANKS = 512;

const NO_OPTIONS: CallOptions = {};

/** In place of the peer of a message. */
const NO_PEER = -1;

type Arguments = [first: Buffer | null, second?: unknown, third?: unknown];

/** broadcast(buffer, options) or broadcast(send, recv, options): which is it? */
function readArguments(
  collective: CallName,
  [first, second, third]: Arguments,
): { send: Buffer | null; recv: Buffer | null; options: CallOptions } {
  if (collective === 'broadcast' && third === undefined && second !== null && !ArrayBuffer.isView(second)) {
    return { send: first, recv: first, options: (second ?? NO_OPTIONS) as CallOptions };
  }
  return {
    send: first,
    recv: (second ?? null) as Buffer | null,
    options: (third ?? NO_OPTIONS) as CallOptions,
  };
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
  readonly #engine: Engine;
  readonly #context: OperationContext;
  readonly #plans: CallPlans;
  readonly #peerTable: number;
  readonly #stage: SharedStage;
  readonly #arrays: ArrayBufferView[] = [];
  /** Arrays that were given back, to tell their name when they are used. */
  readonly #freed = new WeakSet<ArrayBufferView>();
  /** All that have not been released. */
  readonly #prepared = new Set<Prepared>();
  /** Last operation of each synchronous collective, since loops repeat the same call. */
  readonly #recent = new Map<string, RecentCall>();
  readonly #gate = new Gate();
  readonly #failure: FailureState;
  readonly #queue: OperationQueue;
  readonly #board: CallBoard;
  /** What a synchronous barrier does: an all-reduce of one element. */
  #tick: Prepared | undefined;
  /** What this communicator does in the open group. */
  #group: PendingGroup | undefined;
  /** Settles when the communicator is finalized, or has failed meanwhile. */
  #finalizing: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  /** Neither is over. */
  #isEnding = false;
  /** Everything of this rank is done: what happens to the others is no trouble any more. */
  #leaving = false;

  /** Not for users: see `Communicator.init`, `Communicator.fromEnv` and `createLocalCommunicators`. */
  constructor(team: Team, settings: Settings) {
    this.#team = team;
    this.#failure = new FailureState(team, settings.timeoutMs, this.#gate);
    const { device, rank, size, shape } = team;
    // A rank that uses sockets has a second busy thread, its proxy, unless its programs carry the connections.
    const threads = team.localSize * (team.shared || team.network !== undefined ? 1 : 2);
    const waiting = { threadsPerCore: threads / coreCount(), peers: team.peers };
    this.#engine = new Engine(
      team,
      team.network === undefined ? waiting : { ...waiting, network: team.network },
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
    // Two banks of pieces.
    this.#stage = new SharedStage(device, 2 * STAGE_BYTES);
    this.#context = {
      team,
      settings,
      peerTable: this.#peerTable,
      orders: new Array<number>(shape.channels).fill(order),
      stage: this.#stage,
      pools: new ConnectionPools(team),
      messages: new MessagePool(team),
      selector: selectorFor(team, settings, settings.choices),
    };
    this.#plans = new CallPlans(this.#context);
    const comparison = new Comparison(team, this.#engine, this.#failure, settings.check);
    this.#board = new CallBoard(team, this.#failure);
    this.#queue = new OperationQueue(rank, this.#engine, this.#failure, comparison, this.#gate, this.#board);
    team.onTrouble((trouble, detail) => {
      if (!this.#leaving) this.#failure.hear(trouble, detail);
    });
    rehearsePrepared(this.#engine, device);
  }

  /**
   * Joins the communicator of a unique id (`createUniqueId`); every rank calls it with its own rank. Resolves
   * when all ranks are there. With `device: cuda(i)` the rank works on a GPU.
   * Throws `invalidArgument` for a bad id, rank or size (also another rank's), `timeout` naming the ranks that
   * did not come, `remoteError` naming a rank that died meanwhile.
   */
  static init(place: Place & CudaCommunicatorOptions): Promise<CudaCommunicator>;
  static init(place: Place & CommunicatorOptions): Promise<Communicator>;
  static async init(
    place: Place & Partial<CudaCommunicatorOptions>,
  ): Promise<Communicator | CudaCommunicator> {
    checkKnownOptions('Communicator.init', place, ['id', 'rank', 'size', 'device', ...COMMUNICATOR_OPTIONS]);
    const settings = resolveSettings(place, process.env);
    const { id, rank, size, device } = place;
    const bootstrap = await Bootstrap.connect({ id, rank, size, timeoutMs: settings.initTimeoutMs });
    if (device !== undefined) return joinOnGpu(bootstrap, device, settings);
    return joinTeam(await openProcessTeam(bootstrap, settings), settings);
  }

  /**
   * Joins the communicator that the launcher describes in the environment: `tutti run`, torchrun, Open MPI,
   * MPICH, Slurm. Throws as `init`, and `invalidUsage` when no launcher is recognised.
   */
  static fromEnv(options: CudaCommunicatorOptions): Promise<CudaCommunicator>;
  static fromEnv(options?: CommunicatorOptions): Promise<Communicator>;
  static async fromEnv(
    options: Partial<CudaCommunicatorOptions> = {},
  ): Promise<Communicator | CudaCommunicator> {
    checkKnownOptions('Communicator.fromEnv', options, ['device', ...COMMUNICATOR_OPTIONS]);
    const settings = resolveSettings(options, process.env);
    const bootstrap = await Bootstrap.fromLaunchEnvironment({ timeoutMs: settings.initTimeoutMs });
    if (options.device !== undefined) return joinOnGpu(bootstrap, options.device, settings);
    return joinTeam(await openProcessTeam(bootstrap, settings), settings);
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

  /** How the communicator is: never waits, and never throws. */
  get status(): CommunicatorStatus {
    const error = this.#failure.known;
    if (error !== undefined) return error.code;
    return this.#isEnding || this.#queue.isBusy ? 'inProgress' : 'success';
  }

  /** The error that every call ends with from now on; undefined as long as there is none. Never waits. */
  get failure(): TuttiError | undefined {
    return this.#failure.known;
  }

  /**
   * What has passed through the ports of the emulated switches (NVLS, CollNet), by level and rank; empty before one is
   * used. Exact when no operation is under way: after `barrier()`.
   */
  switchTraffic(): SwitchPortTraffic[] {
    this.#checkUsable('switchTraffic');
    return switchTraffic(this.#context);
  }

  /** A typed array of zeros in memory that all ranks of this host can reach: collectives do not copy it. */
  alloc<T extends Buffer>(ArrayType: TypedArrayConstructor<T>, length: number): T {
    this.#checkUsable('alloc');
    const made = allocateArray(this.#team, ArrayType, length, this.#stage);
    this.#arrays.push(made);
    return made;
  }

  /** Gives an array of `alloc` back before the communicator is closed. */
  free(array: Buffer): void {
    const index = this.#arrays.indexOf(array);
    if (index < 0) {
      throw new TuttiError(
        'invalidArgument',
        'free: the array was not made by alloc of this communicator, or is free already',
        { rank: this.rank },
      );
    }
    const from = array.byteOffset;
    const user = this.#queue.userOf({ memory: array.buffer, from, to: from + array.byteLength });
    if (user !== undefined) {
      throw new TuttiError('invalidUsage', `free: ${user} is still working on the array; await it first`, {
        rank: this.rank,
      });
    }
    this.#arrays.splice(index, 1);
    this.#freed.add(array);
    for (const prepared of [...this.#prepared]) {
      if (prepared.uses(array)) prepared.spoil('an array that it works on was given back with comm.free');
    }
    for (const [collective, { prepared }] of this.#recent) {
      if (!prepared.uses(array)) continue;
      this.#recent.delete(collective);
      prepared.release();
    }
    this.#team.device.freeArray(array);
  }

  /** Refuses arrays of the heap that were given back: their memory may belong to somebody else by now. */
  #checkAllocated(call: string, buffers: Readonly<Record<string, Buffer | null>>): void {
    for (const [name, buffer] of Object.entries(buffers)) {
      if (buffer === null) continue;
      if (!this.#freed.has(buffer) && this.#team.device.isAllocated(buffer)) continue;
      throw new TuttiError(
        'invalidUsage',
        `${call}: ${name} was given back with comm.free, or belongs to a communicator that is closed; make a new array with comm.alloc`,
        { rank: this.rank },
      );
    }
  }

  // ---- collectives ----

  allReduce<B extends Buffer>(send: B, recv: SameClass<B>, options?: ReduceOptions): Promise<void> {
    return this.#queueCall('allReduce', [send, recv, options]);
  }
  reduce<B extends Buffer>(send: B, recv: SameClass<B> | null, options?: RootReduceOptions): Promise<void> {
    return this.#queueCall('reduce', [send, recv, options]);
  }
  broadcast(buffer: Buffer, options?: RootOptions): Promise<void>;
  broadcast<B extends Buffer>(send: SameClass<B> | null, recv: B, options?: RootOptions): Promise<void>;
  broadcast(...args: Arguments): Promise<void> {
    return this.#queueCall('broadcast', args);
  }
  allGather<B extends Buffer>(send: B, recv: SameClass<B>, options?: CopyOptions): Promise<void> {
    return this.#queueCall('allGather', [send, recv, options]);
  }
  reduceScatter<B extends Buffer>(send: B, recv: SameClass<B>, options?: ReduceOptions): Promise<void> {
    return this.#queueCall('reduceScatter', [send, recv, options]);
  }
  allToAll<B extends Buffer>(send: B, recv: SameClass<B>, options?: CopyOptions): Promise<void> {
    return this.#queueCall('allToAll', [send, recv, options]);
  }

  gather<B extends Buffer>(send: B, recv: SameClass<B> | null, options?: RootOptions): Promise<void> {
    return this.#queueCall('gather', [send, recv, options]);
  }
  scatter<B extends Buffer>(send: SameClass<B> | null, recv: B, options?: RootOptions): Promise<void> {
    return this.#queueCall('scatter', [send, recv, options]);
  }
  /**
   * Sends all elements of an array to rank `peer`, which receives as many bytes. Several sends and receives that
   * depend on each other belong into one `group`. Sends of one pair of ranks are received in their order.
   */
  send(buffer: Buffer, peer: number): Promise<void> {
    return this.#queueMessage('send', buffer, peer);
  }
  /** Receives what rank `peer` sends. */
  recv(buffer: Buffer, peer: number): Promise<void> {
    return this.#queueMessage('recv', buffer, peer);
  }

  allReduceSync<B extends Buffer>(send: B, recv: SameClass<B>, options?: ReduceOptions): void {
    this.#runCall('allReduce', send, recv, options);
  }
  reduceSync<B extends Buffer>(send: B, recv: SameClass<B> | null, options?: RootReduceOptions): void {
    this.#runCall('reduce', send, recv, options);
  }
  broadcastSync(buffer: Buffer, options?: RootOptions): void;
  broadcastSync<B extends Buffer>(send: SameClass<B> | null, recv: B, options?: RootOptions): void;
  broadcastSync(...args: Arguments): void {
    const { send, recv, options } = readArguments('broadcast', args);
    this.#runCall('broadcast', send, recv, options);
  }
  allGatherSync<B extends Buffer>(send: B, recv: SameClass<B>, options?: CopyOptions): void {
    this.#runCall('allGather', send, recv, options);
  }
  reduceScatterSync<B extends Buffer>(send: B, recv: SameClass<B>, options?: ReduceOptions): void {
    this.#runCall('reduceScatter', send, recv, options);
  }
  allToAllSync<B extends Buffer>(send: B, recv: SameClass<B>, options?: CopyOptions): void {
    this.#runCall('allToAll', send, recv, options);
  }

  gatherSync<B extends Buffer>(send: B, recv: SameClass<B> | null, options?: RootOptions): void {
    this.#runCall('gather', send, recv, options);
  }
  scatterSync<B extends Buffer>(send: SameClass<B> | null, recv: B, options?: RootOptions): void {
    this.#runCall('scatter', send, recv, options);
  }
  sendSync(buffer: Buffer, peer: number): void {
    this.#runMessage('send', buffer, peer);
  }
  recvSync(buffer: Buffer, peer: number): void {
    this.#runMessage('recv', buffer, peer);
  }
  /** A group of calls of this communicator, done at once: inside `record` they are called as in `group`. */
  groupSync(record: () => void): void {
    refuseBlocking(this.#team, 'groupSync');
    this.#refuseInGroup('groupSync');
    const recorded = recordGroup(record);
    const pending = this.#group;
    if (recorded.some((member) => member !== this.#member)) {
      for (const member of recorded) member.discardGroup();
      throw new TuttiError('invalidUsage', 'groupSync: calls of other communicators belong into group', {
        rank: this.rank,
      });
    }
    if (recorded.length === 0 || pending === undefined) return;
    this.#group = undefined;
    pending.run(
      (plan) => new Prepared(this.#runner, plan).run(),
      () => this.#orTell(() => pending.plan('pieces')),
    );
  }

  /** Checks and plans an operation once, to be run many times: the way to the lowest latency. */
  readonly prepare: Preparations = {
    allReduce: (...args) => this.#prepareCall('allReduce', args),
    reduce: (...args) => this.#prepareCall('reduce', args),
    broadcast: (...args: Arguments) => this.#prepareCall('broadcast', args),
    allGather: (...args) => this.#prepareCall('allGather', args),
    reduceScatter: (...args) => this.#prepareCall('reduceScatter', args),
    allToAll: (...args) => this.#prepareCall('allToAll', args),
    gather: (...args) => this.#prepareCall('gather', args),
    scatter: (...args) => this.#prepareCall('scatter', args),
    send: (buffer, peer) => this.#prepareMessages([this.#checkMessage('send', buffer, peer)]),
    recv: (buffer, peer) => this.#prepareMessages([this.#checkMessage('recv', buffer, peer)]),
    group: (record) => this.#prepareGroup(record),
  };

  /** Resolves when all ranks have called it and everything queued before is done. */
  async barrier(): Promise<void> {
    this.#checkUsable('barrier');
    await this.#queue.drained();
    this.#checkUsable('barrier');
    this.#board.settle();
    try {
      await this.#team.barrier('barrier');
    } catch (error) {
      if (!TuttiError.is(error)) throw error;
      const trouble = { kind: 'timeout', culprit: error.rank ?? this.rank } as const;
      if (error.code === 'timeout') throw this.#failure.failWith(error, trouble);
      this.#failure.check();
      throw this.#failure.failWith(error, { ...trouble, kind: 'aborted' });
    }
  }

  /** The barrier of synchronous loops: returns when all ranks have called it, nearly at the same time. */
  barrierSync(): void {
    if (this.#tick === undefined) {
      this.#checkUsable('barrierSync');
      refuseBlocking(this.#team, 'barrierSync');
      const cell = this.alloc(Uint8Array, 1);
      const call = this.#check('allReduce', [cell, cell]) as CheckedCall;
      // Whatever algorithms the user allows for all-reduces.
      const selector = selectorFor(this.#team, this.#context.settings, NO_CHOICES);
      this.#tick = this.#keep(this.#plans.ofCall(call, 'pieces', { ...this.#context, selector }));
    }
    this.#tick.run();
  }

  #checkUsable(what: string): void {
    this.#failure.check();
    if (this.#closing === undefined && this.#finalizing === undefined) return;
    const state = this.#closing === undefined ? 'finalized' : 'closed';
    throw new TuttiError('invalidUsage', `${what}: the communicator is ${state}`, { rank: this.rank });
  }

  /** Throws, and has an open group fail too, since the other ranks' calls would find no partner. */
  #orFail<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      const known = TuttiError.is(error)
        ? new TuttiError(error.code, error.message, { rank: this.rank, cause: error })
        : error;
      failGroup(known);
      throw known;
    }
  }

  #check(name: CallName, args: Arguments): AnyCall {
    this.#checkUsable(name);
    return this.#orFail(() => {
      const { send, recv, options } = readArguments(name, args);
      const place = { rank: this.rank, size: this.size };
      const call =
        name === 'gather' || name === 'scatter'
          ? checkMessageCollective(name, send, recv, options, place)
          : checkCall(name, send, recv, options, place);
      this.#checkAllocated(name, { send: call.send, recv: call.recv });
      return call;
    });
  }

  #checkMessage(kind: Message['kind'], buffer: Buffer, peer: number): Message {
    this.#checkUsable(kind);
    return this.#orFail(() => {
      checkMessageArray(kind, buffer);
      this.#checkAllocated(kind, { 'the buffer': buffer });
      if (!Number.isInteger(peer) || peer < 0 || peer >= this.size) {
        throw new TuttiError(
          'invalidArgument',
          `${kind}: invalid peer ${String(peer)}; it must be a rank from 0 to ${this.size - 1}`,
        );
      }
      return { kind, peer, buffer };
    });
  }

  /** How an operation that runs on the calling thread moves ordinary arrays. */
  get #form(): StagingForm {
    return this.#team.sharesThread ? 'whole' : 'pieces';
  }

  #keep(plan: Plan): Prepared {
    const prepared = new Prepared(this.#runner, plan);
    this.#prepared.add(prepared);
    return prepared;
  }

  #prepareCall(name: CallName, args: Arguments): Prepared {
    return this.#keep(this.#plans.ofCall(this.#check(name, args), this.#form));
  }

  #prepareMessages(messages: readonly Message[]): Prepared {
    return this.#keep(this.#plans.ofMessages(messages, this.#form));
  }

  #prepareGroup(record: () => void): Prepared {
    this.#checkUsable('group');
    if (isGroupOpen()) {
      throw new TuttiError('invalidUsage', 'prepare.group: not inside of another group', { rank: this.rank });
    }
    const recorded = recordGroup(record);
    const pending = this.#group;
    try {
      if (recorded.some((member) => member !== this.#member) || pending?.hasOnlyMessages !== true) {
        throw new TuttiError(
          'invalidUsage',
          'prepare.group: the group must send and receive messages of this communicator, and nothing else',
          { rank: this.rank },
        );
      }
      return this.#prepareMessages(pending.messages);
    } finally {
      for (const member of recorded) member.discardGroup();
    }
  }

  /** Does what the other ranks count on: when it cannot be done for want of memory they are told. */
  #orTell<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (!TuttiError.is(error) || error.code !== 'systemError') throw error;
      throw this.#failure.failWith(error, { kind: 'outOfMemory', culprit: this.rank });
    }
  }

  #runCall(name: CallName, send: Buffer | null, recv: Buffer | null, given: CallOptions | undefined): void {
    const options = given ?? NO_OPTIONS;
    const recent = this.#recent.get(name);
    if (recent?.fits(send, recv, options, NO_PEER) === true && !this.#team.sharesThread) {
      recent.prepared.run();
    } else this.#runNewCall(name, send, recv, options);
  }

  #runNewCall(name: CallName, send: Buffer | null, recv: Buffer | null, options: CallOptions): void {
    this.#runNew(name, () => {
      return [this.#prepareCall(name, [send, recv, options]), send, recv, options, NO_PEER];
    });
  }

  /** What is done at once cannot wait for the calls of an open group, nor they for it. */
  #refuseInGroup(call: string): void {
    if (!isGroupOpen()) return;
    const inside = call.replace('Sync', '');
    throw new TuttiError('invalidUsage', `${call} does not belong into a group; call ${inside} there`, {
      rank: this.rank,
    });
  }

  #runMessage(kind: Message['kind'], buffer: Buffer, peer: number): void {
    this.#refuseInGroup(`${kind}Sync`);
    const recent = this.#recent.get(kind);
    if (recent?.fits(buffer, null, NO_OPTIONS, peer) === true && !this.#team.sharesThread) {
      recent.prepared.run();
    } else {
      this.#runNew(kind, () => {
        const prepared = this.#prepareMessages([this.#checkMessage(kind, buffer, peer)]);
        return [prepared, buffer, null, NO_OPTIONS, peer];
      });
    }
  }

  /** Runs a synchronous call that is not the same as the last one of its kind. */
  #runNew(name: string, prepare: () => ConstructorParameters<typeof RecentCall>): void {
    refuseBlocking(this.#team, `${name}Sync`);
    // First, since the new one may need its memory.
    this.#recent.get(name)?.prepared.release();
    this.#recent.delete(name);
    const made = new RecentCall(...this.#orTell(prepare));
    this.#recent.set(name, made);
    made.prepared.run();
  }

  #queueCall(name: CallName, args: Arguments): Promise<void> {
    return this.#submitOrJoin(() => {
      const call = this.#check(name, args);
      return (group) =>
        group === undefined
          ? this.#submit(this.#orTell(() => this.#plans.ofCall(call, 'whole')))
          : group.add((form) => this.#plans.ofCall(call, form));
    });
  }

  #queueMessage(kind: Message['kind'], buffer: Buffer, peer: number): Promise<void> {
    return this.#submitOrJoin(() => {
      const message = this.#checkMessage(kind, buffer, peer);
      return (group) =>
        group === undefined
          ? this.#submit(this.#orTell(() => this.#plans.ofMessages([message], 'whole')))
          : group.addMessage(message, (messages, form) => this.#plans.ofMessages(messages, form));
    });
  }

  /** Submits a call at once, or with the others of the open group. Nobody need look at promises of calls in a group. */
  #submitOrJoin(check: () => (group: PendingGroup | undefined) => Promise<void>): Promise<void> {
    const done = this.#startOrJoin(check);
    if (isGroupOpen()) done.catch(() => {});
    return done;
  }

  async #startOrJoin(check: () => (group: PendingGroup | undefined) => Promise<void>): Promise<void> {
    const start = check();
    if (!joinGroup(this.#member)) return start(undefined);
    this.#group ??= new PendingGroup();
    return start(this.#group);
  }

  async #submit({ work, alone }: Plan): Promise<void> {
    if (work === null) return alone();
    try {
      await this.#queue.enqueue(work);
    } finally {
      work.release();
    }
  }

  /** This communicator in a group. */
  readonly #member: GroupMember = {
    planGroup: () => this.#orTell(() => this.#group?.plan('whole')),
    submitGroup: async () => {
      const pending = this.#group;
      this.#group = undefined;
      await pending?.submit((plan) => this.#submit(plan));
    },
    discardGroup: () => {
      this.#group?.discard(
        new TuttiError('invalidUsage', 'the group was given up before its end', { rank: this.rank }),
      );
      this.#group = undefined;
    },
  };

  /** What prepared operations need of the communicator. */
  readonly #runner: Runner = {
    rankOf: () => this.rank,
    check: (name) => this.#checkUsable(name),
    refuseBlocking: (name) => refuseBlocking(this.#team, name),
    inline: (operation) =>
      this.#orTell(() => this.#plans.named(operation.name, () => this.#engine.inline(operation.program))),
    shortcut: (operation) =>
      this.#queue.isPlain(operation)
        ? { gate: this.#gate, engine: this.#engine, board: this.#board }
        : undefined,
    failureOf: (operation, failure) => this.#queue.failureOf(operation, failure),
    run: (operation, program) => {
      if (
        this.#failure.error !== undefined ||
        this.#closing !== undefined ||
        this.#finalizing !== undefined
      ) {
        this.#checkUsable(operation.name);
      }
      this.#queue.run(operation, program);
    },
    copyIn: (operation) => this.#queue.copyIn(operation, 0),
    copyOut: (operation) => this.#queue.copyOut(operation, 0),
    copyFailure: (operation, error) => this.#queue.copyFailure(operation, error),
    enqueue: (operation) => this.#queue.enqueue(operation),
    forget: (prepared) => this.#prepared.delete(prepared),
  };

  /** Gives the communicator up: everything under way here and at the other ranks ends with an error. */
  abort(reason = 'aborted by the program'): void {
    if (this.#closing === undefined && !this.#leaving) this.#failure.abort(reason);
  }

  /**
   * Ends all use: resolves when what is under way is done and all ranks have called it, or `close`. What is left to do
   * is `close`, which then waits for nobody. Results may still be read. Throws as a call does: `timeout` names the
   * ranks that do not come.
   */
  finalize(): Promise<void> {
    const done = this.#finalizeOrJoin();
    if (isGroupOpen()) done.catch(() => {});
    return done;
  }

  async #finalizeOrJoin(): Promise<void> {
    this.#checkUsable('finalize');
    // From here on calls are refused, in an open group too.
    this.#finalizing = Promise.resolve();
    const inGroup = finalizeInGroup(
      () => this.#beginFinalize(),
      () => {
        this.#finalizing = undefined;
      },
    );
    return inGroup ?? this.#beginFinalize();
  }

  #beginFinalize(): Promise<void> {
    this.#gate.bar();
    this.#isEnding = true;
    const finalizing = this.#finalize();
    this.#finalizing = finalizing.catch(() => {});
    return finalizing;
  }

  async #finalize(): Promise<void> {
    await this.#queue.drained();
    this.#settleCalls();
    this.#failure.check();
    try {
      await this.#lastMeeting();
    } catch (error) {
      this.#failure.check();
      if (!TuttiError.is(error)) throw error;
      const kind = error.code === 'timeout' ? 'timeout' : 'aborted';
      throw this.#failure.failWith(error, { kind, culprit: error.rank ?? this.rank });
    }
    this.#leaving = true;
    this.#isEnding = false;
  }

  /**
   * Leaves the communicator. Waits for what is under way; arrays of `alloc` must not be used afterwards.
   * Every rank closes; after a failure it does not wait for the others.
   */
  close(): Promise<void> {
    this.#gate.bar();
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#isEnding = true;
    await this.#finalizing;
    await this.#queue.drained();
    const isFinalized = this.#leaving;
    if (!isFinalized) this.#settleCalls();
    this.#leaving = true;
    const graceful = isFinalized || (await this.#farewell());
    for (const prepared of [...this.#prepared]) prepared.release();
    this.#recent.clear();
    await this.#engine.close();
    await this.#team.close(graceful);
    // Calls of ranks of this thread may be queued which their own threads have not begun.
    if (graceful && this.#team.sharesThread) {
      watchForStragglers(this.#team, this.#context.messages, () => this.#failure.leave());
    }
    const { device } = this.#team;
    for (const array of this.#arrays.splice(0)) device.freeArray(array);
    this.#stage.close();
    device.freePrivate(this.#peerTable);
    this.#isEnding = false;
  }

  /** The last look for ranks that have called something else: they are told, and nobody waits for them. */
  #settleCalls(): void {
    try {
      this.#board.settle();
    } catch (error) {
      if (!TuttiError.is(error)) throw error;
    }
  }

  /**
   * Nobody's memory may go while others still read it; and nobody is to wait for a rank that is gone. Tells
   * whether all have said farewell.
   */
  async #farewell(): Promise<boolean> {
    if (!this.#failure.healthy) return false;
    if (this.#team.sharesThread) {
      // Ranks of one thread close one after the other; the last of them gives the memory back.
      if (areOthersAhead(this.#team, this.#context.messages)) this.#failure.leave();
      return this.#failure.healthy;
    }
    try {
      await this.#lastMeeting();
      return true;
    } catch {
      // A rank that is gone cannot be waited for.
      return false;
    }
  }

  /** All ranks are done; those that call what this one will never call are told. */
  async #lastMeeting(): Promise<void> {
    const { messages } = this.#context;
    const stop = watchForStragglers(this.#team, messages, () => this.#failure.leave());
    try {
      await this.#team.barrier(FAREWELL);
    } finally {
      stop();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function selectorFor(
  { size, shared, model }: Team,
  { ranksPerNode }: Settings,
  choices: HostChoices,
): HostSelector {
  return new HostSelector({ ranks: size, shared, model, ranksPerNode, choices });
}

/** A communicator of a team, which is closed when that cannot be made. */
async function joinTeam(team: Team, settings: Settings): Promise<Communicator> {
  try {
    return new Communicator(team, settings);
  } catch (error) {
    await team.close(false);
    throw error;
  }
}

function allocateArray<T extends Buffer>(
  team: Team,
  ArrayType: TypedArrayConstructor<T>,
  length: number,
  stage: SharedStage,
): T {
  const { device, rank } = team;
  if (!Number.isSafeInteger(length) || length < 0) {
    throw new TuttiError(
      'invalidArgument',
      `alloc: invalid length ${String(length)}; it must be an integer >= 0`,
      {
        rank,
      },
    );
  }
  try {
    return device.alloc(ArrayType, length);
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    const bytes = length * ArrayType.BYTES_PER_ELEMENT;
    if (error.code !== 'systemError' || bytes <= 0) throw error;
    // Staging memory that nobody uses at the moment is of more use here.
    if (stage.trim()) return allocateArray(team, ArrayType, length, stage);
    throw new TuttiError(
      'systemError',
      `alloc: out of memory: ${length} elements of ${ArrayType.name} take ${bytes} bytes, but of the ${device.segmentSize} bytes ` +
        `that this rank can share only ${device.freeBytes} are free; free arrays with comm.free, or use ordinary arrays, which are moved in pieces`,
      { rank, cause: error },
    );
  }
}

/**
 * Communicators of several ranks in this process, in rank order: so many on host memory, or one on each GPU of a list,
 * `[cuda(0), cuda(1)]` (a GPU may be named several times). All promises must be awaited together, since every rank
 * waits for the others; on host memory calls run on threads of their own.
 */
export function createLocalCommunicators(
  size: number,
  options?: CommunicatorOptions,
): Promise<Communicator[]>;
export function createLocalCommunicators(
  gpus: readonly CudaDeviceName[],
  options?: CommunicatorOptions,
): Promise<CudaCommunicator[]>;
export async function createLocalCommunicators(
  ranks: number | readonly CudaDeviceName[],
  options: CommunicatorOptions = {},
): Promise<Communicator[] | CudaCommunicator[]> {
  if (Array.isArray(ranks)) {
    checkKnownOptions('createLocalCommunicators', options, COMMUNICATOR_OPTIONS);
    return createLocalCudaCommunicators(ranks, resolveSettings(options, process.env));
  }
  return createHostCommunicators(ranks as number, options);
}

async function createHostCommunicators(size: number, options: CommunicatorOptions): Promise<Communicator[]> {
  if (!Number.isInteger(size) || size < 1 || size > MAX_LOCAL_RANKS) {
    throw new TuttiError(
      'invalidArgument',
      `createLocalCommunicators: ${String(size)} ranks; it must be from 1 to ${MAX_LOCAL_RANKS}, or a list of GPUs like [cuda(0), cuda(1)]`,
    );
  }
  checkKnownOptions('createLocalCommunicators', options, COMMUNICATOR_OPTIONS);
  const settings = resolveSettings(options, process.env);
  const device = HostDevice.shared({ localRanks: 1 });
  const teams = createLocalTeams(device, size, settings, readHostModel(process.env));
  const made: Communicator[] = [];
  try {
    for (const team of teams) made.push(new Communicator(team, settings));
    return made;
  } catch (error) {
    await Promise.all(teams.map((team, rank) => made[rank]?.close() ?? team.close(false)));
    throw error;
  }
}
