/**
 * Predicted time of one call: latency, and bytes over bandwidth, each corrected where trees and rings are known to
 * deviate.
 *
 * (NCCL 2.30.7, tuning.cc.)
 */
import { CpuArch } from '../topology/system/node.js';
import { divideUp, f32 } from './arithmetic.js';
import type { TuningCall } from './call.js';
import type { TuningInput } from './input.js';
import type { TuningTables } from './model.js';
import { AlgorithmId, CELLS, cellOf, FunctionId, NCCL_PROTOCOLS, ProtocolId } from './names.js';
import { NVLS_TREE_CLASSES, TREE_CLASSES, treeEfficiency } from './tree-efficiency.js';
import { IGNORE } from './tuner.js';

/** Collectives that one batch of works holds: 1024 bytes of 128 each. Only rings pay latency for each of them. */
const COLLECTIVES_PER_BATCH = 8;

/** Bytes per channel and rank from which on a ring's Simple steps wait for each other. */
const PLATEAU_BYTES = 64;
const PLATEAU_FACTOR = 1.4;
const PLATEAU_FACTOR_BEFORE_AMPERE = 1.9;

const { Tree, Ring, NVLSTree } = AlgorithmId;
const { Simple } = ProtocolId;
const { AllReduce } = FunctionId;
export const RING_SIMPLE = cellOf('Ring', 'Simple');

/** The part of the tables that a prediction needs: all of it is in a log of NCCL, too. */
export interface PredictionTables extends Pick<TuningTables, 'latencies' | 'bandwidths'> {
  readonly input: Pick<TuningInput, 'minSm' | 'cpuArch' | 'nNodes' | 'nChannels' | 'nRanks'>;
}

/** The part of a call that its time depends on. */
export type PredictedCall = Pick<TuningCall, 'function' | 'bytes' | 'pipelined'>;

/** Microseconds, a float; IGNORE if the candidate is not available. */
export function callTime(tables: PredictionTables, call: PredictedCall, cell: number): number {
  const { input } = tables;
  const fn = FunctionId[call.function];
  const entry = fn * CELLS + cell;
  let bandwidth = tables.bandwidths[entry]!;
  if (bandwidth === 0) return IGNORE;
  let latency = tables.latencies[entry]!;
  const { bytes, pipelined = 1 } = call;
  const algorithm = Math.floor(cell / NCCL_PROTOCOLS.length);
  const protocol = cell % NCCL_PROTOCOLS.length;

  if (fn === AllReduce) {
    if (algorithm === Tree) bandwidth = f32(bandwidth * treeEfficiency(protocol, bytes, TREE_CLASSES));
    if (algorithm === NVLSTree && input.minSm >= 100 && input.cpuArch === CpuArch.X86) {
      bandwidth = f32(bandwidth * treeEfficiency(Simple, bytes, NVLS_TREE_CLASSES));
    }
    if (cell === RING_SIMPLE && input.nNodes > 1) {
      const share = Math.floor(bytes / (input.nChannels * input.nRanks));
      if (share >= PLATEAU_BYTES) {
        latency = f32(latency * (input.minSm < 80 ? PLATEAU_FACTOR_BEFORE_AMPERE : PLATEAU_FACTOR));
      }
    }
  }
  const times = algorithm === Ring ? pipelined : divideUp(pipelined, COLLECTIVES_PER_BATCH);
  return f32(f32(latency * times) + f32(f32(bytes) / f32(1000 * bandwidth)));
}
