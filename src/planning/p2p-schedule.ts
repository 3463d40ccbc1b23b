/**
 * In which order a rank sends to and receives from all others, and on which channels.
 *
 * All ranks follow the same formula, so in a round where one sends to another, that one receives from it. Ranks of a
 * node form groups; rounds first go through a group, then on to groups at triangular distances, which meet every
 * group once and spread the traffic of neighbours in time. (NCCL 2.30.7, init.cc and enqueue.cc.)
 */
import type { PlannedProtocol } from './nccl-task.js';

/** One round of a rank. Round 0 is the rank itself. */
export interface P2pRound {
  readonly sendPeer: number;
  readonly recvPeer: number;
}

export interface P2pSchedule {
  readonly groupSize: number;
  readonly rounds: readonly P2pRound[];
}

/** Default of NCCL_P2P_SCHEDULE_GROUP_SIZE. */
export const SCHEDULE_GROUP_SIZE = 8;

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));

const nextPowerOfTwo = (value: number): number => 2 ** Math.ceil(Math.log2(Math.max(1, value)));

/**
 * The schedule of one rank.
 *
 * @param nodes ranks of each node, ascending, by node number
 * @param groupLimit NCCL_P2P_SCHEDULE_GROUP_SIZE
 */
export function p2pSchedule(
  rank: number,
  nodes: readonly (readonly number[])[],
  groupLimit = SCHEDULE_GROUP_SIZE,
): P2pSchedule {
  let groupSize = nodes.length > 1 ? groupLimit : Math.max(...nodes.map((ranks) => ranks.length));
  for (const { length } of nodes) {
    if (length % groupSize !== 0 || length < groupSize) groupSize = gcd(groupSize, length);
  }
  const groups: (readonly number[])[] = [];
  for (const ranks of nodes) {
    for (let start = 0; start < ranks.length; start += groupSize) {
      groups.push(ranks.slice(start, start + groupSize));
    }
  }
  const own = groups.findIndex((members) => members.includes(rank));
  const local = groups[own]!.indexOf(rank);
  const count = groups.length;
  const size = nextPowerOfTwo(count);
  const rounds: P2pRound[] = [];
  let delta = 0;
  for (let i = 0; i < size; ) {
    if (delta < count) {
      const sendGroup = groups[(own + delta) % count]!;
      const recvGroup = groups[(own - delta + count) % count]!;
      for (let d = 0; d < groupSize; d++) {
        rounds.push({
          sendPeer: sendGroup[(local + d) % groupSize]!,
          recvPeer: recvGroup[(local - d + groupSize) % groupSize]!,
        });
      }
    }
    i += 1;
    delta = (delta + i) % size;
  }
  return { groupSize, rounds };
}

/** First channel of a round, of `channels` (a power of two); part p uses the p-th after it, around. */
export function p2pBaseChannel(
  round: number,
  channels: number,
  { groupSize }: { readonly groupSize: number },
  nNodes: number,
): number {
  let at = round;
  if (nNodes > 1) {
    at =
      Math.floor(round / groupSize) * Math.ceil(groupSize / ROUNDS_PER_BASE) +
      Math.floor((round % groupSize) / ROUNDS_PER_BASE);
  }
  let base = 0;
  for (let bit = 1; bit < channels; bit *= 2) {
    base = base * 2 + (at & 1);
    at >>= 1;
  }
  return base;
}

/** Rounds of a group that share their channels: the works of one batch. */
const ROUNDS_PER_BASE = 8;

/** What the cut of a message needs of the communicator. */
export interface P2pLimits {
  readonly nNodes: number;
  readonly nRanks: number;
  /** Channels of send and receive, a power of two. */
  readonly channels: number;
  readonly channelsPerPeer: number;
  /** Bytes that one step moves (`P2P Chunksize`). */
  readonly stepBytes: number;
  /** Bytes of a connection's LL buffer. */
  readonly llBufferBytes: number;
  /** NCCL_P2P_LL_THRESHOLD: bytes per channel up to which LL is used. */
  readonly llThreshold?: number;
  /** NCCL_CHUNK_SIZE: bytes; 0 for the machine's choice. */
  readonly chunkBytes?: number;
}

