/**
 * Which program in which shape: a table from measurements on two H200 (docs/gpu-notes.md), and rules that carry it to
 * other numbers of ranks and smaller GPUs.
 */

import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import { CHUNK128_BYTES, CHUNK128_DATA } from '../warp-chunk.js';
import { areaLayout, LINE_BYTES, LINE_DATA, LL_BLOCKS } from './area.js';
import { callBytes, type GpuCall, type GpuCollective, type GpuShape, type GpuTeam } from './call.js';

const KB = 1024;
const MB = 1024 * KB;
const WARP = 32;

/** Most threads of Lamport programs. */
export const LAMPORT_THREADS = 1024;

/** Threads of a block of direct programs: 16 warps, as many as hide the latency of a link with a few loads each. */
const DIRECT_THREADS = 512;

/** Blocks of one rank that run at the same time, with so many on a multiprocessor. */
function resident(team: GpuTeam, residency: number): number {
  return Math.max(1, Math.floor((team.multiprocessors * residency) / team.ranksPerDevice));
}

/** Data in LL lines take twice their bytes; on two H200 they are faster than direct programs up to this much per peer. */
const MOST_LOW_LATENCY = 512 * KB;

/** LL128 lines take longer to look for, and little more than the bytes of the data: on two H200 faster from here on. */
const MOST_LOW_LATENCY_BEFORE_LL128 = 128 * KB;

/** As far as areas of two ranks reach, LL128 is faster than direct programs. */
const MOST_LL128 = 4 * MB;

/**
 * How many times as much a peer gets in one round of lines as from a direct program: all data instead of a part of them
 * in reductions and broadcasts. The costs of these are those of 2 x bytes x peers / ranks on a link.
 */
function roundsCost({ ranks }: GpuTeam, collective: GpuCollective): number {
  const peers = Math.max(1, ranks - 1);
  const twoShot = collective === 'allReduce' || collective === 'reduce' || collective === 'broadcast';
  return twoShot ? (2 * peers * peers) / Math.max(2, ranks) : peers;
}

/** Threads of a block in LL programs: few where latency is all, more where many blocks would cost more. */
function lowLatencyThreads(lines: number): number {
  if (lines <= 256) return 2 * WARP;
  if (lines <= 2048) return 4 * WARP;
  return lines <= 32768 ? 8 * WARP : 16 * WARP;
}

function lowLatencyShape(team: GpuTeam, bytes: number): GpuShape {
  const lines = Math.max(1, Math.ceil(bytes / LINE_DATA));
  const slotLines = areaLayout(team.ranks).slotBytes / LINE_BYTES;
  const most = Math.min(LL_BLOCKS, resident(team, 1));
  if (lines <= WARP) return { program: 'LL', blocks: 1, threads: WARP, lines: 1 };
  // As few threads as the table says, unless the blocks are too few for it; with many ranks a slot is for fewer.
  let least = lowLatencyThreads(lines);
  while (least > WARP && least > slotLines) least /= 2;
  for (let threads = least; threads <= 16 * WARP; threads *= 2) {
    for (const perThread of [1, 2]) {
      const blocks = Math.ceil(lines / (threads * perThread));
      const fits = threads * perThread <= slotLines && blocks <= most;
      // Whole pairs of lines are shared out, which may be one line more in a block.
      if (fits && 2 * Math.ceil(lines / (2 * blocks)) <= threads * perThread) {
        return { program: 'LL', blocks, threads, lines: perThread };
      }
      if (blocks <= most && perThread === 1) break;
    }
  }
  return { program: 'LL', blocks: most, threads: 16 * WARP };
}

/** Reductions of floats go as Lamport lines from here on, below it LL takes as long, up to so much per peer. */
const LEAST_LAMPORT = 2 * KB;
const MOST_LAMPORT = 2 * MB;
const PACKET = 16;

