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
import { ELEMENT_TYPES, type ElementType, REDUCE_OPS } from '../../kernel/element-types.js';
import type { Program, Traits } from '../../kernel/ir.js';
import { type AreaSizes, areaLayout, GPU_AREA, LINE_BYTES, LINE_DATA } from './area.js';
import { callBytes, GPU_COLLECTIVES, type GpuCall, type GpuShape, type GpuTeam } from './call.js';
import { directGpu } from './direct.js';
import { lowLatency } from './low-latency.js';
import { oneRound } from './one-round.js';
import { gpuShape, mayOverlap } from './shape.js';
import { type GpuArguments, gpuWork, writeGpuWork } from './work.js';

/** A launch. Equal keys mean equal programs, to be compiled once. */
export interface GpuLaunch {
  readonly key: string;
  /** What it is, for people. */
  readonly label: string;
  readonly blocks: number;
  readonly threads: number;
  /**
   * Whether to launch it with programmatic stream serialization (GPUs of capability 9.0 and up), so that it may begin
   * before the launch before is over: programs wait for that themselves. Saves most of the time between two launches.
   * Not where ranks share a GPU: blocks that wait for their turn would keep another rank's blocks from running.
   */
  readonly overlap: boolean;
  /** Options of the ptx target for the program, besides the architecture. */
  readonly compile: {
    readonly threads: number;
    readonly blocksPerMultiprocessor: number;
    readonly descriptorBytes: number;
  };
  build(traits: Traits): Program;
  /** Writes the descriptor at `base` bytes into a view. */
  write(view: DataView, base: number, args: GpuArguments): void;
}

/** A launch of a program in which all ranks meet. */
export interface MeetingLaunch extends GpuLaunch {
  readonly shape: GpuShape;
  /** Bytes that a block (LL) or a rank (direct) takes of what is split: for the descriptor. */
  readonly share: number;
}

/** Threads that LL programs are compiled for; launches may have fewer. */
export const LL_THREADS = 512;

/** Shares of blocks in LL programs are whole pairs of lines, those of ranks in direct ones whole cache lines. */
const LL_GRAIN = 2 * LINE_DATA;
const DIRECT_GRAIN = 128;

/** Copies depend on nothing of an element type but its size. */
const BY_SIZE: Readonly<Record<number, ElementType>> = { 1: 'uint8', 2: 'float16', 4: 'uint32', 8: 'uint64' };

/** The type that stands for all of its size, for copies. */
export function copyType(type: ElementType): ElementType {
  return BY_SIZE[ELEMENT_TYPES[type].size]!;
}

/** Throws `invalidArgument` for calls that cannot be. */
export function requireCall(team: GpuTeam, { collective, type, op, count }: GpuCall): void {
  const refuse = (what: string): never => {
    throw new TuttiError('invalidArgument', what);
  };
  if (!GPU_COLLECTIVES.includes(collective)) refuse(`there is no GPU program for ${collective}`);
  if (!Object.hasOwn(ELEMENT_TYPES, type)) refuse(`there is no element type ${type}`);
  if (op !== undefined && !Object.hasOwn(REDUCE_OPS, op)) refuse(`there is no operator ${op}`);
  if (!Number.isSafeInteger(count) || count < 0) {
    refuse(`a count of ${count} elements; a whole number from 0 is needed`);
  }
  if (!Number.isInteger(team.ranks) || team.ranks < 1) refuse(`a team of ${team.ranks} ranks`);
}

/** Chooses what to launch. A call with a count of 0 moves nothing and needs no launch, unless it is a barrier. */
export function gpuLaunch(team: GpuTeam, call: GpuCall): MeetingLaunch {
  requireCall(team, call);
  return launchOf(team, call, gpuShape(team, call));
}

function requireOneRound(share: number, lines: number, slotBytes: number): void {
  if (share <= lines * LINE_DATA && lines * LINE_BYTES <= slotBytes) return;
  throw new TuttiError(
    'internalError',
    `${share} bytes in one round of ${lines} lines a block, into slots of ${slotBytes} bytes`,
  );
}

/** The launch of a call in a given shape. */
export function launchOf(
  team: GpuTeam,
  call: GpuCall,
  shape: GpuShape,
  sizes: AreaSizes = GPU_AREA,
): MeetingLaunch {
  const { ranks, addressing } = team;
  const { collective } = call;
  const { blocks, threads } = shape;
  const overlap = mayOverlap(team, call);
  const most = shape.program === 'LL' ? sizes.llBlocks : sizes.blocks;
  if (blocks > most)
    throw new TuttiError('internalError', `${blocks} blocks; the areas are made for ${most}`);
  const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
  const type = reduces ? call.type : copyType(call.type);
  const op = reduces ? (call.op ?? 'sum') : 'sum';
  const reduction = { type, op };
  const descriptorBytes = gpuWork(ranks).size;
  const bytes = callBytes(call);
  const split = (parts: number, grain: number) => Math.ceil(bytes / (parts * grain)) * grain;
  if (shape.program === 'LL') {
    const { lines } = shape;
    const share = split(blocks, LL_GRAIN);
    if (lines !== undefined) requireOneRound(share, threads * lines, areaLayout(ranks, sizes).slotBytes);
    const parameters = { collective, reduction, ranks, sizes };
    return {
      key: ['LL', collective, type, op, ranks, lines ?? 'many'].join('/'),
      shape,
      blocks,
      threads,
      share,
      overlap,
      label: 'LL',
      write: (view, base, args) => writeGpuWork(view, base, share, args),
      compile: { threads: LL_THREADS, blocksPerMultiprocessor: 1, descriptorBytes },
      build: (traits) =>
        lines === undefined ? lowLatency(traits, parameters) : oneRound(traits, { ...parameters, lines }),
    };
  }
  const { unroll, residency, copies } = shape;
  const form = [addressing, threads, unroll, residency, copies];
  const share = split(ranks, DIRECT_GRAIN);
  return {
    key: ['Direct', collective, type, op, ranks, ...form].join('/'),
    shape,
    blocks,
    threads,
    share,
    overlap,
    label: 'Direct',
    write: (view, base, args) => writeGpuWork(view, base, share, args),
    compile: { threads, blocksPerMultiprocessor: residency, descriptorBytes },
    build: (traits) =>
      directGpu(traits, { collective, reduction, ranks, addressing, threads, unroll, copies, sizes }),
  };
}
