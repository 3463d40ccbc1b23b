/**
 * Turns the calls of one group into plans: what is decided together, on which channels each runs, which works share a
 * batch, and when a plan is full so that the next one begins.
 *
 * All ranks give the same calls in the same order, so they come to the same plans. (NCCL 2.30.7, enqueue.cc.)
 */
import { TuttiError } from '../errors/tutti-error.js';
import { symmetricArgumentBytes } from '../tuning/symmetric/choose.js';
import { type Aggregate, aggregateSorted, orderByKind, pipelinedOperations } from './aggregate.js';
import {
  BROADCAST_MIN_THREADS,
  BROADCAST_WORK_BYTES,
  broadcastChunk,
  cutBroadcasts,
  takeBroadcasts,
} from './broadcast-batch.js';
import { checkGroup } from './check-group.js';
import {
  type PlannedAlgorithm,
  type PlannedCommunicator,
  type PlannedFunction,
  type PlannedProtocol,
  type PlannedTask,
  trafficFactor,
  usesCollnet,
  usesNvls,
} from './nccl-task.js';
import { cutMessage, type P2pCut, type P2pLimits, type P2pSchedule, p2pBaseChannel } from './p2p-schedule.js';
import { type Placement, partitionCollectives } from './partition.js';
import {
  type BudgetOptions,
  fitsBudget,
  type PlanBudget,
  planBudget,
  type WorkStorage,
  workStorage,
} from './plan-budget.js';
import type { RegisteredChannels, Registration } from './registration.js';
import {
  type SymmetricCall,
  type SymmetricContext,
  type SymmetricPlan,
  splitSymmetric,
} from './symmetric-batches.js';
import { sortTasks } from './task-sorter.js';
import { ChannelBatches, type OrderedBatch, orderBatches, WORK_BYTES, WorkType } from './work-batches.js';

/** A collective of a group. */
export interface GroupCollective {
  readonly function: PlannedFunction;
  /** Kind of reduction on the device. */
  readonly deviceOp: string;
  readonly type: string;
  readonly elementBytes: number;
  /** Elements per rank. */
  readonly count: number;
  /** Of Broadcast and Reduce. */
  readonly root?: number;
  /** Both buffers are registered, or captured: tuners are told. */
  readonly registered?: boolean;
  /** Where they are registered. */
  readonly registration?: Registration;
  /** The user's operator where it differs from `deviceOp`, and what symmetric kernels need to know of the buffers. */
  readonly operator?: NonNullable<SymmetricCall['operator']>;
  readonly windows?: NonNullable<SymmetricCall['windows']>;
  readonly hostMemory?: boolean;
}

/** A send or receive of a group. */
export interface GroupP2p {
  readonly kind: 'send' | 'recv';
  readonly peer: number;
  readonly bytes: number;
  /** For a message to oneself: the buffers are one, so nothing is to be done. */
  readonly inPlace?: boolean;
}

/** Answer to how an aggregate runs. */
export interface GroupDecision {
  readonly algorithm: PlannedAlgorithm;
  readonly protocol: PlannedProtocol;
  readonly maxChannels: number;
  readonly warps: number;
  /** Microseconds that the cost model predicts for the aggregate, if it decided. */
  readonly time?: number;
}

export interface DecisionRequest {
  readonly function: PlannedFunction;
  readonly deviceOp: string;
  readonly type: string;
  /** Bytes of the whole message of all members. */
  readonly bytes: number;
  /** Collectives that follow each other on a channel. */
  readonly pipelined: number;
  /** The buffers of the first member are registered. */
  readonly registered: boolean;
}

/** What planning needs of the communicator and of the rank. */
export interface GroupContext {
  readonly comm: PlannedCommunicator;
  readonly rank: number;
  readonly decide: (request: DecisionRequest) => GroupDecision;
  /** What registration makes of a decision for one task; if absent, nothing. */
  readonly registered?: (task: GroupCollective, decision: GroupDecision) => RegisteredChannels;
  readonly budget?: BudgetOptions;
  /** Symmetric memory; absent without it. */
  readonly symmetric?: SymmetricContext;
  /** Architecture of the own GPU, 100 * major + 10 * minor. */
  readonly arch?: number;
  /** Place of a rank in a channel's ring, counted from the own rank. */
  readonly ringIndex: (channel: number, rank: number) => number;
  /** NCCL_ALLGATHERV_ENABLE: broadcasts of several roots run together. */
  readonly batchBroadcasts?: boolean;
  readonly p2p: P2pLimits & {
    readonly schedule: P2pSchedule;
    /** The connection to a peer goes over the network; it has an LL buffer. */
    readonly network: (peer: number) => boolean;
    readonly ll: (peer: number) => boolean;
  };
}

