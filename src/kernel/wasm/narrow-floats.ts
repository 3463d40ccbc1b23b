/**
 * Packets of float16, bfloat16 and the two fp8 types: conversion to and from float32, and reduction steps,
 * all without branches.
 *
 * Widening: exponent and mantissa are put where float32 has them and a constant is added to the exponent. That
 * takes subnormal numbers for 1.m instead of 0.m; with s the smallest normal number, they are corrected by
 * min(x, 2x - s), which leaves all others alone. (Multiplying instead is shorter, but float32 subnormals as
 * operands cost x86 processors hundreds of cycles.) In formats with infinities the constant is so large that
 * their exponent becomes float32's own for infinities and NaNs; the value is then 2^112 times too large, which
 * is taken back after the operation, where an overflow has become an infinity by itself.
 *
 * Narrowing: adding a power of two that is 2^(23 - mantissa bits) times the value's own exponent makes the
 * float32 adder round to the narrow mantissa, to nearest even; the low bits of the sum are then the mantissa
 * and its exponent is the narrow one, but for constants. For subnormal results the exponent added is that of
 * the smallest normal number. Larger values are clamped first (float16: to 65536, which encodes infinity).
 *
 * A sum or product in float32 rounded once more is the correctly rounded one: float32 has more than twice the
 * bits of every type here. That also holds for fp8 by way of float16, as the rules want it (tested with all
 * pairs). Minima and maxima are decided on the bits, as integers of one's complement.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { ElementType, StepOp } from '../element-types.js';
import type { Code } from './code.js';

type SmallExponent = 'float16' | 'float8e4m3' | 'float8e5m2';
type Narrow = SmallExponent | 'bfloat16';

interface Format {
  readonly width: 8 | 16;
  readonly mantissaBits: number;
  readonly exponentBias: number;
  /** What widening adds to the exponent. */
  readonly exponentShift: number;
  /** Magnitudes are clamped to this before narrowing. */
  readonly clamp: number;
  /** What makes a NaN of the code of `clamp`. */
  readonly quietBit: number;
}

/** From the exponent of all ones of five bits to that of eight bits. */
const TO_SPECIAL = 255 - 31;

const FORMATS: Record<SmallExponent, Format> = {
  float16: {
    width: 16,
    mantissaBits: 10,
    exponentBias: 15,
    exponentShift: TO_SPECIAL,
    clamp: 65536, // code 0x7c00
    quietBit: 0x200,
  },
  // No infinity and a single NaN, which would be 480.
  float8e4m3: {
    width: 8,
    mantissaBits: 3,
    exponentBias: 7,
    exponentShift: 127 - 7,
    clamp: 448, // code 0x7e
    quietBit: 0x01,
  },
  float8e5m2: {
    width: 8,
    mantissaBits: 2,
    exponentBias: 15,
    exponentShift: TO_SPECIAL,
    clamp: 57344, // code 0x7b
    quietBit: 0x04,
  },
};

const SIGN = 0x8000_0000;
const FLOAT32_EXPONENT = 0x7f80_0000;
const FLOAT32_BIAS = 127;
const FLOAT32_MANTISSA_BITS = 23;

/** Smallest code of a magnitude that is a NaN, less one, for decisions on bits. */
const LARGEST_NUMBER: Record<Narrow, number> = {
  float16: 0x7c00,
  bfloat16: 0x7f80,
  float8e4m3: 0x7e,
  float8e5m2: 0x7c,
};

function requireNarrow(type: ElementType): Narrow {
  if (type in LARGEST_NUMBER) return type as Narrow;
  throw new TuttiError('internalError', `${type} is not a narrow float type`);
}

// ---- widening ----

/** The power of two by which `widenLanes` leaves values too large. */
function excess(f: Format): number {
  return f.exponentShift - (FLOAT32_BIAS - f.exponentBias);
}

/** Takes the excess back. */
function scaleDown(code: Code, f: Format): void {
  if (excess(f) === 0) return;
  code.lanesFloat32(2 ** -excess(f));
  code.op('f32x4.mul');
}

