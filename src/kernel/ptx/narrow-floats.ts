/**
 * Packets of float16, bfloat16 and the two fp8 types: conversion to and from float32, and reduction steps.
 *
 * Where the architecture has an instruction it is used, otherwise bits are computed; the results are the same.
 * - float16 sums and products have been native since before sm_70; conversions too.
 * - bfloat16: sm_80 has a fused multiply-add only, which gives the sum as a x 1 + b and the product as
 *   a x b + (-0) with the one rounding that is due; sm_90 has both. Before, float32 and a rounding of bits
 *   (float32 has more than twice the bits, so that rounding twice is the same as once).
 * - fp8 conversions are native from sm_89 on. Before: the bits of e5m2 are the upper byte of a float16; those of
 *   e4m3, put where float16 has exponent and mantissa, are a number that is 2^8 times too small. Narrowing lets
 *   the float32 adder round, as in the WebAssembly target (wasm/narrow-floats.ts has the derivation).
 * fp8 steps go through float16 by the rules of numeric.ts.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { ElementType, StepOp } from '../element-types.js';
import type { Code } from './code.js';
import { float32Literal, type Words, word } from './values.js';

type Float8 = 'float8e4m3' | 'float8e5m2';
type Narrow = Float8 | 'float16' | 'bfloat16';

const NARROW: readonly string[] = ['float16', 'bfloat16', 'float8e4m3', 'float8e5m2'];

export function isNarrow(type: ElementType): type is Narrow {
  return NARROW.includes(type);
}

function requireNarrow(type: ElementType): Narrow {
  if (isNarrow(type)) return type;
  throw new TuttiError('internalError', `${type} is not a narrow float type`);
}

/** Compute capabilities from which on an instruction exists. */
const HALF_EXTREME = 80; // minimum and maximum of 16-bit floats
const PAIR_CONVERSION = 80; // two float32 to one word of 16-bit floats
const BFLOAT16_FMA = 80;
const BFLOAT16_ARITHMETIC = 90;
const FLOAT8_CONVERSION = 89;

/** Language version with fp8 conversions: sm_89 got them later than sm_90. */
function needFloat8(code: Code): void {
  code.need(code.capability >= 90 ? 78 : 81);
}

// ---- words and their halves ----

/** The two 16-bit halves of a word. */
function halves(code: Code, w: string): [string, string] {
  const low = code.register('b16');
  const high = code.register('b16');
  code.op('mov.b32', `{${low}, ${high}}`, w);
  return [low, high];
}

function joined(code: Code, low: string, high: string): string {
  return code.result('b32', 'mov.b32', `{${low}, ${high}}`);
}

/** Float32 bits of the two lanes of a word of float16 or bfloat16. */
function widenWord(code: Code, type: 'float16' | 'bfloat16', w: string): [string, string] {
  if (type === 'bfloat16') {
    return [code.result('b32', 'shl.b32', w, '16'), code.result('b32', 'and.b32', w, word(0xffff0000))];
  }
  const [low, high] = halves(code, w);
  return [code.result('f32', 'cvt.f32.f16', low), code.result('f32', 'cvt.f32.f16', high)];
}

/** A word of float16 or bfloat16 from two float32, to nearest even. */
function narrowWord(code: Code, type: 'float16' | 'bfloat16', low: string, high: string): string {
  if (code.capability >= PAIR_CONVERSION) {
    code.need(70);
    return code.result('b32', `cvt.rn.${type === 'float16' ? 'f16x2' : 'bf16x2'}.f32`, high, low);
  }
  if (type === 'float16') {
    const round = (value: string) => code.result('b16', 'cvt.rn.f16.f32', value);
    return joined(code, round(low), round(high));
  }
  const round = (value: string) => {
    const bits = code.result('b32', 'mov.b32', value);
    const odd = code.result('b32', 'bfe.u32', bits, '16', '1');
    const half = code.result('b32', 'add.u32', odd, word(0x7fff));
    const rounded = code.result('b32', 'add.u32', bits, half);
    const number = code.result('pred', 'setp.num.f32', value, value);
    return code.result('b32', 'selp.b32', rounded, word(0x7fff0000), number);
  };
  return code.result('b32', 'prmt.b32', round(low), round(high), word(0x7632));
}

// ---- steps on words of two 16-bit lanes ----

function stepInFloat32(code: Code, type: 'float16' | 'bfloat16', step: StepOp, a: string, b: string): string {
  const x = widenWord(code, type, a);
  const y = widenWord(code, type, b);
  const operation = step === 'sum' ? 'add.rn.f32' : step === 'prod' ? 'mul.rn.f32' : `${step}.f32`;
  const [low, high] = [0, 1].map((i) => code.result('f32', operation, x[i]!, y[i]!));
  return narrowWord(code, type, low!, high!);
}

