/** The driver, started: its version and its GPUs. */
import { TuttiError } from '../../errors/tutti-error.js';
import { CudaDevice } from './cuda-device.js';
import { DriverCalls } from './driver-calls.js';
import type { DriverFunctions, ProcessMemory } from './driver-functions.js';
import { openDriverLibrary } from './driver-library.js';

/** CUDA 11.4 (driver 470, 2021): the first whose graphs are instantiated as here. Version x 1000 + minor x 10. */
const OLDEST_DRIVER = 11040;

/** 13000 as `13.0`. */
export function driverVersionText(version: number): string {
  return `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;
}

export class CudaDriver {
  readonly calls: DriverCalls;
  /** CUDA version that the driver knows, major x 1000 + minor x 10. */
  readonly version: number;
  readonly deviceCount: number;
  readonly #devices: (CudaDevice | undefined)[] = [];

  /** Starts the driver. Throws `unhandledCudaError` with one sentence: no driver, too old, or no GPU. */
  constructor(functions: DriverFunctions & ProcessMemory = openDriverLibrary()) {
    this.calls = new DriverCalls(functions);
    this.calls.check(functions.cuInit(0), 'start the NVIDIA driver');
    this.version = this.calls.value(
      (out) => functions.cuDriverGetVersion(out),
      'ask the NVIDIA driver for its version',
    );
    if (this.version < OLDEST_DRIVER) {
      throw new TuttiError(
        'unhandledCudaError',
        `the NVIDIA driver is too old: it knows CUDA ${driverVersionText(this.version)}, ${driverVersionText(OLDEST_DRIVER)} (driver 470) or newer is needed`,
      );
    }
    this.deviceCount = this.calls.value((out) => functions.cuDeviceGetCount(out), 'count GPUs');
  }

  /** The GPU of an index; throws `invalidArgument` for one that is not there. */
  device(index: number): CudaDevice {
    if (!Number.isInteger(index) || index < 0 || index >= this.deviceCount) {
      const there =
        this.deviceCount === 0
          ? 'the driver sees no GPU (check CUDA_VISIBLE_DEVICES and nvidia-smi)'
          : `the driver sees ${this.deviceCount === 1 ? 'one GPU, 0' : `GPUs 0 to ${this.deviceCount - 1}`}`;
      throw new TuttiError('invalidArgument', `there is no GPU ${String(index)}; ${there}`);
    }
    this.#devices[index] ??= new CudaDevice(this.calls, index);
    return this.#devices[index];
  }

  /** The GPU with a uuid, undefined when this process does not see it. */
  deviceOf(uuid: string): CudaDevice | undefined {
    for (let index = 0; index < this.deviceCount; index++) {
      const device = this.device(index);
      if (device.uuid === uuid) return device;
    }
    return undefined;
  }
}

let shared: CudaDriver | undefined;

/** The driver of this machine. Throws as the constructor does; a later call tries again. */
export function cudaDriver(): CudaDriver {
  shared ??= new CudaDriver();
  return shared;
}
