/**
 * How many bytes a channel moves at a time.
 *
 * The base is what fits a slot of the protocol's buffer; algorithms with deep pipelines take less for small data, so
 * that all stages have work. (NCCL 2.30.7, enqueue.cc.)
 */
import {
  BUFFER_STEPS,
  type PlannedCommunicator,
  type PlannedTask,
  PROTOCOL_GRAIN,
  stepsOf,
} from './nccl-task.js';

/** Bytes of one element in the message of a function that every rank contributes to. */
export function messageBytes(task: PlannedTask, count: number, nRanks: number): number {
  const everyRank = task.function === 'AllGather' || task.function === 'ReduceScatter';
  return task.elementBytes * count * (everyRank ? nRanks : 1);
}

/** Largest chunk of a task, which a tuner may not exceed. */
export function largestChunk(task: PlannedTask, { buffers }: Pick<PlannedCommunicator, 'buffers'>): number {
  const chunk = Math.floor(buffers[task.protocol] / BUFFER_STEPS) * stepsOf(task).chunk;
  if (task.protocol === 'LL') return Math.floor(chunk / 2);
  return task.protocol === 'LL128' ? Math.floor(chunk / 16) * 15 : chunk;
}

/**
 * Chunk of a task, bytes, a multiple of the protocol's grain.
 *
 * @param bytes of the segment of one channel, or of the whole message if `channels` share it
 */
export function chunkBytes(
  task: PlannedTask,
  comm: PlannedCommunicator,
  channels: number,
  bytes: number,
): number {
  const grain = PROTOCOL_GRAIN[task.protocol];
  const chunk = adjusted(task, comm, channels, bytes);
  return Math.floor((comm.tuneChunk?.(task, channels, bytes, chunk) ?? chunk) / grain) * grain;
}

function adjusted(task: PlannedTask, comm: PlannedCommunicator, n: number, bytes: number): number {
  const chunk = largestChunk(task, comm);
  switch (task.algorithm) {
    case 'CollNetDirect':
      return collnetDirectChunk(chunk, n * comm.directHeads, comm.directDepth, bytes);
    case 'CollNetChain':
      return collnetChain(task, comm, n, bytes);
    case 'NVLS':
      return nvls(task, comm, chunk, n, bytes);
    case 'NVLSTree':
      return nvlsTree(comm, n, bytes);
    case 'Tree':
      return task.protocol === 'LL128' ? treeLl128(comm, chunk, n, bytes) : chunk;
    case 'PAT':
      return pat(task, chunk, n, bytes);
    case 'Ring':
      return chunk;
  }
}

/** Halves a chunk above a floor as long as there are fewer than `enough` of them. */
function halveWhile(chunk: number, floor: number, tooFew: (chunk: number) => boolean): number {
  let size = chunk;
  while (tooFew(size) && size > floor) size = Math.floor(size / 2);
  return size;
}

/** Chunk of CollNet direct, given how many move at the same time and how deep the pipeline is. */
export function collnetDirectChunk(start: number, concurrent: number, depth: number, bytes: number): number {
  const fewer = (enough: number) => (chunk: number) =>
    Math.floor(bytes / (concurrent * chunk)) < enough * depth;
  let chunk = halveWhile(start, 131072, fewer(64));
  chunk = halveWhile(chunk, 65536, fewer(8));
  return halveWhile(chunk, 32768, fewer(8));
}

/** Chunk of a CollNet chain over `concurrent` channels; its depth is that of its nodes. */
export function collnetChainChunk(start: number, concurrent: number, depth: number, bytes: number): number {
  const fewer = (enough: number) => (chunk: number) =>
    Math.floor(bytes / (concurrent * chunk)) < enough * depth;
  let chunk = halveWhile(start, 131072, fewer(64));
  chunk = halveWhile(chunk, 65536, fewer(8));
  return halveWhile(chunk, 32768, fewer(1));
}

function collnetChain(task: PlannedTask, comm: PlannedCommunicator, n: number, bytes: number): number {
  const step = Math.floor(comm.buffers.Simple / BUFFER_STEPS);
  const start = Math.min(262144, step * stepsOf(task).chunk);
  return collnetChainChunk(start, n, Math.floor(comm.nRanks / comm.nNodes), bytes);
}

/** GB/s below which NVLS across nodes takes its smallest limit. */
const SLOW_NVLS = 150;

function nvls(task: PlannedTask, comm: PlannedCommunicator, start: number, n: number, bytes: number): number {
  const scattered = task.function === 'AllGather' || task.function === 'ReduceScatter';
  if (task.nvlsRegistered === true && scattered) return Math.floor(comm.buffers.Simple / BUFFER_STEPS);
  const limit = comm.nNodes > 1 && comm.nvlsBandwidth < SLOW_NVLS ? 32768 : comm.nvlsChunkSize;
  return nvlsChunk(Math.min(start, limit), n * comm.nvlsHeads, bytes);
}

/** Chunk of NVLS, given how many move at the same time. */
export const nvlsChunk = (start: number, concurrent: number, bytes: number): number =>
  limitedBelow(start, concurrent, bytes, [
    [64, 65536],
    [8, 32768],
    [2, 16384],
  ]);

/** Chunk of an NVLS tree, given how many move at the same time. */
export const nvlsTreeChunk = (start: number, concurrent: number, bytes: number): number =>
  limitedBelow(start, concurrent, bytes, [
    [32, 262144],
    [16, 131072],
    [4, 65536],
    [1, 32768],
  ]);

/** Tests in turn whether there are `enough` chunks; where not, none may be larger than `size`. */
function limitedBelow(
  start: number,
  concurrent: number,
  bytes: number,
  limits: readonly (readonly [enough: number, size: number])[],
): number {
  let chunk = start;
  for (const [enough, size] of limits) {
    if (bytes < enough * concurrent * chunk && chunk > size) chunk = size;
  }
  return chunk;
}

function nvlsTree(comm: PlannedCommunicator, n: number, bytes: number): number {
  return nvlsTreeChunk(Math.min(comm.nvlsChunkSize, comm.nvlsTreeMaxChunkSize), n * comm.nvlsHeads, bytes);
}

function treeLl128({ nRanks, nNodes }: PlannedCommunicator, start: number, n: number, bytes: number): number {
  const perNode = Math.fround(nRanks / nNodes);
  const stages = Math.fround(1 + Math.floor(Math.log2(nNodes)) + 0.1 * perNode);
  const fewer = (factor: number) => {
    const enough = Math.fround(Math.fround(stages * factor) / perNode);
    return (chunk: number) => Math.fround(Math.floor(bytes / (n * chunk))) < enough;
  };
  const chunk = halveWhile(start, 131072, fewer(64));
  return halveWhile(chunk, 32768, fewer(16));
}

function pat(task: PlannedTask, start: number, n: number, bytes: number): number {
  const enough = task.function === 'AllGather' ? 32 : 16;
  return halveWhile(start, 65536, (chunk) => chunk * n * enough > bytes);
}
