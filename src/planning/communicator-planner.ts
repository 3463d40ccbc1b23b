/**
 * The planner of one rank of a communicator: topology's channels, tuning's decisions and the rules of this folder put
 * together, so that calls go in and launches come out.
 *
 * Plans hold no pointers: they say which elements a channel moves, by which algorithm and protocol, in which chunks.
 * (NCCL 2.30.7, enqueue.cc.)
 */
import type { ElementType } from '../kernel/element-types.js';
import type { ConnectedCommunicator } from '../topology/connect/communicator.js';
import { type LogSink, SILENT } from '../topology/log.js';
import { bufferSizes, p2pChunkSize } from '../tuning/buffer-sizes.js';
import type { DeviceReduction } from '../tuning/call.js';
import { DecisionCache } from '../tuning/decision-cache.js';
import type { TuningTables } from '../tuning/model.js';
import { modelOf } from '../tuning/model.js';
import { type SymmetricSupport, symmetricFacts } from '../tuning/symmetric/facts.js';
import { tunedChunkSize } from '../tuning/tuner.js';
import { largestChunk } from './chunk-size.js';
import { type PlannedCommunicator, PROTOCOL_GRAIN } from './nccl-task.js';
import { type P2pLimits, p2pSchedule } from './p2p-schedule.js';
import { type BudgetOptions, MAX_ARGUMENT_BYTES } from './plan-budget.js';
import {
  type DecisionRequest,
  type GroupCollective,
  type GroupContext,
  type GroupDecision,
  type GroupP2p,
  type Plan,
  planGroup,
} from './plan-group.js';
import { registeredChannels } from './registration.js';

export interface PlannerOptions {
  readonly comm: ConnectedCommunicator;
  readonly tables: TuningTables;
  /** The rank that plans; 0 if absent. */
  readonly rank?: number | undefined;
  readonly budget?: BudgetOptions | undefined;
  /** What symmetric memory can do; absent: nothing is known to be registered, and nobody asks. */
  readonly symmetric?: SymmetricSupport | undefined;
  /** NCCL_ALLGATHERV_ENABLE; true if absent. */
  readonly batchBroadcasts?: boolean | undefined;
  /** NCCL_P2P_SCHEDULE_GROUP_SIZE, NCCL_P2P_LL_THRESHOLD, NCCL_CHUNK_SIZE. */
  readonly p2p?: Pick<P2pLimits, 'llThreshold' | 'chunkBytes'> & { readonly groupSize?: number };
  readonly log?: LogSink | undefined;
}

/** What planning needs to know of a communicator. */
export function plannedCommunicator(
  comm: ConnectedCommunicator,
  tables: TuningTables,
  rank = 0,
  log: LogSink = SILENT,
): PlannedCommunicator {
  const place = comm.collnet?.direct?.(rank);
  const { tuner } = tables;
  const buffers = bufferSizes(tables.input.settings);
  return {
    nRanks: comm.nRanks,
    nNodes: comm.nNodes,
    nChannels: comm.nChannels,
    nvlsChannels: comm.nvls?.nChannels ?? 0,
    buffers,
    directHeads: place?.nHeads ?? 0,
    directDepth: place?.depth ?? 0,
    nvlsHeads: comm.nvls?.nHeads ?? 0,
    nvlsChunkSize: comm.nvls?.chunkSize ?? 0,
    nvlsTreeMaxChunkSize: comm.nvls?.treeMaxChunkSize ?? 0,
    nvlsBandwidth: modelOf(tables, 'AllReduce', 'NVLS', 'Simple').bandwidth,
    ...(tuner?.tuner.getChunkSize === undefined
      ? {}
      : {
          tuneChunk: (task, channels, bytes, chunkSize) => {
            const { function: fn, algorithm, protocol } = task;
            const bounds = {
              ceiling: largestChunk(task, { buffers }),
              grain: PROTOCOL_GRAIN[protocol],
            };
            return tunedChunkSize(
              tuner,
              { function: fn, bytes, algorithm, protocol, channels, chunkSize },
              bounds,
              log,
            );
          },
        }),
  };
}

