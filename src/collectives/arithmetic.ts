/**
 * How the programs combine elements.
 *
 * Two rules exist in the field, and both are here:
 * - *Step* arithmetic (rings, trees): every hop rounds to the element type. A float average multiplies each
 *   rank's own input by 1/n before the first sum; an integer average divides once at the end.
 * - *Direct* arithmetic (a rank sees all contributions at once): narrow floats are summed in float32 and
 *   rounded once, and an average multiplies the finished sum, which float32 holds without overflow. float32 and float64
 *   have no wider type to go to: there every contribution is multiplied first, so that the sum cannot overflow where
 *   the average does not. Integer averages divide the finished sum.
 * Source: NCCL 2.30's ordinary kernels for the first, its symmetric-memory kernels for the second.
 */

import type { KernelBuilder, Value } from '../kernel/builder.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp, type StepOp } from '../kernel/element-types.js';

/** A reduction of one program: what is combined and how. */
export interface Reduction {
  readonly type: ElementType;
  readonly op: ReduceOp;
}

/** True for the floats that are summed in float32 where all contributions meet. */
export function hasWideSum(type: ElementType): boolean {
  const info = ELEMENT_TYPES[type];
  return info.kind === 'float' && info.size < 4;
}

/** Float32 packets that hold the lanes of one packet of a narrow type. */
function wideParts(type: ElementType): number {
  return 4 / ELEMENT_TYPES[type].size;
}

function stepOf(op: ReduceOp): StepOp {
  return op === 'avg' ? 'sum' : op;
}

/**
 * The scalar that an average needs, as the bits of its type: 1/n for floats (float64 for float64, the element
 * type in step arithmetic, float32 for everything else in direct arithmetic), the divisor n for integers.
 */
export type ArgumentRule = 'none' | 'divisor' | 'scaleFloat32' | 'scaleFloat64' | 'scaleElement';

export function argumentRule({ type, op }: Reduction, arithmetic: 'step' | 'direct'): ArgumentRule {
  if (op !== 'avg') return 'none';
  if (ELEMENT_TYPES[type].kind !== 'float') return 'divisor';
  if (type === 'float64') return 'scaleFloat64';
  return arithmetic === 'step' ? 'scaleElement' : 'scaleFloat32';
}

export interface StepArithmetic {
  /** Applied to the rank's own input when it is read. */
  before(own: Value<'packet'>): Value<'packet'>;
  /** One hop. */
  combine(a: Value<'packet'>, b: Value<'packet'>): Value<'packet'>;
  /** Applied once where the sum of all ranks is finished. */
  after(total: Value<'packet'>): Value<'packet'>;
}

/** `argument` is a function so that programs without an average do not load it. */
export function stepArithmetic(
  k: KernelBuilder,
  reduction: Reduction,
  argument: () => Value<'u64'>,
): StepArithmetic {
  const { type, op } = reduction;
  const rule = argumentRule(reduction, 'step');
  const step = stepOf(op);
  const combine = (a: Value<'packet'>, b: Value<'packet'>) => k.reduce(type, step, a, b);
  if (rule === 'none') return { before: (own) => own, combine, after: (total) => total };
  const scalar = argument();
  if (rule === 'divisor') {
    return { before: (own) => own, combine, after: (total) => k.divide(type, total, scalar) };
  }
  const scale = k.splat(type, scalar);
  return { before: (own) => k.reduce(type, 'prod', own, scale), combine, after: (total) => total };
}

/** Combines the packets of all ranks, given in rank order, into the result packet. */
export type DirectArithmetic = (contributions: readonly Value<'packet'>[]) => Value<'packet'>;

export function directArithmetic(
  k: KernelBuilder,
  reduction: Reduction,
  argument: () => Value<'u64'>,
): DirectArithmetic {
  const { type, op } = reduction;
  const rule = argumentRule(reduction, 'direct');
  const step = stepOf(op);
  if (hasWideSum(type) && step === 'sum') {
    const scale = rule === 'none' ? undefined : k.splat('float32', argument());
    return (contributions) => {
      if (contributions.length === 1 && scale === undefined) return contributions[0]!;
      const parts: Value<'packet'>[] = [];
      for (let part = 0; part < wideParts(type); part++) {
        let total = k.widen(type, contributions[0]!, part);
        for (const next of contributions.slice(1)) {
          total = k.reduce('float32', 'sum', total, k.widen(type, next, part));
        }
        parts.push(scale === undefined ? total : k.reduce('float32', 'prod', total, scale));
      }
      return k.narrow(type, parts);
    };
  }
  const scalar = rule === 'none' ? undefined : argument();
  const scale = scalar === undefined || rule === 'divisor' ? undefined : k.splat(type, scalar);
  return (contributions) => {
    const scaled = (packet: Value<'packet'>) =>
      scale === undefined ? packet : k.reduce(type, 'prod', packet, scale);
    let total = scaled(contributions[0]!);
    for (const next of contributions.slice(1)) total = k.reduce(type, step, total, scaled(next));
    return scalar === undefined || scale !== undefined ? total : k.divide(type, total, scalar);
  };
}
