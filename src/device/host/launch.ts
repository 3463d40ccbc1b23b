/**
 * Running the blocks of a launch on one thread.
 *
 * Blocks of a plain program run one after the other. A resumable program that is blocked lets the next block go on and
 * is called again later, so its blocks may wait for each other.
 */
import { LAUNCH_STATUS } from './executor-control.js';
import type { WasmFunction } from './webassembly.js';

export interface Launch {
  readonly descriptor: number;
  readonly blocks: number;
  /** Doorbell to sleep on when no block can go on; 0 for none. */
  readonly doorbell: number;
  /** Address of `frameBytes` bytes for each block, for resumable programs; 0 for plain ones. */
  readonly frames: number;
  readonly frameBytes: number;
}

/** What a launch waits with: `relax` of the waiter's imports. */
type Relax = (round: number, doorbell: number) => number;

/** The first status that is not "done" ends the launch. */
export function runBlocks(program: WasmFunction, launch: Launch, i32: Int32Array, relax: Relax): number {
  const { descriptor, blocks, doorbell, frames, frameBytes } = launch;
  let blocked: number[] | undefined;
  for (let block = 0; block < blocks; block++) {
    const frame = frames + block * frameBytes;
    // A frame that begins with 0 starts its block from the beginning.
    if (frames !== 0) i32[frame >>> 2] = 0;
    const status = program(descriptor, block, blocks, frame) as number;
    if (status === LAUNCH_STATUS.blocked) (blocked ??= []).push(block);
    else if (status !== LAUNCH_STATUS.done) return status >>> 0;
  }
  for (let round = 0; blocked !== undefined && blocked.length > 0; round++) {
    if (relax(round, doorbell) !== 0) return LAUNCH_STATUS.aborted;
    const before = blocked.length;
    const still: number[] = [];
    for (const block of blocked) {
      const status = program(descriptor, block, blocks, frames + block * frameBytes) as number;
      if (status === LAUNCH_STATUS.blocked) still.push(block);
      else if (status !== LAUNCH_STATUS.done) return status >>> 0;
    }
    blocked = still;
    // A block has ended: others may be about to, so wait as at the beginning.
    if (still.length < before) round = -1;
  }
  return LAUNCH_STATUS.done;
}
