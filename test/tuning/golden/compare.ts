/**
 * Compares our cost model and decisions with those of a golden file, number by number.
 *
 * The model is fed from the file itself, so that it is judged alone: topology has aspects of its own.
 */
import { RESULT_NUMBER, TuttiError } from '#src/errors/tutti-error.js';
import { bufferSizes, p2pChunkSize } from '#src/tuning/buffer-sizes.js';
import type { TuningCall } from '#src/tuning/call.js';
import { decide } from '#src/tuning/decide.js';
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
import { IGNORE } from '#src/tuning/tuner.js';
import type { AspectResult } from '../../topology/golden/aspects.js';
import { compareTrees, type Difference } from '../../topology/golden/difference.js';
import type { ByAlgorithm, GoldenDecision, TuningGolden } from './format.js';
import { goldenInput } from './input.js';

/** Parts of a file that this comparison covers, in the order in which they depend on each other. */
export const TUNING_ASPECTS = ['buffers', 'threads', 'latencies', 'bandwidths', 'decisions'] as const;
export type TuningAspect = (typeof TUNING_ASPECTS)[number];

/** Differences of a golden file by aspect; `limit` of each are told. */
export function compareTuning(file: TuningGolden, limit = 5): AspectResult[] {
  const tables = tuningTables(goldenInput(file));
  return TUNING_ASPECTS.filter((aspect) => aspect !== 'decisions' || file.oracle.nRanks > 1).map((aspect) => {
    const { expected, got } = sides(aspect, file, tables);
    const first: Difference[] = [];
    return { aspect, count: compareTrees(expected, got, first, limit), first };
  });
}

function sides(
  aspect: TuningAspect,
  file: TuningGolden,
  tables: TuningTables,
): { readonly expected: unknown; readonly got: unknown } {
  const { maxThreads, threadThresholds, latencies, bandwidths } = file.tuning;
  switch (aspect) {
    case 'buffers':
      return {
        expected: { comm: { buffSizes: file.comm.buffSizes, p2pChunkSize: file.comm.p2pChunkSize } },
        got: { comm: ownBuffers(file, tables) },
      };
    case 'threads':
      return {
        expected: { tuning: { maxThreads, threadThresholds } },
        got: {
          tuning: {
            maxThreads: byAlgorithm((cell) => tables.maxThreads[cell]!),
            threadThresholds: byAlgorithm((cell) => tables.threadThresholds[cell]!),
          },
        },
      };
    case 'latencies':
      return {
        expected: { tuning: { latencies } },
        got: { tuning: { latencies: byFunction(tables.latencies) } },
      };
    case 'bandwidths':
      return {
        expected: { tuning: { bandwidths } },
        got: { tuning: { bandwidths: byFunction(tables.bandwidths) } },
      };
    case 'decisions':
      return {
        expected: { decisions: mapDecisions(file, (_, golden) => goldenPart(golden)) },
        got: { decisions: mapDecisions(file, (fn, { bytes }) => ownDecision(tables, fn, bytes)) },
      };
  }
}

function ownBuffers({ comm }: TuningGolden, { input }: TuningTables) {
  const { LL, LL128, Simple } = bufferSizes(input.settings);
  const facts = {
    nNodes: input.nNodes,
    isAllNvlink: comm.isAllNvlink === 1,
    cpuArch: input.cpuArch,
    minSm: input.minSm,
    simpleBuffer: Simple,
  };
  return { buffSizes: [LL, LL128, Simple], p2pChunkSize: p2pChunkSize(facts, input.settings) };
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

const mapDecisions = (
  { decisions }: TuningGolden,
  map: (fn: NcclFunction, golden: GoldenDecision) => unknown,
): object =>
  Object.fromEntries(
    Object.entries(decisions).map(([fn, list]) => [fn, list.map((one) => map(fn as NcclFunction, one))]),
  );

function goldenPart({ bytes, error, algo, proto, time, costs, nMaxChannels, nWarps }: GoldenDecision) {
  return error === undefined ? { bytes, algo, proto, time, costs, nMaxChannels, nWarps } : { bytes, error };
}

/** The call that golden decisions stand for: sums of 32-bit floats, where a function reduces. */
export const goldenCall = (fn: NcclFunction, bytes: number): TuningCall => ({
  function: fn,
  bytes,
  type: fn === 'Broadcast' || fn === 'AllGather' ? 'int8' : 'float32',
  reduction: 'Sum',
});

function ownDecision(tables: TuningTables, fn: NcclFunction, bytes: number) {
  try {
    const { algorithm, protocol, time, costs, maxChannels, warps } = decide(tables, goldenCall(fn, bytes));
    const available = [...costs].flatMap((cost, cell) =>
      cost === IGNORE ? [] : [[`${algorithmOf(cell)}/${protocolOf(cell)}`, cost] as const],
    );
    return {
      bytes,
      algo: algorithm,
      proto: protocol,
      time,
      costs: Object.fromEntries(available),
      nMaxChannels: maxChannels,
      nWarps: warps,
    };
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    return { bytes, error: RESULT_NUMBER[(error as TuttiError).code] };
  }
}