export interface PlannedCollective {
  readonly task: GroupCollective;
  readonly decision: GroupDecision;
  readonly placement: Placement;
}

export interface PlannedP2p {
  readonly round: number;
  readonly epoch: number;
  readonly send: { readonly peer: number; readonly bytes: number; readonly cut: P2pCut } | undefined;
  readonly recv: { readonly peer: number; readonly bytes: number; readonly cut: P2pCut } | undefined;
  readonly baseChannel: number;
}

export interface PlannedBroadcasts {
  readonly tasks: readonly GroupCollective[];
  readonly decision: GroupDecision;
  readonly chunkBytes: number;
  readonly works: ReturnType<typeof cutBroadcasts>;
}

/** One launch: of ordinary work, or of a symmetric kernel, which has no batches. */
export interface Plan {
  readonly symmetric: SymmetricPlan<GroupCollective> | undefined;
  readonly collectives: readonly PlannedCollective[];
  readonly broadcasts: PlannedBroadcasts | undefined;
  readonly p2p: readonly PlannedP2p[];
  readonly batches: readonly OrderedBatch[];
  /** Bit per channel in use. */
  readonly channelMask: bigint;
  /** Threads of a block. */
  readonly threads: number;
  readonly workBytes: number;
  readonly storage: WorkStorage;
  readonly argumentBytes: number;
}

/** Threads of a block at least, and with send and receive. */
const MIN_THREADS = 128;
const P2P_THREADS = 640;

/** Plans a group. Collectives and messages keep their program order where it matters. */
export function planGroup(
  collectives: readonly GroupCollective[],
  messages: readonly GroupP2p[],
  context: GroupContext,
): Plan[] {
  return new GroupPlanner(collectives, messages, context).plans();
}

interface Decided extends PlannedTask {
  readonly task: GroupCollective;
  readonly decision: GroupDecision;
}

/** A collective as it is sorted and decided. */
interface Entry {
  readonly function: PlannedFunction;
  readonly deviceOp: string;
  readonly type: string;
  readonly traffic: number;
  readonly task: GroupCollective;
}

/** Symmetric kernels take all from their arguments and use no work storage. */
function symmetricLaunch(symmetric: SymmetricPlan<GroupCollective>): Plan {
  return {
    symmetric,
    collectives: [],
    broadcasts: undefined,
    p2p: [],
    batches: [],
    channelMask: (1n << BigInt(symmetric.distribution.channels.length)) - 1n,
    threads: symmetric.threads,
    workBytes: 0,
    storage: 'args',
    argumentBytes: symmetricArgumentBytes(symmetric.tasks.length),
  };
}

const noRoom = (): TuttiError =>
  new TuttiError(
    'internalError',
    'a plan without work: the budget (NCCL_WORK_ARGS_BYTES, NCCL_WORK_FIFO_BYTES) has no room for one call',
  );

class GroupPlanner {
  readonly #context: GroupContext;
  readonly #budget: PlanBudget;
  #tasks: Decided[];
  /** Waiting broadcasts by root. */
  readonly #broadcasts = new Map<number, GroupCollective[]>();
  readonly #sends = new Map<number, GroupP2p[]>();
  readonly #recvs = new Map<number, GroupP2p[]>();
  #symmetric: readonly SymmetricPlan<GroupCollective>[] = [];
  #messages = 0;
  #round = 0;
  #epoch = 0;

