/** Joining a communicator of processes on GPUs. */
import type { Bootstrap } from '../../bootstrap/bootstrap.js';
import { cudaDriver } from '../../device/cuda/driver.js';
import { TuttiError } from '../../errors/tutti-error.js';
import type { Settings } from '../settings.js';
import { CudaCommunicator } from './cuda-communicator.js';
import { isCudaDeviceName } from './cuda-device-name.js';
import { gpuProgramsFor } from './gpu-programs.js';
import { openCudaProcessTeam } from './process-cuda-team.js';

function inWords(name: unknown): string {
  return typeof name === 'object'
    ? (JSON.stringify(name) ?? 'undefined')
    : typeof name === 'string'
      ? `'${name}'`
      : String(name);
}

/**
 * The communicator of a bootstrap on the GPU that `name` stands for; 'cuda': on that with the rank's number, over and
 * over where there are fewer. Throws on all ranks what any of them meets: no
 * driver, no such GPU, no room, GPUs that do not reach each other.
 */
export async function joinOnGpu(
  bootstrap: Bootstrap,
  name: unknown,
  settings: Settings,
): Promise<CudaCommunicator> {
  const open = () => {
    if (name === 'cuda') {
      const driver = cudaDriver();
      return { driver, device: driver.device(bootstrap.rank % Math.max(1, driver.deviceCount)) };
    }
    if (!isCudaDeviceName(name)) {
      throw new TuttiError(
        'invalidArgument',
        `device is ${inWords(name)}; it must be a GPU as cuda(0), or 'cuda' for the one of this rank`,
      );
    }
    const driver = cudaDriver();
    return { driver, device: driver.device(name.index) };
  };
  const team = await openCudaProcessTeam(bootstrap, open, {
    settings,
    programs: gpuProgramsFor(settings),
  });
  try {
    return new CudaCommunicator(team, settings.timeoutMs);
  } catch (error) {
    await team.close(false);
    throw error;
  }
}
