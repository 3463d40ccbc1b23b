/**
 * Memory and descriptors of ring connections.
 *
 * A connection carries data from a rank to its successor through eight slots ("steps"). The receiver owns
 * the slots and the tail; the sender owns the head: each side polls memory of its own and writes the other's
 * word, so nobody polls across the interconnect. Step counters never reset; step s uses slot s mod 8, and a
 * sender may be at most eight steps ahead of the receiver. The protocols of a connection have buffers of
 * their own but share the counters.
 *
 * ```
 * SenderControl    head (written by the receiver), own step counter
 * ReceiverControl  tail (written by the sender), sizes of the filled slots, own step counter
 *   followed by    LL buffer, Simple buffer
 * ```
 *
 * Source: NCCL 2.30's sender and receiver structures (4096 bytes each) and buffer sizes.
 */

import type { KernelBuilder, Value } from '../kernel/builder.js';
import { array, struct } from '../kernel/layout.js';
import type { Ends } from './ends.js';

/** Slots of one connection and protocol. */
export const STEPS = 8;

/** Bytes that a control structure takes before the buffers begin: a page. */
export const CONTROL_BYTES = 4096;

export const SenderControl = struct('SenderControl', {
  head: 'u64',
  gap0: array('u8', 2040),
  /** Private to the owner: steps sent so far. */
  step: 'u64',
});

export const ReceiverControl = struct('ReceiverControl', {
  tail: 'u64',
  gap0: array('u8', 120),
  /**
   * For a proxy that moves slots over a network: bytes of the slice that begins in each slot (low half), and the
   * low 32 bits of its step + 1, so that a cell left by an earlier step is not taken for a later one.
   */
  size: array('u64', STEPS),
  gap1: array('u8', 1856),
  step: 'u64',
});

/** Bytes of one LL line: data (4), flag (4), data (4), flag (4). */
export const LL_LINE = 16;
/** Payload of one LL line. */
export const LL_DATA = 8;

/** Default LL buffer: 8 lines per thread x 512 threads x 8 steps x 16 bytes (NCCL_LL_BUFFSIZE). */
export const LL_BUFFER_BYTES = 524288;
/** Default Simple buffer (NCCL_BUFFSIZE). */
export const SIMPLE_BUFFER_BYTES = 4194304;

/** The part of one channel (block) in a ring operation. */
export const RingChannel = struct('RingChannel', {
  sendControl: 'ptr',
  recvControl: 'ptr',
  /** The successor's ReceiverControl and buffers, and the predecessor's SenderControl. */
  nextReceiver: 'ptr',
  prevSender: 'ptr',
  nextDoorbell: 'ptr',
  prevDoorbell: 'ptr',
  /** u32 per ring distance k: the rank k places after this one. */
  order: 'ptr',
  /** First element and number of elements of this channel, and elements per chunk. */
  offset: 'u64',
  count: 'u64',
  chunk: 'u64',
  /** Position of this rank in the channel's ring. */
  position: 'u32',
  prev: 'u32',
  next: 'u32',
});

export const RingWork = struct('RingWork', {
  /** Own control block: the doorbell that waits sleep on. */
  control: 'ptr',
  /** RingChannel per block. */
  channels: 'ptr',
  self: 'u32',
  ranks: 'u32',
  root: 'u32',
  send: 'ptr',
  recv: 'ptr',
  /** Bytes from one rank's block to the next. */
  sendStride: 'u64',
  recvStride: 'u64',
  /** Scalar of an average, see ArgumentRule. */
  argument: 'u64',
  /** Bytes of one slot, and where the buffers lie behind the receiver's control structure. */
  llSlot: 'u64',
  simpleSlot: 'u64',
  llOffset: 'u64',
  simpleOffset: 'u64',
});

/** The two ends of a channel's ring, with the buffers of one protocol. */
export function ringEnds(
  k: KernelBuilder,
  work: Value<'ptr'>,
  channel: Value<'ptr'>,
  protocol: 'LL' | 'Simple',
): Ends {
  return {
    sends: [
      {
        own: k.field(channel, RingChannel, 'sendControl'),
        receiver: k.field(channel, RingChannel, 'nextReceiver'),
        doorbell: k.field(channel, RingChannel, 'nextDoorbell'),
      },
    ],
    receives: [
      {
        own: k.field(channel, RingChannel, 'recvControl'),
        sender: k.field(channel, RingChannel, 'prevSender'),
        doorbell: k.field(channel, RingChannel, 'prevDoorbell'),
      },
    ],
    slot: k.field(work, RingWork, protocol === 'LL' ? 'llSlot' : 'simpleSlot'),
    buffers: k.field(work, RingWork, protocol === 'LL' ? 'llOffset' : 'simpleOffset'),
  };
}
