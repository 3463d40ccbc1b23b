/** Communicators of several ranks on GPUs in this process. */
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { type CudaDriver, cudaDriver } from '../../device/cuda/driver.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { CudaCommunicator } from './cuda-communicator.js';
import { type CudaDeviceName, isCudaDeviceName } from './cuda-device-name.js';
import { GPU_PROGRAMS, type GpuPrograms, gpuProgramsFor, type ProgramSettings } from './gpu-programs.js';
import { createLocalCudaTeams } from './local-cuda-team.js';
import type { FindRings } from './ring-order.js';

export interface LocalCudaOptions extends Partial<ProgramSettings> {
  readonly timeoutMs: number;
  readonly peerToPeer?: boolean;
  readonly check?: boolean;
  /** For tests: a driver, programs and sizes other than those of the machine. */
  readonly driver?: CudaDriver;
  readonly programs?: GpuPrograms;
  readonly chunkBytes?: number;
  readonly findRings?: FindRings;
}

/** Communicators of ranks on these GPUs, in rank order. One GPU may be named several times. */
export async function createLocalCudaCommunicators(
  names: readonly CudaDeviceName[],
  { timeoutMs, driver, choices, asked = {}, programs: given, ...options }: LocalCudaOptions,
): Promise<CudaCommunicator[]> {
  const usual = choices === undefined ? GPU_PROGRAMS : gpuProgramsFor({ choices, asked });
  const programs = given ?? usual;
  const wrong = names.findIndex((name) => !isCudaDeviceName(name));
  if (names.length === 0 || wrong >= 0) {
    throw new TuttiError(
      'invalidArgument',
      `createLocalCommunicators: ${names.length === 0 ? 'no GPU is named' : `entry ${wrong} of the list is no GPU`}; pass a list like [cuda(0), cuda(1)]`,
    );
  }
  const started = driver ?? cudaDriver();
  const devices: CudaDevice[] = names.map(({ index }) => started.device(index));
  const teams = createLocalCudaTeams(started, devices, { timeoutMs, programs, ...options });
  const made: CudaCommunicator[] = [];
  try {
    for (const team of teams) made.push(new CudaCommunicator(team, timeoutMs));
    return made;
  } catch (error) {
    await Promise.all(teams.map((team, rank) => made[rank]?.close() ?? team.close(false)));
    throw error;
  }
}
