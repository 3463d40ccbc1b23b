/**
 * Kernels of one GPU: PTX text to functions that can be launched, by way of the cubin cache.
 *
 * The driver's linker compiles the text to machine code, which is kept on disk and loaded as a module. A module lives
 * until the GPU's context is released.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { CubinCache } from './cubin-cache.js';
import type { ContextResident, CudaDevice } from './cuda-device.js';
import { CUDA, cudaError } from './cuda-error.js';
import type { Out } from './driver-functions.js';

/** CUjit_option and CUjitInputType. */
const ERROR_LOG_BUFFER = 5;
const ERROR_LOG_BYTES = 6;
const INPUT_PTX = 1;

const LOG_BYTES = 16384;

/** A kernel as text: the module and the name of the function in it. */
export interface KernelText {
  readonly name: string;
  readonly ptx: string;
}

export class KernelLibrary implements ContextResident {
  readonly #device: CudaDevice;
  readonly #driverVersion: number;
  readonly #cache: CubinCache;
  /** Functions by the key of the kernel. */
  readonly #functions = new Map<string, number>();
  readonly #modules: number[] = [];
  #open = true;

  /** The device must be retained; the library is at an end with its context. */
  constructor(device: CudaDevice, driverVersion: number, cache: CubinCache) {
    this.#device = device;
    this.#driverVersion = driverVersion;
    this.#cache = cache;
    device.addResident(this);
  }

  /** Whether the context is still there that the kernels are loaded into. */
  get isOpen(): boolean {
    return this.#open;
  }

  /** Whether a kernel can be launched without loading anything. */
  has(key: string): boolean {
    return this.#functions.has(key);
  }

  /**
   * The function of a kernel; `make` is asked for its name and text when it is not loaded yet. Equal keys stand for
   * equal texts. Throws `unhandledCudaError` with the compiler's log.
   */
  kernel(key: string, make: () => KernelText): number {
    const known = this.#functions.get(key);
    if (known !== undefined) return known;
    const { calls } = this.#device;
    const { name, ptx } = make();
    this.#device.makeCurrent();
    const module = this.#load(name, ptx);
    this.#modules.push(module);
    const fn = calls.value(
      (out) => calls.functions.cuModuleGetFunction(out, module, name),
      `find the kernel ${name}`,
    );
    this.#functions.set(key, fn);
    return fn;
  }

  #load(name: string, ptx: string): number {
    const { calls, major, minor, label } = this.#device;
    const key = { ptx, driver: this.#driverVersion, capability: `${major}.${minor}` };
    const cached = this.#cache.get(key);
    const out: Out = [0];
    // A file that the driver does not like is compiled anew, as one that is not there.
    if (cached !== undefined && calls.functions.cuModuleLoadData(out, cached) === CUDA.success) return out[0];
    const cubin = this.#link(name, ptx);
    this.#cache.put(key, cubin);
    calls.check(calls.functions.cuModuleLoadData(out, cubin), `load the kernel ${name} on ${label}`);
    return out[0];
  }

  #link(name: string, ptx: string): Uint8Array {
    const { calls, label } = this.#device;
    const { functions } = calls;
    const log = new Uint8Array(new ArrayBuffer(LOG_BYTES));
    const options = new Int32Array(new ArrayBuffer(8));
    options.set([ERROR_LOG_BUFFER, ERROR_LOG_BYTES]);
    const values = new BigUint64Array(new ArrayBuffer(16));
    values.set([BigInt(functions.addressOf(log)), BigInt(LOG_BYTES)]);
    const what = `compile the kernel ${name} for ${label}`;
    const check = (code: number) => {
      if (code === CUDA.success) return;
      const end = log.indexOf(0);
      const text = Buffer.from(log.subarray(0, end < 0 ? LOG_BYTES : end)).toString('latin1');
      throw cudaError(functions, code, what, text.trim());
    };
    const state: Out = [0];
    check(functions.cuLinkCreate(2, functions.addressOf(options), functions.addressOf(values), state));
    try {
      const text = Buffer.from(`${ptx}\0`, 'latin1');
      check(functions.cuLinkAddData(state[0], INPUT_PTX, text, text.length, name, 0, 0, 0));
      const image: Out = [0];
      const bytes: Out = [0];
      check(functions.cuLinkComplete(state[0], image, bytes));
      if (bytes[0] === 0)
        throw new TuttiError('internalError', `the driver's linker left nothing for ${name}`);
      return new Uint8Array(functions.view(image[0], bytes[0])).slice();
    } finally {
      functions.cuLinkDestroy(state[0]);
    }
  }

  /** Blocks of a kernel that can be resident at a time on the whole GPU. */
  residentBlocks(fn: number, threads: number): number {
    const { calls } = this.#device;
    this.#device.makeCurrent();
    const each = calls.value(
      (out) => calls.functions.cuOccupancyMaxActiveBlocksPerMultiprocessor(out, fn, threads, 0),
      'ask how many blocks fit on a multiprocessor',
    );
    return each * this.#device.multiprocessors;
  }

  leaveContext(): void {
    this.#open = false;
    const { calls } = this.#device;
    this.#device.makeCurrent();
    for (const module of this.#modules.splice(0)) calls.functions.cuModuleUnload(module);
    this.#functions.clear();
  }
}
