/**
 * Memory of a GPU, and memory of the host that GPUs reach.
 *
 * Source: CUDA driver API, memory management (cuda.h).
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { CudaDevice } from './cuda-device.js';
import { CUDA } from './cuda-error.js';
import { IPC_HANDLE_BYTES, type Out } from './driver-functions.js';

/** CU_MEMHOSTALLOC_ and CU_MEMHOSTREGISTER_PORTABLE and _DEVICEMAP: for all contexts, at an address that kernels can use. */
const HOST_FLAGS = 1 | 2;

/** CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS: opening makes the GPU's peers reach it. */
const IPC_FLAGS = 1;

/** Bytes for people. */
export function bytesText(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${units[unit]}`;
}

/** One allocation in the memory of a GPU. */
export class DeviceMemory {
  readonly device: CudaDevice;
  readonly address: number;
  readonly bytes: number;
  #freed = false;

  /** Throws `unhandledCudaError` when there is not so much. The contents are undefined. */
  constructor(device: CudaDevice, bytes: number) {
    const { calls } = device;
    device.makeCurrent();
    this.device = device;
    this.bytes = bytes;
    const out: Out = [0];
    const code = calls.functions.cuMemAlloc(out, bytes);
    if (code !== CUDA.success) {
      calls.check(code, `allocate ${bytesText(bytes)} on ${device.label}${freeText(device)}`);
    }
    this.address = out[0];
  }

  /** Gives it back. Never throws: it fails where the GPU's context is broken, and then everything goes with that. */
  free(): void {
    if (this.#freed) return;
    this.#freed = true;
    this.device.makeCurrent();
    this.device.calls.functions.cuMemFree(this.address);
  }
}

/** What another process needs to open the allocation that begins at an address, as base64 text. */
export function ipcHandle(device: CudaDevice, address: number): string {
  const { calls } = device;
  const handle = new Uint8Array(IPC_HANDLE_BYTES);
  device.makeCurrent();
  calls.check(
    calls.functions.cuIpcGetMemHandle(handle, address),
    `share memory of ${device.label} with other processes`,
  );
  return Buffer.from(handle).toString('base64');
}

/** How much is free, as a part of an error's sentence. */
function freeText(device: CudaDevice): string {
  const free: Out = [0];
  const total: Out = [0];
  if (device.calls.functions.cuMemGetInfo(free, total) !== CUDA.success) return '';
  return ` (${bytesText(free[0])} of ${bytesText(total[0])} are free)`;
}

/** Memory of another process's GPU, opened here. */
export class OpenedMemory {
  readonly device: CudaDevice;
  readonly address: number;
  #closed = false;

  /** `device` is the GPU whose kernels are to reach it. */
  constructor(device: CudaDevice, handle: Uint8Array, whose: string) {
    const { calls } = device;
    device.makeCurrent();
    this.device = device;
    this.address = calls.value(
      (out) => calls.functions.cuIpcOpenMemHandle(out, { bytes: handle }, IPC_FLAGS),
      `open the memory of ${whose} on ${device.label}`,
    );
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    const { calls } = this.device;
    this.device.makeCurrent();
    // The owner may be dead already: there is nothing left to do about a failure.
    calls.functions.cuIpcCloseMemHandle(this.address);
  }
}

/** Pinned memory of the host that kernels of all GPUs of this process reach. Zeroed. */
export class HostMemory {
  readonly bytes: number;
  /** The memory as this process sees it; not to be touched after `free`. */
  readonly buffer: ArrayBuffer;
  /** Where kernels find it. */
  readonly address: number;
  readonly #device: CudaDevice;
  readonly #host: number;
  #freed = false;

  constructor(device: CudaDevice, bytes: number) {
    const { calls } = device;
    device.makeCurrent();
    this.#device = device;
    this.bytes = bytes;
    const what = `allocate ${bytesText(bytes)} of pinned host memory`;
    this.#host = calls.value((out) => calls.functions.cuMemHostAlloc(out, bytes, HOST_FLAGS), what);
    this.address = calls.value((out) => calls.functions.cuMemHostGetDevicePointer(out, this.#host, 0), what);
    this.buffer = calls.functions.view(this.#host, bytes);
    new Uint8Array(this.buffer).fill(0);
  }

  /** As that of DeviceMemory. */
  free(): void {
    if (this.#freed) return;
    this.#freed = true;
    this.#device.makeCurrent();
    this.#device.calls.functions.cuMemFreeHost(this.#host);
  }
}

/**
 * Memory of the host that kernels of all GPUs of this process reach, while it is registered. The memory itself, whole
 * pages, is somebody else's and must stay: whoever gives it back frees this first.
 */
export class RegisteredMemory {
  readonly bytes: number;
  /** Where kernels find it. */
  readonly address: number;
  readonly #device: CudaDevice;
  readonly #host: number;
  /** Registered by this object, not by another one before. */
  readonly #own: boolean;
  #freed = false;

  /** `host` is the address of the first byte for the process. Throws `unhandledCudaError` where it cannot be pinned. */
  constructor(device: CudaDevice, host: number, bytes: number) {
    const { calls } = device;
    device.makeCurrent();
    this.#device = device;
    this.#host = host;
    this.bytes = bytes;
    const what = `let ${device.label} reach ${bytesText(bytes)} of host memory`;
    const code = calls.functions.cuMemHostRegister(host, bytes, HOST_FLAGS);
    this.#own = code !== CUDA.hostMemoryAlreadyRegistered;
    if (this.#own) calls.check(code, what);
    try {
      this.address = calls.value((out) => calls.functions.cuMemHostGetDevicePointer(out, host, 0), what);
    } catch (error) {
      if (this.#own) calls.functions.cuMemHostUnregister(host);
      throw error;
    }
  }

  /** As that of DeviceMemory. */
  free(): void {
    if (this.#freed) return;
    this.#freed = true;
    if (!this.#own) return;
    this.#device.makeCurrent();
    this.#device.calls.functions.cuMemHostUnregister(this.#host);
  }
}

/** CUpointer_attribute and CUmemorytype. */
export const ATTRIBUTE = {
  memoryType: 2,
  deviceOrdinal: 9,
  rangeStart: 11,
  rangeBytes: 12,
  ipcCapable: 10,
  allowedHandles: 14,
  mappingBytes: 18,
  mappingStart: 19,
} as const;
const MEMORY_DEVICE = 2;

/** What the driver knows about an address. */
export interface PointerFacts {
  /** Index of the GPU that the memory belongs to. */
  readonly device: number;
  /** Start and bytes of the allocation that it lies in. */
  readonly start: number;
  readonly bytes: number;
  /** Made by cuMemAlloc (or cudaMalloc): peers reach it, other processes can open it. */
  readonly shareable: boolean;
}

/** What the driver says about an address in the current context; undefined where it does not. */
export function pointerAttribute(device: CudaDevice, attribute: number, address: number): number | undefined {
  const out: Out = [0];
  const code = device.calls.functions.cuPointerGetAttribute(out, attribute, address);
  return code === CUDA.success ? Number(out[0]) : undefined;
}

/**
 * What the driver knows about the address. Throws `invalidArgument` when it is no address of GPU memory (`name` says
 * whose).
 */
export function pointerFacts(device: CudaDevice, address: number, name: string): PointerFacts {
  device.makeCurrent();
  const ask = (attribute: number) => pointerAttribute(device, attribute, address);
  const type = ask(ATTRIBUTE.memoryType);
  if (type !== MEMORY_DEVICE) {
    const what = type === undefined ? 'no memory that the NVIDIA driver knows' : 'memory of the host';
    throw new TuttiError(
      'invalidArgument',
      `${name}: the address 0x${address.toString(16)} is ${what}; a device pointer is due (comm.alloc, cudaMalloc)`,
    );
  }
  const start = ask(ATTRIBUTE.rangeStart) ?? address;
  return {
    device: ask(ATTRIBUTE.deviceOrdinal) ?? device.index,
    start,
    bytes: ask(ATTRIBUTE.rangeBytes) ?? 0,
    shareable: ask(ATTRIBUTE.ipcCapable) === 1,
  };
}
