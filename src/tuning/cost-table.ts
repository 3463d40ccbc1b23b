/**
 * Predicted times of all candidates for a call, and why the others are none.
 *
 * (NCCL 2.30.7, enqueue.cc.)
 */

import type { ElementType } from '../kernel/element-types.js';
import { MAX_COLLNET_DIRECT_RANKS } from '../topology/connect/collnet-direct.js';
import { NVLS_ARITY } from '../topology/connect/nvls.js';
import { countText } from '../topology/report/quantities.js';
import { isCollnet, isNvls } from './algorithms.js';
import { f32 } from './arithmetic.js';
import { collnetSupports, nvlsReduces, nvlsSupports, type TuningCall } from './call.js';
import { callTime, RING_SIMPLE } from './call-time.js';
import type { Exclusion, ExclusionRule, Why } from './exclusion.js';
import type { TuningInput } from './input.js';
import type { TuningTables } from './model.js';
import { CELLS, FunctionId, NCCL_ALGORITHMS, NCCL_PROTOCOLS, type NcclAlgorithm } from './names.js';
import { type CostTable, IGNORE } from './tuner.js';

/** Rings of more ranks than this lose too much precision with 8-bit floats: each step rounds. */
const FP8_RING_RANKS = 8;
/** Their predicted time is multiplied by this, so that they win only where nothing else can run. */
const FP8_RING_PENALTY = 1024;

const isFp8 = (type: ElementType): boolean => type === 'float8e4m3' || type === 'float8e5m2';

export interface Candidates {
  readonly costs: CostTable;
  /** Rules of the communicator, then those of this call. */
  readonly excluded: readonly Exclusion[];
}

/** All candidates of a call, before a tuner sees them. */
export function candidatesOf(tables: TuningTables, call: TuningCall): Candidates {
  const { input } = tables;
  const costs = new Float32Array(CELLS).fill(IGNORE);
  if (input.nRanks <= 1) {
    costs[RING_SIMPLE] = 0;
    return { costs, excluded: ONE_RANK };
  }
  const support = { collnet: collnetSupports(input, call), nvls: nvlsSupports(input, call) };
  const penalised = isFp8(call.type) && input.nRanks > FP8_RING_RANKS;
  let excluded: readonly Exclusion[] = tables.exclusions[FunctionId[call.function]]!;
  for (const [number, algorithm] of NCCL_ALGORITHMS.entries()) {
    const why = refusal(input, call, algorithm, support);
    if (why !== undefined) {
      const known = excluded.some((one) => one.algorithm === algorithm && SAME[one.rule] === why.rule);
      if (!known) excluded = [...excluded, { algorithm, protocol: 'Simple', ...why }];
      continue;
    }
    for (let protocol = 0; protocol < NCCL_PROTOCOLS.length; protocol++) {
      const cell = number * NCCL_PROTOCOLS.length + protocol;
      const time = callTime(tables, call, cell);
      // NCCL multiplies unavailable cells too: they become -1024, which is as little eligible as -1.
      costs[cell] = penalised && algorithm === 'Ring' ? f32(time * FP8_RING_PENALTY) : time;
    }
  }
  return { costs, excluded };
}

/** Rules of a communicator that make one of a call superfluous. */
const SAME: Partial<Record<ExclusionRule, ExclusionRule>> = {
  'collnet-off': 'collnet-off',
  'nvls-channels': 'nvls-off',
};

const ONE_RANK: readonly Exclusion[] = NCCL_ALGORITHMS.flatMap((algorithm) =>
  NCCL_PROTOCOLS.map((protocol) => ({
    algorithm,
    protocol,
    rule: 'one-rank' as const,
    reason: 'there is one rank: its data are only copied',
  })),
).filter((_, cell) => cell !== RING_SIMPLE);

/** Why a whole algorithm may not run this call; undefined if it may. */
function refusal(
  input: TuningInput,
  call: TuningCall,
  algorithm: NcclAlgorithm,
  support: { readonly collnet: boolean; readonly nvls: boolean },
): Why | undefined {
  const { function: fn, type, reduction = 'Sum' } = call;
  const operation = `${call.operator ?? reduction} of ${type}`;
  if (isCollnet(algorithm)) {
    if (!support.collnet) return collnetRefusal(input, operation);
    if (input.maxLocalRanks > MAX_COLLNET_DIRECT_RANKS) {
      return {
        rule: 'collnet-local-ranks',
        reason: `a node has ${countText(input.maxLocalRanks, 'rank')}, CollNet serves ${MAX_COLLNET_DIRECT_RANKS} at most`,
      };
    }
  }
  if (isNvls(algorithm)) {
    if (!support.nvls) {
      return nvlsReduces(call)
        ? { rule: 'nvls-off', reason: 'NVLS is not in use', variable: 'NCCL_NVLS_ENABLE' }
        : { rule: 'nvls-operation', reason: `the NVSwitch cannot do ${operation}` };
    }
    if (fn !== 'AllReduce' && input.localRanks > NVLS_ARITY) {
      return {
        rule: 'nvls-local-ranks',
        reason: `the node has ${countText(input.localRanks, 'rank')}, NVLS serves ${NVLS_ARITY} at most for ${fn}`,
      };
    }
    if (algorithm === 'NVLS' && input.nNodes > 1 && !support.collnet) {
      return {
        rule: 'nvls-collnet',
        reason: `NVLS over ${countText(input.nNodes, 'node')} goes through CollNet: ${collnetRefusal(input, operation).reason}`,
      };
    }
  }
  if (
    algorithm === 'PAT' &&
    fn === 'ReduceScatter' &&
    (reduction === 'PreMulSum' || reduction === 'SumPostDiv')
  ) {
    return { rule: 'pat-scaling', reason: `PAT does not scale while it reduces, which ${reduction} needs` };
  }
  return undefined;
}

const collnetRefusal = ({ collnet }: TuningInput, operation: string): Why =>
  collnet.enabled
    ? { rule: 'collnet-operation', reason: `the collective network cannot do ${operation}` }
    : { rule: 'collnet-off', reason: 'CollNet is not in use', variable: 'NCCL_COLLNET_ENABLE' };
