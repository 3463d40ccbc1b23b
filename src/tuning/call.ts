/**
 * A collective call (or an aggregate of them) as the decision sees it, and which hardware offloads it may use.
 *
 * (NCCL 2.30.7, enqueue.cc.)
 */
import { TuttiError } from '../errors/tutti-error.js';
import type { ElementType } from '../kernel/element-types.js';
import type { NetworkOperator, TuningInput } from './input.js';
import type { NcclFunction } from './names.js';

/** Kinds of reductions on the device: operators after conversion (averages multiply before or divide after). */
export const DEVICE_REDUCTIONS = ['Sum', 'Prod', 'MinMax', 'PreMulSum', 'SumPostDiv'] as const;
export type DeviceReduction = (typeof DEVICE_REDUCTIONS)[number];

export interface TuningCall {
  readonly function: NcclFunction;
  /** Of the whole message: those of all ranks for AllGather and ReduceScatter. */
  readonly bytes: number;
  /** Type that NCCL moves: int8 for AllGather and Broadcast, whatever the user's is. */
  readonly type: ElementType;
  readonly reduction?: DeviceReduction | undefined;
  /** The user's operator, which tells max from min; if absent, that of the reduction, and max for MinMax. */
  readonly operator?: NetworkOperator | undefined;
  /** Collectives of the group that follow each other on a channel; 1 if absent. */
  readonly pipelined?: number | undefined;
  /** Both buffers are registered (or captured with NCCL_GRAPH_REGISTER). */
  readonly registered?: boolean | undefined;
}

/** @throws TuttiError invalidArgument if the call has no bytes or no positive number of pipelined operations */
export function checkCall(call: TuningCall): void {
  const { bytes, pipelined = 1 } = call;
  if (!Number.isSafeInteger(bytes) || bytes <= 0) {
    throw new TuttiError(
      'invalidArgument',
      `a ${call.function} of ${bytes} bytes cannot be decided; give a whole number from 1 on`,
    );
  }
  if (!Number.isSafeInteger(pipelined) || pipelined <= 0) {
    throw new TuttiError(
      'invalidArgument',
      `${pipelined} pipelined operations are none; give a whole number from 1 on`,
    );
  }
}

/** Functions that reduce, of those that CollNet serves. */
const REDUCES: readonly NcclFunction[] = ['AllReduce', 'Reduce', 'ReduceScatter'];

/** Whether CollNet can do a call. */
export function collnetSupports({ collnet }: TuningInput, call: TuningCall): boolean {
  if (!collnet.enabled) return false;
  return !REDUCES.includes(call.function) || collnet.supports(networkOperator(call), call.type);
}

/** Operator that the network applies: averages are sums there. */
function networkOperator({ reduction = 'Sum', operator }: TuningCall): NetworkOperator {
  if (reduction === 'PreMulSum' || reduction === 'SumPostDiv') return 'sum';
  return operator ?? ({ Sum: 'sum', Prod: 'prod', MinMax: 'max' } as const)[reduction];
}

/** Types that the NVSwitch adds and compares, and those that it only adds. */
const NVLS_ALL: readonly ElementType[] = ['int32', 'uint32', 'int64', 'uint64', 'float16', 'bfloat16'];
const NVLS_SUM: readonly ElementType[] = ['float32', 'float64'];

/** Whether the NVSwitch can do a call's arithmetic. */
export function nvlsReduces({ function: fn, reduction = 'Sum', type }: TuningCall): boolean {
  if (fn === 'AllGather') return true;
  if (reduction === 'Sum') return NVLS_ALL.includes(type) || NVLS_SUM.includes(type);
  return reduction === 'MinMax' && NVLS_ALL.includes(type);
}

/** Whether NVLS can do a call. */
export const nvlsSupports = ({ nvls }: TuningInput, call: TuningCall): boolean =>
  nvls.enabled && nvlsReduces(call);
