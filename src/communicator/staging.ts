/**
 * Memory through which an operation on ordinary arrays moves them: memory of its own for all of them, so that it
 * can wait in a queue with its input inside, or pieces through the stage that all operations share.
 *
 * Ranks need not agree on this: a rank that stages whole waits for one that goes by pieces (see operation.ts). So
 * each takes what its heap has. The stage is taken first and memory for whole arrays only from what is left, and
 * all of it together never more than a quarter: however many calls are queued, the smaller form still has room.
 */

import type { HostDevice } from '../device/host/host-device.js';
import { TuttiError } from '../errors/tutti-error.js';
import type { SharedStage } from './shared-stage.js';

/** How an operation would like to move its arrays. */
export type StagingForm =
  /** Piece by piece through the communicator's stage, for operations that run at once. */
  | 'pieces'
  /** Whole, through memory of the operation's own, for operations that wait in a queue. */
  | 'whole';

export interface SideBytes {
  readonly send: number;
  readonly recv: number;
}

export interface Staging {
  /** The memory holds all of both arrays and nobody else uses it. */
  readonly whole: boolean;
  readonly send: number;
  readonly recv: number;
  release(): void;
}

/** Part of what the heap has left that the stage is set aside for in advance. */
const RESERVED_PART = 1 / 4;

/** Part of the heap, beyond what users have taken, that whole arrays may take together. */
const WHOLE_PART = 1 / 4;

/** Bytes that whole arrays take at the moment, by device: ranks that are threads share one. */
const wholeBytes = new WeakMap<HostDevice, number>();

/** Throws `systemError` when the heap has not even room for the pieces. Nothing is kept then. */
export function takeStaging(
  device: HostDevice,
  stage: SharedStage,
  form: StagingForm,
  whole: SideBytes,
  piece: SideBytes,
): Staging {
  if (form === 'whole') {
    if (piece.send + piece.recv <= device.freeBytes * RESERVED_PART) setAside(stage, piece);
    const own = takeWhole(device, whole);
    if (own !== undefined) return own;
  }
  return takeShared(stage, piece);
}

/** Makes sure that the stage is there when it is needed. */
function setAside(stage: SharedStage, piece: SideBytes): void {
  try {
    takeShared(stage, piece).release();
  } catch (error) {
    // In scattered memory there may be room for whole arrays, which are less when the call is small.
    if (!TuttiError.is(error)) throw error;
  }
}

function takeShared(stage: SharedStage, piece: SideBytes): Staging {
  const send = stage.acquire('send', piece.send);
  let recv: number;
  try {
    recv = stage.acquire('recv', piece.recv);
  } catch (error) {
    stage.release(send);
    throw error;
  }
  return {
    whole: false,
    send,
    recv,
    release: () => {
      stage.release(send);
      stage.release(recv);
    },
  };
}

function takeWhole(device: HostDevice, { send, recv }: SideBytes): Staging | undefined {
  const bytes = send + recv;
  const taken = wholeBytes.get(device) ?? 0;
  if (taken + bytes > (device.freeBytes + taken) * WHOLE_PART) return undefined;
  const sendAddress = tryAllocate(device, send);
  if (sendAddress === undefined) return undefined;
  const recvAddress = tryAllocate(device, recv);
  if (recvAddress === undefined) {
    device.free(sendAddress);
    return undefined;
  }
  wholeBytes.set(device, taken + bytes);
  return {
    whole: true,
    send: sendAddress,
    recv: recvAddress,
    release: () => {
      device.free(sendAddress);
      device.free(recvAddress);
      wholeBytes.set(device, wholeBytes.get(device)! - bytes);
    },
  };
}

function tryAllocate(device: HostDevice, bytes: number): number | undefined {
  try {
    return device.allocate(bytes);
  } catch (error) {
    if (TuttiError.is(error) && error.code === 'systemError') return undefined;
    throw error;
  }
}
