/**
 * The scalar reference of element arithmetic: what one lane of a packet operation must give, bit for bit.
 *
 * Values are decoded to a JavaScript number (exact for every float type and for integers up to 32 bits) or
 * bigint (64-bit integers), computed exactly or in double precision, and rounded once to the element type.
 * Double has more than 2p + 2 bits for every type but float64 itself, so that rounding a double sum or
 * product of two elements gives the same as rounding the exact result. Rules of NCCL 2.30: integers wrap;
 * each step rounds to the type; fp8 steps go through float16 and come back saturated to finite; min and max
 * prefer a number over a NaN; averages multiply before the sum (floats) or divide after it (integers).
 *
 * NaNs that an operation makes are the canonical ones of `CANONICAL_NAN`. Targets differ in the sign and
 * payload of a NaN, so results are to be compared with `sameBits`, which takes NaNs as one class.
 */

import { TuttiError } from '../errors/tutti-error.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp, type StepOp } from './element-types.js';

/** Types whose elements are handled as bigint; all others fit a number. */
export type WideType = 'int64' | 'uint64';

/** Float types without a JavaScript array of their own; their bits are kept in unsigned integers. */
export type NarrowFloat = 'float16' | 'bfloat16' | 'float8e4m3' | 'float8e5m2';

/** Bits of the NaN that arithmetic here produces; the sign bit of a NaN may be anything. */
export const CANONICAL_NAN: Readonly<Record<NarrowFloat | 'float32', number>> = {
  float16: 0x7e00,
  bfloat16: 0x7fc0,
  float8e4m3: 0x7f,
  float8e5m2: 0x7e,
  float32: 0x7fc00000,
};

/** The JavaScript array that holds elements of each type; float types that JavaScript lacks hold their bits. */
const ARRAYS = {
  int8: Int8Array,
  uint8: Uint8Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float16: Uint16Array,
  float32: Float32Array,
  float64: Float64Array,
  bfloat16: Uint16Array,
  float8e4m3: Uint8Array,
  float8e5m2: Uint8Array,
} as const;

/** The constructor of the typed array that holds elements of type T. */
export type ArrayConstructorOf<T extends ElementType> = (typeof ARRAYS)[T];
/** The typed array that holds elements of type T. */
export type ArrayOf<T extends ElementType> = InstanceType<ArrayConstructorOf<T>>;

/** The typed-array constructor of an element type, for instance `BigInt64Array` for int64. */
export function arrayFor<T extends ElementType>(type: T): ArrayConstructorOf<T> {
  return ARRAYS[type];
}

export function isWide(type: ElementType): type is WideType {
  return type === 'int64' || type === 'uint64';
}

export function isNarrowFloat(type: ElementType): type is NarrowFloat {
  return type === 'float16' || type === 'bfloat16' || type === 'float8e4m3' || type === 'float8e5m2';
}

// ---- formats of the narrow floats ----

interface Format {
  readonly mantissaBits: number;
  /** Exponent of the smallest normal number; subnormals share it. */
  readonly minExponent: number;
  /** Bits without sign of the largest finite value. */
  readonly maxFinite: number;
  /** What larger magnitudes become (bits without sign): infinity, or the largest finite value. */
  readonly overflow: number;
  readonly signBit: number;
  /** Bits without sign of infinity, or -1 where the format has none. */
  readonly infinity: number;
}

const FORMATS: Readonly<Record<NarrowFloat, Format>> = {
  float16: {
    mantissaBits: 10,
    minExponent: -14,
    maxFinite: 0x7bff,
    overflow: 0x7c00,
    signBit: 0x8000,
    infinity: 0x7c00,
  },
  bfloat16: {
    mantissaBits: 7,
    minExponent: -126,
    maxFinite: 0x7f7f,
    overflow: 0x7f80,
    signBit: 0x8000,
    infinity: 0x7f80,
  },
  // OCP e4m3: no infinity, the all-ones pattern is NaN, the largest value is 448.
  float8e4m3: {
    mantissaBits: 3,
    minExponent: -6,
    maxFinite: 0x7e,
    overflow: 0x7e,
    signBit: 0x80,
    infinity: -1,
  },
  // OCP e5m2 has infinity, but conversions to it saturate: 57344.
  float8e5m2: {
    mantissaBits: 2,
    minExponent: -14,
    maxFinite: 0x7b,
    overflow: 0x7b,
    signBit: 0x80,
    infinity: 0x7c,
  },
};