/**
 * Turns lanes with the narrow bits from bit `top` downwards, and copies of the sign above, into float32 that is
 * too large by the excess. The NaN of float8e4m3 comes out as 480.
 */
function widenLanes(code: Code, f: Format, top: number): void {
  const field = f.width - 1; // bits without sign
  const lowest = FLOAT32_MANTISSA_BITS - f.mantissaBits; // where the lowest bit belongs
  const shift = lowest - (top - field);
  code.scratch('v128', 2, (...locals) => {
    const [bits, value] = locals as [number, number];
    code.tee(bits);
    if (shift > 0) {
      code.i32(shift);
      code.op('i32x4.shl');
    } else if (shift < 0) {
      code.i32(-shift);
      code.op('i32x4.shr_u');
    }
    code.lanes32(((1 << field) - 1) << lowest);
    code.op('v128.and');
    code.lanes32(f.exponentShift << FLOAT32_MANTISSA_BITS);
    code.op('i32x4.add');
    code.set(value);
    // pmin(x, 2x - s) is x where that is a NaN.
    code.get(value, value, value);
    code.op('f32x4.add');
    code.lanesFloat32(-(2 ** (f.exponentShift + 1 - FLOAT32_BIAS)));
    code.op('f32x4.add', 'f32x4.pmin');
    code.get(bits);
    code.lanes32(SIGN);
    code.op('v128.and', 'v128.or');
  });
}

/** Makes NaNs of lanes of 480, the NaN of float8e4m3. */
function restoreNaN(code: Code): void {
  code.scratch('v128', 1, (value) => {
    code.tee(value!);
    code.op('f32x4.abs');
    code.lanesFloat32(480);
    code.op('f32x4.ge');
    code.get(value!);
    code.op('v128.or');
  });
}

/** Replaces a packet of a narrow type by the float32 packet of its lanes 4 part .. 4 part + 3. */
export function widenToFloat32(code: Code, elementType: ElementType, part: number): void {
  const type = requireNarrow(elementType);
  const half = (index: number) => (index === 0 ? 'low' : 'high');
  if (type === 'bfloat16') {
    code.op(`i32x4.extend_${half(part)}_i16x8_u`);
    code.i32(16);
    code.op('i32x4.shl');
    return;
  }
  const format = FORMATS[type];
  if (format.width === 8) code.op(`i16x8.extend_${half(part >> 1)}_i8x16_s`);
  code.op(`i32x4.extend_${half(part & 1)}_i16x8_s`);
  widenLanes(code, format, format.width - 1);
  scaleDown(code, format);
  if (type === 'float8e4m3') restoreNaN(code);
}

// ---- narrowing ----

/** What has to be added to a code from `roundLanes`, modulo 2^width. */
function codeOffset(f: Format): number {
  const smallestExponent = 1 - f.exponentBias;
  const exponent = FLOAT32_BIAS + FLOAT32_MANTISSA_BITS - f.mantissaBits + smallestExponent;
  return -(exponent * 2 ** f.mantissaBits);
}

/**
 * Replaces float32 lanes by lanes whose low `width` bits, plus `codeOffset`, are the rounded magnitude. A NaN
 * becomes the code of `clamp`.
 */
function roundLanes(code: Code, f: Format): void {
  const gap = FLOAT32_MANTISSA_BITS - f.mantissaBits;
  code.scratch('v128', 1, (value) => {
    code.op('f32x4.abs');
    code.set(value!);
    code.lanesFloat32(f.clamp);
    code.get(value!);
    code.op('f32x4.pmin'); // the value where it is less than the clamp, else (also for NaN) the clamp
    code.tee(value!);
    code.lanes32(FLOAT32_EXPONENT);
    code.op('v128.and');
    code.lanes32((FLOAT32_BIAS + 1 - f.exponentBias) << FLOAT32_MANTISSA_BITS);
    code.op('i32x4.max_s');
    code.lanes32(gap << FLOAT32_MANTISSA_BITS);
    code.op('i32x4.add');
    code.get(value!);
    code.op('f32x4.add');
    code.tee(value!);
    code.get(value!);
    code.i32(gap);
    code.op('i32x4.shr_u', 'i32x4.add');
  });
}

