/** Recursive doubling on one element at a time: the oracle of its tests. */
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';
import { averageArgument, divideBits, reduceBits } from '#src/kernel/numeric.js';
import type { Bits } from './reference.js';

/** Sum of ranks `from` to `from + size - 1` among those that exchange: halves, the lower one first. */
function sumOf(
  type: ElementType,
  step: Exclude<ReduceOp, 'avg'>,
  own: readonly bigint[],
  from: number,
  size: number,
): bigint {
  const power = 2 ** Math.floor(Math.log2(own.length));
  if (size > 1) {
    const low = sumOf(type, step, own, from, size / 2);
    return reduceBits(type, step, low, sumOf(type, step, own, from + size / 2, size / 2));
  }
  const other = own[from + power];
  return other === undefined ? own[from]! : reduceBits(type, step, own[from]!, other);
}

/** What every rank receives. */
export function recursiveExpected(
  { type, op, count }: { type: ElementType; op: ReduceOp; count: number },
  inputs: readonly Bits[],
): Bits[] {
  const n = inputs.length;
  const isFloat = ELEMENT_TYPES[type].kind === 'float';
  const step = op === 'avg' ? 'sum' : op;
  const power = 2 ** Math.floor(Math.log2(n));
  const result = Array.from({ length: count }, (_, i) => {
    const own = inputs.map((input) =>
      op === 'avg' && isFloat ? reduceBits(type, 'prod', input[i]!, averageArgument(type, n)) : input[i]!,
    );
    const total = sumOf(type, step, own, 0, power);
    return op === 'avg' && !isFloat ? divideBits(type, total, n) : total;
  });
  return inputs.map(() => result);
}
