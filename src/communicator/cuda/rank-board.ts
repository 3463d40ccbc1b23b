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
 *       sends     the latest messages to each rank, and `receives` from it (message-boards.ts)
 * ```
 *
 * The rank's GPU reaches the board too. It takes whole pages of every system.
 */
import { CallEntry } from '../../collectives/control-block.js';
import { MAX_GPU_BLOCKS, MAX_GPU_RANKS } from '../../collectives/gpu/area.js';
import { type HostDevice, WASM_PAGE } from '../../device/host/host-device.js';
import { array, struct } from '../../kernel/layout.js';

/**
 * Operations of a rank that others can look up, a power of two. Ranks put operations on their GPUs ahead of others: one
 * that is more than this ahead is not compared.
 */
export const BOARD_CALLS = 2048;

/** Messages of a pair and direction that others can look up, a power of two. */
export const KEPT_MESSAGES = 16;

/** A message of a pair of ranks, as one of them sees it. */
export const MessageEntry = struct('MessageEntry', {
  /** Counts the messages of the pair and direction, from 1; written last. */
  number: 'u32',
  bytes: 'u64',
});

/** Messages of a pair and direction, as one of the two ranks sees them. */
export const MessageLog = struct('MessageLog', {
  /** Messages that the rank has put on its GPU; graphs of other libraries make that unknown. */
  begun: 'u32',
  uncounted: 'u32',
  entries: array('u8', KEPT_MESSAGES * MessageEntry.size),
});

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
    sends: array('u8', MAX_GPU_RANKS * MessageLog.size),
    receives: array('u8', MAX_GPU_RANKS * MessageLog.size),
  },
  256,
);

/** Bytes of a board's memory. */
export const BOARD_BYTES = Math.ceil(RankBoard.size / WASM_PAGE) * WASM_PAGE;

/** Memory of the host for a board, all zeros; its address in the heap. Throws `systemError` where there is none. */
export function allocateBoard(host: HostDevice): number {
  return host.allocate(BOARD_BYTES, WASM_PAGE);
}
