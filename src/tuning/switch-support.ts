/**
 * What switches can compute. Those that are emulated on host memory could do everything; they refuse what real ones
 * lack, so that an algorithm that runs here runs there.
 */

import type { Collective } from '../collectives/control-block.js';
import { hasNodeSwitch, type SwitchedName } from '../collectives/switched.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '../kernel/element-types.js';
import { type DeviceReduction, nvlsReduces } from './call.js';

/** The reduction on the device: an average scales floats first and divides integers last. */
function deviceReduction(op: ReduceOp, type: ElementType): DeviceReduction {
  switch (op) {
    case 'sum':
      return 'Sum';
    case 'prod':
      return 'Prod';
    case 'max':
    case 'min':
      return 'MinMax';
    case 'avg':
      return ELEMENT_TYPES[type].kind === 'float' ? 'PreMulSum' : 'SumPostDiv';
  }
}

/** Types that the emulated network adds and compares: SHARP's, which are those of 16-bit floats, 32 and 64 bits. */
const networkReduces = (op: ReduceOp, type: ElementType): boolean =>
  op !== 'prod' && ELEMENT_TYPES[type].size >= 2;

/** Why the switches of an algorithm cannot do a reduction; undefined where they can. */
export function switchRefusal(
  algorithm: SwitchedName,
  collective: Collective,
  op: ReduceOp,
  type: ElementType,
  nodes: number,
): string | undefined {
  if (collective === 'allGather') return undefined;
  if (hasNodeSwitch(algorithm)) {
    const fn = collective === 'reduceScatter' ? 'ReduceScatter' : 'AllReduce';
    if (!nvlsReduces({ function: fn, bytes: 1, type, reduction: deviceReduction(op, type) })) {
      return `has switches that do no ${op} of ${type}`;
    }
  }
  const usesNetwork = !hasNodeSwitch(algorithm) || (algorithm === 'NVLS' && nodes > 1);
  return usesNetwork && !networkReduces(op, type) ? `has a network that does no ${op} of ${type}` : undefined;
}
