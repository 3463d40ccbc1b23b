/**
 * Division of integer lanes by one positive number, truncating toward zero.
 *
 * WebAssembly has no integer division of vectors. The quotient of two integers below 2^24 (2^53), computed
 * as float32 (float64) and truncated, is exact: the true quotient differs from the next larger integer by at
 * least 1 / divisor, which is more than the rounding error. Divisors too large for that give quotients
 * below one either way. 64-bit lanes are divided one by one.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { ElementType } from '../element-types.js';
import type { Code } from './code.js';

/** Replaces packet and divisor (i64, unsigned, not 0) on the stack by the packet of quotients. */
export function divideLanes(code: Code, type: ElementType): void {
  switch (type) {
    case 'int8':
    case 'uint8':
      divideBytes(code, type === 'int8' ? 's' : 'u');
      break;
    case 'int32':
    case 'uint32':
      divideWords(code, type === 'int32' ? 's' : 'u');
      break;
    case 'int64':
    case 'uint64':
      divideLongs(code, type === 'int64');
      break;
    default:
      throw new TuttiError('internalError', `pk.divide is for integers, not ${type}`);
  }
}

function divideBytes(code: Code, sign: 's' | 'u'): void {
  code.scratch('v128', 2, (packet, divisor) => {
    code.op('f32.convert_i64_u', 'f32x4.splat');
    code.set(divisor!);
    code.set(packet!);
    for (const half of ['low', 'high'] as const) {
      for (const quarter of ['low', 'high'] as const) {
        code.get(packet!);
        code.op(`i16x8.extend_${half}_i8x16_${sign}`, `i32x4.extend_${quarter}_i16x8_${sign}`);
        code.op('f32x4.convert_i32x4_s');
        code.get(divisor!);
        code.op('f32x4.div', 'i32x4.trunc_sat_f32x4_s');
      }
      code.op('i16x8.narrow_i32x4_s');
    }
    code.op(`i8x16.narrow_i16x8_${sign}`);
  });
}

/** Moves the high 8 bytes down. */
const HIGH_HALF = [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];
/** The low 8 bytes of two vectors. */
const LOW_HALVES = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];

function divideWords(code: Code, sign: 's' | 'u'): void {
  code.scratch('v128', 2, (packet, divisor) => {
    code.op('f64.convert_i64_u', 'f64x2.splat');
    code.set(divisor!);
    code.set(packet!);
    for (const high of [false, true]) {
      code.get(packet!);
      if (high) {
        code.get(packet!);
        code.shuffle(HIGH_HALF);
      }
      code.op(`f64x2.convert_low_i32x4_${sign}`);
      code.get(divisor!);
      code.op('f64x2.div', `i32x4.trunc_sat_f64x2_${sign}_zero`);
    }
    code.shuffle(LOW_HALVES);
  });
}

/** Signed lanes: the absolute value is divided as an unsigned number and gets its sign back. */
function divideLongs(code: Code, signed: boolean): void {
  code.scratch('v128', 1, (packet) => {
    code.scratch('i64', 3, (...locals) => {
      const [divisor, value, sign] = locals as [number, number, number];
      code.set(divisor);
      code.set(packet!);
      for (const lane of [0, 1]) {
        code.get(packet!);
        code.lane('i64x2.extract_lane', lane);
        if (signed) {
          // (x ^ s) - s negates x where s is -1.
          code.tee(value);
          code.i64(63n);
          code.op('i64.shr_s');
          code.tee(sign);
          code.get(value);
          code.op('i64.xor');
          code.get(sign);
          code.op('i64.sub');
        }
        code.get(divisor);
        code.op('i64.div_u');
        if (signed) {
          code.get(sign);
          code.op('i64.xor');
          code.get(sign);
          code.op('i64.sub');
        }
        if (lane === 0) code.op('i64x2.splat');
        else code.lane('i64x2.replace_lane', 1);
      }
    });
  });
}
