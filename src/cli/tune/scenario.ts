/**
 * A cluster under an environment, ready for questions: its graphs and channels, its cost model, and how calls are placed.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import { messageBytes } from '../../planning/chunk-size.js';
import { plannedCommunicator } from '../../planning/communicator-planner.js';
import type { PlannedTask } from '../../planning/nccl-task.js';
import { partitionCollectives, type Segment } from '../../planning/partition.js';
import type { Cluster } from '../../topology/cluster.js';
import type { LogSink } from '../../topology/log.js';
import type { Environment } from '../../topology/settings.js';
import { tuningInput } from '../../tuning/from-topology.js';
import type { TuningInput } from '../../tuning/input.js';
import { type TuningTables, tuningTables } from '../../tuning/model.js';
import { CallStudies } from '../../tuning/report/candidate.js';
import { type GraphLimits, graphLimits } from '../../tuning/report/graph-limits.js';
import { type MessageKind, reduces } from '../../tuning/report/message.js';
import type { PlacedPart } from '../../tuning/report/placed-call.js';
import { FunctionStudy, type Placer } from '../../tuning/report/study.js';
import type { SymmetricMemory } from '../../tuning/report/symmetric-study.js';
import { tuningSettings } from '../../tuning/settings.js';
import { symmetricFacts } from '../../tuning/symmetric/facts.js';
import type { Registration } from '../../tuning/symmetric/kernels.js';
import type { TunerPlugin } from '../../tuning/tuner.js';
import type { MachineOptions } from '../topo/machine-options.js';

/** Threads of a launch at least. */
const LEAST_THREADS = 128;
const WARP = 32;

export interface Scenario {
  readonly cluster: Cluster;
  readonly tables: TuningTables;
  readonly limits: GraphLimits;
  /** Studies one kind of call. */
  readonly study: (kind: MessageKind, windows?: Registration) => FunctionStudy;
}

/**
 * Computes the model of a cluster.
 *
 * @throws TuttiError if a variable cannot be read, or a tuner fails
 */
export function scenarioOf(
  cluster: Cluster,
  options: MachineOptions,
  env: Environment,
  tuner: TunerPlugin | undefined,
  log: LogSink,
): Scenario {
  const input = tuningInput({
    comm: cluster.comm,
    topology: cluster.settings,
    settings: tuningSettings(env, log),
    mnnvl: options.clique > 1,
  });
  const tables = tuningTables(input, { tuner, log });
  const studies = new CallStudies(tables);
  const place = placer(cluster, tables, log);
  return {
    cluster,
    tables,
    limits: graphLimits(cluster),
    study: (kind, windows) => {
      checkType(kind, input);
      const asked = windows && { memory: symmetricMemory(cluster, tables), registration: windows };
      return new FunctionStudy(kind, studies, place, asked);
    },
  };
}

/** CUDA driver that is assumed: 13.0, which can do everything that is asked about. */
const DRIVER = 13000;

/** LSA teams of so many ranks have no multicast memory. */
const FEW_RANKS = 2;

/**
 * What symmetric memory can do on a cluster of processes with one GPU each, whose driver is current and whose network can
 * be used from kernels (GIN).
 */
function symmetricMemory({ comm }: Cluster, tables: TuningTables): SymmetricMemory {
  const { input } = tables;
  const { nRanks, nNodes, minSm, ctaPolicy, settings } = input;
  const lsaRanks = input.minLocalRanks;
  const support = {
    supported: true,
    lsaRanks,
    lsaMulticast: input.nvls.enabled && lsaRanks > FEW_RANKS,
    crossCliqueP2p: false,
    allDirectNvlink: comm.isAllDirectNvlink,
    oneThreadManyGpus: false,
  };
  return {
    facts: symmetricFacts(tables, support),
    copyEngines: {
      driver: DRIVER,
      nRanks,
      nNodes,
      localRanks: input.localRanks,
      lsaRanks,
      symmetric: support.supported,
      rmaContexts: nNodes > 1 ? 1 : 0,
      minSm,
      allDirectNvlink: comm.isAllDirectNvlink,
      ctaPolicy,
      settings,
    },
  };
}

/** Lowest compute capability, times 10, that reduces 8-bit floats. */
const FP8_SM = 90;

/** @throws TuttiError invalidArgument for 8-bit floats that a GPU cannot reduce */
function checkType({ function: fn, type }: MessageKind, { minSm }: TuningInput): void {
  if (!type.startsWith('float8') || !reduces(fn) || minSm >= FP8_SM) return;
  throw new TuttiError(
    'invalidArgument',
    `--type ${type}: FP8 reduction support begins with sm90 capable devices, and a GPU has sm${minSm}`,
  );
}

/** Places calls alone in their group. */
function placer({ comm }: Cluster, tables: TuningTables, log: LogSink): Placer {
  if (comm.nRanks <= 1) return () => undefined;
  const communicator = plannedCommunicator(comm, tables, 0, log);
  return (kind, { decision }, count) => {
    if (decision === undefined) return undefined;
    const bytewise = !reduces(kind.function);
    const { size } = ELEMENT_TYPES[kind.type];
    const task: PlannedTask = {
      function: kind.function,
      algorithm: decision.algorithm,
      protocol: decision.protocol,
      count: bytewise ? count * size : count,
      elementBytes: bytewise ? 1 : size,
      maxChannels: decision.maxChannels,
      warps: decision.warps,
    };
    const [placement] = partitionCollectives([task], communicator);
    if (placement === undefined) return undefined;
    const { channelLo, channelHi, segments, shared } = placement;
    const part = (channels: number, { count: elements, chunkBytes }: Segment): PlacedPart => ({
      channels,
      bytes: messageBytes(task, elements, comm.nRanks),
      chunkBytes,
    });
    const parts =
      segments === undefined
        ? [part(1, shared!)]
        : [
            part(1, segments.lo),
            part(Math.max(0, channelHi - channelLo - 1), segments.mid),
            part(channelHi > channelLo ? 1 : 0, segments.hi),
          ];
    return {
      firstChannel: channelLo,
      lastChannel: channelHi,
      threads: Math.max(LEAST_THREADS, decision.warps * WARP),
      parts: joined(parts.filter(({ channels, bytes }) => channels > 0 && bytes > 0)),
      shared: segments === undefined,
    };
  };
}

/** Neighbouring parts that are alike, as one. */
function joined(parts: readonly PlacedPart[]): PlacedPart[] {
  const result: PlacedPart[] = [];
  for (const part of parts) {
    const last = result.at(-1);
    if (last !== undefined && last.bytes === part.bytes && last.chunkBytes === part.chunkBytes) {
      result[result.length - 1] = { ...last, channels: last.channels + part.channels };
    } else result.push(part);
  }
  return result;
}
