/** What all ranks of a team know alike of its GPUs, and how many of them may share one. */
import type { GpuTeam } from '../../collectives/gpu/call.js';
import { TuttiError } from '../../errors/tutti-error.js';
import type { RingOrder } from './ring-order.js';

/** Kernels that a GPU runs at a time for sure: streams beyond it may wait for each other (hardware queues). */
const MAX_RANKS_PER_DEVICE = 8;

/** A rank's GPU. */
export interface RankGpu {
  readonly uuid: string;
  readonly label: string;
  readonly multiprocessors: number;
  readonly pciBusId: string;
}

/** Throws `invalidUsage` when more ranks share a GPU than run on it at the same time. */
export function checkSharing(gpus: readonly RankGpu[]): void {
  for (const { uuid, label } of gpus) {
    const here = gpus.filter((other) => other.uuid === uuid).length;
    if (here <= MAX_RANKS_PER_DEVICE) continue;
    throw new TuttiError(
      'invalidUsage',
      `${here} ranks on ${label}; at most ${MAX_RANKS_PER_DEVICE} ranks can share a GPU`,
    );
  }
}

export function gpuTeam(
  gpus: readonly RankGpu[],
  { addressing, wholeLines }: Pick<GpuTeam, 'addressing' | 'wholeLines'>,
  order?: RingOrder,
): GpuTeam {
  const perDevice = new Map<string, number>();
  for (const { uuid } of gpus) perDevice.set(uuid, (perDevice.get(uuid) ?? 0) + 1);
  return {
    ranks: gpus.length,
    multiprocessors: Math.min(...gpus.map(({ multiprocessors }) => multiprocessors)),
    ranksPerDevice: Math.max(...perDevice.values()),
    addressing,
    wholeLines,
    ...(order?.orders === undefined ? {} : { orders: order.orders }),
  };
}
