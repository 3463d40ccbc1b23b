/**
 * Running the blocks of a launch on one thread.
 *
 * Blocks of a plain program run one after the other. A resumable program that is blocked lets the next block go on and
 * is called again later, so its blocks may wait for each other.
 */

import { COPY_REQUEST_BYTES, type CopyMemory, serveCopy } from './copy-requests.js';
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
  /** Address of a request for copies for each block, of programs that ask for some; 0 for others. */
  readonly requests: number;
}

/** Rounds of waiting after which `whenSlow` is called: about 20 us where cores are not shared. */
const SLOW_ROUND = 8;

/** What a launch waits with: `relax` of the waiter's imports. */
type Relax = (round: number, doorbell: number) => number;

/** Polls of a wait are shared out to so many turns of each block. */
export const BLOCK_PASSES = 16;

/** Runs a block as far as it goes, and does the copies that it asks for. */
function runBlock(program: WasmFunction, launch: Launch, memory: CopyMemory, block: number): number {
  const { descriptor, blocks, frames, frameBytes, requests } = launch;
  const frame = frames + block * frameBytes;
  let status = program(descriptor, block, blocks, frame) as number;
  while (status === LAUNCH_STATUS.blocked && requests !== 0) {
    if (!serveCopy(memory, requests + block * COPY_REQUEST_BYTES)) break;
    status = program(descriptor, block, blocks, frame) as number;
  }
  return status;
}

/**
 * The first status that is not "done" ends the launch, and so does what `whenSlow` throws, which is called when the launch
 * has waited for a while.
 */
export function runBlocks(
  program: WasmFunction,
  launch: Launch,
  memory: CopyMemory,
  relax: Relax,
  whenSlow?: () => void,
): number {
  const { blocks, doorbell, frames, frameBytes } = launch;
  const { i32 } = memory;
  let blocked: number[] | undefined;
  for (let block = 0; block < blocks; block++) {
    // A frame that begins with 0 starts its block from the beginning.
    if (frames !== 0) i32[(frames + block * frameBytes) >>> 2] = 0;
    const status = runBlock(program, launch, memory, block);
    if (status === LAUNCH_STATUS.blocked) (blocked ??= []).push(block);
    else if (status !== LAUNCH_STATUS.done) return status >>> 0;
  }
  // A block polls but briefly before it lets the next one go on, so there are several passes in what is one wait.
  let pass = 1;
  for (let round = 0; blocked !== undefined && blocked.length > 0; ) {
    if (pass === 0) {
      if (round === SLOW_ROUND && whenSlow !== undefined) whenSlow();
      if (relax(round, doorbell) !== 0) return LAUNCH_STATUS.aborted;
      round++;
    }
    pass = (pass + 1) % BLOCK_PASSES;
    const before = blocked.length;
    const still: number[] = [];
    for (const block of blocked) {
      const status = runBlock(program, launch, memory, block);
      if (status === LAUNCH_STATUS.blocked) still.push(block);
      else if (status !== LAUNCH_STATUS.done) return status >>> 0;
    }
    blocked = still;
    // A block has ended: others may be about to, so wait as at the beginning.
    if (still.length < before) round = 0;
  }
  return LAUNCH_STATUS.done;
}
