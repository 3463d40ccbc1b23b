/** What the choice of symmetric kernels knows of a communicator. */

import type { TuningTables } from '../model.js';
import type { TuningSettings } from '../settings.js';

/** What the symmetric memory of a communicator can do, found out when it is set up. */
export interface SymmetricSupport {
  /** All ranks can map each other's memory, or reach it over GIN; symmetric windows can be registered. */
  readonly supported: boolean;
  /** Ranks that reach each other by loads and stores (the LSA team). */
  readonly lsaRanks: number;
  /** The team has multicast memory: NVLS, more than two ranks. Absent before the first symmetric registration. */
  readonly lsaMulticast: boolean;
  /** Peer-to-peer between NVLink cliques is in use. */
  readonly crossCliqueP2p: boolean;
  /** Every pair of GPUs of the node is joined by NVLink directly. */
  readonly allDirectNvlink: boolean;
  /** Several ranks are in this process. */
  readonly oneThreadManyGpus: boolean;
}

export interface SymmetricFacts extends SymmetricSupport {
  readonly nRanks: number;
  readonly nNodes: number;
  /** Compute capability times 10: own and lowest. */
  readonly sm: number;
  readonly minSm: number;
  readonly nvlsHeads: number;
  /** GB/s of the slowest NIC in use. */
  readonly minNetBw: number;
  /** Microseconds of one network step. */
  readonly netLatency: number;
  readonly minCtas: number;
  readonly maxCtas: number;
  readonly settings: TuningSettings;
}

/** Facts of a communicator with a cost model; a tuner may have changed the latency. */
export function symmetricFacts(
  { input, constants }: TuningTables,
  support: SymmetricSupport,
): SymmetricFacts {
  const { nRanks, nNodes, sm, minSm, nvls, minNetBw, minCtas, maxCtas, settings } = input;
  return {
    ...support,
    nRanks,
    nNodes,
    sm,
    minSm,
    nvlsHeads: nvls.heads,
    minNetBw,
    netLatency: constants.hwLatencies.NET.Ring[2],
    minCtas,
    maxCtas,
    settings,
  };
}
