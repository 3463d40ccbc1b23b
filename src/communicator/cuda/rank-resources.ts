/**
 * What a rank needs of its GPU: the context, an area, words through which host and kernels talk, and kernels.
 */
import { type AreaSizes, areaLayout, MAX_GPU_BLOCKS } from '../../collectives/gpu/area.js';
import { CubinCache } from '../../device/cuda/cubin-cache.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { DeviceMemory, HostMemory } from '../../device/cuda/device-memory.js';
import type { CudaDriver } from '../../device/cuda/driver.js';
import type { KernelWords } from '../../device/cuda/kernel-launch.js';
import { KernelLibrary } from '../../device/cuda/kernel-library.js';
import { Stream } from '../../device/cuda/stream.js';
import { encodeTrouble, type Trouble } from '../team.js';

/** The abort word has a line of the cache for itself; statuses follow. */
const STATUS_OFFSET = 256;

const libraries = new WeakMap<CudaDevice, KernelLibrary>();

/** The kernels of a GPU, shared by all ranks on it. The device must be retained. */
function kernelsOf(driver: CudaDriver, device: CudaDevice): KernelLibrary {
  const known = libraries.get(device);
  // After the last release everything was unloaded, and a new library registers with the new context.
  if (known?.isOpen === true) return known;
  const library = new KernelLibrary(device, driver.version, new CubinCache());
  libraries.set(device, library);
  return library;
}

/** CUDA 11.8: the first with cuLaunchKernelEx. */
const EXTENDED_LAUNCHES = 11080;
/** Compute capability whose kernels can begin before the one before is over. */
const OVERLAPPING_MAJOR = 9;

/** Memory of the GPU, all zeros. */
function zeroedMemory(device: CudaDevice, bytes: number): DeviceMemory {
  const memory = new DeviceMemory(device, bytes);
  let stream: Stream | undefined;
  try {
    stream = new Stream(device);
    stream.fill(memory.address, 0, bytes);
    stream.synchronize();
    return memory;
  } catch (error) {
    memory.free();
    throw error;
  } finally {
    stream?.destroy();
  }
}

export class RankResources {
  readonly device: CudaDevice;
  /** Whether kernels may be launched that begin before the one before is over. */
  readonly overlaps: boolean;
  readonly kernels: KernelLibrary;
  /** The rank's area, zeroed. */
  readonly area: { readonly address: number; free(): void };
  readonly words: KernelWords;
  readonly statuses: Int32Array;
  readonly #host: HostMemory;
  readonly #abort: Int32Array;
  #closed = false;

  /**
   * `onHost`: the area is memory of the host, which all GPUs reach. Throws `unhandledCudaError`, and keeps nothing, when
   * there is no room for it.
   */
  constructor(driver: CudaDriver, device: CudaDevice, ranks: number, sizes: AreaSizes, onHost = false) {
    this.device = device;
    this.overlaps = device.major >= OVERLAPPING_MAJOR && driver.version >= EXTENDED_LAUNCHES;
    device.retain();
    let host: HostMemory | undefined;
    let area: RankResources['area'] | undefined;
    try {
      this.kernels = kernelsOf(driver, device);
      host = new HostMemory(device, STATUS_OFFSET + MAX_GPU_BLOCKS * 4);
      const { bytes } = areaLayout(ranks, sizes);
      area = onHost ? new HostMemory(device, bytes) : zeroedMemory(device, bytes);
    } catch (error) {
      area?.free();
      host?.free();
      device.release();
      throw error;
    }
    this.area = area;
    this.#host = host;
    this.words = { abort: host.address, status: host.address + STATUS_OFFSET };
    this.#abort = new Int32Array(host.buffer, 0, 1);
    this.statuses = new Int32Array(host.buffer, STATUS_OFFSET, MAX_GPU_BLOCKS);
  }

  /** Ends this rank's kernels; the first reason stays. */
  raiseAbort(trouble: Trouble): void {
    if (!this.#closed) Atomics.compareExchange(this.#abort, 0, 0, encodeTrouble(trouble));
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.area.free();
    this.#host.free();
    this.device.release();
  }
}