const scratch = new DataView(new ArrayBuffer(8));

/** Exponent of a positive normal double: the e of 1.xxx times 2^e. */
function exponentOf(value: number): number {
  scratch.setFloat64(0, value);
  return (scratch.getUint16(0) >> 4) - 1023;
}

/** Nearest integer, ties to even; exact for non-negative doubles below 2^52. */
function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest > 0.5 || (rest === 0.5 && floor % 2 === 1)) return floor + 1;
  return floor;
}

function encodeNarrow(type: NarrowFloat, value: number): number {
  if (Number.isNaN(value)) return CANONICAL_NAN[type];
  const format = FORMATS[type];
  const sign = value < 0 || Object.is(value, -0) ? format.signBit : 0;
  const magnitude = Math.abs(value);
  if (magnitude === 0) return sign;
  if (magnitude === Infinity) return sign | format.overflow;
  const exponent = Math.max(exponentOf(magnitude), format.minExponent);
  // In units of the last place; scaling by a power of two is exact where the result matters.
  const units = roundHalfEven(magnitude * 2 ** (format.mantissaBits - exponent));
  // The hidden bit of a normal number carries into the exponent field, and so does rounding up.
  const bits = (exponent - format.minExponent) * 2 ** format.mantissaBits + units;
  return sign | (bits > format.maxFinite ? format.overflow : bits);
}

function decodeNarrow(type: NarrowFloat, bits: number): number {
  const format = FORMATS[type];
  const magnitude = bits & (format.signBit - 1);
  let value: number;
  if (magnitude > format.maxFinite) value = magnitude === format.infinity ? Infinity : NaN;
  else {
    const field = magnitude >> format.mantissaBits;
    const fraction = magnitude & ((1 << format.mantissaBits) - 1);
    const unit = 2 ** (format.minExponent - format.mantissaBits);
    value = field === 0 ? fraction * unit : (fraction + (1 << format.mantissaBits)) * unit * 2 ** (field - 1);
  }
  return bits & format.signBit ? -value : value;
}

/** Every value of a narrow type by its bits, filled at first use. */
const tables = new Map<NarrowFloat, Float32Array>();

function tableOf(type: NarrowFloat): Float32Array {
  let table = tables.get(type);
  if (table === undefined) {
    table = new Float32Array(FORMATS[type].signBit * 2);
    for (let bits = 0; bits < table.length; bits++) table[bits] = decodeNarrow(type, bits);
    tables.set(type, table);
  }
  return table;
}

// ---- decode and encode ----

/** The value of an element of at most 32 bits or a float64 given by its bits; higher bits are ignored. */
export function decodeNumber(type: Exclude<ElementType, WideType | 'float64'>, bits: number): number {
  switch (type) {
    case 'int8':
      return (bits << 24) >> 24;
    case 'uint8':
      return bits & 0xff;
    case 'int32':
      return bits | 0;
    case 'uint32':
      return bits >>> 0;
    case 'float32':
      scratch.setUint32(0, bits);
      return scratch.getFloat32(0);
    case 'float16':
    case 'bfloat16':
      return tableOf(type)[bits & 0xffff]!;
    default:
      return tableOf(type)[bits & 0xff]!;
  }
}

/**
 * The unsigned bits of a value in a type of at most 32 bits. Floats round to nearest even; float16 and
 * bfloat16 overflow to infinity, fp8 saturates to the largest finite value. Integers must be whole and wrap.
 */
