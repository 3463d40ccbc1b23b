/**
 * Which program in which shape: the table that measurements on GPUs have filled (docs/gpu-notes.md).
 */

import { LL_BLOCKS } from './area.js';
import { callBytes, type GpuCall, type GpuShape, type GpuTeam } from './call.js';

const KB = 1024;
const MB = 1024 * KB;

/** Threads of a block: 16 warps, as many as hide the latency of a link with a few loads each. */
const THREADS = 512;

/** Blocks of the team's GPUs that run at the same time, with so many on a multiprocessor. */
function resident(team: GpuTeam, residency: number): number {
  return Math.max(1, Math.floor((team.multiprocessors * residency) / team.ranksPerDevice));
}

/** Bytes that a rank sends to each of the others. */
function bytesPerPeer(call: GpuCall): number {
  return callBytes(call);
}

/** Most bytes per peer that go as LL lines. */
function mostLowLatency(team: GpuTeam): number {
  return team.ranks === 2 ? 512 * KB : Math.floor((512 * KB) / team.ranks);
}

export function gpuShape(team: GpuTeam, call: GpuCall): GpuShape {
  const bytes = bytesPerPeer(call);
  if (call.collective === 'barrier') return { program: 'LL', blocks: 1, threads: 32 };
  if (bytes <= mostLowLatency(team)) {
    const wanted = bytes <= 4 * KB ? 1 : Math.ceil(bytes / (4 * KB));
    return {
      program: 'LL',
      blocks: Math.min(LL_BLOCKS, wanted, resident(team, 1)),
      threads: THREADS,
    };
  }
  const residency = 2;
  const blocks = bytes <= 4 * MB ? 64 : resident(team, bytes >= 128 * MB ? residency : 1);
  return {
    program: 'Direct',
    blocks: Math.min(blocks, resident(team, residency)),
    threads: THREADS,
    unroll: 4,
    residency,
    copies: 'push',
  };
}
