/**
 * What a rank needs of its GPU: the context, kernels, a board (through which host and kernels talk) and an area (through
 * which kernels of all ranks do).
 */
import { type AreaSizes, areaLayout } from '../../collectives/gpu/area.js';
import { CubinCache } from '../../device/cuda/cubin-cache.js';
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { DeviceMemory, RegisteredMemory } from '../../device/cuda/device-memory.js';
import type { CudaDriver } from '../../device/cuda/driver.js';
import type { KernelWords } from '../../device/cuda/kernel-launch.js';
import { KernelLibrary } from '../../device/cuda/kernel-library.js';
import { Stream } from '../../device/cuda/stream.js';
import { type HostDevice, WASM_PAGE } from '../../device/host/host-device.js';
import { allocateBoard, BOARD_BYTES, RankBoard } from './rank-board.js';

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

/** Bytes of an area in memory of the host: whole pages of every system. */
export function hostAreaBytes(ranks: number, sizes: AreaSizes): number {
  return Math.ceil(areaLayout(ranks, sizes).bytes / WASM_PAGE) * WASM_PAGE;
}

/** Where the kernels of this rank find its area. */
export interface RankArea {
  readonly address: number;
  /** Address in the heap, where it is memory of the host. */
  readonly heapAddress?: number;
}

export class RankResources {
  readonly device: CudaDevice;
  /** Whether kernels may be launched that begin before the one before is over. */
  readonly overlaps: boolean;
  readonly kernels: KernelLibrary;
  readonly words: KernelWords;
  /** Address of the board in the heap. */
  readonly board: number;
  readonly #host: HostDevice;
  readonly #boardMemory: RegisteredMemory;
  #area: RankArea | undefined;
  #areaMemory: DeviceMemory | RegisteredMemory | undefined;
  #closed = false;

  /** Throws `unhandledCudaError` or `systemError`, and keeps nothing, when the GPU or the host cannot give it. */
  constructor(driver: CudaDriver, device: CudaDevice, host: HostDevice) {
    this.device = device;
    this.#host = host;
    this.overlaps = device.major >= OVERLAPPING_MAJOR && driver.version >= EXTENDED_LAUNCHES;
    device.retain();
    let board: number | undefined;
    try {
      this.kernels = kernelsOf(driver, device);
      board = allocateBoard(host);
      this.#boardMemory = new RegisteredMemory(device, host.baseAddress + board, BOARD_BYTES);
    } catch (error) {
      if (board !== undefined) host.free(board);
      device.release();
      throw error;
    }
    this.board = board;
    const { address } = this.#boardMemory;
    const { abort, statuses } = RankBoard.fields;
    this.words = { abort: address + abort.offset, status: address + statuses.offset };
  }

  /** The area; it must have been made. */
  get area(): RankArea {
    return this.#area!;
  }

  /**
   * Makes the area, all zeros, in place of another one: in the GPU's memory, or with `onHost` in that of the host, which
   * all GPUs reach. Throws `unhandledCudaError` or `systemError` when there is no room.
   */
  makeArea(ranks: number, sizes: AreaSizes, onHost: boolean): void {
    this.#areaMemory?.free();
    this.#areaMemory = undefined;
    if (!onHost) {
      const memory = zeroedMemory(this.device, areaLayout(ranks, sizes).bytes);
      this.#areaMemory = memory;
      this.#area = { address: memory.address };
      return;
    }
    const bytes = hostAreaBytes(ranks, sizes);
    const heapAddress = this.#host.allocate(bytes, WASM_PAGE);
    try {
      const memory = new RegisteredMemory(this.device, this.#host.baseAddress + heapAddress, bytes);
      this.#areaMemory = memory;
      this.#area = { address: memory.address, heapAddress };
    } catch (error) {
      this.#host.free(heapAddress);
      throw error;
    }
  }

  /**
   * Gives everything back. With `keepShared` others may still write into memory of the host that they have mapped: it
   * is not used for anything else afterwards.
   */
  close(keepShared = false): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#areaMemory?.free();
    this.#boardMemory.free();
    if (!keepShared) {
      if (this.#area?.heapAddress !== undefined) this.#host.free(this.#area.heapAddress);
      this.#host.free(this.board);
    }
    this.device.release();
  }
}