/** How a message is cut. */
export interface P2pCut {
  /** Channels; 0 if there is no message. */
  readonly channels: number;
  readonly protocol: PlannedProtocol;
  /** Bytes of buffer that one transfer uses, as the device decodes it. */
  readonly chunkBytes: number;
  /** Bytes of data in it. */
  readonly dataBytes: number;
  /** Bytes of each part but the last ones. */
  readonly partBytes: number;
}

/** Parts begin at multiples of a page. */
const PART_ALIGNMENT = 4096;

/** Default of NCCL_P2P_LL_THRESHOLD. */
const LL_THRESHOLD = 16384;

/** Channels that a message may use at first, before it is large. */
export function firstChannels({ channelsPerPeer, nRanks, channels }: P2pLimits): number {
  let count = channelsPerPeer;
  while (count * nRanks > channels && count > 1) count = Math.floor(count / 2);
  return count;
}

/**
 * Cuts a message over channels; the sender and the receiver come to the same answer.
 *
 * @param bytes of the message, undefined if there is none
 * @param network whether a connection to the peer goes over the network
 */
export function cutMessage(
  bytes: number | undefined,
  limits: P2pLimits,
  { self, network, ll }: { readonly self: boolean; readonly network: boolean; readonly ll: boolean },
): P2pCut {
  const { nNodes, stepBytes, channelsPerPeer } = limits;
  const max = channelsPerPeer;
  let channels = 0;
  if (bytes !== undefined) {
    channels = 1;
    if (bytes > 0) {
      const minPart = Math.floor(stepBytes / (nNodes > 1 ? 2 : 8));
      const maxPart = nNodes > 1 ? stepBytes : 32 * stepBytes;
      channels = Math.min(firstChannels(limits), Math.ceil(bytes / minPart));
      let part = Math.max(minPart, Math.ceil(bytes / channels));
      while (part > maxPart && channels <= Math.floor(max / 2)) {
        channels *= 2;
        part = Math.ceil(bytes / channels);
      }
    }
  }
  const size = bytes ?? 0;
  const small = size <= channels * (limits.llThreshold ?? LL_THRESHOLD);
  const protocol: PlannedProtocol = !self && ll && small ? 'LL' : 'Simple';
  const own = protocol === 'LL' ? Math.floor(limits.llBufferBytes / 8) : stepBytes;
  let chunk = own;
  if ((limits.chunkBytes ?? 0) !== 0) chunk = limits.chunkBytes!;
  else if (network) {
    if (protocol === 'Simple' && size < own) chunk = Math.floor(own / 4);
    else if (size < 8 * own) chunk = Math.floor(own / 2);
  }
  const data = decodeSize(encodeSize(protocol === 'LL' ? Math.floor(chunk / 2) : chunk));
  return {
    channels,
    protocol,
    chunkBytes: protocol === 'LL' ? data * 2 : data,
    dataBytes: data,
    partBytes: channels === 0 ? 0 : Math.ceil(Math.ceil(size / channels) / PART_ALIGNMENT) * PART_ALIGNMENT,
  };
}

/** First byte and end of a part of a message. */
export function partBounds(bytes: number, { partBytes }: P2pCut, part: number): [number, number] {
  return [Math.min(part * partBytes, bytes), Math.min((part + 1) * partBytes, bytes)];
}

/** A size in 8 bits: the four highest bits and their place; the rest is dropped. */
export function encodeSize(size: number): number {
  const high = Math.floor(Math.log2(Math.max(1, size)));
  if (high < 3) return size;
  return (high - 2) * 8 + (Math.floor(size / 2 ** (high - 3)) & 7);
}

/** The size that a code stands for: at most the one that was encoded. */
export function decodeSize(code: number): number {
  const exponent = Math.floor(code / 8);
  const mantissa = (code % 8) + (exponent === 0 ? 0 : 8);
  return mantissa * 2 ** Math.max(exponent - 1, 0);
}