/** Threads of a block in Lamport programs, a packet each: more only where the blocks would be too many. */
const LAMPORT_LEAST_THREADS = 4 * WARP;

function takesLamport({ collective, type }: GpuCall): boolean {
  const reduces = collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
  return reduces && ELEMENT_TYPES[type].kind === 'float';
}

/** Undefined where the data do not fit into one round. */
function lamportShape(team: GpuTeam, bytes: number): GpuShape | undefined {
  const packets = Math.ceil(bytes / PACKET);
  const slotPackets = areaLayout(team.ranks).slotLamportBytes / PACKET;
  const most = Math.min(LL_BLOCKS, resident(team, 1));
  for (let threads = LAMPORT_LEAST_THREADS; threads <= Math.min(LAMPORT_THREADS, slotPackets); threads *= 2) {
    const blocks = Math.ceil(packets / threads);
    if (blocks <= most) return { program: 'Lamport', blocks, threads, packets: 1 };
  }
  return undefined;
}

/** Blocks among which LL128 data are shared out, with 4 to 32 warps each. */
const LL128_BLOCKS = 96;
const LL128_WARPS = 4;

/** Undefined where the data do not fit into one round. */
function ll128Shape(team: GpuTeam, bytes: number): GpuShape | undefined {
  const chunks = Math.ceil(bytes / CHUNK128_DATA);
  const most = Math.min(LL_BLOCKS, resident(team, 1));
  const mostWarps = Math.min(32, areaLayout(team.ranks).slot128Bytes / CHUNK128_BYTES);
  const warps = Math.max(
    Math.min(mostWarps, Math.max(LL128_WARPS, Math.ceil(chunks / LL128_BLOCKS))),
    Math.ceil(chunks / most),
  );
  if (warps > mostWarps) return undefined;
  return { program: 'LL128', blocks: Math.ceil(chunks / warps), threads: warps * WARP };
}

/**
 * From so many bytes on, an all-reduce of two ranks goes by an exchange. Out of place it is faster from 4 MB on, in place
 * slower by 2 % at 32 MB and by more below.
 */
const LEAST_EXCHANGE = 24 * MB;
const EXCHANGE_BLOCKS = 128;

/** Few pairs of warps: the more push, the more is on its way and the longer a fence takes. */
const EXCHANGE_PAIRS = 2;

/** As many warps as pushes through the stage want, and the one that tells. */
const EXCHANGE_THREADS = 9 * WARP;

/** Direct programs by bytes: of each peer's data for copies, of all data where results are combined or go to all. */
function directShape(team: GpuTeam, collective: GpuCollective, bytes: number): GpuShape {
  const of = (
    blocks: number,
    unroll: number,
    copies: 'push' | 'pull' | 'split' = 'push',
    residency = 1,
    threads = DIRECT_THREADS,
  ): GpuShape => {
    const shape = { program: 'Direct', copies } as const;
    if (team.ranks === 2) {
      return { ...shape, blocks: Math.min(blocks, resident(team, residency)), threads, unroll, residency };
    }
    // The addresses and packets of many ranks want the registers that more threads and packets would take.
    return {
      ...shape,
      blocks: Math.min(blocks, resident(team, 1)),
      threads: team.ranks > 8 ? DIRECT_THREADS / 2 : DIRECT_THREADS,
      unroll: team.ranks > 8 ? 1 : Math.min(unroll, team.ranks > 4 ? 2 : 4),
      residency: 1,
    };
  };
  const all = resident(team, 1);
  switch (collective) {
    case 'allReduce':
      if (bytes <= 4 * MB) return of(64, 2);
      if (bytes < 16 * MB) return of(all, 4);
      return bytes < 128 * MB ? of(all, 2, 'push', 1, 2 * DIRECT_THREADS) : of(2 * all, 4, 'push', 2);
    case 'reduceScatter':
      return bytes < 128 * MB ? of(64, bytes < MB ? 2 : 4) : of(all, 8);
    case 'broadcast':
      if (team.ranks === 2 && bytes <= 4 * MB) return of(64, 4);
      return bytes < 16 * MB ? of(64, 4, 'split') : of(all, 8, 'split');
    case 'reduce':
      if (team.ranks > 2 || bytes <= 4 * MB) return of(64, 4, 'split');
      return bytes < 256 * MB ? of(64, 4, 'pull') : of(all, 8, 'pull');
    default:
      if (bytes < 2 * MB) return of(64, 2);
      return bytes < 8 * MB ? of(64, 4) : of(all, 8);
  }
}

