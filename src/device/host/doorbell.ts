/**
 * The doorbell: 16 bytes in shared memory on which waiters sleep, whoever they are.
 *
 * A waiter counts itself in `sleepers`, looks once more at what it waits for, and sleeps on the value of
 * `rings`. Whoever publishes something looks at `sleepers` afterwards and rings if it is not zero. Because both
 * sides write before they look (Wasm and JavaScript atomics are sequentially consistent), at least one of them
 * sees the other, and no wake-up is lost. A waiter also sets `armed` before it looks; the first that rings clears
 * it, and those behind ring nobody: where many publish for one sleeper, it is woken once. Sleepers may be threads of this process or of others: ringing wakes
 * both the futex of the kernel and the waiters of `Atomics.wait`.
 */
import { libc } from '../../system/libc.js';

/** Bytes of a doorbell, which must be aligned to 4. */
export const DOORBELL_BYTES = 16;

/** Byte offsets of the words. */
export const DOORBELL = { sleepers: 0, rings: 4, abort: 8, armed: 12 } as const;

/** The memory that doorbells lie in. */
export interface DoorbellMemory {
  readonly i32: Int32Array;
  /** Address of the memory in the process, 0 where it is not known (no calls into the C library then). */
  readonly baseAddress: number;
}

/**
 * Has the next ring wake the caller, who is counted in `sleepers`. Gives the value of `rings` to sleep on, once the
 * caller has looked at what it waits for.
 */
export function armDoorbell(i32: Int32Array, doorbell: number): number {
  // In this order: a ring that disarms has not been counted in the value.
  const seen = Atomics.load(i32, (doorbell + DOORBELL.rings) >>> 2);
  Atomics.store(i32, (doorbell + DOORBELL.armed) >>> 2, 1);
  return seen;
}

/** Rings if somebody sleeps on the doorbell at the address and nobody has rung since. */
export function wakeDoorbell(memory: DoorbellMemory, doorbell: number): void {
  const { i32 } = memory;
  const word = doorbell >>> 2;
  if (Atomics.load(i32, word) === 0) return;
  if (Atomics.exchange(i32, (doorbell + DOORBELL.armed) >>> 2, 0) === 0) return;
  const rings = word + 1;
  Atomics.add(i32, rings, 1);
  Atomics.notify(i32, rings);
  if (memory.baseAddress !== 0) libc()?.futexWake(memory.baseAddress + rings * 4);
}

/** Makes every wait on the doorbell give up, now and later. */
export function abortDoorbell(memory: DoorbellMemory, doorbell: number): void {
  Atomics.store(memory.i32, (doorbell >>> 2) + 2, 1);
  wakeDoorbell(memory, doorbell);
}

/** Forgets an abort: only for a doorbell that nobody uses at the moment. */
export function resetDoorbell(memory: DoorbellMemory, doorbell: number): void {
  const word = doorbell >>> 2;
  for (let i = 0; i < DOORBELL_BYTES / 4; i++) Atomics.store(memory.i32, word + i, 0);
}
