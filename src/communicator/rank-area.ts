/**
 * The shared memory of one rank in one communicator: its control block, then for each channel the control
 * structures and buffers of the ring connections that it owns. The layout is the same at every rank, so a
 * rank finds everything of a peer from one address.
 */

import { ControlBlock } from '../collectives/control-block.js';
import { CONTROL_BYTES } from '../collectives/ring-connection.js';
import type { RingBuffers } from '../planning/ring-plan.js';

export interface RankAreaShape extends RingBuffers {
  readonly channels: number;
}

const CONTROL_BLOCK_BYTES = Math.ceil(ControlBlock.size / CONTROL_BYTES) * CONTROL_BYTES;

/** Bytes of one channel: the sender's page, the receiver's page, the two buffers. */
function channelBytes(shape: RankAreaShape): number {
  return 2 * CONTROL_BYTES + shape.llBytes + shape.simpleBytes;
}

export function rankAreaBytes(shape: RankAreaShape): number {
  return CONTROL_BLOCK_BYTES + shape.channels * channelBytes(shape);
}

/** Offset of the SenderControl that this rank owns on a channel (its connection to the successor). */
export function senderOffset(shape: RankAreaShape, channel: number): number {
  return CONTROL_BLOCK_BYTES + channel * channelBytes(shape);
}

/** Offset of the ReceiverControl that this rank owns on a channel (its connection from the predecessor). */
export function receiverOffset(shape: RankAreaShape, channel: number): number {
  return senderOffset(shape, channel) + CONTROL_BYTES;
}

/** Where the buffers lie behind a ReceiverControl. */
export function bufferOffsets(shape: RankAreaShape): { ll: number; simple: number } {
  return { ll: CONTROL_BYTES, simple: CONTROL_BYTES + shape.llBytes };
}
