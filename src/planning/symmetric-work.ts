/**
 * How the tasks of one symmetric launch share its blocks: in cells of a kilobyte, one task after the other, each block
 * as many cells as the next.
 *
 * A block reads from its channel up to which task it works and where in that task it ends, as a fraction of 2^16; a
 * task knows where it starts and over how many channels it goes. (NCCL 2.30.7, symmetric_sched.cc.)
 */
import { SYMMETRIC_CELL } from '../tuning/symmetric/choose.js';

/** A channel that no task starts on. */
export const NO_CHANNEL = 0xffff;

const WHOLE = 0x10000;

export interface SymmetricWork {
  /** Elements. */
  readonly count: number;
  /** NO_CHANNEL for a task that lies on a channel that others fill too and has no channel of its own. */
  readonly startChannel: number;
  readonly channels: number;
}

export interface SymmetricChannel {
  /** Highest index of the works that the channel takes part in. */
  readonly lastWork: number;
  /** Part of that work, in 2^-16, up to which the channel goes, less one. */
  readonly endFraction: number;
}

export interface SymmetricDistribution {
  readonly works: readonly SymmetricWork[];
  /** The channels in use, from 0 on. */
  readonly channels: readonly SymmetricChannel[];
}

/**
 * Distributes tasks over at most `blocks` channels.
 *
 * @param counts elements of each task, above 0
 */
export function distributeSymmetric(
  counts: readonly number[],
  elementBytes: number,
  blocks: number,
): SymmetricDistribution {
  const cell = Math.floor(SYMMETRIC_CELL / elementBytes);
  const cellsOf = (count: number) => Math.ceil(count / cell);
  const total = counts.reduce((sum, count) => sum + cellsOf(count) * cell, 0);
  const perChannel = cellsOf(Math.ceil(total / blocks));
  const channels: { lastWork: number; endFraction: number }[] = [];
  let channel = 0;
  let remaining = perChannel;
  const works = counts.map((count, index): SymmetricWork => {
    const all = cellsOf(count);
    let startChannel = NO_CHANNEL;
    let own = 0;
    for (let left = all; ; ) {
      const isEmpty = channels[channel] === undefined;
      channels[channel] ??= { lastWork: index, endFraction: WHOLE - 1 };
      const state = channels[channel]!;
      state.lastWork = index;
      if (isEmpty) {
        if (own === 0) {
          startChannel = channel;
          own = 1;
        } else if (left > remaining || remaining - left <= 1 || index === counts.length - 1) own += 1;
      } else if (all <= remaining) {
        startChannel = channel;
        own = 1;
      }
      if (left <= remaining) {
        state.endFraction = WHOLE - 1;
        remaining -= left;
        break;
      }
      left -= remaining;
      state.endFraction = Math.ceil((WHOLE * (all - left)) / all) - 1;
      channel += 1;
      remaining = perChannel;
    }
    if (remaining === 0) {
      channel += 1;
      remaining = perChannel;
    }
    return { count, startChannel, channels: own };
  });
  return { works, channels };
}
