/**
 * The measured numbers behind the cost model: start-up latency, latency of a step per kind of link, and bandwidth that
 * a protocol or an algorithm reaches at most.
 *
 * NCCL's authors fitted them to machines; there is no derivation. A tuner may change its communicator's copy before
 * the tables are computed. (NCCL 2.30.7, tuning.cc.)
 */
import type { NcclAlgorithm } from './names.js';

/** Kinds of links that a step of an algorithm crosses. */
export const LINKS = ['NVLINK', 'PCI', 'NET'] as const;
export type Link = (typeof LINKS)[number];

/** Generations of GPUs with numbers of their own; older ones count as Volta. */
export const GENERATIONS = ['Volta', 'Ampere', 'Hopper', 'Blackwell'] as const;
export type Generation = (typeof GENERATIONS)[number];

/** Values for LL, LL128 and Simple. */
export type ByProtocol = [number, number, number];

/** Values for one node, two nodes and more. */
export type ByScale = [number, number, number];

export interface TuningConstants {
  /** Microseconds before the first byte moves. */
  baseLatencies: Record<NcclAlgorithm, ByProtocol>;
  /** Microseconds of one step. */
  hwLatencies: Record<Link, Record<NcclAlgorithm, ByProtocol>>;
  /** GB/s of the whole communicator with LL: half of what travels is flags, and they must be polled. */
  llMaxBws: Record<Generation, ByScale>;
  /** GB/s of one channel. */
  perChMaxRingLL128Bws: Record<Generation, ByScale>;
  perChMaxTreeLL128Bws: Record<Generation, ByScale>;
  perChMaxTreeBws: Record<Generation, ByScale>;
  perChMaxNVLSTreeBws: Record<Generation, ByScale>;
}

const DEFAULTS: TuningConstants = {
  baseLatencies: {
    Tree: [6.8, 14.0, 8.4],
    Ring: [6.6, 14.0, 8.4],
    CollNetDirect: [0, 0, 0],
    CollNetChain: [0, 0, 0],
    NVLS: [0, 0, 0],
    NVLSTree: [0, 0, 0],
    PAT: [8.0, 8.0, 8.0],
  },
  hwLatencies: {
    NVLINK: {
      Tree: [0.6, 1.25, 4.0],
      Ring: [0.6, 1.9, 3.4],
      CollNetDirect: [0, 0, 3.7],
      CollNetChain: [0, 0, 2.8],
      NVLS: [0, 0, 25],
      NVLSTree: [0, 0, 25],
      PAT: [0, 0, 4.0],
    },
    PCI: {
      Tree: [1.0, 1.9, 4.0],
      Ring: [1.0, 2.5, 5.7],
      CollNetDirect: [0, 0, 3.7],
      CollNetChain: [0, 0, 2.8],
      NVLS: [0, 0, 0],
      NVLSTree: [0, 0, 0],
      PAT: [0, 0, 4.0],
    },
    NET: {
      Tree: [5.0, 8.5, 14],
      Ring: [2.7, 4.0, 14.0],
      CollNetDirect: [0, 0, 31],
      CollNetChain: [0, 0, 30],
      NVLS: [0, 0, 18],
      NVLSTree: [0, 0, 20.9],
      PAT: [0, 0, 14],
    },
  },
  llMaxBws: {
    Volta: [39.0, 39.0, 20.4],
    Ampere: [87.7, 22.5, 19.0],
    Hopper: [141.0, 45.0, 35.0],
    Blackwell: [282.0, 90.0, 70.0],
  },
  perChMaxRingLL128Bws: {
    Volta: [20, 20, 20],
    Ampere: [20, 20, 20],
    Hopper: [36.7, 36.7, 36.7],
    Blackwell: [40.0, 40.0, 40.0],
  },
  perChMaxTreeLL128Bws: {
    Volta: [20, 20, 20],
    Ampere: [20, 20, 20],
    Hopper: [36.7, 36.7, 29.0],
    Blackwell: [55.6, 31.67, 20.0],
  },
  perChMaxTreeBws: {
    Volta: [26.5, 18.5, 10.0],
    Ampere: [24.0, 23.6, 17.8],
    Hopper: [38.7, 41.4, 36.0],
    Blackwell: [70.0, 42.8, 24.0],
  },
  perChMaxNVLSTreeBws: {
    Volta: [26.5, 18.5, 10.0],
    Ampere: [24.0, 23.6, 17.8],
    Hopper: [0.0, 57.7, 45.5],
    Blackwell: [0.0, 96.0, 80.0],
  },
};

/** A fresh copy of NCCL's constants. */
export const defaultConstants = (): TuningConstants => structuredClone(DEFAULTS);

/** Share of the NVLink bandwidth that the NVSwitch reaches when it reduces; not among the constants of tuners. */
export const NVLS_EFFICIENCY: Readonly<Record<Generation, number>> = {
  Volta: 0,
  Ampere: 0,
  Hopper: Math.fround(0.85),
  Blackwell: Math.fround(0.74),
};

/** Generation of a compute capability (times 10), the lowest of the communicator. */
export function generationOf(minSm: number): Generation {
  if (minSm >= 100) return 'Blackwell';
  if (minSm >= 90) return 'Hopper';
  return minSm >= 80 ? 'Ampere' : 'Volta';
}

/** Column of a `ByScale`. */
export const scaleOf = (nNodes: number): 0 | 1 | 2 => (nNodes === 1 ? 0 : nNodes === 2 ? 1 : 2);
