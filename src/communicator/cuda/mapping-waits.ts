/**
 * Launches of this thread that wait until peers have mapped new buffers, by GPU. Those of other communicators that are called
 * later wait for them: how long mapping takes differs from rank to rank, and launches that overtake each other at one rank
 * and not at another one can wait for each other for ever, where kernels fill the GPUs. Mapping comes to its end by itself,
 * so that nobody waits here for what a rank calls later; who waits for other things is overtaken.
 */
import type { CudaDevice } from '../../device/cuda/cuda-device.js';

/** One launch that waits. */
export class MappingWait {
  /** Resolves when it has happened, or waits for something else. */
  readonly passed: Promise<void>;
  readonly #waits: Set<MappingWait>;
  #resolve!: () => void;

  constructor(waits: Set<MappingWait>) {
    this.#waits = waits;
    this.passed = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    waits.add(this);
  }

  pass(): void {
    this.#waits.delete(this);
    this.#resolve();
  }
}

const known = new WeakMap<CudaDevice, Set<MappingWait>>();

/** The launches that wait on a GPU. */
export function mappingWaits(device: CudaDevice): Set<MappingWait> {
  let waits = known.get(device);
  if (waits === undefined) known.set(device, (waits = new Set()));
  return waits;
}
