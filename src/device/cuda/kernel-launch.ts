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

/** CUlaunchConfig and CUlaunchAttribute (cuda.h): offsets of the members used, and sizes. */
const CONFIG = { grid: 0, block: 12, stream: 32, attributes: 40, attributeCount: 48, bytes: 56 } as const;
const ATTRIBUTE = { id: 0, value: 8, bytes: 72 } as const;

/** CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION. */
const PROGRAMMATIC_SERIALIZATION = 6;

export interface Kernel {
  readonly name: string;
  /** Handle of the function. */
  readonly fn: number;
  readonly blocks: number;
  readonly threads: number;
  readonly descriptorBytes: number;
  /**
   * The kernel may begin before what is in the stream before it is over, and waits for that by itself. GPUs of compute
   * capability 9.0 and up, drivers that know CUDA 11.8.
   */
  readonly overlap?: boolean;
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
  /** The launch's configuration, for kernels that overlap. */
  readonly #config: DataView | undefined;
  readonly #configAddress: number = 0;

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
    if (kernel.overlap !== true) return;
    this.#config = new DataView(new ArrayBuffer(CONFIG.bytes + ATTRIBUTE.bytes));
    this.#configAddress = functions.addressOf(this.#config);
    [kernel.blocks, 1, 1].forEach((n, i) => {
      this.#config!.setUint32(CONFIG.grid + 4 * i, n, true);
    });
    [kernel.threads, 1, 1].forEach((n, i) => {
      this.#config!.setUint32(CONFIG.block + 4 * i, n, true);
    });
    this.#config.setBigUint64(CONFIG.attributes, BigInt(this.#configAddress + CONFIG.bytes), true);
    this.#config.setUint32(CONFIG.attributeCount, 1, true);
    this.#config.setUint32(CONFIG.bytes + ATTRIBUTE.id, PROGRAMMATIC_SERIALIZATION, true);
    this.#config.setUint32(CONFIG.bytes + ATTRIBUTE.value, 1, true);
  }

  /** Puts the kernel into a stream of its GPU. */
  launch(stream: number): void {
    this.#device.makeCurrentFor(stream);
    const code = this.#config === undefined ? this.#plain(stream) : this.#overlapping(this.#config, stream);
    if (code !== 0) {
      this.#device.calls.check(code, `launch ${this.#kernel.name} on ${this.#device.label}`);
    }
  }

  #plain(stream: number): number {
    return this.#functions.cuLaunchKernel(
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
  }

  #overlapping(config: DataView, stream: number): number {
    config.setUint32(CONFIG.stream, stream % 2 ** 32, true);
    config.setUint32(CONFIG.stream + 4, Math.floor(stream / 2 ** 32), true);
    return this.#functions.cuLaunchKernelEx(this.#configAddress, this.#fn, this.#parameters, 0);
  }
}
