/**
 * A chunk of LL128 lines as the lanes of a warp see it: eight lines of 128 bytes, each with 120 bytes of data and a flag of
 * 8 bytes at its end, which arrive whole when eight lanes store them together.
 *
 * The data of a chunk are 60 packets; lane l has packet l, and packet 32 + l - l / 8 if it is not the last of its eight.
 * Those have half a packet in each of their lines beside the flag: the two halves of packet l. So loads and stores of user
 * data are whole packets next to each other. A lane's packets lie in two rows of lines, ROW_BYTES apart.
 * Source: NCCL 2.30, LL128 protocol.
 */

import type { KernelBuilder, Value } from '../kernel/builder.js';

/** Bytes of an LL128 line. */
export const LINE128_BYTES = 128;

/** Lines of a chunk, and bytes of data in one. */
const LINES = 8;
const LINE_DATA = 120;

export const CHUNK128_BYTES = LINES * LINE128_BYTES;
export const CHUNK128_DATA = LINES * LINE_DATA;

const PACKET = 16;

/** Lanes of a warp, and of a line; the last of these has the flag. */
export const WARP_LANES = 32;
const LANES = LINE128_BYTES / PACKET;

/** Bytes of lines that one store of a warp writes. */
export const ROW_BYTES = WARP_LANES * PACKET;

/** Bytes from the beginning of a chunk's lines to its two rows. */
export const ROWS = [0, ROW_BYTES] as const;

/** The two packets of a lane. */
export type LanePackets = readonly [Value<'packet'>, Value<'packet'>];

export class WarpChunk {
  readonly #k: KernelBuilder;
  /** This lane has the flag of its lines. */
  readonly hasFlag: Value<'pred'>;
  /**
   * Bytes in the chunk's data before the packets of this lane. Lanes with flags have one packet; for them the second is
   * the first once more, so that loads need no branch.
   */
  readonly data: readonly [Value<'u32'>, Value<'u32'>];
  /** Bytes in the chunk's data before the first line of this lane: the lane uses its lines if there are more. */
  readonly line: Value<'u32'>;
  /** Bytes in a row before this lane's part of its line, and before the flag of that. */
  readonly wire: Value<'u32'>;
  readonly flag: Value<'u32'>;

  constructor(k: KernelBuilder) {
    this.#k = k;
    const lane = k.threadIndex.and(WARP_LANES - 1);
    const firstLane = lane.and(WARP_LANES - LANES);
    this.hasFlag = lane.and(LANES - 1).eq(LANES - 1);
    const second = k.select(this.hasFlag, lane, lane.sub(lane.shr(3)).add(WARP_LANES));
    this.data = [lane.mul(PACKET), second.mul(PACKET)];
    this.line = firstLane.mul(PACKET);
    this.wire = lane.mul(PACKET);
    this.flag = firstLane.mul(PACKET).add(LINE128_BYTES - 8);
  }

  /** What this lane stores in the two rows. */
  pack([first, second]: LanePackets, flag: Value<'u64'>): LanePackets {
    const k = this.#k;
    const high = k.select(this.hasFlag, flag, first.half(1));
    const low = k.select(this.hasFlag, first.half(1), second.half(0));
    const last = k.select(this.hasFlag, flag, second.half(1));
    return [k.packet(first.half(0), high), k.packet(low, last)];
  }

  /** The data in what this lane has loaded from the two rows. */
  unpack([first, second]: LanePackets): LanePackets {
    const k = this.#k;
    const high = k.select(this.hasFlag, second.half(0), first.half(1));
    return [k.packet(first.half(0), high), second];
  }
}
