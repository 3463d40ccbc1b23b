/**
 * A launch that is prepared once: function, grid and parameters stand ready, so that launching is one call of the
 * driver without an allocation.
 *
 * The driver copies parameters at the launch; they lie in memory that does not move, which is held here.
 */
import type { CudaDevice } from './cuda-device.js';
import type { DriverFunctions } from './driver-functions.js';

const PARAMETER_BYTES = 8;

export interface Grid {
  readonly blocks: number;
  readonly threads: number;
}

export class KernelLaunch {
  readonly #device: CudaDevice;
  readonly #functions: DriverFunctions;
  readonly #fn: number;
  readonly #blocks: number;
  readonly #threads: number;
  /** The addresses of the parameters, then the parameters. */
  readonly #memory: BigUint64Array;
  readonly #parameters: number;
  readonly #name: string;

  /** `parameters` are the kernel's 64-bit parameters; `name` is for errors. */
  constructor(device: CudaDevice, name: string, fn: number, grid: Grid, parameters: readonly number[]) {
    const { functions } = device.calls;
    this.#device = device;
    this.#functions = functions;
    this.#name = name;
    this.#fn = fn;
    this.#blocks = grid.blocks;
    this.#threads = grid.threads;
    const count = parameters.length;
    this.#memory = new BigUint64Array(new ArrayBuffer(2 * count * PARAMETER_BYTES));
    this.#parameters = functions.addressOf(this.#memory);
    const first = this.#parameters + count * PARAMETER_BYTES;
    parameters.forEach((value, k) => {
      this.#memory[k] = BigInt(first + k * PARAMETER_BYTES);
      this.#memory[count + k] = BigInt(value);
    });
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
    if (code !== 0) this.#device.calls.check(code, `launch ${this.#name} on ${this.#device.label}`);
  }
}
