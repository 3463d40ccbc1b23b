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
import { CHUNK128_BYTES, CHUNK128_DATA } from '../warp-chunk.js';
import { type AreaSizes, areaLayout, EXCHANGE_PAIRS, GPU_AREA, LINE_BYTES, LINE_DATA } from './area.js';
import { callBytes, GPU_COLLECTIVES, type GpuCall, type GpuShape, type GpuTeam } from './call.js';
import { directGpu } from './direct.js';
import { exchangeAllReduce, exchangeBytes, exchangeWarps } from './exchange.js';
import { lowLatency } from './low-latency.js';
import { oneRound } from './one-round.js';
import { expectedMicroseconds, gpuShape, LAMPORT_THREADS, mayOverlap } from './shape.js';
import { type GpuArguments, gpuWork, writeGpuWork } from './work.js';

/** A launch. Equal keys mean equal programs, to be compiled once. */
export interface GpuLaunch {
  readonly key: string;
  /** What it is, for people. */
  readonly label: string;
  /** Why it was chosen, where somebody has restricted what may be. */
  readonly reason?: string;
  readonly blocks: number;
  readonly threads: number;
  /**
   * Whether to launch it with programmatic stream serialization (GPUs of capability 9.0 and up), so that it may begin
   * before the launch before is over: programs wait for that themselves. Saves most of the time between two launches.
   * Not where ranks share a GPU: blocks that wait for their turn would keep another rank's blocks from running.
   */
  readonly overlap: boolean;
  /** About how long it takes the GPUs, where that is known: whether its launch or its run is what a loop waits for. */
  readonly microseconds?: number;
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

/** Most threads of LL128 programs; with many ranks the slots are for fewer. */
export const LL128_THREADS = 1024;

const WARP = 32;

/** Shares of blocks in LL programs are whole pairs of lines, those of ranks in direct ones whole cache lines. */
const LL_GRAIN = 2 * LINE_DATA;
const DIRECT_GRAIN = 128;
const PACKET = 16;
const LAMPORT_GRAIN = PACKET;

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

/** `data` bytes of a block travel as `wire` bytes. */
function requireOneRound(share: number, data: number, wire: number, slotBytes: number): void {
  if (share <= data && wire <= slotBytes) return;
  throw new TuttiError(
    'internalError',
    `${share} bytes in one round of ${data} a block, as ${wire} bytes into slots of ${slotBytes}`,
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
  const isLarge = shape.program === 'Exchange' || shape.program === 'Direct';
  const most = isLarge ? sizes.blocks : sizes.llBlocks;
  if (blocks > most)
    throw new TuttiError('internalError', `${blocks} blocks; the areas are made for ${most}`);
  const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
  const type = reduces ? call.type : copyType(call.type);
  const op = reduces ? (call.op ?? 'sum') : 'sum';
  const reduction = { type, op };
  const bytes = callBytes(call);
  const split = (parts: number, grain: number) => Math.ceil(bytes / (parts * grain)) * grain;
  const parameters = { collective, reduction, ranks, sizes };
  const { slotBytes, slot128Bytes, slotLamportBytes } = areaLayout(ranks, sizes);

  /** `form`: what distinguishes programs of this kind from each other. */
  const launch = (
    share: number,
    form: readonly (string | number)[],
    build: (traits: Traits) => Program,
    compile: { readonly threads: number; readonly blocksPerMultiprocessor?: number },
  ): MeetingLaunch => ({
    key: [shape.program, collective, type, op, ranks, ...form].join('/'),
    shape,
    blocks,
    threads,
    share,
    overlap,
    microseconds: expectedMicroseconds(team, call),
    label: shape.program,
    write: (view, base, args) => writeGpuWork(view, base, share, args),
    compile: { blocksPerMultiprocessor: 1, descriptorBytes: gpuWork(ranks).size, ...compile },
    build,
  });
  switch (shape.program) {
    case 'LL': {
      const { lines } = shape;
      const share = split(blocks, LL_GRAIN);
      if (lines === undefined) {
        return launch(share, ['many'], (traits) => lowLatency(traits, parameters), { threads: LL_THREADS });
      }
      requireOneRound(share, threads * lines * LINE_DATA, threads * lines * LINE_BYTES, slotBytes);
      const build = (traits: Traits) => oneRound(traits, { ...parameters, lines });
      return launch(share, [lines], build, { threads: LL_THREADS });
    }
    case 'LL128': {
      const share = split(blocks, CHUNK128_DATA);
      const warps = threads / WARP;
      requireOneRound(share, warps * CHUNK128_DATA, warps * CHUNK128_BYTES, slot128Bytes);
      const most = Math.min(LL128_THREADS, (slot128Bytes / CHUNK128_BYTES) * WARP);
      const build = (traits: Traits) => oneRound(traits, { ...parameters, lines: 'LL128' });
      return launch(share, [], build, { threads: most });
    }
    case 'Lamport': {
      const { packets } = shape;
      if (!reduces || ELEMENT_TYPES[type].kind !== 'float') {
        throw new TuttiError('internalError', `${collective} of ${type} in Lamport lines`);
      }
      const share = split(blocks, LAMPORT_GRAIN);
      const data = threads * packets * PACKET;
      requireOneRound(share, data, data, slotLamportBytes);
      const build = (traits: Traits) => oneRound(traits, { ...parameters, lines: { packets } });
      return launch(share, [packets], build, { threads: LAMPORT_THREADS });
    }
    case 'Exchange': {
      const { pairs, unroll } = shape;
      const { stage, first, last } = exchangeBytes(blocks, threads, pairs, unroll);
      const isWhole = threads % WARP === 0 && threads >= exchangeWarps(pairs) * WARP;
      const isFew = pairs <= EXCHANGE_PAIRS && blocks <= sizes.llBlocks;
      const fits = stage <= sizes.stageBytes && first <= sizes.firstBytes && last <= slotLamportBytes;
      if (collective !== 'allReduce' || ranks !== 2 || !isWhole || !isFew || !fits) {
        throw new TuttiError(
          'internalError',
          `${collective} of ${ranks} ranks by an exchange of ${blocks} blocks of ${threads} threads in ${pairs} pairs with ${unroll} packets, which takes ${stage} bytes of a stage of ${sizes.stageBytes}, ${first} of ${sizes.firstBytes} for first units and ${last} of ${slotLamportBytes} for last ones`,
        );
      }
      const blocksPerMultiprocessor = Math.max(1, Math.ceil(blocks / team.multiprocessors));
      const build = (traits: Traits) =>
        exchangeAllReduce(traits, { reduction, addressing, threads, pairs, unroll, sizes });
      return launch(0, [addressing, threads, pairs, unroll, blocksPerMultiprocessor], build, {
        threads,
        blocksPerMultiprocessor,
      });
    }
    case 'Direct': {
      const { unroll, residency, copies } = shape;
      const build = (traits: Traits) =>
        directGpu(traits, { ...parameters, addressing, threads, unroll, copies });
      return launch(split(ranks, DIRECT_GRAIN), [addressing, threads, unroll, residency, copies], build, {
        threads,
        blocksPerMultiprocessor: residency,
      });
    }
  }
}
