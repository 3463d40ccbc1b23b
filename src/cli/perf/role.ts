/** Where a run measures, and what this process is in it: the one that starts ranks, one of them, or all of them. */
import { readLaunchEnvironment } from '../../bootstrap/launch-environment.js';
import { cudaDriver } from '../../device/cuda/driver.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { coreCount } from '../../system/core-count.js';
import { libc } from '../../system/libc.js';
import type { PerfOptions } from './options.js';

export type PerfDevice = 'host' | 'cuda';

export type Role =
  /** Starts the ranks as processes. */
  | { readonly kind: 'parent'; readonly processes: number }
  /** A rank of its own. */
  | { readonly kind: 'rank' }
  /** All ranks: threads on host memory, objects on GPUs. */
  | { readonly kind: 'all'; readonly ranks: number };

type Environment = Readonly<Record<string, string | undefined>>;

/** GPUs that can be used; 0 where there is no driver, or no way to call it. */
function gpuCount(): number {
  try {
    return cudaDriver().deviceCount;
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    return 0;
  }
}

type DeviceOptions = Pick<PerfOptions, 'device' | 'gpus' | 'graphs' | 'threads' | 'memory'>;

/** The device of a run: the one asked for, else GPUs where there are any. `count` tells how many. */
export function deviceOf(options: DeviceOptions, count: () => number = gpuCount): PerfDevice {
  const { device, gpus, graphs, threads, memory } = options;
  if (device !== undefined) return device;
  if (gpus !== undefined || graphs > 0) return 'cuda';
  // Options that have a meaning on host memory alone.
  if (threads !== undefined || memory === 'array') return 'host';
  return count() > 0 ? 'cuda' : 'host';
}

function isLaunched(env: Environment): boolean {
  try {
    readLaunchEnvironment(env, process.ppid);
    return true;
  } catch {
    return false;
  }
}

/** Ranks on host memory when nobody says how many: one per core, at least two and at most eight. */
function defaultRanks(): number {
  return Math.min(8, Math.max(2, coreCount()));
}

type RoleOptions = Pick<PerfOptions, 'processes' | 'threads' | 'gpus'>;

export function roleOf(
  options: RoleOptions,
  device: PerfDevice,
  env: Environment = process.env,
  count: () => number = gpuCount,
): Role {
  const { processes, threads, gpus } = options;
  if (processes !== undefined && threads !== undefined && processes > 1 && threads > 1) {
    throw new TuttiError(
      'invalidArgument',
      `-n ${processes} -t ${threads}: ranks are either processes (-n) or threads of one process (-t)`,
    );
  }
  const here = device === 'cuda' ? gpus : threads;
  if (here !== undefined && (processes ?? 1) === 1) return { kind: 'all', ranks: here };
  if (processes !== undefined) return { kind: 'parent', processes };
  if (isLaunched(env)) return { kind: 'rank' };
  if (device === 'cuda') return { kind: 'all', ranks: Math.max(2, count()) };
  const ranks = defaultRanks();
  return libc() === null ? { kind: 'all', ranks } : { kind: 'parent', processes: ranks };
}
