/**
 * How values of the intermediate representation live in PTX registers, and how literals are written.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { Constant, ValueType } from '../ir.js';
import type { Code, RegisterClass } from './code.js';

/** A value at run time: one register, or the four 32-bit words of a packet, word 0 at the lowest address. */
export type Words = readonly string[];

/** Register class of a value; a packet takes four of them. */
export function classOf(type: ValueType): RegisterClass {
  switch (type) {
    case 'pred':
      return 'pred';
    case 'i32':
    case 'u32':
    case 'packet':
      return 'b32';
    case 'i64':
    case 'u64':
    case 'ptr':
      return 'b64';
    case 'f32':
      return 'f32';
    case 'f64':
      return 'f64';
  }
}

export const PACKET_WORDS = 4;

/** Fresh registers for a value. */
export function registersFor(code: Code, type: ValueType): Words {
  const count = type === 'packet' ? PACKET_WORDS : 1;
  return Array.from({ length: count }, () => code.register(classOf(type)));
}

/** Type suffix of arithmetic on a value, with its sign. */
export function arithmeticType(type: ValueType): string {
  switch (type) {
    case 'pred':
      return 'pred';
    case 'i32':
      return 's32';
    case 'u32':
      return 'u32';
    case 'i64':
      return 's64';
    case 'u64':
    case 'ptr':
      return 'u64';
    case 'f32':
      return 'f32';
    case 'f64':
      return 'f64';
    case 'packet':
      throw new TuttiError('internalError', 'a packet is no scalar');
  }
}

/** Type suffix of operations on the bits of a value. */
export function bitType(type: ValueType): string {
  const kind = classOf(type);
  return kind === 'f32' ? 'b32' : kind === 'f64' ? 'b64' : kind;
}

export function isFloat(type: ValueType): type is 'f32' | 'f64' {
  return type === 'f32' || type === 'f64';
}

export function isSigned(type: ValueType): boolean {
  return type === 'i32' || type === 'i64';
}

export function isWide(type: ValueType): boolean {
  return classOf(type) === 'b64';
}

const scratch = new DataView(new ArrayBuffer(8));

function hex(value: bigint | number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}

/** A float32 literal: its bits. */
export function float32Literal(value: number): string {
  scratch.setFloat32(0, value);
  return `0f${hex(scratch.getUint32(0), 8).toUpperCase()}`;
}

export function float64Literal(value: number): string {
  scratch.setFloat64(0, value);
  return `0d${hex(scratch.getBigUint64(0), 16).toUpperCase()}`;
}

/** Small numbers are decimal, others the hexadecimal bits. */
function integerLiteral(value: bigint, bits: number): string {
  if (value >= -4096n && value <= 4096n) return String(value);
  return `0x${BigInt.asUintN(bits, value).toString(16)}`;
}

/** A 32-bit literal. */
export function word(value: number): string {
  return integerLiteral(BigInt(value), 32);
}

/** A literal of a scalar other than `pred`. */
export function literal({ type, value }: Constant): string {
  switch (type) {
    case 'f32':
      return float32Literal(Number(value));
    case 'f64':
      return float64Literal(Number(value));
    case 'i32':
    case 'u32':
      return integerLiteral(BigInt(value), 32);
    case 'i64':
    case 'u64':
    case 'ptr':
      return integerLiteral(BigInt(value), 64);
    default:
      throw new TuttiError('internalError', `there is no literal of type ${type}`);
  }
}
