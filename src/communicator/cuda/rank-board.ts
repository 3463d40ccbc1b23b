/**
 * What ranks on GPUs show each other in memory of the host: a board each, which all processes of the team map.
 *
 * ```
 *    0  abort     the word that ends this rank's kernels; set by whoever learns of trouble, this rank or another
 *  256  statuses  what blocks of the rank's kernels leave
 * 1536  begun     operations that this rank has put on its GPU; who lags behind did not come
 * 1540  beat      changes while the rank's thread lives; pending: it has work on the GPU (both for the watchdog)
 * 1548  next      bytes to the next board of the process (board-list.ts), and which communicator and GPU this one is of
 * 1664  calls     the latest operations, by number, for others to compare (see CallEntry)
 *       turns     and in which turn they came among those of all communicators of the process
 * ```
 *
 * The rank's GPU reaches the board too. It takes whole pages of every system.
 */
import { CallEntry } from '../../collectives/control-block.js';
import { MAX_GPU_BLOCKS } from '../../collectives/gpu/area.js';
import { type HostDevice, WASM_PAGE } from '../../device/host/host-device.js';
import { array, struct } from '../../kernel/layout.js';

/**
 * Operations of a rank that others can look up, a power of two. Ranks put operations on their GPUs ahead of others: one
 * that is more than this ahead is not compared.
 */
export const BOARD_CALLS = 2048;

export const RankBoard = struct(
  'RankBoard',
  {
    abort: 'u32',
    gap0: array('u8', 252),
    statuses: array('u32', MAX_GPU_BLOCKS),
    begun: 'u32',
    beat: 'u32',
    pending: 'u32',
    next: 'i32',
    /** A number of the communicator that all its ranks know; 0 while the board is in no list. */
    team: 'u32',
    /** The communicator's number among those that the process has opened, from 1. */
    serial: 'u32',
    /** Number of the GPU in its process. */
    gpu: 'u32',
    gap1: array('u8', 100),
    calls: array('u8', BOARD_CALLS * CallEntry.size),
    turns: array('u32', BOARD_CALLS),
  },
  256,
);

/** Bytes of a board's memory. */
export const BOARD_BYTES = Math.ceil(RankBoard.size / WASM_PAGE) * WASM_PAGE;

/** Memory of the host for a board, all zeros; its address in the heap. Throws `systemError` where there is none. */
export function allocateBoard(host: HostDevice): number {
  return host.allocate(BOARD_BYTES, WASM_PAGE);
}
