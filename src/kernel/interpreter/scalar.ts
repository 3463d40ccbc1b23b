/**
 * Scalar operations that JavaScript has no short expression for: counting bits, high products, saturating
 * conversions, bit casts. The compiler of the interpreter calls these by name; the rest it writes inline.
 */

const scratch = new DataView(new ArrayBuffer(8));

export function popcnt32(value: number): number {
  let x = value >>> 0;
  x -= (x >>> 1) & 0x55555555;
  x = (x & 0x33333333) + ((x >>> 2) & 0x33333333);
  x = (x + (x >>> 4)) & 0x0f0f0f0f;
  return Math.imul(x, 0x01010101) >>> 24;
}

/** Trailing zeros; 32 for zero. */
export function ctz32(value: number): number {
  return value === 0 ? 32 : 31 - Math.clz32(value & -value);
}

function low(value: bigint): number {
  return Number(BigInt.asUintN(32, value));
}

function high(value: bigint): number {
  return Number(BigInt.asUintN(64, value) >> 32n);
}

export function popcnt64(value: bigint): bigint {
  return BigInt(popcnt32(low(value)) + popcnt32(high(value)));
}

export function clz64(value: bigint): bigint {
  const top = high(value);
  return BigInt(top === 0 ? 32 + Math.clz32(low(value)) : Math.clz32(top));
}

/** Trailing zeros; 64 for zero. */
export function ctz64(value: bigint): bigint {
  const bottom = low(value);
  return BigInt(bottom === 0 ? 32 + ctz32(high(value)) : ctz32(bottom));
}

export function mulHi32(a: number, b: number): number {
  return Number((BigInt(a) * BigInt(b)) >> 32n);
}

/** C's fmin: a NaN loses against a number. */
export function fmin(a: number, b: number): number {
  return Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.min(a, b);
}

export function fmax(a: number, b: number): number {
  return Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b);
}

/** Float to integer: toward zero, out of range to the nearest end, NaN to 0. */
export function toI32(value: number): number {
  return Number.isNaN(value) ? 0 : Math.trunc(Math.min(Math.max(value, -2147483648), 2147483647)) | 0;
}

export function toU32(value: number): number {
  return Number.isNaN(value) ? 0 : Math.trunc(Math.min(Math.max(value, 0), 4294967295)) >>> 0;
}

export function toI64(value: number): bigint {
  if (Number.isNaN(value)) return 0n;
  if (value >= 2 ** 63) return (1n << 63n) - 1n;
  if (value <= -(2 ** 63)) return -(1n << 63n);
  return BigInt(Math.trunc(value));
}

export function toU64(value: number): bigint {
  if (Number.isNaN(value) || value <= 0) return 0n;
  if (value >= 2 ** 64) return (1n << 64n) - 1n;
  return BigInt(Math.trunc(value));
}

/** A 64-bit integer rounded once to float32 (through double it would round twice). */
export function wideToF32(value: bigint): number {
  const magnitude = value < 0n ? -value : value;
  if (magnitude < 1n << 53n) return Math.fround(Number(value));
  // 2^53 and more: the 12 lowest bits only matter as "something below"; keep them as one sticky bit.
  const rest = magnitude & 0xfffn;
  const reduced = (magnitude >> 12n) | (rest === 0n ? 0n : 1n);
  const rounded = Math.fround(Number(reduced)) * 4096;
  return value < 0n ? -rounded : rounded;
}

export function bitsOfF32(value: number): number {
  scratch.setFloat32(0, value);
  return scratch.getInt32(0);
}

export function f32OfBits(bits: number): number {
  scratch.setInt32(0, bits);
  return scratch.getFloat32(0);
}

export function bitsOfF64(value: number): bigint {
  scratch.setFloat64(0, value);
  return scratch.getBigUint64(0);
}

export function f64OfBits(bits: bigint): number {
  scratch.setBigUint64(0, bits);
  return scratch.getFloat64(0);
}

/** A `ptr` cell: 8 bytes that hold an exact number. */
export function pointerAt(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint32(at + 4, true) * 4294967296;
}

export function setPointerAt(view: DataView, at: number, value: number): void {
  view.setUint32(at, value >>> 0, true);
  view.setUint32(at + 4, Math.floor(value / 4294967296), true);
}
