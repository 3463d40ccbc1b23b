/**
 * What the planner knows of one collective after the decision of algorithm and protocol, with NCCL's names.
 *
 * (NCCL 2.30.7, enqueue.cc.)
 */

export type PlannedFunction = 'Broadcast' | 'Reduce' | 'AllGather' | 'ReduceScatter' | 'AllReduce';
export type PlannedAlgorithm =
  | 'Tree'
  | 'Ring'
  | 'CollNetDirect'
  | 'CollNetChain'
  | 'NVLS'
  | 'NVLSTree'
  | 'PAT';
export type PlannedProtocol = 'LL' | 'LL128' | 'Simple';

/** Smallest unit of a chunk, bytes. */
export const PROTOCOL_GRAIN: Readonly<Record<PlannedProtocol, number>> = { LL: 16, LL128: 1920, Simple: 512 };

/** Steps of a connection's buffer. */
export const BUFFER_STEPS = 8;

/** Bytes of a connection's buffer. */
export interface BufferSizes {
  readonly LL: number;
  readonly LL128: number;
  readonly Simple: number;
}

/** What decisions on chunks need of the communicator. */
export interface PlannedCommunicator {
  readonly nRanks: number;
  readonly nNodes: number;
  /** Channels of collectives and of NVLS. */
  readonly nChannels: number;
  readonly nvlsChannels: number;
  readonly buffers: BufferSizes;
  /** Heads of CollNet direct and its depth (1 for a rank without peers in its node, else 2). */
  readonly directHeads: number;
  readonly directDepth: number;
  readonly nvlsHeads: number;
  /** Bytes. */
  readonly nvlsChunkSize: number;
  readonly nvlsTreeMaxChunkSize: number;
  /** GB/s of NVLS Simple for all-reduce in the tuning tables; decides its chunks for every function. */
  readonly nvlsBandwidth: number;
  /** A tuner's word on chunks of `chunk` bytes for a segment (or, over `channels`, a message) of `bytes`. */
  readonly tuneChunk?: (task: PlannedTask, channels: number, bytes: number, chunk: number) => number;
}

/** One collective, ready to be placed on channels. */
export interface PlannedTask {
  readonly function: PlannedFunction;
  readonly algorithm: PlannedAlgorithm;
  readonly protocol: PlannedProtocol;
  /** Elements per rank, in the type that NCCL moves (bytes for Broadcast and AllGather). */
  readonly count: number;
  /** Bytes of an element. */
  readonly elementBytes: number;
  /** Channels at most, from the decision. */
  readonly maxChannels: number;
  readonly warps: number;
  /** Send and receive buffers are registered with NVLS. */
  readonly nvlsRegistered?: boolean;
}

/** Bytes that travel per byte of an element's count, as the planner weighs work. */
export function trafficFactor(fn: PlannedFunction, nRanks: number): number {
  switch (fn) {
    case 'AllReduce':
      return 2;
    case 'AllGather':
    case 'ReduceScatter':
      return nRanks;
    default:
      return 1;
  }
}

/** NVLS and NVLS tree. */
export const usesNvls = ({ algorithm }: PlannedTask): boolean =>
  algorithm === 'NVLS' || algorithm === 'NVLSTree';

/** Algorithms whose channels share the whole data: CollNet, and NVLS across nodes. */
export const usesCollnet = ({ algorithm }: PlannedTask, nNodes: number): boolean =>
  algorithm === 'CollNetDirect' || algorithm === 'CollNetChain' || (algorithm === 'NVLS' && nNodes > 1);

/** Slots of a chunk and of a slice: Simple rings move several at a time. */
export function stepsOf({ function: fn, algorithm, protocol }: PlannedTask): {
  chunk: number;
  slice: number;
} {
  const wide = fn === 'AllReduce' || fn === 'AllGather' || fn === 'ReduceScatter';
  return algorithm === 'Ring' && protocol === 'Simple' && wide
    ? { chunk: 4, slice: 2 }
    : { chunk: 1, slice: 1 };
}