/** Replaces float32 lanes by the narrow bits in the low end of each 32-bit lane, the rest zero. */
function narrowLanes(code: Code, f: Format): void {
  code.scratch('v128', 1, (value) => {
    code.tee(value!);
    roundLanes(code, f);
    code.lanes32(codeOffset(f));
    code.op('i32x4.add');
    code.lanes32(2 ** (f.width - 1) - 1);
    code.op('v128.and');
    code.get(value!);
    code.i32(32 - f.width);
    code.op('i32x4.shr_u');
    code.lanes32(2 ** (f.width - 1));
    code.op('v128.and', 'v128.or');
    code.get(value!, value!);
    code.op('f32x4.ne');
    code.lanes32(f.quietBit);
    code.op('v128.and', 'v128.or');
  });
}

/** Adds to float32 bits what makes the upper 16 of them the rounded bfloat16; a NaN keeps its bits. */
function roundToBfloat16(code: Code, value: number): void {
  // To nearest even: half of the last place less one, and one more where the last place is odd.
  code.get(value);
  code.i32(16);
  code.op('i32x4.shr_u');
  code.lanes32(1);
  code.op('v128.and');
  code.lanes32(0x7fff);
  code.op('i32x4.add');
  code.get(value, value);
  code.op('f32x4.eq', 'v128.and');
  code.get(value);
  code.op('i32x4.add');
}

/** Replaces float32 packets (one per part) by one packet of the narrow type. */
export function narrowFromFloat32(code: Code, elementType: ElementType): void {
  const type = requireNarrow(elementType);
  const parts = type === 'float16' || type === 'bfloat16' ? 2 : 4;
  code.scratch('v128', parts, (...locals) => {
    for (const local of [...locals].reverse()) code.set(local);
    locals.forEach((local, part) => {
      if (type === 'bfloat16') {
        roundToBfloat16(code, local);
        // A NaN whose payload is in the lower half only must not become an infinity.
        code.get(local, local);
        code.op('f32x4.ne');
        code.lanes32(0x0040_0000);
        code.op('v128.and', 'v128.or');
        code.i32(16);
        code.op('i32x4.shr_u');
      } else {
        code.get(local);
        narrowLanes(code, FORMATS[type]);
      }
      if (part % 2 === 1) code.op(parts === 2 ? 'i16x8.narrow_i32x4_u' : 'i16x8.narrow_i32x4_s');
    });
    if (parts === 4) code.op('i8x16.narrow_i16x8_u');
  });
}

// ---- reduction steps ----

/** Replaces two packets of a narrow type by their lane-by-lane step. */
export function reduceNarrow(code: Code, type: Narrow, step: StepOp): void {
  if (step === 'min' || step === 'max') narrowExtreme(code, type, step);
  else {
    const operation = step === 'sum' ? 'f32x4.add' : 'f32x4.mul';
    if (type === 'bfloat16') bfloat16Arithmetic(code, operation);
    else arithmetic(code, type, operation);
  }
}

/**
 * Even and odd lanes are widened in place, by shifts alone: slot j of a 32-bit lane holds the narrow lane at
 * bits j width .. (j + 1) width - 1.
 */
