/** Small slots for the communicators of a test file, so that a few thousand elements fill them several times. */
import { afterAll, beforeAll } from 'vitest';

export const SMALL_SLOTS = { llBytes: 8192, simpleBytes: 16384 };

/** Communicators that are made in the tests of this file have small slots. */
export function useSmallSlots(): void {
  const environment = { ...process.env };
  beforeAll(() => {
    process.env.NCCL_LL_BUFFSIZE = `${SMALL_SLOTS.llBytes}`;
    process.env.NCCL_BUFFSIZE = `${SMALL_SLOTS.simpleBytes}`;
  });
  afterAll(() => {
    process.env = environment;
  });
}

/** Counts of elements of a size around nothing, a packet, one slot and several rounds of slots, most of them odd. */
export function drawCount(size: number, next: () => number): number {
  const bytes = [0, 1, 16, 512, 2048, 8192, 16384, 40000][Math.floor(next() * 8)]!;
  return Math.max(0, Math.floor(bytes / size) + Math.floor(next() * 5) - 2);
}
