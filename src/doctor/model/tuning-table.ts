/**
 * The estimates of NCCL for one communicator, as its log printed them.
 */
import { CELLS, NCCL_FUNCTIONS, type NcclAlgorithm } from '../../tuning/names.js';
import type { Place } from './place.js';

export interface TuningTable {
  readonly at: Place;
  /** Index of the communicator among those of its process when the table was printed. */
  readonly member: number;
  /** By `entryOf`: microseconds, as printed. */
  readonly latencies: Float32Array;
  /** By `entryOf`: GB/s, as printed; 0 where a candidate is not available. */
  readonly bandwidths: Float32Array;
  /** Algorithms that were read. */
  readonly algorithms: Set<NcclAlgorithm>;
  /** Algorithms of the block that is being read. */
  current: readonly NcclAlgorithm[];
  /** Everything was read. */
  isClosed: boolean;
}

export function newTuningTable(at: Place, member: number): TuningTable {
  const entries = NCCL_FUNCTIONS.length * CELLS;
  return {
    at,
    member,
    latencies: new Float32Array(entries),
    bandwidths: new Float32Array(entries),
    algorithms: new Set(),
    current: [],
    isClosed: false,
  };
}
