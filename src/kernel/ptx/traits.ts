/** Traits for programs that are generated for the PTX target. */

import { PTX_TRAITS, type Traits } from '../ir.js';

/** Threads of a warp on every NVIDIA GPU so far: those that shuffles and votes are among. */
export const WARP_SIZE = 32;

export interface PtxTraitsOptions {
  /** Packets in flight per thread in copy loops, 1 to 8: more hide more latency and take more registers. */
  readonly unroll?: number;
}

export function ptxTraits(options: PtxTraitsOptions = {}): Traits {
  return { ...PTX_TRAITS, unroll: options.unroll ?? PTX_TRAITS.unroll };
}
