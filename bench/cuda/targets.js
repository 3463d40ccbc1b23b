/**
 * What tutti wants to reach against NCCL on two GPUs with NVLink. A target of a row is a ratio `NCCL time / tutti
 * time`, against the best of NCCL's ways to do the same size with the same kind of launch.
 */

const K = 1024;
const M = K * K;

/** Of a prepared operation, host time per call and GPU. */
export const ENQUEUE_US = 4;

/** First call of all: kernels compiled by the driver, or found in the cache on disk. */
export const FIRST_CALL_MS = { cold: 1000, warm: 100 };

/** GPU memory of a communicator of two GPUs, both together. */
export const MEMORY_BYTES = 64e6;

/** Bus bandwidth of a graph-launched all-reduce of 512 MiB, GB/s. */
export const BUS_BANDWIDTH = { bytes: 512 * M, gigabytes: 335 };

/**
 * The target of one row, or undefined where none is set.
 * @param {{ operation: string, bytes: number, launch: 'plain' | 'graph', processes: number }} row
 * @returns {number | undefined}
 */
export function targetOf({ operation, bytes, launch, processes }) {
  if (operation !== 'allReduce') return bytes <= 512 * K ? 1.3 : 1;
  if (launch === 'graph') {
    if (bytes <= 128 * K) return 1.8;
    if (bytes === 512 * K || bytes === 2 * M) return 1.4;
    return bytes >= 32 * M ? 1.08 : undefined;
  }
  if (processes > 1 && bytes <= 2 * M) return 2;
  if (processes === 1 && bytes <= 512 * K) return 1.5;
  return bytes === 32 * M ? 1.25 : undefined;
}
