/** Our cost model, decisions and placements in the shape of a golden file, computed from our own topology. */
import { RESULT_NUMBER, TuttiError } from '#src/errors/tutti-error.js';
import { CommunicatorPlanner } from '#src/planning/communicator-planner.js';
import type { Plan } from '#src/planning/plan-group.js';
import type { Cluster } from '#src/topology/cluster.js';
import { bufferSizes, p2pChunkSize } from '#src/tuning/buffer-sizes.js';
import { decide } from '#src/tuning/decide.js';
import { tuningInput } from '#src/tuning/from-topology.js';
import { type TuningTables, tuningTables } from '#src/tuning/model.js';
import {
  algorithmOf,
  cellOf,
  entryOf,
  NCCL_ALGORITHMS,
  NCCL_FUNCTIONS,
  NCCL_PROTOCOLS,
  type NcclFunction,
  protocolOf,
} from '#src/tuning/names.js';
import { tuningSettings } from '#src/tuning/settings.js';
import { IGNORE } from '#src/tuning/tuner.js';
import type { ByAlgorithm, GoldenDecision, GoldenTuning } from './format.js';

/** The calls of a golden file, by function. */
export type GoldenCalls = Readonly<Record<string, readonly Pick<GoldenDecision, 'bytes'>[]>>;

interface TuningParts {
  readonly comm: Readonly<Record<string, number | readonly number[]>>;
  readonly tuning: GoldenTuning;
  readonly decisions: Readonly<Record<string, readonly GoldenDecision[]>>;
}

/** What tuning and planning decide for the calls that a golden file lists. */
export function tuningParts(
  { comm, settings: topology }: Cluster,
  env: Readonly<Record<string, string>>,
  calls: GoldenCalls,
): TuningParts {
  const tables = tuningTables(tuningInput({ comm, topology, settings: tuningSettings(env) }));
  const { input, maxThreads, threadThresholds, latencies, bandwidths } = tables;
  const { LL, LL128, Simple } = bufferSizes(input.settings);
  const { nNodes, isAllNvlink, cpuArch, minSm } = comm;
  const planner = new CommunicatorPlanner({ comm, tables });
  return {
    comm: {
      buffSizes: [LL, LL128, Simple],
      p2pChunkSize: p2pChunkSize(
        { nNodes, isAllNvlink, cpuArch, minSm, simpleBuffer: Simple },
        input.settings,
      ),
      collNetHeadsNum: comm.collnetEnabled ? input.collnet.setupHeads : 0,
    },
    tuning: {
      maxThreads: byAlgorithm((cell) => maxThreads[cell]!),
      threadThresholds: byAlgorithm((cell) => threadThresholds[cell]!),
      latencies: byFunction(latencies),
      bandwidths: byFunction(bandwidths),
    },
    decisions: Object.fromEntries(
      Object.entries(calls).map(([fn, list]) => [
        fn,
        list.map(({ bytes }) => decision(tables, planner, fn as NcclFunction, bytes)),
      ]),
    ),
  };
}

const byAlgorithm = (value: (cell: number) => number): ByAlgorithm =>
  Object.fromEntries(
    NCCL_ALGORITHMS.map((algorithm) => [
      algorithm,
      NCCL_PROTOCOLS.map((protocol) => value(cellOf(algorithm, protocol))),
    ]),
  );

const byFunction = (table: Float32Array): Readonly<Record<string, ByAlgorithm>> =>
  Object.fromEntries(
    NCCL_FUNCTIONS.map((fn) => {
      const first = entryOf(fn, 'Tree', 'LL');
      return [fn, byAlgorithm((cell) => table[first + cell]!)];
    }),
  );

/** A call alone in its group: sums of 32-bit floats where a function reduces, bytes where it only moves. */
function decision(
  tables: TuningTables,
  planner: CommunicatorPlanner,
  fn: NcclFunction,
  bytes: number,
): GoldenDecision {
  const { nRanks } = tables.input;
  const moves = fn === 'Broadcast' || fn === 'AllGather';
  const elementBytes = moves ? 1 : 4;
  const type = moves ? 'int8' : 'float32';
  const blocks = fn === 'AllGather' || fn === 'ReduceScatter' ? nRanks : 1;
  const count = bytes / elementBytes / blocks;
  try {
    const { costs } = decide(tables, { function: fn, bytes, type, reduction: 'Sum' });
    const available = [...costs].flatMap((cost, cell) =>
      cost === IGNORE ? [] : [[`${algorithmOf(cell)}/${protocolOf(cell)}`, cost] as const],
    );
    const plans = planner.plan([{ function: fn, deviceOp: 'Sum', type, elementBytes, count, root: 0 }]);
    if (plans.length !== 1) throw new Error(`${plans.length} plans for one call`);
    return { bytes, count, costs: Object.fromEntries(available), ...placed(plans[0]!, elementBytes) };
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    return { bytes, count, error: RESULT_NUMBER[(error as TuttiError).code] };
  }
}

function placed({ collectives, threads }: Plan, elementBytes: number) {
  if (collectives.length !== 1) throw new Error(`${collectives.length} works for one call`);
  const [{ decision: decided, placement }] = collectives as [Plan['collectives'][number]];
  const { algorithm, protocol, time, maxChannels, warps } = decided;
  const { channelLo, channelHi, segments, shared } = placement;
  const head = {
    algo: algorithm,
    proto: protocol,
    ...(time === undefined ? {} : { time }),
    nMaxChannels: maxChannels,
    nWarps: warps,
    threads,
    channelLo,
    channelHi,
    nChannels: channelHi - channelLo + 1,
  };
  if (shared !== undefined) {
    return { ...head, collnetCount: shared.count, chunkCount: shared.chunkBytes / elementBytes };
  }
  const { lo, mid, hi } = segments!;
  return {
    ...head,
    countLo: lo.count,
    countMid: mid.count,
    countHi: hi.count,
    chunkBytesLo: lo.chunkBytes,
    chunkBytesMid: mid.chunkBytes,
    chunkBytesHi: hi.chunkBytes,
  };
}