/** The shape for a call; equal on all ranks. */
export function gpuShape(team: GpuTeam, call: GpuCall): GpuShape {
  const { collective } = call;
  if (collective === 'barrier') return { program: 'LL', blocks: 1, threads: WARP };
  const bytes = callBytes(call);
  const cost = roundsCost(team, collective);
  if (takesLamport(call) && bytes >= LEAST_LAMPORT && bytes <= MOST_LAMPORT / cost) {
    const shape = lamportShape(team, bytes);
    if (shape !== undefined) return shape;
  }
  if (team.wholeLines && bytes > MOST_LOW_LATENCY_BEFORE_LL128 / cost && bytes <= MOST_LL128 / cost) {
    const shape = ll128Shape(team, bytes);
    if (shape !== undefined) return shape;
  }
  if (bytes <= MOST_LOW_LATENCY / cost) return lowLatencyShape(team, bytes);
  if (collective === 'allReduce' && team.ranks === 2 && bytes >= LEAST_EXCHANGE) {
    const blocks = Math.min(EXCHANGE_BLOCKS, resident(team, 1));
    return {
      program: 'Exchange',
      blocks,
      threads: EXCHANGE_THREADS,
      pairs: EXCHANGE_PAIRS,
      unroll: 8,
    };
  }
  return directShape(team, collective, bytes);
}

/**
 * The shape for a call whose program somebody else has chosen; undefined where the program cannot do it: LL128 takes what
 * fits into one round.
 */
export function shapeWith(
  program: 'LL' | 'LL128' | 'Direct',
  team: GpuTeam,
  call: GpuCall,
): GpuShape | undefined {
  const bytes = callBytes(call);
  if (program === 'LL128') return ll128Shape(team, bytes);
  return program === 'LL' ? lowLatencyShape(team, bytes) : directShape(team, call.collective, bytes);
}

/**
 * Whether a launch of so much may begin before the one before in its stream is over; see GpuLaunch. An exchange gains 1 to
 * 3 us whatever its size; large direct programs lose, since blocks that wait for their turn take places.
 */
export function mayOverlap(team: GpuTeam, call: GpuCall): boolean {
  if (team.ranksPerDevice > 1) return false;
  const isReduce = call.collective === 'allReduce';
  if (isReduce && team.ranks === 2) return true;
  return callBytes(call) < (isReduce ? 64 * MB : 8 * MB);
}

/** Time of a call that moves next to nothing, and bytes that a link of two H200 carries in a microsecond. */
const LEAST_MICROSECONDS = 1.7;
const LINK_BYTES_PER_MICROSECOND = 350_000;

/** Lines of several blocks take longer than those of one, the most of it from a few blocks on. */
const BLOCKS_MICROSECONDS = 0.3;
const BLOCKS_BYTES = 16 * KB;

/** About how long a call takes, as measured on two H200; other GPUs take longer. */
export function expectedMicroseconds(team: GpuTeam, call: GpuCall): number {
  const peers = Math.max(1, team.ranks - 1);
  const bytes = callBytes(call);
  const blocks = (BLOCKS_MICROSECONDS * bytes) / (bytes + BLOCKS_BYTES);
  return LEAST_MICROSECONDS + blocks + (bytes * peers) / LINK_BYTES_PER_MICROSECOND;
}
