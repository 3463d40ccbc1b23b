/**
 * Channels and threads of a call: fewer than there are while a thread would have too little to do.
 *
 * (NCCL 2.30.7, enqueue.cc.)
 */
import { isNvls } from './algorithms.js';
import { WARP } from './max-threads.js';
import type { TuningTables } from './model.js';
import { algorithmOf, protocolOf } from './names.js';

export interface ChannelBound {
  /** Channels at most; the partition may take fewer. */
  readonly channels: number;
  /** Warps of a block. */
  readonly warps: number;
}

/** Threads besides those that move data: a ring's warp that publishes flags, a tree's second direction. */
const RING_SIMPLE_EXTRA = WARP;
const TREE_SIMPLE_EXTRA = 4 * WARP;

/** A block of collective kernels has at least this many threads. */
const MIN_THREADS = 3 * WARP;

/** Trees and PAT split a block into parts that run at once. */
const SPLIT_BLOCK_THREADS = 640;

/** Threads are halved as long as they are a multiple of this. */
const HALVING_UNIT = 128;

/** CollNet direct gives up channels down to this many, then to half as many under a lower threshold, ... */
const COLLNET_FIRST_STAGE = 16;

/** Bound of a call of `bytes` with the algorithm and protocol of a cell. */
export function channelBound(tables: TuningTables, cell: number, bytes: number): ChannelBound {
  const { input } = tables;
  const algorithm = algorithmOf(cell);
  const threshold = tables.threadThresholds[cell]!;
  let threads = tables.maxThreads[cell]!;
  let channels = input.nChannels;
  if (algorithm === 'CollNetDirect') {
    channels = collnetChannels(bytes, channels, threads, input.collnet.directHeads, threshold);
  } else if (isNvls(algorithm)) {
    const { nChannels } = input.nvls;
    channels = algorithm === 'NVLS' && input.nNodes > 1 ? Math.min(nChannels, channels) : nChannels;
  } else {
    while (channels >= 2 && isLess(bytes, channels, threads, threshold)) channels -= 1;
    while (threads % HALVING_UNIT === 0 && isLess(bytes, channels, threads, threshold)) threads /= 2;
  }
  if (protocolOf(cell) === 'Simple') {
    if (algorithm === 'Ring') threads += RING_SIMPLE_EXTRA;
    if (algorithm === 'Tree') threads += TREE_SIMPLE_EXTRA;
  }
  threads = Math.max(threads, MIN_THREADS);
  if (algorithm === 'Tree' || algorithm === 'PAT') threads = SPLIT_BLOCK_THREADS;
  return { channels, warps: Math.floor(threads / WARP) };
}

/** Whether a message is below a product of 32-bit integers, which C compares as an unsigned number. */
function isLess(bytes: number, channels: number, threads: number, threshold: number): boolean {
  const product = Math.imul(Math.imul(channels, threads), threshold);
  return product < 0 || bytes < product;
}

function collnetChannels(
  bytes: number,
  start: number,
  threads: number,
  heads: number,
  startThreshold: number,
): number {
  let channels = start;
  let threshold = startThreshold;
  let tooSmall = true;
  for (let stage = COLLNET_FIRST_STAGE; stage >= 1 && tooSmall; stage = Math.floor(stage / 2)) {
    for (;;) {
      tooSmall = isLess(bytes, channels, Math.imul(threads, heads), threshold);
      if (!tooSmall || channels <= stage) break;
      if (channels === stage + Math.floor(stage / 2)) threshold = Math.floor(threshold / 2);
      channels -= 1;
    }
  }
  return channels;
}
