/**
 * How a ring operation is cut: chunk size, shares of the channels, and the largest pieces into which the
 * operation may be divided in time without changing its schedule.
 *
 * A chunk is what one primitive call moves: a slot times the steps of a call (LL: half a slot, since half of
 * the wire bytes are flags), rounded down to the protocol's grain. Channels get contiguous shares in grains.
 * Source: NCCL 2.30 chunk rules for rings (steps per chunk 4 for the three all-to-all-like collectives with
 * Simple, else 1; grain LL 16 bytes, Simple 512 bytes).
 */

import { type RingCollective, type RingProtocol, simpleShape } from '../collectives/ring.js';
import { STEPS } from '../collectives/ring-connection.js';

/** Smallest unit of a channel's share, bytes. */
export const GRAIN_BYTES: Readonly<Record<RingProtocol, number>> = { LL: 16, Simple: 512 };

export interface RingBuffers {
  /** Bytes of a connection's whole buffer (8 slots) per protocol. */
  readonly llBytes: number;
  readonly simpleBytes: number;
}

/** Bytes of user data that one primitive call moves at most. */
export function ringChunkBytes(
  collective: RingCollective,
  protocol: RingProtocol,
  buffers: RingBuffers,
): number {
  const grain = GRAIN_BYTES[protocol];
  const chunk =
    protocol === 'LL'
      ? buffers.llBytes / STEPS / 2
      : (buffers.simpleBytes / STEPS) * simpleShape(collective).stepsPerChunk;
  return Math.floor(chunk / grain) * grain;
}

export interface ChannelShare {
  /** First element and number of elements. */
  readonly offset: number;
  readonly count: number;
}

/** Cuts `count` elements into contiguous shares, multiples of the grain but for the end of the data. */
export function channelShares(
  count: number,
  elementBytes: number,
  channels: number,
  protocol: RingProtocol,
): ChannelShare[] {
  const grain = GRAIN_BYTES[protocol] / elementBytes;
  const grains = Math.ceil(count / grain);
  const shares: ChannelShare[] = [];
  let at = 0;
  for (let channel = 0; channel < channels; channel++) {
    // The first channels take one grain more when they do not divide evenly.
    const own = Math.floor(grains / channels) + (channel < grains % channels ? 1 : 0);
    const size = Math.min(own * grain, count - at);
    shares.push({ offset: at, count: size });
    at += size;
  }
  return shares;
}

/**
 * Elements of one whole loop: a channel's share that is cut at multiples of it has the same chunks as the uncut
 * one.
 */
export function ringLoopElements(collective: RingCollective, chunkElements: number, ranks: number): number {
  return collective === 'allReduce' ? chunkElements * ranks : chunkElements;
}
