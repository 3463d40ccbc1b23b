/**
 * The cost model of a communicator: for every function, algorithm and protocol a latency and a bandwidth, from which
 * the time of any call follows; computed once.
 *
 * (NCCL 2.30.7, tuning.cc.)
 */
import { type LogSink, SILENT } from '../topology/log.js';
import { modelBandwidth } from './bandwidth.js';
import { defaultConstants, type TuningConstants } from './constants.js';
import type { Exclusion, Why } from './exclusion.js';
import { disabled, logLl128, skipped } from './exclusions.js';
import type { TuningInput } from './input.js';
import { constantsFor, modelLatency } from './latency.js';
import { maxThreads } from './max-threads.js';
import {
  CELLS,
  entryOf,
  FunctionId,
  NCCL_ALGORITHMS,
  NCCL_FUNCTIONS,
  NCCL_PROTOCOLS,
  type NcclFunction,
} from './names.js';
import { type SelectionLists, selectionLists } from './selection-list.js';
import { threadThresholds } from './thread-thresholds.js';
import { type BoundTuner, bindTuner, type TunerPlugin } from './tuner.js';

export interface TuningTables {
  readonly input: TuningInput;
  /** NCCL's, or what a tuner made of them. */
  readonly constants: TuningConstants;
  readonly lists: SelectionLists;
  /** By `entryOf(function, algorithm, protocol)`: microseconds; 0 where the model computes nothing. */
  readonly latencies: Float32Array;
  /** By `entryOf`: GB/s, a message's bytes over the time they add; 0 where a candidate is not available. */
  readonly bandwidths: Float32Array;
  /** By `cellOf(algorithm, protocol)`: threads of a block at most. */
  readonly maxThreads: Int32Array;
  /** By `cellOf`: bytes per thread below which a call takes fewer of them. */
  readonly threadThresholds: Float64Array;
  /** By `FunctionId`: what is not available, and why; a candidate stands once for each reason. */
  readonly exclusions: readonly (readonly Exclusion[])[];
  readonly tuner: BoundTuner | undefined;
}

export interface TuningOptions {
  readonly tuner?: TunerPlugin | undefined;
  readonly log?: LogSink | undefined;
}

/**
 * Computes the model of a communicator.
 *
 * @throws TuttiError invalidUsage if NCCL_ALGO or NCCL_PROTO cannot be read; what a tuner's init throws
 */
export function tuningTables(input: TuningInput, options: TuningOptions = {}): TuningTables {
  const { log = SILENT } = options;
  const { nRanks, nNodes, settings } = input;
  const ownConstants = defaultConstants();
  const communicator = {
    nRanks,
    nNodes,
    nvlDomains: nNodes,
    minRanksPerNvlDomain: input.minLocalRanks,
    maxRanksPerNvlDomain: input.maxLocalRanks,
  };
  const tuner = options.tuner && bindTuner(options.tuner, communicator, ownConstants, log);
  const constants = constantsFor(ownConstants, input.cpuArch);
  const lists = selectionLists(settings.algo, settings.proto);
  const size = NCCL_FUNCTIONS.length * CELLS;
  const tables = {
    input,
    constants,
    lists,
    latencies: new Float32Array(size),
    bandwidths: new Float32Array(size),
    maxThreads: maxThreads(settings, input.graphs.ring, log),
    threadThresholds: new Float64Array(CELLS),
    exclusions: NCCL_FUNCTIONS.map((): Exclusion[] => []),
    tuner,
  };
  // A single rank moves nothing: NCCL leaves its tables empty.
  if (nRanks <= 1) return tables;
  tables.threadThresholds.set(threadThresholds(nRanks, settings.threadThresholds));
  logLl128(input, log);
  for (const fn of NCCL_FUNCTIONS) fillFunction(tables, fn);
  return tables;
}

function fillFunction(
  tables: Omit<TuningTables, 'exclusions'> & { readonly exclusions: Exclusion[][] },
  fn: NcclFunction,
): void {
  const { input, constants, lists, latencies, bandwidths } = tables;
  for (const algorithm of NCCL_ALGORITHMS) {
    for (const protocol of NCCL_PROTOCOLS) {
      const exclude = (why: Why) => tables.exclusions[FunctionId[fn]]!.push({ algorithm, protocol, ...why });
      const skip = skipped(input, fn, algorithm, protocol);
      if (skip !== undefined) {
        exclude(skip);
        continue;
      }
      const entry = entryOf(fn, algorithm, protocol);
      const cell = { fn, algorithm, protocol };
      latencies[entry] = modelLatency(input, constants, cell);
      const bandwidth = modelBandwidth(input, constants, cell);
      const reasons = disabled(input, lists, fn, algorithm, protocol);
      for (const why of reasons) exclude(why);
      if (reasons.length > 0) continue;
      if (bandwidth > 0) bandwidths[entry] = bandwidth;
      else
        exclude({ rule: 'no-bandwidth', reason: `${algorithm} has a graph without channels or bandwidth` });
    }
  }
}

/** Latency (microseconds) and bandwidth (GB/s, 0: not available) of a candidate. */
export function modelOf(
  { latencies, bandwidths }: TuningTables,
  fn: NcclFunction,
  algorithm: (typeof NCCL_ALGORITHMS)[number],
  protocol: (typeof NCCL_PROTOCOLS)[number],
): { readonly latency: number; readonly bandwidth: number } {
  const entry = entryOf(fn, algorithm, protocol);
  return { latency: latencies[entry]!, bandwidth: bandwidths[entry]! };
}
