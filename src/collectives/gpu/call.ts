/** Calls of collectives on GPUs, and the shapes in which they can run. */

import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '../../kernel/element-types.js';
import { COLLECTIVES, type Collective } from '../control-block.js';
import type { Addressing } from './names.js';

/** Collectives that GPUs have programs for; `count` is per rank where the buffers hold a block per rank. */
export type GpuCollective = Collective | 'gather' | 'scatter';

export const GPU_COLLECTIVES: readonly GpuCollective[] = [
  ...(Object.keys(COLLECTIVES) as Collective[]),
  'gather',
  'scatter',
];

/** Orders in which rings go through all ranks, for the channels in turn. */
export type RankOrders = readonly (readonly number[])[];

/** What does not change from call to call; equal on all ranks. */
export interface GpuTeam {
  readonly ranks: number;
  /** Of the GPU that has the fewest. */
  readonly multiprocessors: number;
  /** Ranks that share one GPU, at most. */
  readonly ranksPerDevice: number;
  readonly addressing: Addressing;
  /**
   * Stores of 128 bytes by a warp arrive whole at every rank, so that LL128 may be used: all GPUs are joined by NVLink,
   * or the ranks share one, and areas lie in their memory.
   */
  readonly wholeLines: boolean;
  /** Where not all GPUs are joined alike; trees are chains along them then. Absent: rings go in the order of the ranks. */
  readonly orders?: RankOrders;
}

/** What all ranks must call alike. */
export interface GpuCall {
  readonly collective: GpuCollective;
  readonly type: ElementType;
  readonly op?: ReduceOp;
  readonly count: number;
}

/**
 * Who moves what is not combined from several ranks' data, and data that go to or come from one rank: the source writes
 * (push), the target reads (pull), or all ranks take a part of it (split: broadcast and reduce only).
 */
export type Copies = 'push' | 'pull' | 'split';

/** A way to run a collective: its program and how large the launch is. */
export type GpuShape =
  | {
      readonly program: 'LL';
      readonly blocks: number;
      readonly threads: number;
      /** Lines of a thread, where all data go in one round; absent: as many rounds and lines as it takes. */
      readonly lines?: number;
    }
  | {
      /** In one round, with a chunk for each warp. */
      readonly program: 'LL128';
      readonly blocks: number;
      /** Whole warps. */
      readonly threads: number;
    }
  | {
      /** Reductions of floats in one round. */
      readonly program: 'Lamport';
      readonly blocks: number;
      readonly threads: number;
      /** Packets of a thread. */
      readonly packets: number;
    }
  | {
      /** All-reduce of two ranks only. */
      readonly program: 'Exchange';
      readonly blocks: number;
      /** Whole warps. */
      readonly threads: number;
      /** Warps that push, and as many that combine. */
      readonly pairs: number;
      /** Packets of a thread in a unit. */
      readonly unroll: number;
    }
  | {
      readonly program: 'Direct';
      readonly blocks: number;
      readonly threads: number;
      /** Packets of each source that a thread has under way. */
      readonly unroll: number;
      /** Blocks that a multiprocessor must hold at a time. */
      readonly residency: number;
      readonly copies: Copies;
    };

export function callBytes({ type, count }: Pick<GpuCall, 'type' | 'count'>): number {
  return count * ELEMENT_TYPES[type].size;
}