export function encodeNumber(type: Exclude<ElementType, WideType | 'float64'>, value: number): number {
  switch (type) {
    case 'int8':
    case 'uint8':
      return value & 0xff;
    case 'int32':
    case 'uint32':
      return value >>> 0;
    case 'float32':
      if (Number.isNaN(value)) return CANONICAL_NAN.float32;
      scratch.setFloat32(0, value);
      return scratch.getUint32(0);
    default:
      return encodeNarrow(type, value);
  }
}

/** The value of an element given by its bits: a bigint for int64 and uint64, a number otherwise. */
export function decode<T extends ElementType>(
  type: T,
  bits: bigint | number,
): T extends WideType ? bigint : number;
export function decode(type: ElementType, bits: bigint | number): bigint | number {
  switch (type) {
    case 'int64':
      return BigInt.asIntN(64, BigInt(bits));
    case 'uint64':
      return BigInt.asUintN(64, BigInt(bits));
    case 'float64':
      scratch.setBigUint64(0, BigInt.asUintN(64, BigInt(bits)));
      return scratch.getFloat64(0);
    default:
      return decodeNumber(type, typeof bits === 'bigint' ? Number(BigInt.asUintN(32, bits)) : bits);
  }
}

/**
 * The unsigned bits of a value in an element type. Floats round to nearest even; float16 and bfloat16 overflow
 * to infinity, fp8 saturates to the largest finite value, NaN stays NaN. Whole numbers wrap into integer types;
 * a fraction or a non-finite value for an integer type is an `invalidArgument` error.
 */
export function encode(type: ElementType, value: bigint | number): bigint {
  const { kind, size } = ELEMENT_TYPES[type];
  if (kind !== 'float') {
    if (typeof value === 'number' && !Number.isInteger(value)) {
      throw new TuttiError('invalidArgument', `${value} is not a value of ${type}: whole numbers only`);
    }
    return BigInt.asUintN(size * 8, BigInt(value));
  }
  const number = Number(value);
  if (type === 'float64') {
    scratch.setFloat64(0, number);
    return Number.isNaN(number) ? 0x7ff8000000000000n : scratch.getBigUint64(0);
  }
  return BigInt(encodeNumber(type as 'float32', number));
}

/** Whether the bits are a NaN of the type; never so for integers. */
export function isNaNBits(type: ElementType, bits: bigint | number): boolean {
  if (ELEMENT_TYPES[type].kind !== 'float') return false;
  return Number.isNaN(decode(type, bits) as number);
}

/** Whether two results agree: the same bits, or both NaN. */
export function sameBits(type: ElementType, a: bigint | number, b: bigint | number): boolean {
  const width = ELEMENT_TYPES[type].size * 8;
  if (BigInt.asUintN(width, BigInt(a)) === BigInt.asUintN(width, BigInt(b))) return true;
  return isNaNBits(type, a) && isNaNBits(type, b);
}

// ---- one step of a reduction ----

/** One step on values of a float type, before rounding. A NaN loses against a number in min and max. */
function floatStep(step: StepOp, a: number, b: number): number {
  switch (step) {
    case 'sum':
      return a + b;
    case 'prod':
      return a * b;
    case 'min':
      return Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.min(a, b);
    case 'max':
      return Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b);
  }
}

function integerStep(step: StepOp, a: bigint, b: bigint): bigint {
  switch (step) {
    case 'sum':
      return a + b;
    case 'prod':
      return a * b;
    case 'min':
      return a < b ? a : b;
    case 'max':
      return a > b ? a : b;
  }
}

/** `step(a, b)` of two elements of at most 32 bits, by their bits; see `reduceBits`. */
export function reduceNumber(
  type: Exclude<ElementType, WideType | 'float64'>,
  step: StepOp,
  a: number,
  b: number,
): number {
  const x = decodeNumber(type, a);
  const y = decodeNumber(type, b);
  switch (type) {
    case 'int8':
    case 'uint8':
    case 'int32':
    case 'uint32':
      // Only the product of 32-bit integers can leave the exact range of a number.
      return encodeNumber(type, step === 'prod' ? Math.imul(x, y) : floatStep(step, x, y));
    case 'float8e4m3':
    case 'float8e5m2': {
      const half = encodeNarrow('float16', floatStep(step, x, y));
      return encodeNarrow(type, decodeNumber('float16', half));
    }
    default:
      return encodeNumber(type, floatStep(step, x, y));
  }
}

