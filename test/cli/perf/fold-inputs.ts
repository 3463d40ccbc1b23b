/** Test oracle: folds the reference inputs one rank after the other with the arithmetic of one ring step. */
import { decodeFloat, encodeFloat, inputBits } from '#src/cli/perf/data-reference.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';

/** Result bits of reducing element `index` over `n` ranks in the given order (default: rank order). */
export function foldInputs(
  type: ElementType,
  op: ReduceOp,
  n: number,
  seed: bigint,
  index: bigint,
  order: readonly number[] = Array.from({ length: n }, (_, r) => r),
): bigint {
  const inputs = order.map((rank) => inputBits(type, op, n, rank, seed, index));
  return ELEMENT_TYPES[type].kind === 'float' ? foldFloats(type, op, inputs) : foldIntegers(type, op, inputs);
}

function foldIntegers(type: ElementType, op: ReduceOp, inputs: readonly bigint[]): bigint {
  const bits = 8 * ELEMENT_TYPES[type].size;
  const number = (x: bigint): bigint =>
    ELEMENT_TYPES[type].kind === 'signed' ? BigInt.asIntN(bits, x) : BigInt.asUintN(bits, x);
  let total = number(inputs[0]!);
  for (const input of inputs.slice(1)) {
    const next = number(input);
    if (op === 'prod') total = number(total * next);
    else if (op === 'max') total = larger(total, next);
    else if (op === 'min') total = smaller(total, next);
    else total = number(total + next);
  }
  return BigInt.asUintN(bits, op === 'avg' ? total / BigInt(inputs.length) : total);
}

/** One operation rounded as the type does it: 8-bit floats go through half precision. */
function step(type: ElementType, op: ReduceOp, a: number, b: number): number {
  const exact = op === 'prod' ? a * b : op === 'max' ? Math.max(a, b) : op === 'min' ? Math.min(a, b) : a + b;
  const middle =
    ELEMENT_TYPES[type].size === 1 ? decodeFloat('float16', encodeFloat('float16', exact)) : exact;
  return decodeFloat(type, encodeFloat(type, middle));
}

function foldFloats(type: ElementType, op: ReduceOp, inputs: readonly bigint[]): bigint {
  let values = inputs.map((bits) => decodeFloat(type, bits));
  if (op === 'avg' && inputs.length > 1) {
    const exact = 1 / inputs.length;
    const scale = type === 'float64' ? exact : decodeFloat(type, encodeFloat(type, Math.fround(exact)));
    values = values.map((value) => step(type, 'prod', value, scale));
  }
  return encodeFloat(
    type,
    values.reduce((total, value) => step(type, op, total, value)),
  );
}

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
