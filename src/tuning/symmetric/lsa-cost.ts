/**
 * Predicted time of a symmetric kernel among GPUs that reach each other by loads and stores, and the fewest blocks that
 * come near it.
 *
 * Each block adds bandwidth until the links are full; both ends of that curve are smooth, as is the passage from
 * latency to bandwidth. (NCCL 2.30.7, sym_kernels.cc.)
 */
import { divideUp, f32 } from '../arithmetic.js';
import type { SymmetricFacts } from './facts.js';
import type { SymmetricKernel, SymmetricKernelName } from './kernels.js';

export interface SymmetricCost {
  /** Microseconds, a float. */
  readonly time: number;
  readonly blocks: number;
}

/** Blocks of a symmetric kernel at most. */
export const MAX_SYMMETRIC_BLOCKS = 64;

/** A kernel takes fewer blocks if that costs no more than this much time. */
const TIME_TOLERANCE = 1.025;

/** Bytes per microsecond of one GiB/s. */
const GIB_PER_SECOND = 2 ** 30 / 1e6;

/** Beyond this the softplus is the identity in double precision. */
const SOFTPLUS_LINEAR = 100;

/** Bytes on the links for a message of `n` bytes per rank among `r` ranks, and bandwidth relative to plain copies. */
interface Traffic {
  readonly bytes: (n: number, r: number) => number;
  readonly multiplier: (r: number) => number;
}

/** LL sends 8 bytes of data in 16, each once to every rank; NCCL's fit is 9 bytes per byte. */
const LL: Traffic = { bytes: (n, r) => r * n * 9, multiplier: () => 1 };
const LL_MULTICAST: Traffic = { bytes: LL.bytes, multiplier: () => 1.1 };
const TWO_SHOT: Traffic = { bytes: (n, r) => Math.floor((2 * n * (r - 1)) / r), multiplier: () => 1 };
const ONE_WAY: Traffic = { bytes: (n, r) => (r - 1) * n, multiplier: () => 1 };
const ONE_WAY_MULTICAST: Traffic = { bytes: ONE_WAY.bytes, multiplier: (r) => 0.55 * r };

const TRAFFIC: Readonly<Partial<Record<SymmetricKernelName, Traffic>>> = {
  AllReduce_AGxLL_R: LL,
  AllReduce_AGxLLMC_R: LL_MULTICAST,
  AllReduce_RSxTmaLD_AGxTmaST: TWO_SHOT,
  AllReduce_RSxLD_AGxST: TWO_SHOT,
  AllReduce_RSxLDMC_AGxSTMC: { bytes: (n, r) => Math.floor(n / r) + n, multiplier: (r) => r },
  AllGather_LL: LL,
  AllGather_LLMC: LL_MULTICAST,
  AllGather_TmaST: ONE_WAY,
  AllGather_ST: ONE_WAY,
  AllGather_TmaSTMC: ONE_WAY_MULTICAST,
  AllGather_STMC: ONE_WAY_MULTICAST,
  ReduceScatter_LL: LL,
  ReduceScatter_TmaLD: ONE_WAY,
  ReduceScatter_LD: ONE_WAY,
  ReduceScatter_LDMC: ONE_WAY_MULTICAST,
};

/** Kernels whose blocks together, over all ranks, keep the NVSwitch busy. */
const SWITCH_BOUND: readonly SymmetricKernelName[] = [
  'AllReduce_RSxLDMC_AGxSTMC',
  'AllGather_STMC',
  'AllGather_TmaSTMC',
  'ReduceScatter_LDMC',
];

/** Blocks, over all ranks, that saturate the multicast of an NVSwitch. */
export const switchBlocks = (sm: number): number => (sm < 100 ? 16 : 32);

/** Least and most blocks of a kernel whose hardware takes `limit`. */
export function blockBounds(
  { minCtas, maxCtas, settings: { symCtas } }: SymmetricFacts,
  limit: number,
): { readonly min: number; readonly max: number } {
  if (symCtas > 0) {
    const fixed = Math.min(MAX_SYMMETRIC_BLOCKS, symCtas);
    return { min: fixed, max: fixed };
  }
  return { min: minCtas, max: Math.min(limit, maxCtas) };
}

/**
 * Time and blocks of a kernel without GIN.
 *
 * @param bytes per rank: the buffer of an all-reduce, what a rank sends in an all-gather or receives in a reduce-scatter
 */
export function lsaCost(facts: SymmetricFacts, kernel: SymmetricKernel, bytes: number): SymmetricCost {
  const { nRanks, sm } = facts;
  const traffic = TRAFFIC[kernel.name]!;
  const busBytes = traffic.bytes(bytes, nRanks);
  const { base, block, peak } = speeds(sm, kernel);
  const multiplier = traffic.multiplier(nRanks);
  const time = (blocks: number): number => {
    const bandwidth =
      peak -
      block * Math.log1p((Math.exp(peak / block) - 1) * Math.exp(-(blocks * block * multiplier) / block));
    return base + softplus(busBytes / bandwidth - 1);
  };
  const limit = SWITCH_BOUND.includes(kernel.name)
    ? divideUp(switchBlocks(sm), nRanks)
    : MAX_SYMMETRIC_BLOCKS;
  const { min, max } = blockBounds(facts, limit);
  const best = f32(time(max));
  for (let blocks = min; blocks < max; blocks++) {
    const own = time(blocks);
    if (own <= TIME_TOLERANCE * best) return { time: f32(own), blocks };
  }
  return { time: best, blocks: max };
}

const softplus = (z: number): number => (z >= SOFTPLUS_LINEAR ? z : Math.log1p(Math.exp(z)));

/** Microseconds of an empty call; bytes per microsecond of one block and of the links. */
function speeds(sm: number, { function: fn, ll, name }: SymmetricKernel) {
  const multicastReduce = name === 'AllReduce_RSxLDMC_AGxSTMC';
  const allReduce = fn === 'AllReduce';
  const [base, block, peak] =
    sm < 100
      ? [ll ? 4.5 : 7.8, allReduce ? 65 : 44, multicastReduce ? 480 : 320]
      : [ll ? (fn === 'AllGather' ? 8.5 : 11) : allReduce ? 19.5 : 13, 55, multicastReduce ? 1000 : 600];
  return { base, block: block! * GIB_PER_SECOND, peak: peak! * GIB_PER_SECOND };
}