/**
 * One step of a reduction on the bits of two elements. Integers wrap; floats round to the type; fp8 goes to
 * float16, one half operation, back to fp8 saturating; min and max: a NaN loses, two NaNs give NaN, and -0
 * counts as less than +0 (NCCL leaves the sign of zero open).
 */
export function reduceBits(type: ElementType, step: StepOp, aBits: bigint, bBits: bigint): bigint {
  switch (type) {
    case 'int64':
    case 'uint64':
      return encode(type, integerStep(step, decode(type, aBits), decode(type, bBits)));
    case 'float64':
      return encode(type, floatStep(step, decode(type, aBits), decode(type, bBits)));
    default: {
      const a = Number(BigInt.asUintN(32, aBits));
      const b = Number(BigInt.asUintN(32, bBits));
      return BigInt(reduceNumber(type, step, a, b));
    }
  }
}

// ---- conversions between the narrow floats and float32 ----

/** A narrow float as float32 bits; exact. */
export function widenBits(type: NarrowFloat, bits: number): number {
  return encodeNumber('float32', decodeNumber(type, bits));
}

/** Float32 bits rounded directly to a narrow float, to nearest even; overflow as in `encode`. */
export function narrowBits(type: NarrowFloat, float32Bits: number): number {
  return encodeNarrow(type, decodeNumber('float32', float32Bits));
}

// ---- averages ----

/** An integer element divided by a positive number, truncating toward zero. */
export function divideBits(type: ElementType, bits: bigint, divisor: bigint | number): bigint {
  if (ELEMENT_TYPES[type].kind === 'float' || BigInt(divisor) <= 0n) {
    throw new TuttiError('internalError', `cannot divide ${type} by ${divisor}: integers and divisors > 0`);
  }
  return encode(type, BigInt(decode(type, bits)) / BigInt(divisor));
}

/**
 * The scalar argument of an average over n ranks: for floats the bits of the factor that every contribution is
 * multiplied by (float32(1 / n) converted to the type; 1 / n for float64), for integers n x 2 + (1 if signed),
 * the divisor of the sum.
 */
export function averageArgument(type: ElementType, n: number): bigint {
  const { kind } = ELEMENT_TYPES[type];
  if (kind !== 'float') return BigInt(n) * 2n + (kind === 'signed' ? 1n : 0n);
  return encode(type, type === 'float64' ? 1 / n : Math.fround(1 / n));
}

/**
 * The reduction of contributions in the given order, one rounding per step: ((x0 + x1) + x2) + ... Averages
 * pre-multiply every float contribution and divide integer sums once at the end.
 */
export function orderedReduce(type: ElementType, op: ReduceOp, contributions: readonly bigint[]): bigint {
  const float = ELEMENT_TYPES[type].kind === 'float';
  const factor = op === 'avg' && float ? averageArgument(type, contributions.length) : undefined;
  const step: StepOp = op === 'avg' ? 'sum' : op;
  let result: bigint | undefined;
  for (const bits of contributions) {
    const own = factor === undefined ? bits : reduceBits(type, 'prod', bits, factor);
    result = result === undefined ? own : reduceBits(type, step, result, own);
  }
  if (result === undefined) throw new TuttiError('internalError', 'a reduction of no contributions');
  return op === 'avg' && !float ? divideBits(type, result, contributions.length) : result;
}

/**
 * The element that a ring reduction leaves in chunk c: the first contributor is the rank at ring position
 * c + 1, contributions are added in increasing ring position, the last is the rank at position c.
 */
export function ringOrderReduce(
  type: ElementType,
  op: ReduceOp,
  byRingPosition: readonly bigint[],
  chunk: number,
): bigint {
  const n = byRingPosition.length;
  const order = byRingPosition.map((_, i) => byRingPosition[(chunk + 1 + i) % n]!);
  return orderedReduce(type, op, order);
}