function float16Step(code: Code, step: StepOp, a: string, b: string): string {
  if (step === 'sum') return code.result('b32', 'add.rn.f16x2', a, b);
  if (step === 'prod') return code.result('b32', 'mul.rn.f16x2', a, b);
  if (code.capability < HALF_EXTREME) return stepInFloat32(code, 'float16', step, a, b);
  code.need(70);
  return code.result('b32', `${step}.f16x2`, a, b);
}

function bfloat16Step(code: Code, step: StepOp, a: string, b: string): string {
  if (code.capability < BFLOAT16_FMA) return stepInFloat32(code, 'bfloat16', step, a, b);
  code.need(70);
  if (step === 'min' || step === 'max') return code.result('b32', `${step}.bf16x2`, a, b);
  if (code.capability >= BFLOAT16_ARITHMETIC) {
    code.need(78);
    return code.result('b32', step === 'sum' ? 'add.rn.bf16x2' : 'mul.rn.bf16x2', a, b);
  }
  const literal = (bits: number) => code.result('b32', 'mov.b32', word(bits));
  return step === 'sum'
    ? code.result('b32', 'fma.rn.bf16x2', a, literal(0x3f803f80), b)
    : code.result('b32', 'fma.rn.bf16x2', a, b, literal(0x80008000));
}

// ---- fp8 ----

interface Format {
  readonly mantissaBits: number;
  readonly exponentBias: number;
  /** Magnitudes are clamped to this, the largest finite value, before narrowing. */
  readonly clamp: number;
  /** What makes a NaN of the code of `clamp`. */
  readonly quietBit: number;
  /** Name in conversions of pairs. */
  readonly pair: string;
}

const FORMATS: Readonly<Record<Float8, Format>> = {
  float8e4m3: { mantissaBits: 3, exponentBias: 7, clamp: 448, quietBit: 0x01, pair: 'e4m3x2' },
  float8e5m2: { mantissaBits: 2, exponentBias: 15, clamp: 57344, quietBit: 0x04, pair: 'e5m2x2' },
};

const FLOAT32_BIAS = 127;
const FLOAT32_MANTISSA_BITS = 23;

/** The four lanes of a word of fp8 as two words of float16; exact. */
function float8ToFloat16(code: Code, type: Float8, w: string): [string, string] {
  if (code.capability >= FLOAT8_CONVERSION) {
    needFloat8(code);
    const [low, high] = halves(code, w);
    const convert = (half: string) => code.result('b32', `cvt.rn.f16x2.${FORMATS[type].pair}`, half);
    return [convert(low), convert(high)];
  }
  // Each byte becomes the upper byte of a half.
  const spread = (selector: number) => code.result('b32', 'prmt.b32', w, '0', word(selector));
  const pairs: [string, string] = [spread(0x1404), spread(0x3424)];
  return type === 'float8e5m2' ? pairs : [fromE4m3(code, pairs[0]), fromE4m3(code, pairs[1])];
}

/** Two float16 from e4m3 bits in the upper byte of each half. */
function fromE4m3(code: Code, bytes: string): string {
  const magnitude = code.result('b32', 'and.b32', bytes, word(0x7f007f00));
  const sign = code.result('b32', 'and.b32', bytes, word(0x80008000));
  const placed = code.result('b32', 'shr.u32', magnitude, '1');
  const small = code.result('b32', 'or.b32', placed, sign);
  const scale = code.result('b32', 'mov.b32', word(0x5c005c00)); // 2^8 twice
  const value = code.result('b32', 'mul.rn.f16x2', small, scale);
  // Only the code of the NaN, all ones, carries into the sign bit.
  const carried = code.result('b32', 'add.u32', magnitude, word(0x01000100));
  const marks = code.result('b32', 'and.b32', carried, word(0x80008000));
  const ones = code.result('b32', 'shr.u32', marks, '15');
  const nan = code.result('b32', 'mul.lo.u32', ones, word(0x7e00));
  return code.result('b32', 'or.b32', value, nan);
}