  constructor(collectives: readonly GroupCollective[], messages: readonly GroupP2p[], context: GroupContext) {
    checkGroup(collectives, messages, context.comm.nRanks);
    this.#context = context;
    this.#budget = planBudget(context.budget);
    // A single rank only copies, which needs no launch of ours.
    const work = context.comm.nRanks > 1 ? collectives.filter(({ count }) => count > 0) : [];
    this.#tasks = this.#decideAll(this.#takeBroadcasts(work));
    for (const message of messages) {
      const queues = message.kind === 'send' ? this.#sends : this.#recvs;
      const queue = queues.get(message.peer);
      if (queue === undefined) queues.set(message.peer, [message]);
      else queue.push(message);
      this.#messages += 1;
    }
  }

  plans(): Plan[] {
    const plans: Plan[] = this.#symmetric.map(symmetricLaunch);
    while (this.#tasks.length > 0 || this.#broadcasts.size > 0 || this.#messages > 0) {
      const waiting = this.#messages;
      const plan = this.#next();
      if (plan.batches.length > 0) plans.push(plan);
      // Messages to oneself may be done without work.
      else if (this.#messages === waiting) throw noRoom();
    }
    return plans;
  }

  /** Broadcasts of one root are ordinary collectives; those of several roots wait. */
  #takeBroadcasts(collectives: readonly GroupCollective[]): GroupCollective[] {
    const roots = new Set(
      collectives.filter((one) => one.function === 'Broadcast').map(({ root }) => root ?? 0),
    );
    if (roots.size <= 1 || this.#context.batchBroadcasts === false) return [...collectives];
    for (const one of collectives) {
      if (one.function !== 'Broadcast') continue;
      const root = one.root ?? 0;
      const waiting = this.#broadcasts.get(root);
      if (waiting === undefined) this.#broadcasts.set(root, [one]);
      else waiting.push(one);
    }
    return collectives.filter((one) => one.function !== 'Broadcast');
  }

  #decideAll(collectives: readonly GroupCollective[]): Decided[] {
    const { comm, decide, registered, symmetric } = this.#context;
    const inBytes = (fn: PlannedFunction) => fn === 'Broadcast' || fn === 'AllGather';
    const entryOf = (task: GroupCollective): Entry => ({
      function: task.function,
      deviceOp: task.deviceOp,
      // Functions that only move data are planned in bytes.
      type: inBytes(task.function) ? 'int8' : task.type,
      traffic: task.count * task.elementBytes * trafficFactor(task.function, comm.nRanks),
      task,
    });
    const wideOf = (fn: PlannedFunction) => (fn === 'AllReduce' ? 2 : 1);
    let sorted = sortTasks(collectives.map(entryOf), ({ traffic }) => traffic);
    if (symmetric !== undefined) {
      const split = splitSymmetric(
        sorted.map(({ task }) => task),
        symmetric,
        (task) => this.#protocolAlone(entryOf(task)),
      );
      this.#symmetric = split.plans;
      sorted = split.ordinary.map(entryOf);
    }
    const pipelined = pipelinedOperations(sorted.length, comm.nChannels);
    const decided = aggregateSorted(sorted).flatMap((aggregate: Aggregate<Entry>) => {
      const { function: fn, deviceOp, type, task: first } = aggregate.tasks[0]!;
      const decision = decide({
        function: fn,
        deviceOp,
        type,
        bytes: aggregate.traffic / wideOf(fn),
        pipelined,
        registered: first.registered === true,
      });
      return aggregate.tasks.map(({ task }): Decided => {
        const bytewise = inBytes(task.function);
        const channels = registered?.(task, decision) ?? decision;
        return {
          function: task.function,
          algorithm: decision.algorithm,
          protocol: decision.protocol,
          count: bytewise ? task.count * task.elementBytes : task.count,
          elementBytes: bytewise ? 1 : task.elementBytes,
          warps: decision.warps,
          maxChannels: channels.maxChannels,
          nvlsRegistered: 'nvlsRegistered' in channels && channels.nvlsRegistered,
          task,
          decision,
        };
      });
    });
    return orderByKind(decided, (one) => ({
      collnet: usesCollnet(one, comm.nNodes),
      nvls: usesNvls(one),
    }));
  }

