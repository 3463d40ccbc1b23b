/**
 * The area of a rank: the piece of its device memory through which the ranks of a team of GPUs meet.
 *
 * Every rank has one, zeroed once when it is made and mapped by all ranks of the team. All of them have the same
 * layout, which depends on the number of ranks alone. Programs count their rounds in it, per block, so that nothing of
 * a launch changes from call to call and a recorded graph can be replayed. Blocks are independent of each other:
 * block b of a rank meets block b of the others only, and calls may have different numbers of blocks.
 *
 * ```
 * states   [block]                  BlockState: how many rounds this block has done (private to the rank)
 * cells    [block][peer]            Cell: what `peer` tells block `block` of direct programs
 * tokens   [block][bank][peer]      LL line: "I have begun the round", from ranks that send no data in it
 * lines    [block][bank][peer]      LL lines with the data of `peer`
 * lines128 [block][bank][peer]      LL128 lines with the data of `peer`
 * lamport  [block][bank][peer]      packets of `peer` (lamport-lines.ts), all zeros between calls
 * pairs    [channel][peer]          Pair: state and inbox of messages (send and receive) from `peer`
 * pushes   [block][warp][peer]      PushState: how far pushes between warps of two ranks are
 * exchanges [block][pair]            ExchangeState: how far the peer is in an exchange
 * first    [block][meeting][pair]   units that the peer pushes ahead of the meeting
 * stage                             copies of buffers that peers cannot reach, shared out by each launch
 * connectors                        of rings, trees and PAT, where they are asked for (connectors.ts)
 * ```
 *
 * Where a rank keeps something for each of the others (lines), these are numbered by their distance: the next rank is 0.
 * Sizes: two ranks need less than 27 MB each without connectors.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { array, struct } from '../../kernel/layout.js';
import { CHUNK128_BYTES } from '../warp-chunk.js';
import { type ConnectorLayout, type ConnectorSizes, connectorLayout } from './connectors.js';

/** Most ranks of a team: direct programs unroll over them. */
export const MAX_GPU_RANKS = 32;

/** Most blocks of a launch: two on each multiprocessor of the largest GPUs. */
export const MAX_GPU_BLOCKS = 320;

/** Most blocks of a launch of an LL program. */
export const LL_BLOCKS = 128;

/** Bytes of an LL line, and of the data in it. */
export const LINE_BYTES = 16;
export const LINE_DATA = 8;

/** Channels of a pair of ranks: blocks that move one message together. */
export const PAIR_CHANNELS = 64;

/** How large the parts of an area are. */
export interface AreaSizes {
  readonly blocks: number;
  readonly llBlocks: number;
  /** LL lines of one block and bank, bytes, shared by the ranks, if they are not too many. More data goes in several rounds. */
  readonly llBankBytes: number;
  /** LL128 lines of one block and bank, bytes, shared by the ranks. */
  readonly ll128BankBytes: number;
  /** Lamport lines of one block and bank, bytes, shared by the ranks. */
  readonly lamportBankBytes: number;
  readonly pairChannels: number;
  /** LL lines of one bank of a pair's channel, bytes. */
  readonly pairBankBytes: number;
  /** LL128 lines of one bank of a pair's channel, bytes, a multiple of those of a chunk. */
  readonly pairBank128Bytes: number;
  /** First units of an exchange of a block, for two meetings. */
  readonly firstBytes: number;
  /** The stage, for sending and receiving together. */
  readonly stageBytes: number;
  /** Absent: none. */
  readonly connectors?: ConnectorSizes;
}

/** The sizes on GPUs; tests make do with less. */
export const GPU_AREA: AreaSizes = {
  blocks: MAX_GPU_BLOCKS,
  llBlocks: LL_BLOCKS,
  llBankBytes: 8 * 1024,
  ll128BankBytes: 24 * 1024,
  lamportBankBytes: 16 * 1024,
  pairChannels: PAIR_CHANNELS,
  pairBankBytes: 8 * 1024,
  pairBank128Bytes: 16 * 1024,
  firstBytes: 16 * 1024,
  stageBytes: 8 * 1024 * 1024,
};

/** LL lines of a rank in a bank: at least one of each thread of a warp, if a bank holds as many. */
const LEAST_SLOT_BYTES = 32 * LINE_BYTES;

/** Words of different blocks and peers do not share a line of the second-level cache. */
const CACHE_LINE = 128;

/** Most pairs of warps of a block in an exchange: their words are one packet. */
export const EXCHANGE_PAIRS = 4;

/** What a block remembers from launch to launch. */
export const BlockState = struct(
  'BlockState',
  {
    /** Number of the last LL round; the first is 1. */
    round: 'u32',
    /** Number of the last meeting of direct programs. */
    meeting: 'u32',
    gap: array('u8', 8),
    /** Units that the pairs of warps of an exchange have pushed. */
    pushed: array('u32', EXCHANGE_PAIRS),
  },
  CACHE_LINE,
);

/** Most warps of a block that pushes. */
export const PUSH_WARPS = 32;

/** What a warp remembers of its pushes to and from a peer. */
export const PushState = struct(
  'PushState',
  {
    /** Number of the last step whose data the peer has written; written by the peer. */
    arrived: 'u32',
    /** Number of the last step of this rank. */
    done: 'u32',
  },
  32,
);

