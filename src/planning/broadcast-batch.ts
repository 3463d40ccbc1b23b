/**
 * Broadcasts from several roots in one group: they run together along the ring, as one all-gather of unequal parts.
 *
 * (NCCL 2.30.7, AllGatherV.)
 */
import { BUFFER_STEPS, type BufferSizes, type PlannedProtocol, PROTOCOL_GRAIN } from './nccl-task.js';

/** One broadcast of a batch. */
export interface BatchedBroadcast {
  readonly root: number;
  readonly bytes: number;
}

/** Part of a broadcast on one channel. */
export interface BroadcastWork {
  readonly root: number;
  /** Distance upstream to the root: 0 at the root itself. */
  readonly depth: number;
  /** Bytes from the start of the broadcast's buffer. */
  readonly offset: number;
  readonly bytes: number;
}

/** Bytes of work in shared memory by architecture (100 * major + 10 * minor). */
export function broadcastsPerStep(arch: number): number {
  const room = arch < 800 ? 1024 : arch < 900 ? 8192 : 16384;
  // One less than fits.
  return Math.floor(room / BROADCAST_WORK_BYTES) - 1;
}

/** Bytes of one broadcast's work. */
export const BROADCAST_WORK_BYTES = 48;

/** Parts begin at multiples of this many bytes. */
const PART_ALIGNMENT = 256;

/** Threads that the kernel needs to read the works. */
export const BROADCAST_MIN_THREADS = (64 * BROADCAST_WORK_BYTES) / 16 + 96;

/** Takes, root by root, the first waiting broadcast of each, as many as fit. */
export function takeBroadcasts<T>(
  queues: ReadonlyMap<number, readonly T[]>,
  arch: number,
  fits: (count: number) => boolean,
): T[] {
  const limit = broadcastsPerStep(arch);
  const taken: T[] = [];
  for (const root of [...queues.keys()].sort((a, b) => a - b)) {
    const [head] = queues.get(root)!;
    if (head === undefined) continue;
    if (taken.length >= limit || !fits(taken.length + 1)) break;
    taken.push(head);
  }
  return taken;
}

/** Bytes that a broadcast moves at a time. */
export function broadcastChunk(protocol: PlannedProtocol, buffers: BufferSizes): number {
  const slot = Math.floor(buffers[protocol] / BUFFER_STEPS);
  const data =
    protocol === 'LL' ? Math.floor(slot / 2) : protocol === 'LL128' ? Math.floor(slot / 16) * 15 : slot;
  const grain = PROTOCOL_GRAIN[protocol];
  return Math.floor(data / grain) * grain;
}

/**
 * Cuts broadcasts over channels.
 *
 * @param ringIndex place of a root in the channel's ring, counted from the own rank; 0 is the own rank
 * @returns works per channel, nearest roots first
 */
export function cutBroadcasts(
  broadcasts: readonly BatchedBroadcast[],
  channels: number,
  nRanks: number,
  ringIndex: (channel: number, root: number) => number,
): BroadcastWork[][] {
  return Array.from({ length: channels }, (_, channel) => {
    const works: BroadcastWork[] = [];
    for (const { root, bytes } of broadcasts) {
      const share = Math.ceil(bytes / channels);
      const bound = (part: number) =>
        Math.min(Math.ceil((part * share) / PART_ALIGNMENT) * PART_ALIGNMENT, bytes);
      const offset = bound(channel);
      const size = bound(channel + 1) - offset;
      if (size <= 0) continue;
      const index = ringIndex(channel, root);
      works.push({ root, depth: index === 0 ? 0 : nRanks - index, offset, bytes: size });
    }
    return works.sort((a, b) => a.depth - b.depth);
  });
}

/** Slots that a channel's proxy receives and sends for its works. */
export function broadcastSteps(
  works: readonly BroadcastWork[],
  chunk: number,
  nRanks: number,
): { recv: number; send: number } {
  let recv = 0;
  let send = 0;
  for (const { depth, bytes } of works) {
    const steps = Math.ceil(bytes / chunk);
    if (depth !== 0) recv += steps;
    if (depth !== nRanks - 1) send += steps;
  }
  return { recv, send };
}
