/**
 * The memory that an executor and its worker thread share: a ring of commands and what both say about it.
 *
 * Counters count commands for ever and wrap at 2^32; command n (from 1) lies in slot (n - 1) mod CAPACITY.
 * Words that one side writes often lie on a cache line of their own.
 */
import { WAITER_BYTES } from './waiting.js';

/** Commands that may be under way; a power of two, so that slots stay in step when counters wrap. */
export const CAPACITY = 256;

/** Indices of 32-bit words from the start of the block. */
export const CONTROL = {
  /** Commands in the ring since the start; written by the submitter. */
  submitted: 0,
  /** Messages posted to the worker: it reads its port only when this has changed. */
  messages: 1,
  /** 1: the worker is to leave. */
  closing: 2,
  /** Commands that have ended; written by the worker. */
  completed: 16,
  /** System's number of the worker's thread, 0 until it runs. */
  thread: 17,
  /** 1 while the worker sleeps, or is about to, on `signal`. */
  sleeping: 18,
  /** Changes to end the worker's sleep; written by the submitter. */
  signal: 32,
  /** How many waits for `completed` there are: when not 0 the worker notifies. */
  completionWaiters: 48,
} as const;

/** Byte offset of the worker's waiting state. */
export const WAITER_OFFSET = 256;

/** Byte offset of the first slot. */
const SLOTS_OFFSET = WAITER_OFFSET + WAITER_BYTES;

/** Words of a slot: one cache line. The last three are written by the worker. */
export const SLOT = {
  module: 0,
  program: 1,
  descriptor: 2,
  blocks: 3,
  timeoutMs: 4,
  doorbell: 5,
  frames: 6,
  frameBytes: 7,
  requests: 8,
  status: 9,
  reason: 10,
  peer: 11,
} as const;

const SLOT_WORDS = 16;

/** Bytes of the whole block, which is aligned to 64. */
export const CONTROL_BYTES = SLOTS_OFFSET + CAPACITY * SLOT_WORDS * 4;

/** Word index of the slot of the n-th command (n as a wrapped 32-bit counter), from the start of the memory. */
export function slotWord(controlAddress: number, n: number): number {
  return (controlAddress + SLOTS_OFFSET) / 4 + ((n - 1) & (CAPACITY - 1)) * SLOT_WORDS;
}

/** Statuses that a launch ends with; 16 and more belong to the program. */
export const LAUNCH_STATUS = {
  done: 0,
  /** A wait was given up; the reason says why. */
  aborted: 1,
  /** Only between calls of a resumable program: a wait is not satisfied yet. Never a final status. */
  blocked: 2,
  /** The program trapped or could not be started; the error travels as a message. */
  failed: 0xffff_ffff,
} as const;

/** Number in a slot of each reason of a given-up wait; 0 for none. */
export const REASONS = ['none', 'aborted', 'timeout', 'peerDied'] as const;