/** What the peer tells a pair of warps of an exchange. */
export const ExchangeState = struct(
  'ExchangeState',
  {
    /** Units that it has pushed. */
    arrived: 'u32',
  },
  32,
);

/** What a peer tells a block of direct programs. */
export const Cell = struct(
  'Cell',
  {
    /** LL lines with the names of its send and receive buffers (names.ts). */
    send: 'packet',
    recv: 'packet',
    /** Number of the last meeting whose accesses the peer has finished. */
    done: 'u32',
  },
  64,
);

/** State of messages between two ranks on one channel, in the area of one of the two; its inboxes follow: two banks for each protocol. */
export const Pair = struct(
  'Pair',
  {
    /** Rounds this rank has sent to the peer. */
    sent: 'u32',
    gap0: array('u8', 28),
    /** Rounds this rank has received from the peer. */
    received: 'u32',
    gap1: array('u8', 28),
    /** Number of the last round that the peer has received from this rank; written by the peer. */
    credit: 'u32',
    gap2: array('u8', 12),
    /** LL line with the name of the peer's receive buffer, for the round in its flags; written by the peer. */
    target: 'packet',
    /** Number of the last round whose data the peer has written into this rank's buffer. */
    done: 'u32',
  },
  CACHE_LINE,
);

/** Offsets in bytes from the beginning of an area. */
export interface AreaLayout {
  readonly ranks: number;
  readonly sizes: AreaSizes;
  readonly states: number;
  readonly cells: number;
  readonly tokens: number;
  readonly lines: number;
  /** LL lines of one rank in a bank, bytes. */
  readonly slotBytes: number;
  readonly lines128: number;
  /** LL128 lines of one rank in a bank, bytes: whole chunks. */
  readonly slot128Bytes: number;
  readonly lamport: number;
  /** Lamport lines of one rank in a bank, bytes. */
  readonly slotLamportBytes: number;
  readonly pairs: number;
  /** From the pair of one peer to the next. */
  readonly pairStride: number;
  readonly pushes: number;
  readonly exchanges: number;
  readonly first: number;
  readonly stage: number;
  readonly connectors: ConnectorLayout;
  /** Size of the whole area. */
  readonly bytes: number;
}

/** The layout of the areas of a team. Throws `invalidArgument` for a number of ranks that programs cannot have. */
export function areaLayout(ranks: number, sizes: AreaSizes = GPU_AREA): AreaLayout {
  if (!Number.isInteger(ranks) || ranks < 1 || ranks > MAX_GPU_RANKS) {
    throw new TuttiError(
      'invalidArgument',
      `a team of ${ranks} GPU ranks; direct programs meet 1 to ${MAX_GPU_RANKS} of them`,
    );
  }
  const round = (bytes: number, unit: number) => Math.ceil(bytes / unit) * unit;
  const peers = Math.max(1, ranks - 1);
  const whole = (bytes: number) => Math.floor(bytes / CACHE_LINE) * CACHE_LINE;
  const slotBytes = Math.max(
    whole(sizes.llBankBytes / peers),
    whole(Math.min(sizes.llBankBytes, LEAST_SLOT_BYTES)),
  );
  const slot128Bytes = Math.floor(sizes.ll128BankBytes / peers / CHUNK128_BYTES) * CHUNK128_BYTES;
  const slotLamportBytes = whole(sizes.lamportBankBytes / peers);
  if (slotBytes === 0)
    throw new TuttiError('internalError', `LL banks of ${sizes.llBankBytes} bytes are too small`);
  const pairStride = Pair.size + 2 * (sizes.pairBankBytes + sizes.pairBank128Bytes);
  const states = 0;
  const cells = states + sizes.blocks * BlockState.size;
  const tokens = cells + round(sizes.blocks * ranks * Cell.size, CACHE_LINE);
  const lines = tokens + round(sizes.llBlocks * 2 * ranks * LINE_BYTES, CACHE_LINE);
  const lines128 = lines + sizes.llBlocks * 2 * peers * slotBytes;
  const lamport = lines128 + sizes.llBlocks * 2 * peers * slot128Bytes;
  const pairs = lamport + sizes.llBlocks * 2 * peers * slotLamportBytes;
  const pushes = round(pairs + sizes.pairChannels * peers * pairStride, CACHE_LINE);
  const exchanges = round(pushes + sizes.blocks * PUSH_WARPS * peers * PushState.size, CACHE_LINE);
  const first = round(exchanges + sizes.llBlocks * EXCHANGE_PAIRS * ExchangeState.size, CACHE_LINE);
  const stage = first + (ranks === 2 ? sizes.llBlocks * sizes.firstBytes : 0);
  const connectors = connectorLayout(ranks, sizes.connectors, round(stage + sizes.stageBytes, CACHE_LINE));
  const bytes = connectors.end;
  return {
    ranks,
    sizes,
    states,
    cells,
    tokens,
    lines,
    slotBytes,
    lines128,
    slot128Bytes,
    lamport,
    slotLamportBytes,
    pairs,
    pairStride,
    pushes,
    exchanges,
    first,
    stage,
    connectors,
    bytes,
  };
}