function arithmetic(code: Code, type: SmallExponent, operation: 'f32x4.add' | 'f32x4.mul'): void {
  const f = FORMATS[type];
  const slots = 32 / f.width;
  code.scratch('v128', 5, (...locals) => {
    const [a, b, result, codes, marks] = locals as [number, number, number, number, number];
    code.set(b);
    code.set(a);
    for (let slot = 0; slot < slots; slot++) {
      const at = slot * f.width;
      const lastSlot = slot === slots - 1;
      for (const x of [a, b]) {
        code.get(x);
        if (!lastSlot) {
          code.i32(32 - f.width - at);
          code.op('i32x4.shl');
        }
        widenLanes(code, f, 31);
        // Of a product, one factor alone may be too large.
        if (operation === 'f32x4.mul' && x === b) scaleDown(code, f);
      }
      code.op(operation);
      scaleDown(code, f);
      code.tee(result);
      roundLanes(code, f);
      if (slot === 0) {
        code.lanes32(2 ** f.width - 1);
        code.op('v128.and');
      } else {
        if (!lastSlot) {
          code.lanes32(2 ** f.width - 1);
          code.op('v128.and');
        }
        code.i32(at);
        code.op('i32x4.shl');
        code.get(codes);
        code.op('v128.or');
      }
      code.set(codes);

      // The sign of the result, and what makes it a NaN, are put on top of the finished code.
      code.get(result);
      code.lanes32(SIGN);
      code.op('v128.and');
      if (!lastSlot) {
        code.i32(32 - f.width - at);
        code.op('i32x4.shr_u');
      }
      if (type !== 'float8e4m3') {
        code.get(result, result);
        code.op('f32x4.ne');
        code.lanes32(f.quietBit << at);
        code.op('v128.and', 'v128.or');
      }
      if (slot > 0) {
        code.get(marks);
        code.op('v128.or');
      }
      code.set(marks);
    }
    code.get(codes);
    if (f.width === 16) {
      code.lanes16(codeOffset(f));
      code.op('i16x8.add');
    } else {
      code.lanes8(codeOffset(f));
      code.op('i8x16.add');
    }
    code.get(marks);
    code.op('v128.or');
    if (type === 'float8e4m3') {
      // Without infinities a result is a NaN exactly where an operand is one.
      for (const x of [a, b]) {
        code.get(x);
        code.lanes8(0x7f);
        code.op('v128.and');
        code.lanes8(0x7f);
        code.op('i8x16.eq', 'v128.or');
      }
    }
  });
}

function bfloat16Arithmetic(code: Code, operation: 'f32x4.add' | 'f32x4.mul'): void {
  code.scratch('v128', 3, (...locals) => {
    const [a, b, result] = locals as [number, number, number];
    code.set(b);
    code.set(a);
    for (const x of [a, b]) {
      code.get(x);
      code.i32(16);
      code.op('i32x4.shl');
    }
    code.op(operation);
    code.set(result);
    roundToBfloat16(code, result);
    code.i32(16);
    code.op('i32x4.shr_u');
    for (const x of [a, b]) {
      code.get(x);
      code.lanes32(0xffff_0000);
      code.op('v128.and');
    }
    code.op(operation);
    code.set(result);
    roundToBfloat16(code, result);
    code.lanes32(0xffff_0000);
    code.op('v128.and', 'v128.or');
  });
}

/**
 * Keys that order like the values: the bits of a positive number, the inverted magnitude of a negative one.
 * A NaN is first given the sign that makes it lose.
 */
function narrowExtreme(code: Code, type: Narrow, step: 'min' | 'max'): void {
  const wide = type === 'float16' || type === 'bfloat16';
  const shape = wide ? 'i16x8' : 'i8x16';
  const sign = wide ? 0x8000 : 0x80;
  const fill = (bits: number) => (wide ? code.lanes16(bits) : code.lanes8(bits));
  const key = (x: number) => {
    code.scratch('v128', 1, (signed) => {
      code.get(x);
      code.get(x);
      fill(sign - 1);
      code.op('v128.and');
      fill(LARGEST_NUMBER[type]);
      code.op(`${shape}.gt_s`);
      fill(sign);
      code.op('v128.and', step === 'min' ? 'v128.andnot' : 'v128.or');
      code.tee(signed!);
      code.get(signed!);
      fill(0);
      code.op(`${shape}.lt_s`);
      fill(sign - 1);
      code.op('v128.and', 'v128.xor');
    });
  };
  code.scratch('v128', 2, (a, b) => {
    code.set(b!);
    code.set(a!);
    code.get(a!, b!);
    key(a!);
    key(b!);
    code.op(step === 'min' ? `${shape}.lt_s` : `${shape}.gt_s`, 'v128.bitselect');
    if (type !== 'float8e5m2') return;
    // Conversions to fp8 saturate: an infinity (0x7c) comes back as the largest number (0x7b).
    code.tee(a!);
    code.get(a!);
    fill(sign - 1);
    code.op('v128.and');
    fill(LARGEST_NUMBER[type]);
    code.op('i8x16.eq', 'i8x16.add');
  });
}
