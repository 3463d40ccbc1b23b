/** Traits for programs that are generated for the interpreter, standing for the host or for a GPU. */

import type { Traits } from '../ir.js';

export interface InterpreterTraitsOptions {
  /** `one`: a block is one thread, as on the host. `many`: blocks of several threads, as on a GPU. */
  threads: 'one' | 'many';
  /** Whether packets may lie at any address; by default as on the host (`one`: yes, `many`: no). */
  unalignedPackets?: boolean;
  /** Independent packets per thread in copy loops; small by default so that few elements reach every path. */
  unroll?: number;
}

export function interpreterTraits(options: InterpreterTraitsOptions): Traits {
  return {
    name: 'interpreter',
    singleThread: options.threads === 'one',
    unalignedPackets: options.unalignedPackets ?? options.threads === 'one',
    unroll: options.unroll ?? 2,
  };
}