export class CommunicatorPlanner {
  readonly communicator: PlannedCommunicator;
  readonly #comm: ConnectedCommunicator;
  readonly #tables: TuningTables;
  readonly #decisions: DecisionCache;
  readonly #context: GroupContext;

  constructor(options: PlannerOptions) {
    const { comm, tables, rank = 0, budget, symmetric, batchBroadcasts = true, p2p = {}, log } = options;
    const { nRanks, nNodes } = comm;
    this.#comm = comm;
    this.#tables = tables;
    this.#decisions = new DecisionCache(tables);
    this.communicator = plannedCommunicator(comm, tables, rank, log);
    const { LL, Simple } = this.communicator.buffers;
    const { cpuArch, minSm, settings } = tables.input;
    const stepBytes = p2pChunkSize(
      { nNodes, isAllNvlink: comm.isAllNvlink, cpuArch, minSm, simpleBuffer: Simple },
      settings,
    );
    const rings = new Map<number, Int32Array>();
    this.#context = {
      comm: this.communicator,
      rank,
      decide: (request) => this.#decide(request),
      registered: (task, decision) => this.#registered(task, decision),
      arch: tables.input.sm * 10,
      batchBroadcasts,
      ringIndex: (channel, other) => {
        let places = rings.get(channel);
        if (places === undefined) {
          places = ringPlaces(comm.ringOf(channel));
          rings.set(channel, places);
        }
        return (places[other]! - places[rank]! + nRanks) % nRanks;
      },
      ...(budget === undefined ? {} : { budget }),
      ...(symmetric === undefined
        ? {}
        : {
            symmetric: {
              facts: symmetricFacts(tables, symmetric),
              argumentCapacity: Math.min(budget?.workArgsBytes ?? MAX_ARGUMENT_BYTES, MAX_ARGUMENT_BYTES),
            },
          }),
      p2p: {
        nNodes,
        nRanks,
        channels: comm.p2pnChannels,
        channelsPerPeer: comm.p2pnChannelsPerPeer,
        stepBytes,
        llBufferBytes: LL,
        schedule: p2pSchedule(
          rank,
          comm.nodes.map(({ ranks }) => ranks),
          p2p.groupSize,
        ),
        network: (peer) => comm.rankToNode[peer] !== comm.rankToNode[rank],
        ll: () => true,
        ...(p2p.llThreshold === undefined ? {} : { llThreshold: p2p.llThreshold }),
        ...(p2p.chunkBytes === undefined ? {} : { chunkBytes: p2p.chunkBytes }),
      },
    };
  }

  /**
   * Plans the calls of a group: one plan for each launch.
   *
   * @throws TuttiError invalidUsage for a send to oneself without a receive, or if no algorithm is left for a call
   */
  plan(collectives: readonly GroupCollective[], messages: readonly GroupP2p[] = []): Plan[] {
    return planGroup(collectives, messages, this.#context);
  }

  #decide({ function: fn, deviceOp, type, bytes, pipelined, registered }: DecisionRequest): GroupDecision {
    return this.#decisions.decide({
      function: fn,
      bytes,
      type: type as ElementType,
      reduction: deviceOp as DeviceReduction,
      pipelined,
      registered,
    });
  }

  #registered(task: GroupCollective, decision: GroupDecision) {
    const { algorithm, protocol, maxChannels } = decision;
    if (task.registration === undefined) return { maxChannels, nvlsRegistered: false };
    const call = { function: task.function, deviceOp: task.deviceOp, algorithm, protocol, maxChannels };
    return registeredChannels(this.#tables, call, task.registration, this.#comm.minNetCount);
  }
}

/** Place of every rank in a ring. */
function ringPlaces(ring: Int32Array): Int32Array {
  const places = new Int32Array(ring.length);
  for (const [place, rank] of ring.entries()) places[rank] = place;
  return places;
}
