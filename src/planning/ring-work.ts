/**
 * Descriptors of ring programs: what a rank's program is told of its neighbours, its channels and their shares.
 */
import { CONTROL_BYTES, RingChannel, RingWork, STEPS } from '../collectives/ring-connection.js';
import type { ChannelShare } from './ring-plan.js';

/** Addresses of one channel's ends, in the address space of the rank. */
export interface RingEnds {
  /** Own control structures: to the next rank, and from the previous one with the buffers behind it. */
  readonly sendControl: number;
  readonly recvControl: number;
  /** The next rank's receiver, the previous rank's sender, and their doorbells. */
  readonly nextReceiver: number;
  readonly prevSender: number;
  readonly nextDoorbell: number;
  readonly prevDoorbell: number;
  /** Table of the ranks by distance along the ring: 32-bit words. */
  readonly order: number;
}

export interface RingWorkValues {
  /** Own control block. */
  readonly control: number;
  readonly rank: number;
  readonly ranks: number;
  readonly root: number;
  readonly send: number;
  readonly recv: number;
  /** Bytes from one rank's block to the next. */
  readonly sendStride: number;
  readonly recvStride: number;
  readonly argument: bigint;
  /** Bytes of a slot by protocol. */
  readonly llSlot: number;
  readonly simpleSlot: number;
  /** Elements that one call moves. */
  readonly chunk: number;
  /** Where the rank stands in the ring; by default ranks stand in their own order. */
  readonly place?: RingPlace;
}

export interface RingPlace {
  readonly position: number;
  /** Ranks before and behind. */
  readonly prev: number;
  readonly next: number;
}

export function ringWorkBytes(channels: number): number {
  return RingWork.size + channels * RingChannel.size;
}

/** The descriptor as it must lie at address `base`. */
export function encodeRingWork(
  base: number,
  values: RingWorkValues,
  channels: readonly (RingEnds & ChannelShare)[],
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ringWorkBytes(channels.length));
  const view = new DataView(bytes.buffer);
  const { rank, ranks, llSlot, simpleSlot, chunk } = values;
  const inOrder = { position: rank, prev: (rank + ranks - 1) % ranks, next: (rank + 1) % ranks };
  const { position, prev, next } = values.place ?? inOrder;
  RingWork.at(view, 0)
    .set('control', values.control)
    .set('channels', base + RingWork.size)
    .set('self', rank)
    .set('ranks', ranks)
    .set('root', values.root)
    .set('send', values.send)
    .set('recv', values.recv)
    .set('sendStride', values.sendStride)
    .set('recvStride', values.recvStride)
    .set('argument', values.argument)
    .set('llSlot', llSlot)
    .set('simpleSlot', simpleSlot)
    .set('llOffset', CONTROL_BYTES)
    .set('simpleOffset', CONTROL_BYTES + STEPS * llSlot);
  for (const [index, ends] of channels.entries()) {
    RingChannel.at(view, RingWork.size + index * RingChannel.size)
      .set('sendControl', ends.sendControl)
      .set('recvControl', ends.recvControl)
      .set('nextReceiver', ends.nextReceiver)
      .set('prevSender', ends.prevSender)
      .set('nextDoorbell', ends.nextDoorbell)
      .set('prevDoorbell', ends.prevDoorbell)
      .set('order', ends.order)
      .set('offset', ends.offset)
      .set('count', ends.count)
      .set('chunk', chunk)
      .set('position', position)
      .set('prev', prev)
      .set('next', next);
  }
  return bytes;
}
