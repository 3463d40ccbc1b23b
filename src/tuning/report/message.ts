/**
 * From a size that a user names to a call that can be made: whole elements, the same number for every rank.
 */
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '../../kernel/element-types.js';
import { isScattered } from '../algorithms.js';
import type { DeviceReduction, TuningCall } from '../call.js';
import type { NetworkOperator } from '../input.js';
import type { NcclFunction } from '../names.js';

/** What is asked about, but for the size. */
export interface MessageKind {
  readonly function: NcclFunction;
  readonly type: ElementType;
  readonly op: ReduceOp;
  /** Both buffers are registered. */
  readonly registered: boolean;
}

/** Bytes that one element per rank makes of the whole message. */
export const grainOf = ({ function: fn, type }: MessageKind, nRanks: number): number =>
  ELEMENT_TYPES[type].size * (isScattered(fn) ? nRanks : 1);

/** Elements per rank of a message of about so many bytes: rounded down, one at least. */
export const countFor = (kind: MessageKind, bytes: number, nRanks: number): number =>
  Math.max(1, Math.floor(bytes / grainOf(kind, nRanks)));

/** Whether a function reduces, so that the operator counts. */
export const reduces = (fn: NcclFunction): boolean => fn !== 'Broadcast' && fn !== 'AllGather';

/** The call of `count` elements per rank, as NCCL decides it. */
export function callOf(kind: MessageKind, count: number, nRanks: number): TuningCall {
  const { function: fn, type, op, registered } = kind;
  return {
    function: fn,
    bytes: count * grainOf(kind, nRanks),
    // What only moves data moves bytes.
    type: reduces(fn) ? type : 'int8',
    reduction: reduces(fn) ? reductionOf(type, op) : 'Sum',
    operator: reduces(fn) ? networkOperatorOf(op) : 'sum',
    registered,
  };
}

/** Kind of a reduction on the device: averages multiply floats before, and divide integers after. */
function reductionOf(type: ElementType, op: ReduceOp): DeviceReduction {
  switch (op) {
    case 'sum':
      return 'Sum';
    case 'prod':
      return 'Prod';
    case 'avg':
      return ELEMENT_TYPES[type].kind === 'float' ? 'PreMulSum' : 'SumPostDiv';
    default:
      return 'MinMax';
  }
}

const networkOperatorOf = (op: ReduceOp): NetworkOperator => (op === 'avg' ? 'sum' : op);
