/**
 * Predicted time of a symmetric kernel that goes over the network by itself, along rails of equal ranks.
 *
 * (NCCL 2.30.7, sym_kernels.cc.)
 */
import { atLeastAtMost, divideUp, f32, powerOfTwoDown } from '../arithmetic.js';
import type { SymmetricFacts } from './facts.js';
import type { SymmetricKernel } from './kernels.js';
import { blockBounds, MAX_SYMMETRIC_BLOCKS, type SymmetricCost, switchBlocks } from './lsa-cost.js';

/** Bytes that an all-gather passes on at once. */
const GATHER_CHUNK = 1 << 20;

/** Bytes that a reduce-scatter passes on at once, and the bounds of NCCL_SYM_RS_GIN_CHUNK_SIZE. */
const SCATTER_CHUNK = 131072;
const MIN_CHUNK = 128;
const MAX_CHUNK = 2 ** 30;

/** Bytes per second inside a node. */
const lsaBandwidth = (minSm: number): number => (minSm < 100 ? 360e9 : 720e9);

/** Time and blocks of a kernel with GIN. */
export function ginCost(facts: SymmetricFacts, kernel: SymmetricKernel, bytes: number): SymmetricCost {
  return kernel.function === 'AllGather'
    ? railRing(facts, bytes)
    : railAllToAll(facts, kernel.multicastLoad === true, bytes);
}

function railRing(facts: SymmetricFacts, bytes: number): SymmetricCost {
  const { nRanks, sm, minSm, nvlsHeads } = facts;
  const rails = railRanks(facts);
  const limit = Math.min(MAX_SYMMETRIC_BLOCKS, divideUp(switchBlocks(sm), Math.max(1, nvlsHeads)));
  const { min, max } = blockBounds(facts, limit);
  const chunks = divideUp(bytes, GATHER_CHUNK);
  const inside = (bytes * nRanks) / lsaBandwidth(minSm);
  const outside = (bytes * (rails - 1)) / netBandwidth(facts);
  // Seconds, where all other kernels have microseconds: NCCL compares it with no other kernel.
  const time = chunks * (rails - 1) * netLatency(facts) + Math.max(inside, outside);
  return { time: f32(time), blocks: atLeastAtMost(chunks, min, max) };
}

function railAllToAll(facts: SymmetricFacts, multicast: boolean, bytes: number): SymmetricCost {
  const { lsa, gin, sm } = loads(facts, multicast);
  const limit = Math.min(MAX_SYMMETRIC_BLOCKS, inboxBlocks(facts), saturation(facts, multicast));
  const { min, max } = blockBounds(facts, limit);
  const asked = facts.settings.symGinChunk;
  const chunk = powerOfTwoDown(atLeastAtMost(asked > 0 ? asked : SCATTER_CHUNK, MIN_CHUNK, MAX_CHUNK));
  const blocks = atLeastAtMost(divideUp(bytes, chunk), min, max);
  const speed = Math.min(
    (blocks * sm.bandwidth) / sm.share,
    lsa.bandwidth / lsa.share,
    gin.bandwidth / gin.share,
  );
  const first = Math.min(bytes, chunk * blocks) * (lsa.share / lsa.bandwidth + gin.share / gin.bandwidth);
  return { time: f32(1e6 * (bytes / speed + first + netLatency(facts))), blocks };
}

/** Bytes per second of a resource, and the bytes that it moves per byte of a rank's block. */
interface Load {
  readonly bandwidth: number;
  readonly share: number;
}

/** What links, network and one block have to do. */
function loads(facts: SymmetricFacts, multicast: boolean): Readonly<Record<'lsa' | 'gin' | 'sm', Load>> {
  const { lsaRanks: local, minSm } = facts;
  const rails = railRanks(facts);
  const peers = multicast ? 1 : local;
  const blackwell = minSm >= 100;
  return {
    lsa: {
      bandwidth: lsaBandwidth(minSm),
      share: Math.max((multicast ? local : local - 1) * rails, (local - 1) * rails),
    },
    gin: { bandwidth: netBandwidth(facts), share: rails - 1 },
    sm: {
      bandwidth: multicast ? (blackwell ? 8.44e9 : 4.22e9) : blackwell ? 26.6e9 : 13.7e9,
      share: (local === 1 ? 0 : peers * (rails - 1)) + peers + (rails - 1),
    },
  };
}

/** Blocks beyond which links or network are the limit. */
function saturation(facts: SymmetricFacts, multicast: boolean): number {
  const { lsa, gin, sm } = loads(facts, multicast);
  const limit = Math.min(lsa.bandwidth / lsa.share, gin.bandwidth / gin.share);
  return Math.ceil(Math.min(2 ** 30, limit / (sm.bandwidth / sm.share)));
}

/** Blocks that have inboxes for the network's messages, allotted when symmetric memory is set up. */
export function inboxBlocks(facts: SymmetricFacts): number {
  const { minCtas, maxCtas, settings } = facts;
  const wanted = atLeastAtMost(Math.max(saturation(facts, false), saturation(facts, true)), minCtas, maxCtas);
  const { symCtas } = settings;
  return Math.min(MAX_SYMMETRIC_BLOCKS, symCtas >= 1 ? symCtas : wanted);
}

const railRanks = ({ nRanks, lsaRanks }: SymmetricFacts): number => Math.floor(nRanks / lsaRanks);
const netBandwidth = ({ minNetBw }: SymmetricFacts): number => 1e9 * minNetBw;
const netLatency = (facts: SymmetricFacts): number => 1e-6 * facts.netLatency;
