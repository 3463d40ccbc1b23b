/**
 * What a proxy does for a collective on one channel: how many steps, how large.
 *
 * Steps are counted from the largest chunks; kernels shrink chunks for small data but keep the number of steps.
 * (NCCL 2.30.7, enqueue.cc and proxy.cc.)
 */
import { messageBytes } from './chunk-size.js';
import { BUFFER_STEPS, type PlannedCommunicator, type PlannedTask, stepsOf } from './nccl-task.js';

/** Network operations of one channel. */
export interface ProxyOperation {
  /** Bytes of all ranks' parts that one loop handles. */
  readonly loopBytes: number;
  /** Slots of the buffer that go over each connection. */
  readonly steps: number;
  readonly slotsPerChunk: number;
  readonly slotsPerSlice: number;
  readonly chunkBytes: number;
  /** Bytes of a slice at most, and of a network transfer at most. */
  readonly sliceBytes: number;
  readonly transferBytes: number;
}

/** Steps and chunks of one loop, by the way that data takes. */
export function loopShape(
  { function: fn, algorithm }: PlannedTask,
  { nRanks, nvlsHeads, directHeads }: PlannedCommunicator,
): { steps: number; chunks: number } {
  if (algorithm === 'NVLS' || algorithm === 'NVLSTree') return { steps: 1, chunks: nvlsHeads };
  if (algorithm === 'CollNetDirect') return { steps: 1, chunks: directHeads };
  // Broadcast and reduce are pipelines along the ring; trees, PAT and chains move one chunk a loop.
  const around = algorithm === 'Ring' && fn !== 'Broadcast' && fn !== 'Reduce';
  if (!around) return { steps: 1, chunks: 1 };
  return { steps: (fn === 'AllReduce' ? 2 : 1) * (nRanks - 1), chunks: nRanks };
}

/**
 * The operation of one channel.
 *
 * @param count elements of the channel's segment (of the whole, if channels share it)
 * @param chunk bytes that the channel moves at a time
 * @param channels that share the segment; 1 otherwise
 */
export function proxyOperation(
  task: PlannedTask,
  comm: PlannedCommunicator,
  count: number,
  chunk: number,
  channels = 1,
): ProxyOperation {
  const bytes = messageBytes(task, count, comm.nRanks);
  const shape = loopShape(task, comm);
  const { chunk: slotsPerChunk, slice: slotsPerSlice } = stepsOf(task);
  const loopBytes = channels * shape.chunks * chunk;
  const loops = Math.ceil(bytes / loopBytes);
  const slot = Math.floor(comm.buffers[task.protocol] / BUFFER_STEPS);
  return {
    loopBytes,
    steps: shape.steps * loops * slotsPerChunk,
    slotsPerChunk,
    slotsPerSlice,
    chunkBytes: chunk,
    sliceBytes: Math.floor(chunk / slotsPerChunk) * slotsPerSlice,
    transferBytes: task.algorithm === 'PAT' ? Math.ceil(bytes / channels) : slot * slotsPerSlice,
  };
}

/** Which neighbours of a rank in a ring get an operation. */
export function ringConnections(
  fn: PlannedTask['function'],
  position: { readonly rank: number; readonly prev: number; readonly next: number; readonly root: number },
): { readonly recv: boolean; readonly send: boolean } {
  const { rank, prev, next, root } = position;
  if (fn === 'Broadcast') return { recv: rank !== root, send: next !== root };
  if (fn === 'Reduce') return { recv: prev !== root, send: rank !== root };
  return { recv: true, send: true };
}
