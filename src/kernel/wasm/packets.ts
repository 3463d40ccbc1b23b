/**
 * Instructions of operations on 16-byte packets of elements. Operands are on the stack already.
 *
 * The arithmetic is that of one step of an ordinary kernel (rounded to the element type each time): integers
 * wrap around, floats of 32 and 64 bits are native, narrower floats go through narrow-floats.ts. In minima
 * and maxima a NaN loses against a number.
 */

import { ELEMENT_TYPES, type ElementType, type StepOp } from '../element-types.js';
import type { Code } from './code.js';
import { reduceNarrow } from './narrow-floats.js';

/** Replaces two packets by their lane-by-lane step. */
export function reducePackets(code: Code, type: ElementType, step: StepOp): void {
  switch (type) {
    case 'float32':
      floatStep(code, 'f32x4', step);
      break;
    case 'float64':
      floatStep(code, 'f64x2', step);
      break;
    case 'int8':
    case 'uint8':
      if (step === 'sum') code.op('i8x16.add');
      else if (step === 'prod') byteProduct(code);
      else code.op(`i8x16.${step}_${type === 'int8' ? 's' : 'u'}`);
      break;
    case 'int32':
    case 'uint32':
      if (step === 'sum') code.op('i32x4.add');
      else if (step === 'prod') code.op('i32x4.mul');
      else code.op(`i32x4.${step}_${type === 'int32' ? 's' : 'u'}`);
      break;
    case 'int64':
    case 'uint64':
      if (step === 'sum') code.op('i64x2.add');
      else if (step === 'prod') code.op('i64x2.mul');
      else wideExtreme(code, step, type === 'uint64');
      break;
    case 'float16':
    case 'bfloat16':
    case 'float8e4m3':
    case 'float8e5m2':
      reduceNarrow(code, type, step);
      break;
  }
}

function floatStep(code: Code, shape: 'f32x4' | 'f64x2', step: StepOp): void {
  if (step === 'sum') code.op(`${shape}.add`);
  else if (step === 'prod') code.op(`${shape}.mul`);
  else {
    code.scratch('v128', 2, (a, b) => {
      code.set(b!);
      code.set(a!);
      // A NaN in a gives way to b. Then pmin(a, b), which is b < a ? b : a, leaves a where b is a NaN.
      code.get(b!, a!, a!, a!);
      code.op(`${shape}.ne`, 'v128.bitselect');
      code.tee(a!);
      code.get(b!);
      code.op(step === 'min' ? `${shape}.pmin` : `${shape}.pmax`);
      // Equal values: both of them together, so that -0 is less than +0 whatever the order of operands.
      code.get(b!, a!, b!);
      if (step === 'min') code.op(`${shape}.eq`, 'v128.and', 'v128.or');
      else code.op(`${shape}.ne`, 'v128.or', 'v128.and');
    });
  }
}

/** Even and odd bytes as 16-bit products; the low byte of each product is the result. */
function byteProduct(code: Code): void {
  code.scratch('v128', 2, (a, b) => {
    code.set(b!);
    code.set(a!);
    code.get(a!, b!);
    code.op('i16x8.mul');
    code.lanes16(0x00ff);
    code.op('v128.and');
    // (a >> 8) * (b & 0xff00): the product of the odd bytes, in the odd byte.
    code.get(a!);
    code.i32(8);
    code.op('i16x8.shr_u');
    code.get(b!);
    code.lanes16(0xff00);
    code.op('v128.and', 'i16x8.mul', 'v128.or');
  });
}

/** 64-bit lanes have a signed comparison only; flipping the sign bits makes it an unsigned one. */
function wideExtreme(code: Code, step: 'min' | 'max', unsigned: boolean): void {
  const sign = new Uint8Array(16);
  sign[7] = sign[15] = 0x80;
  code.scratch('v128', 2, (a, b) => {
    code.set(b!);
    code.set(a!);
    const keyed = (x: number) => {
      code.get(x);
      if (!unsigned) return;
      code.v128(sign);
      code.op('v128.xor');
    };
    if (step === 'min') code.get(b!, a!);
    else code.get(a!, b!);
    keyed(a!);
    keyed(b!);
    code.op('i64x2.gt_s', 'v128.bitselect');
  });
}

/** Replaces the bits of one element (i64) by a packet that repeats its low bits. */
export function splatPacket(code: Code, type: ElementType): void {
  switch (ELEMENT_TYPES[type].size) {
    case 1:
      code.op('i32.wrap_i64', 'i8x16.splat');
      break;
    case 2:
      code.op('i32.wrap_i64', 'i16x8.splat');
      break;
    case 4:
      code.op('i32.wrap_i64', 'i32x4.splat');
      break;
    case 8:
      code.op('i64x2.splat');
      break;
  }
}

/** Replaces the low and high halves (two i64) by a packet. */
export function makePacket(code: Code): void {
  code.scratch('i64', 1, (high) => {
    code.set(high!);
    code.op('i64x2.splat');
    code.get(high!);
    code.lane('i64x2.replace_lane', 1);
  });
}