  /** Protocol of the ordinary choice for a call by itself; undefined if there is none. */
  #protocolAlone({ function: fn, deviceOp, type, traffic, task }: Entry): PlannedProtocol | undefined {
    const bytes = traffic / (fn === 'AllReduce' ? 2 : 1);
    const registered = task.registered === true;
    try {
      return this.#context.decide({ function: fn, deviceOp, type, bytes, pipelined: 1, registered }).protocol;
    } catch (error) {
      if (TuttiError.is(error)) return undefined;
      throw error;
    }
  }

  #next(): Plan {
    const plan = new PlanUnderConstruction(this.#budget);
    const collectives = this.#addCollectives(plan);
    let broadcasts: PlannedBroadcasts | undefined;
    if (this.#tasks.length === 0 && this.#broadcasts.size > 0 && plan.batchCount === 0) {
      broadcasts = this.#addBroadcasts(plan);
    }
    let p2p: PlannedP2p[] = [];
    if (this.#tasks.length === 0 && this.#broadcasts.size === 0 && this.#messages > 0) {
      p2p = this.#addMessages(plan);
    }
    return { symmetric: undefined, collectives, broadcasts, p2p, ...plan.finish() };
  }

  #addCollectives(plan: PlanUnderConstruction): PlannedCollective[] {
    const done: PlannedCollective[] = [];
    partitionCollectives(this.#tasks, this.#context.comm, {
      allows: (batches, bytes) => fitsBudget(this.#budget, batches, bytes),
      fits: (batches, bytes) => plan.fits(batches, bytes),
      placed: (planned, placement) => {
        const { task, decision, warps } = planned as Decided;
        plan.threads = Math.max(plan.threads, warps * 32);
        const kernel = `${task.function}/${decision.algorithm}/${decision.protocol}/${task.deviceOp}/${task.type}`;
        const channels: number[] = [];
        for (let channel = placement.channelLo; channel <= placement.channelHi; channel++)
          channels.push(channel);
        const type = planned.nvlsRegistered ? WorkType.REGISTERED_COLLECTIVE : WorkType.COLLECTIVE;
        plan.add(channels, type, kernel);
        done.push({ task, decision, placement });
      },
    });
    this.#tasks = this.#tasks.slice(done.length);
    return done;
  }

  #addBroadcasts(plan: PlanUnderConstruction): PlannedBroadcasts {
    const { comm, arch = 0, decide, ringIndex } = this.#context;
    const tasks = takeBroadcasts(this.#broadcasts, arch, (count) =>
      fitsBudget(this.#budget, comm.nChannels * Math.ceil(count / 64), count * BROADCAST_WORK_BYTES),
    );
    if (tasks.length === 0) throw noRoom();
    const bytesOf = ({ count, elementBytes }: GroupCollective) => count * elementBytes;
    const largest = Math.max(...tasks.map(bytesOf));
    const decision = decide({
      function: 'AllGather',
      deviceOp: 'Sum',
      type: 'int8',
      bytes: comm.nRanks * largest,
      pipelined: 1,
      registered: false,
    });
    plan.threads = Math.max(plan.threads, decision.warps * 32, BROADCAST_MIN_THREADS);
    const works = cutBroadcasts(
      tasks.map((task) => ({ root: task.root ?? 0, bytes: bytesOf(task) })),
      decision.maxChannels,
      comm.nRanks,
      ringIndex,
    );
    for (const [channel, own] of works.entries()) {
      for (let i = 0; i < own.length; i++) plan.add([channel], WorkType.BROADCAST, 'AllGatherV');
    }
    for (const task of tasks) {
      const root = task.root ?? 0;
      const waiting = this.#broadcasts.get(root)!;
      waiting.shift();
      if (waiting.length === 0) this.#broadcasts.delete(root);
    }
    return { tasks, decision, chunkBytes: broadcastChunk(decision.protocol, comm.buffers), works };
  }

  #addMessages(plan: PlanUnderConstruction): PlannedP2p[] {
    const { p2p, rank } = this.#context;
    const { rounds } = p2p.schedule;
    const done: PlannedP2p[] = [];
    plan.threads = Math.max(plan.threads, P2P_THREADS);
    while (this.#messages > 0) {
      for (; this.#round < rounds.length; this.#round++) {
        const { sendPeer, recvPeer } = rounds[this.#round]!;
        const send = this.#sends.get(sendPeer)?.[0];
        const recv = this.#recvs.get(recvPeer)?.[0];
        if (send === undefined && recv === undefined) continue;
        if (sendPeer === rank && (send === undefined || recv === undefined)) {
          throw new TuttiError(
            'invalidUsage',
            send === undefined
              ? 'Trying to recv to self without a matching send; put both into one group'
              : 'Trying to send to self without a matching recv; put both into one group',
            { rank },
          );
        }
        if (sendPeer === rank && send?.inPlace === true) {
          this.#drop(sendPeer, recvPeer, send, recv);
          continue;
        }
        if (!plan.fits(p2p.channelsPerPeer, WORK_BYTES[WorkType.P2P])) return done;
        done.push(this.#place(plan, send, recv));
        this.#drop(sendPeer, recvPeer, send, recv);
      }
      this.#round = 0;
      this.#epoch += 1;
    }
    return done;
  }

  #place(plan: PlanUnderConstruction, send: GroupP2p | undefined, recv: GroupP2p | undefined): PlannedP2p {
    const { p2p, rank, comm } = this.#context;
    const baseChannel = p2pBaseChannel(this.#round, p2p.channels, p2p.schedule, comm.nNodes);
    const side = (message: GroupP2p | undefined) => {
      if (message === undefined) return undefined;
      const { peer, bytes } = message;
      const way = { self: peer === rank, network: p2p.network(peer), ll: p2p.ll(peer) };
      return { peer, bytes, cut: cutMessage(bytes, p2p, way) };
    };
    const planned = {
      round: this.#round,
      epoch: this.#epoch,
      send: side(send),
      recv: side(recv),
      baseChannel,
    };
    const count = Math.max(planned.send?.cut.channels ?? 0, planned.recv?.cut.channels ?? 0);
    const channels = Array.from({ length: count }, (_, part) => (baseChannel + part) % p2p.channels);
    plan.add(channels, WorkType.P2P, 'SendRecv', { epoch: this.#epoch, round: this.#round });
    return planned;
  }

  #drop(sendPeer: number, recvPeer: number, send: GroupP2p | undefined, recv: GroupP2p | undefined): void {
    for (const [queues, peer, message] of [
      [this.#sends, sendPeer, send],
      [this.#recvs, recvPeer, recv],
    ] as const) {
      if (message === undefined) continue;
      queues.get(peer)!.shift();
      this.#messages -= 1;
    }
  }
}

/** Works and batches of a plan while it fills. */
class PlanUnderConstruction {
  threads = 0;
  readonly #budget: PlanBudget;
  readonly #channels = new Map<number, ChannelBatches>();
  #bytes = 0;
  #batches = 0;

  constructor(budget: PlanBudget) {
    this.#budget = budget;
  }

  get batchCount(): number {
    return this.#batches;
  }

  /** Is there room for so many more batches and bytes? */
  fits(batches: number, bytes: number): boolean {
    return fitsBudget(this.#budget, this.batchCount + batches, this.#bytes + bytes);
  }

  /** Adds one work, which several channels share. */
  add(
    channels: readonly number[],
    type: WorkType,
    kernel: string,
    place: { readonly epoch?: number; readonly round?: number } = {},
  ): void {
    const work = { type, function: kernel, offset: this.#bytes, ...place };
    this.#bytes += WORK_BYTES[type];
    for (const channel of channels) {
      let batches = this.#channels.get(channel);
      if (batches === undefined) {
        batches = new ChannelBatches();
        this.#channels.set(channel, batches);
      }
      const before = batches.batches.length;
      batches.add(work);
      this.#batches += batches.batches.length - before;
    }
  }

  finish(): Omit<Plan, 'symmetric' | 'collectives' | 'broadcasts' | 'p2p'> {
    const batches = orderBatches(this.#channels);
    let channelMask = 0n;
    for (const channel of this.#channels.keys()) channelMask |= 1n << BigInt(channel);
    return {
      batches,
      channelMask,
      threads: Math.max(this.threads, MIN_THREADS),
      workBytes: this.#bytes,
      ...workStorage(this.#budget, batches.length, this.#bytes),
    };
  }
}
