/**
 * What fits into one plan, and where its work is kept.
 *
 * Small plans travel in the kernel's arguments; larger ones in a ring of work bytes, or in memory of their own when
 * they are captured into a graph. (NCCL 2.30.7, enqueue.cc.)
 */
import { BATCH_BYTES } from './work-batches.js';

/** Bytes of the arguments before the batches. */
export const ARGUMENT_HEADER_BYTES = 32;

/** Bytes of kernel arguments at most. */
export const MAX_ARGUMENT_BYTES = 4096;

/** Default of NCCL_WORK_FIFO_BYTES, and its upper bound. */
export const WORK_FIFO_BYTES = 2 ** 20;
const MAX_FIFO_BYTES = 2 ** 30;

/** Bytes of work of a captured plan at most. */
const MAX_CAPTURED_BYTES = 2 ** 30;

export type WorkStorage = 'args' | 'fifo' | 'persistent';

export interface PlanBudget {
  /** Bytes for batches, and for work that travels with them. */
  readonly inside: number;
  /** Bytes of work that is kept elsewhere. */
  readonly outside: number;
  readonly captured: boolean;
}

export interface BudgetOptions {
  /** NCCL_WORK_ARGS_BYTES. */
  readonly workArgsBytes?: number;
  /** NCCL_WORK_FIFO_BYTES. */
  readonly workFifoBytes?: number;
  /** The plan is captured into a graph. */
  readonly captured?: boolean;
}

/** The budget of one plan. */
export function planBudget({
  workArgsBytes = Number.POSITIVE_INFINITY,
  workFifoBytes = WORK_FIFO_BYTES,
  captured = false,
}: BudgetOptions = {}): PlanBudget {
  return {
    inside: Math.min(workArgsBytes, MAX_ARGUMENT_BYTES) - ARGUMENT_HEADER_BYTES,
    outside: captured ? MAX_CAPTURED_BYTES : Math.floor(workFifoBytes / 2),
    captured,
  };
}

/** Does a load fit? */
export function fitsBudget({ inside, outside }: PlanBudget, batches: number, workBytes: number): boolean {
  const records = batches * BATCH_BYTES;
  return records + workBytes <= inside || (records <= inside && workBytes <= outside);
}

/** Where the work of a complete plan is kept, and bytes of its kernel arguments. */
export function workStorage(
  { inside, captured }: PlanBudget,
  batches: number,
  workBytes: number,
): { storage: WorkStorage; argumentBytes: number } {
  const records = batches * BATCH_BYTES;
  const small = records + workBytes <= inside;
  const bytes = ARGUMENT_HEADER_BYTES + records + (small ? workBytes : 0);
  return {
    storage: small ? 'args' : captured ? 'persistent' : 'fifo',
    argumentBytes: Math.ceil(bytes / 16) * 16,
  };
}

/** A usable size of the ring: a power of two up to 1 GiB, else the default. */
export function fifoBytes(wanted: number): number {
  if (!Number.isInteger(Math.log2(wanted))) return WORK_FIFO_BYTES;
  return Math.min(wanted, MAX_FIFO_BYTES);
}

/** Ring of work bytes that a device consumes: 32-bit counters that wrap. */
export class WorkFifo {
  readonly bytes: number;
  #produced = 0;
  #consumed = 0;
  #recorded = 0;

  constructor(bytes = WORK_FIFO_BYTES) {
    this.bytes = fifoBytes(bytes);
  }

  /** Takes room for a plan's work; its offset in the ring, or undefined if the device must consume first. */
  reserve(workBytes: number): number | undefined {
    const start = this.#produced;
    const end = (start + workBytes) >>> 0;
    if ((end - this.#consumed) >>> 0 > this.bytes) return undefined;
    this.#produced = end;
    return start % this.bytes;
  }

  /** True if enough was produced since the last time that the device should report; the mark to report with. */
  shouldReport(): number | undefined {
    if ((this.#produced - this.#recorded) >>> 0 <= this.bytes / 8) return undefined;
    this.#recorded = this.#produced;
    return this.#produced;
  }

  /** The device has consumed everything before the mark. */
  consume(mark: number): void {
    this.#consumed = mark >>> 0;
  }
}
