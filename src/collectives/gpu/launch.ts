/**
 * What to launch for a collective on GPUs: the program, its blocks and threads.
 *
 * `gpuLaunch` is a function of what all ranks know alike, so that they agree on everything that matters to each other
 * without a word: program, blocks, and how data are cut. What is private to a rank (addresses, alignment, whether its
 * buffers can be reached) goes into the descriptor and is sorted out by the kernels themselves.
 *
 * All blocks of a launch wait for blocks of the other ranks, so that all of them must be able to run at the same time:
 * `blocks` never exceeds what the multiprocessors hold, shared by the ranks of one GPU.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '../../kernel/element-types.js';
import type { Program, Traits } from '../../kernel/ir.js';
import type { Struct } from '../../kernel/layout.js';
import type { Collective } from '../control-block.js';
import type { Addressing } from './names.js';
import { gpuWork } from './work.js';

/** Collectives that GPUs have programs for; `count` is per rank where the buffers hold a block per rank. */
export type GpuCollective = Collective | 'gather' | 'scatter';

/** What does not change from call to call; equal on all ranks. */
export interface GpuTeam {
  readonly ranks: number;
  /** Of the GPU that has the fewest. */
  readonly multiprocessors: number;
  /** Ranks that share one GPU, at most. */
  readonly ranksPerDevice: number;
  readonly addressing: Addressing;
}

/** What all ranks must call alike. */
export interface GpuCall {
  readonly collective: GpuCollective;
  readonly type: ElementType;
  readonly op?: ReduceOp;
  readonly count: number;
}

export type GpuProgramName = 'LL' | 'Direct';

/** A launch. Equal keys mean equal programs, to be compiled once. */
export interface GpuLaunch {
  readonly key: string;
  readonly program: GpuProgramName;
  readonly blocks: number;
  readonly threads: number;
  /** Blocks of `threads` threads that a multiprocessor must hold: `blocksPerMultiprocessor` of the ptx target. */
  readonly residency: number;
  /** Layout of the descriptor; its size is `descriptorBytes` of the ptx target. */
  readonly work: Struct;
  build(traits: Traits): Program;
}

/** Bytes that a rank contributes or receives per peer: what sizes are measured by. */
export function callBytes({ type, count }: GpuCall): number {
  return count * ELEMENT_TYPES[type].size;
}

/** Chooses what to launch. A call with a count of 0 moves nothing and needs no launch. */
export function gpuLaunch(team: GpuTeam, call: GpuCall): GpuLaunch {
  throw new TuttiError(
    'internalError',
    `not yet: ${call.collective} of ${callBytes(call)} bytes for ${gpuWork(team.ranks).name}`,
  );
}
