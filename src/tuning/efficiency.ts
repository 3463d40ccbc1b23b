/**
 * The EFFICIENCY policy: NVLS in place of what the model chose, if the buffers are registered and NVLS needs no more
 * channels.
 *
 * (NCCL 2.30.7, enqueue.cc, coll_reg.cc.)
 */
import { TuttiError } from '../errors/tutti-error.js';
import { isScattered } from './algorithms.js';
import { atLeastAtMost, divideUp } from './arithmetic.js';
import { collnetSupports, nvlsSupports, type TuningCall } from './call.js';
import { CtaPolicy } from './cta-policy.js';
import type { TuningInput } from './input.js';
import { WARP } from './max-threads.js';
import type { TuningTables } from './model.js';
import { cellOf, entryOf, type NcclFunction } from './names.js';

/** GB/s of NVLS reduce-scatter over several nodes above which it can feed more channels. */
const FAST_NVLS = 400;
/** GB/s of a NIC of 800 Gbit/s. */
const NIC_800G = 96;
const BLACKWELL = 100;

/**
 * Channels that NVLS with registered buffers should take.
 *
 * @throws TuttiError invalidArgument for Broadcast and Reduce, which NVLS does not do
 */
export function registeredNvlsChannels(tables: TuningTables, fn: NcclFunction): number {
  const { input } = tables;
  const { heads } = input.nvls;
  const whole = blocksOfAllHeads(tables, fn);
  return atLeastAtMost(divideUp(whole, Math.max(1, heads)), input.minCtas, input.maxCtas);
}

/** Blocks that saturate the switch together, over all heads. */
function blocksOfAllHeads({ input, bandwidths }: TuningTables, fn: NcclFunction): number {
  const { nNodes, sm, minNetBw } = input;
  const single = nNodes === 1;
  const blackwell = sm >= BLACKWELL;
  switch (fn) {
    case 'ReduceScatter':
      if (single) return blackwell ? 48 : 40;
      return bandwidths[entryOf('ReduceScatter', 'NVLS', 'Simple')]! > FAST_NVLS ? 56 : 48;
    case 'AllGather':
      return single ? 32 : 48;
    case 'AllReduce':
      if (single) return blackwell ? 64 : 32;
      if (blackwell) return minNetBw >= NIC_800G ? 80 : 56;
      return 48;
    default:
      throw new TuttiError('invalidArgument', `NVLS does not do ${fn}`);
  }
}

export const NVLS_SIMPLE = cellOf('NVLS', 'Simple');

/**
 * Channels of the NVLS call that replaces a choice of `channels` channels; undefined keeps the choice. Not to be asked
 * with a tuner, which has the last word.
 */
export function efficientNvls(tables: TuningTables, call: TuningCall, channels: number): number | undefined {
  const { input } = tables;
  if (!prefersFewBlocks(input) || call.registered !== true || !isScattered(call.function)) return undefined;
  if (!nvlsSupports(input, call)) return undefined;
  if (input.nNodes > 1 && !collnetSupports(input, call)) return undefined;
  const wanted = registeredNvlsChannels(tables, call.function);
  return wanted <= channels ? wanted : undefined;
}

/** A user who sets NCCL_ALGO or NCCL_PROTO, even to nothing, gets what the model says. */
const prefersFewBlocks = ({ ctaPolicy, settings, mnnvl }: TuningInput): boolean =>
  (ctaPolicy & CtaPolicy.EFFICIENCY) !== 0 &&
  settings.algo === undefined &&
  settings.proto === undefined &&
  !mnnvl;

/** Warps of NVLS Simple. */
export const nvlsWarps = ({ maxThreads }: TuningTables): number =>
  Math.floor(maxThreads[NVLS_SIMPLE]! / WARP);
