/** Makes the communicators of this process's ranks, on the device of the run. */
import { readLaunchEnvironment } from '../../bootstrap/launch-environment.js';
import { Communicator, createLocalCommunicators } from '../../communicator/communicator.js';
import { cuda } from '../../communicator/cuda/cuda-device-name.js';
import type { CommunicatorOptions } from '../../communicator/settings.js';
import { cudaDriver } from '../../device/cuda/driver.js';
import { CudaRanks } from './cuda-ranks.js';
import { HostRanks } from './host-ranks.js';
import type { PerfOptions } from './options.js';
import type { PerfRanks } from './perf-ranks.js';
import type { PerfDevice, Role } from './role.js';

export interface OpenRanks {
  readonly ranks: PerfRanks;
  /** Ranks of this process that are threads, at least 1. */
  readonly threads: number;
  /** Ranks of this process that have a GPU each, at least 1. */
  readonly gpus: number;
  close(): Promise<void>;
}

type Here = Exclude<Role, { kind: 'parent' }>;

async function closing(comms: readonly { close(): Promise<void> }[], ranks: PerfRanks): Promise<void> {
  ranks.close();
  await Promise.all(comms.map((comm) => comm.close()));
}

/** Closes what was made when the rest cannot be made. */
async function orClose<T>(comms: readonly { close(): Promise<void> }[], make: () => Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (error) {
    await Promise.all(comms.map((comm) => comm.close().catch(() => {})));
    throw error;
  }
}

async function openHost(role: Here, options: PerfOptions, limits: CommunicatorOptions): Promise<OpenRanks> {
  const comms =
    role.kind === 'all'
      ? await createLocalCommunicators(role.ranks, limits)
      : [await Communicator.fromEnv(limits)];
  const ranks = await orClose(comms, () => HostRanks.open(options, comms));
  return { ranks, threads: comms.length, gpus: 1, close: () => closing(comms, ranks) };
}

async function openCuda(role: Here, options: PerfOptions, limits: CommunicatorOptions): Promise<OpenRanks> {
  const driver = cudaDriver();
  // Ranks beyond the GPUs share them, in turn.
  const gpuOf = (rank: number) => cuda(rank % Math.max(1, driver.deviceCount));
  const launch = () => readLaunchEnvironment(process.env, process.ppid);
  const own = () => launch().localRank ?? launch().rank;
  const comms =
    role.kind === 'all'
      ? await createLocalCommunicators(
          Array.from({ length: role.ranks }, (_, rank) => gpuOf(rank)),
          limits,
        )
      : [await Communicator.fromEnv({ ...limits, device: gpuOf(own()) })];
  const ranks = await orClose(comms, () => CudaRanks.open(options, driver, comms));
  return { ranks, threads: 1, gpus: comms.length, close: () => closing(comms, ranks) };
}

export function openRanks(
  device: PerfDevice,
  role: Here,
  options: PerfOptions,
  limits: CommunicatorOptions,
): Promise<OpenRanks> {
  return device === 'cuda' ? openCuda(role, options, limits) : openHost(role, options, limits);
}
