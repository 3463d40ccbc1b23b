/**
 * The memory through which the ranks of a communicator meet on one host: one control block per rank, in the
 * rank's own shared segment, at an address that every peer knows.
 *
 * ```
 *    0  doorbell    sleepers, rings, abort word, armed: what a long wait sleeps on
 *   64  epoch       number of the last round of this rank (private to it)
 *   68  ring calls  ring operations that this rank has begun (read only to find out who is missing)
 *  128  done        epoch of the last round whose reads this rank has finished (flag, read by all)
 *  192  fault       what a program found wrong (private)
 *  256  pools       where this rank's connection pools are, by algorithm (written once, read by all)
 *  512  meetings    the latest operations in which ranks meet, by number (written by the rank, see CallEntry)
 * 1536  connected   the latest operations over connections
 * 2560  milestones  hashes of all operations up to some numbers (written by the rank, see Milestone)
 * 2688  bank 0      post of even rounds: header, then pointers or up to EAGER_BYTES of data
 *  ...  bank 1      post of odd rounds
 * ```
 *
 * A *round* is one meeting of all ranks. Every rank writes its post into the bank of the round's parity and
 * publishes it by storing the round's epoch with release order; every rank waits for the posts of all. So a
 * rank can be at most one round ahead of any other, and two banks suffice: overwriting a bank in round e + 2
 * needs all posts of round e + 1, which a rank writes only when it has finished reading round e.
 *
 * The post's header carries a signature (operation, type, operator, root) and the count, so that ranks that
 * disagree find out at once instead of computing nonsense.
 */

import { ELEMENT_TYPES, type ElementType, REDUCE_OPS, type ReduceOp } from '../kernel/element-types.js';
import { array, struct } from '../kernel/layout.js';

/** Most data that travels inside the post itself, bytes. Two banks stay within a quarter of a 128 KB L2. */
export const EAGER_BYTES = 16384;

/** Most ranks of one host that meet directly; programs unroll over them. */
export const MAX_DIRECT_RANKS = 64;

/** Algorithms with connections of their own, times protocols. */
export const MAX_POOLS = 64;

/**
 * Operations of a rank that its neighbours can look up: more than a rank can be ahead of another one (by the slots of its
 * messages), and those that are compared together (communicator/call-board.ts). A power of two.
 */
export const CALL_ENTRIES = 64;

/** One operation of a rank, for ranks that call something else to find out. */
export const CallEntry = struct('CallEntry', {
  /** Counts all operations of the rank, from 1; written last. */
  number: 'u32',
  signature: 'u32',
  count: 'u64',
});

/** Milestones that are kept: one every so many operations, for ranks that are ahead of others by many of them. */
export const MILESTONES = { kept: 8, every: 16 } as const;

/** What a rank has called up to an operation that only sends messages: ranks that call the same have equal hashes. */
export const Milestone = struct('Milestone', {
  /** Number of the operation; written last. */
  number: 'u32',
  hash: 'u32',
});

/** Header and, for rounds that pass pointers, the pointers. Data of eager rounds starts at `POST_DATA`. */
export const Post = struct(
  'Post',
  {
    epoch: 'u32',
    signature: 'u32',
    /** Elements, as the API counts them. */
    count: 'u64',
    /** Offsets in the rank's segment, so that each peer can add where it mapped that segment. */
    send: 'u64',
    recv: 'u64',
    /** Bytes from one rank's block to the next within the buffers. */
    sendStride: 'u64',
    recvStride: 'u64',
    /** 1 when the rank moves its data through staging pieces. */
    staged: 'u32',
  },
  64,
);

/** Offset of eager data in a post: right behind the header, in the same cache line. */
export const POST_DATA = 16;

/** A multiple of 128: processors fetch cache lines in aligned pairs, so header and first data come together. */
const BANK_BYTES = Post.fields.send.offset + EAGER_BYTES + 112;

export const ControlBlock = struct(
  'ControlBlock',
  {
    sleepers: 'u32',
    rings: 'u32',
    abort: 'u32',
    armed: 'u32',
    gap0: array('u8', 48),
    epoch: 'u32',
    /** Ring operations that this rank has begun: who lags behind did not come. Read by peers after a time-out. */
    ringCalls: 'u32',
    gap1: array('u8', 56),
    done: 'u32',
    gap2: array('u8', 60),
    /** Rank whose post disagreed with ours. */
    faultRank: 'u32',
    gap3: array('u8', 60),
    /** Offset of a pool in the rank's segment, with a POOL_STATE in the low bits; 0 until it is there. */
    pools: array('u32', MAX_POOLS),
    meetings: array('u8', CALL_ENTRIES * CallEntry.size),
    connected: array('u8', CALL_ENTRIES * CallEntry.size),
    milestones: array('u8', MILESTONES.kept * Milestone.size),
    gap4: array('u8', 128 - MILESTONES.kept * Milestone.size),
    bank0: array('u8', BANK_BYTES),
    bank1: array('u8', BANK_BYTES),
  },
  64,
);

export const BANK_STRIDE = ControlBlock.fields.bank1.offset - ControlBlock.fields.bank0.offset;

/** Where each rank's control block and segment are in this rank's address space; itself included. */
export const PeerTable = struct('PeerTable', {
  control: array('ptr', MAX_DIRECT_RANKS),
  segment: array('ptr', MAX_DIRECT_RANKS),
});

/** The collectives of this library, with the numbers used in signatures. */
export const COLLECTIVES = {
  barrier: 0,
  broadcast: 1,
  reduce: 2,
  allGather: 3,
  reduceScatter: 4,
  allReduce: 5,
  allToAll: 6,
} as const;

export type Collective = keyof typeof COLLECTIVES;

/** Numbers of everything that all ranks call alike, those included that are made of messages. */
const CALLS = { ...COLLECTIVES, gather: 7, scatter: 8 } as const;

/** What must be equal on all ranks besides the count: 4 bits operation, 4 type, 4 operator, 20 root. */
export function signatureOf(
  collective: keyof typeof CALLS,
  type: ElementType,
  op: ReduceOp | undefined,
  root: number,
): number {
  const operator = op === undefined ? 15 : REDUCE_OPS[op];
  return (
    (CALLS[collective] | (ELEMENT_TYPES[type].code << 4) | (operator << 8) | ((root & 0xfffff) << 12)) >>> 0
  );
}

/** The inverse of `signatureOf`, for messages. */
export function describeSignature(signature: number): {
  collective: string;
  type: string;
  op: string | undefined;
  root: number;
} {
  const nameOf = (table: Readonly<Record<string, number>>, value: number) =>
    Object.keys(table).find((name) => table[name] === value) ?? `unknown(${value})`;
  const types = Object.fromEntries(Object.entries(ELEMENT_TYPES).map(([name, info]) => [name, info.code]));
  const op = (signature >>> 8) & 15;
  return {
    collective: nameOf(CALLS, signature & 15),
    type: nameOf(types, (signature >>> 4) & 15),
    op: op === 15 ? undefined : nameOf(REDUCE_OPS, op),
    root: signature >>> 12,
  };
}
