/**
 * Where a decided call runs, as the planner placed it: what reports need of it.
 */

export interface PlacedPart {
  /** Channels of this kind. */
  readonly channels: number;
  /** Bytes of the message that each moves. */
  readonly bytes: number;
  /** Bytes that move at a time. */
  readonly chunkBytes: number;
}

export interface PlacedCall {
  readonly firstChannel: number;
  readonly lastChannel: number;
  /** Threads of a block, one block per channel. */
  readonly threads: number;
  /** In order of the channels. One part of all bytes if the channels share them (CollNet). */
  readonly parts: readonly PlacedPart[];
  /** All channels work on the whole message together. */
  readonly shared: boolean;
}

/** Channels in use. */
export const channelCount = ({ firstChannel, lastChannel }: PlacedCall): number =>
  lastChannel - firstChannel + 1;
