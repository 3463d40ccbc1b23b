/**
 * A launch that is prepared once: function, grid and parameters stand ready, so that launching is one call of the
 * driver without an allocation.
 *
 * The parameters are those of the PTX target: the work descriptor by value, the address of the abort word and the
 * address of the blocks' statuses. The driver copies them at the launch; they lie in memory that does not move, which
 * is held here, so the descriptor may be changed between launches.
 */
import type { CudaDevice } from './cuda-device.js';
import type { DriverFunctions } from './driver-functions.js';

/** Descriptors are passed aligned to this many bytes. */
const DESCRIPTOR_ALIGN = 16;

/** Three addresses of parameters, padded to a whole number of alignments. */
const POINTER_BYTES = 32;

export interface Kernel {
  readonly name: string;
  /** Handle of the function. */
  readonly fn: number;
  readonly blocks: number;
  readonly threads: number;
  readonly descriptorBytes: number;
}

/** Addresses that every kernel of a rank gets. */
export interface KernelWords {
  readonly abort: number;
  readonly status: number;
}

export class KernelLaunch {
  /** The descriptor that the next launch takes. */
  readonly descriptor: DataView;
  readonly #device: CudaDevice;
  readonly #functions: DriverFunctions;
  readonly #kernel: Kernel;
  readonly #fn: number;
  readonly #blocks: number;
  readonly #threads: number;
  /** Holds the memory that the parameters lie in. */
  readonly #memory: BigUint64Array;
  readonly #parameters: number;

  constructor(device: CudaDevice, kernel: Kernel, words: KernelWords) {
    const { functions } = device.calls;
    this.#device = device;
    this.#functions = functions;
    this.#kernel = kernel;
    this.#fn = kernel.fn;
    this.#blocks = kernel.blocks;
    this.#threads = kernel.threads;
    const descriptorBytes = Math.ceil(kernel.descriptorBytes / DESCRIPTOR_ALIGN) * DESCRIPTOR_ALIGN;
    const buffer = new ArrayBuffer(POINTER_BYTES + descriptorBytes + 16 + DESCRIPTOR_ALIGN);
    this.#memory = new BigUint64Array(buffer);
    const start = functions.addressOf(this.#memory);
    const first = Math.ceil(start / DESCRIPTOR_ALIGN) * DESCRIPTOR_ALIGN;
    const descriptor = first + POINTER_BYTES;
    const abort = descriptor + descriptorBytes;
    const at = (address: number) => (address - start) / 8;
    this.#memory[at(first)] = BigInt(descriptor);
    this.#memory[at(first) + 1] = BigInt(abort);
    this.#memory[at(first) + 2] = BigInt(abort + 8);
    this.#memory[at(abort)] = BigInt(words.abort);
    this.#memory[at(abort) + 1] = BigInt(words.status);
    this.#parameters = first;
    this.descriptor = new DataView(buffer, descriptor - start, descriptorBytes);
  }

  /** Puts the kernel into a stream of its GPU. */
  launch(stream: number): void {
    this.#device.makeCurrent();
    const code = this.#functions.cuLaunchKernel(
      this.#fn,
      this.#blocks,
      1,
      1,
      this.#threads,
      1,
      1,
      0,
      stream,
      this.#parameters,
      0,
    );
    if (code !== 0) {
      this.#device.calls.check(code, `launch ${this.#kernel.name} on ${this.#device.label}`);
    }
  }
}