/** The fp8 code of a float32, in the low byte, the rest zero. */
function roundToFloat8(code: Code, type: Float8, value: string): string {
  const { mantissaBits, exponentBias, clamp, quietBit } = FORMATS[type];
  const gap = FLOAT32_MANTISSA_BITS - mantissaBits;
  const bits = code.result('b32', 'mov.b32', value);
  const magnitude = code.result('f32', 'abs.f32', value);
  const clamped = code.result('f32', 'min.f32', magnitude, float32Literal(clamp)); // a NaN loses
  const clampedBits = code.result('b32', 'mov.b32', clamped);
  // The power of two whose last place is the place to round to.
  const own = code.result('b32', 'and.b32', clampedBits, word(0x7f800000));
  const least = (FLOAT32_BIAS + 1 - exponentBias) * 2 ** FLOAT32_MANTISSA_BITS;
  const exponent = code.result('b32', 'max.s32', own, word(least));
  const power = code.result('b32', 'add.s32', exponent, word(gap * 2 ** FLOAT32_MANTISSA_BITS));
  const sum = code.result('b32', 'mov.b32', code.result('f32', 'add.rn.f32', power, clamped));
  const shifted = code.result('b32', 'shr.u32', sum, word(gap));
  const both = code.result('b32', 'add.s32', sum, shifted);
  const offset = (FLOAT32_BIAS + gap + 1 - exponentBias) * 2 ** mantissaBits;
  const raw = code.result('b32', 'sub.s32', both, word(offset));
  const digits = code.result('b32', 'and.b32', raw, word(0x7f));
  const top = code.result('b32', 'shr.u32', bits, '24');
  const sign = code.result('b32', 'and.b32', top, word(0x80));
  const signed = code.result('b32', 'or.b32', digits, sign);
  const notNumber = code.result('pred', 'setp.nan.f32', value, value);
  const quiet = code.result('b32', 'selp.b32', word(quietBit), '0', notNumber);
  return code.result('b32', 'or.b32', signed, quiet);
}

/** Four codes in low bytes to one word. */
export function packBytes(code: Code, bytes: readonly string[]): string {
  const low = code.result('b32', 'prmt.b32', bytes[0]!, bytes[1]!, word(0x0040));
  const high = code.result('b32', 'prmt.b32', bytes[2]!, bytes[3]!, word(0x0040));
  return code.result('b32', 'prmt.b32', low, high, word(0x5410));
}

/** A word of fp8 from four float32, rounded to nearest even and saturated. */
function float8FromFloat32(code: Code, type: Float8, lanes: readonly string[]): string {
  if (code.capability < FLOAT8_CONVERSION) {
    return packBytes(
      code,
      lanes.map((lane) => roundToFloat8(code, type, lane)),
    );
  }
  needFloat8(code);
  const convert = (low: string, high: string) =>
    code.result('b16', `cvt.rn.satfinite.${FORMATS[type].pair}.f32`, high, low);
  return joined(code, convert(lanes[0]!, lanes[1]!), convert(lanes[2]!, lanes[3]!));
}

/** A word of fp8 from two words of float16. */
function float8FromFloat16(code: Code, type: Float8, pairs: readonly [string, string]): string {
  if (code.capability < FLOAT8_CONVERSION) {
    return float8FromFloat32(
      code,
      type,
      pairs.flatMap((pair) => widenWord(code, 'float16', pair)),
    );
  }
  needFloat8(code);
  const convert = (pair: string) => code.result('b16', `cvt.rn.satfinite.${FORMATS[type].pair}.f16x2`, pair);
  return joined(code, convert(pairs[0]), convert(pairs[1]));
}

function float8Step(code: Code, type: Float8, step: StepOp, a: string, b: string): string {
  const x = float8ToFloat16(code, type, a);
  const y = float8ToFloat16(code, type, b);
  return float8FromFloat16(code, type, [
    float16Step(code, step, x[0], y[0]),
    float16Step(code, step, x[1], y[1]),
  ]);
}

// ---- packets ----

/** The float32 packet of lanes 4 part .. 4 part + 3 of a packet of a narrow type. */
export function widenToFloat32(code: Code, elementType: ElementType, packet: Words, part: number): Words {
  const type = requireNarrow(elementType);
  const lanes =
    type === 'float16' || type === 'bfloat16'
      ? packet.slice(2 * part, 2 * part + 2).flatMap((w) => widenWord(code, type, w))
      : float8ToFloat16(code, type, packet[part]!).flatMap((w) => widenWord(code, 'float16', w));
  return lanes.map((lane) => (lane.startsWith('%f') ? code.result('b32', 'mov.b32', lane) : lane));
}

/** One packet of a narrow type from float32 packets, one per part. */
export function narrowFromFloat32(code: Code, elementType: ElementType, parts: readonly Words[]): Words {
  const type = requireNarrow(elementType);
  if (type === 'float16' || type === 'bfloat16') {
    return parts.flatMap(([a, b, c, d]) => [narrowWord(code, type, a!, b!), narrowWord(code, type, c!, d!)]);
  }
  return parts.map((lanes) => float8FromFloat32(code, type, lanes));
}

/** The step on one word of lanes of a narrow type. */
export function reduceNarrow(code: Code, type: Narrow, step: StepOp, a: string, b: string): string {
  if (type === 'float16') return float16Step(code, step, a, b);
  if (type === 'bfloat16') return bfloat16Step(code, step, a, b);
  return float8Step(code, type, step, a, b);
}
