/**
 * Work descriptors of programs for GPUs. They travel by value, as the first parameter of a launch (see `descriptorBytes`
 * of the ptx target), so that nothing has to be written to device memory before a launch, a recorded graph keeps its
 * own copy, and a kernel finds its fields without a way to memory.
 */

import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '../../kernel/element-types.js';
import { array, struct } from '../../kernel/layout.js';
import { averageArgument, encode } from '../../kernel/numeric.js';
import { argumentRule } from '../arithmetic.js';
import { byRanks } from './by-ranks.js';

/** Descriptor of a collective of `ranks` ranks. */
export type GpuWork = ReturnType<typeof makeWork>;

function makeWork(ranks: number) {
  return struct('GpuWork', {
    send: 'ptr',
    recv: 'ptr',
    /** Names of the two for the peers (names.ts). */
    sendName: 'u64',
    recvName: 'u64',
    /** Bytes: of a rank's block for all-gather, reduce-scatter, all-to-all, gather and scatter; of all data otherwise. */
    bytes: 'u64',
    /** Bytes from one rank's block to the next in buffers that hold a block per rank. */
    sendStride: 'u64',
    recvStride: 'u64',
    /** Bytes that a block moves: equal on all ranks; see GpuLaunch. */
    share: 'u64',
    /** Scalar of an average, see ArgumentRule. */
    argument: 'u64',
    /** Table of mapped allocations (names.ts); 0 where names are plain. */
    maps: 'ptr',
    self: 'u32',
    root: 'u32',
    /** The areas of all ranks as this rank addresses them: its own, the next rank's, and so on around. */
    areas: array('ptr', ranks),
  });
}

/** The descriptor of a collective of so many ranks. */
export const gpuWork: (ranks: number) => GpuWork = byRanks(makeWork);

/** Messages and groups of messages that one launch of sends and receives takes at most. */
export const MAX_MESSAGES = 64;
export const MAX_MESSAGE_GROUPS = 64;

/** Descriptor of a batch of messages: groups of those with one peer in one direction, each with blocks of its own. */
export type MessageWork = ReturnType<typeof makeMessageWork>;

function makeMessageWork(ranks: number) {
  return struct('MessageWork', {
    maps: 'ptr',
    self: 'u32',
    gap: 'u32',
    /** As in GpuWork. */
    areas: array('ptr', ranks),
    /** Messages in the order of their groups: where the data are or go to; bytes of a channel, and of all. */
    address: array('u64', MAX_MESSAGES),
    /** Name of a receive buffer; of a message to itself, the address where it goes. */
    name: array('u64', MAX_MESSAGES),
    share: array('u64', MAX_MESSAGES),
    bytes: array('u64', MAX_MESSAGES),
    channels: array('u32', MAX_MESSAGES),
    /** By group: peer x 2 + (1 where it receives), first block, first message. The entry behind the last is the end. */
    who: array('u32', MAX_MESSAGE_GROUPS),
    firstBlock: array('u32', MAX_MESSAGE_GROUPS + 1),
    firstMessage: array('u32', MAX_MESSAGE_GROUPS + 1),
  });
}

export const messageWork: (ranks: number) => MessageWork = byRanks(makeMessageWork);

/** Bits of the scalar that an operator needs where all contributions meet; 0 for operators without one. */
export function directArgument(type: ElementType, op: ReduceOp, ranks: number): bigint {
  switch (argumentRule({ type, op }, 'direct')) {
    case 'none':
      return 0n;
    case 'divisor':
      return BigInt(ranks);
    case 'scaleFloat32':
      return encode('float32', Math.fround(1 / ranks));
    default:
      return averageArgument(type, ranks);
  }
}

/** What one rank alone knows of a call. Addresses are device addresses. */
export interface GpuArguments {
  readonly self: number;
  readonly root?: number;
  readonly type: ElementType;
  readonly op?: ReduceOp;
  /** Elements as the API counts them (per rank for all-gather, reduce-scatter, all-to-all, gather, scatter). */
  readonly count: number;
  readonly send: number | bigint;
  readonly recv: number | bigint;
  /**
   * Names of the buffers for the peers (names.ts): the addresses where they are plain, `STAGED` where peers cannot reach
   * them, 0 where this rank has none (a receive buffer of a rank that is not the root, say).
   */
  readonly sendName: number | bigint;
  readonly recvName: number | bigint;
  readonly maps?: number | bigint;
  /** The areas of all ranks as this rank addresses them, by rank. */
  readonly areas: readonly (number | bigint)[];
}

/** Writes the descriptor of a collective at `base` bytes into a view; `share` is that of its launch. */
export function writeGpuWork(view: DataView, base: number, share: number, args: GpuArguments): void {
  const bytes = args.count * ELEMENT_TYPES[args.type].size;
  const at = gpuWork(args.areas.length).at(view, base);
  at.set('send', args.send).set('recv', args.recv);
  at.set('sendName', args.sendName).set('recvName', args.recvName);
  at.set('bytes', bytes).set('sendStride', bytes).set('recvStride', bytes);
  at.set('share', share);
  at.set('argument', args.op === undefined ? 0 : directArgument(args.type, args.op, args.areas.length));
  at.set('maps', args.maps ?? 0);
  at.set('self', args.self).set('root', args.root ?? 0);
  const ranks = args.areas.length;
  args.areas.forEach((area, rank) => {
    at.set('areas', area, (rank - args.self + ranks) % ranks);
  });
}
