/**
 * Instructions of scalar operations.
 *
 * Float operations name their rounding (`.rn`): without it the assembler may contract a product and a sum into
 * one operation that rounds once, and results would differ from the other targets.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { BinaryOp, CompareOp, UnaryOp, ValueType } from '../ir.js';
import type { Code } from './code.js';
import {
  arithmeticType,
  bitType,
  float32Literal,
  float64Literal,
  isFloat,
  isSigned,
  isWide,
} from './values.js';

function refuse(op: string, type: ValueType): never {
  throw new TuttiError('internalError', `the ptx target has no ${op} of type ${type}`);
}

export function binary(code: Code, op: BinaryOp, type: ValueType, d: string, a: string, b: string): void {
  if (type === 'pred') {
    if (op !== 'and' && op !== 'or' && op !== 'xor') refuse(op, type);
    code.op(`${op}.pred`, d, a, b);
    return;
  }
  const of = arithmeticType(type);
  const float = isFloat(type);
  switch (op) {
    case 'add':
    case 'sub':
      code.op(float ? `${op}.rn.${of}` : `${op}.${of}`, d, a, b);
      break;
    case 'mul':
      code.op(float ? `mul.rn.${of}` : `mul.lo.${of}`, d, a, b);
      break;
    case 'mulHi':
      if (float) refuse(op, type);
      code.op(`mul.hi.${of}`, d, a, b);
      break;
    case 'div':
      code.op(float ? `div.rn.${of}` : `div.${of}`, d, a, b);
      break;
    case 'rem':
      if (float) refuse(op, type);
      code.op(`rem.${of}`, d, a, b);
      break;
    case 'min':
    case 'max':
      code.op(`${op}.${of}`, d, a, b);
      break;
    case 'and':
    case 'or':
    case 'xor':
      if (float) refuse(op, type);
      code.op(`${op}.${bitType(type)}`, d, a, b);
      break;
    case 'shl':
      if (float) refuse(op, type);
      code.op(`shl.${bitType(type)}`, d, a, b);
      break;
    case 'shr':
      if (float) refuse(op, type);
      code.op(`shr.${of}`, d, a, b);
      break;
  }
}

/** A NaN is different from everything and neither less nor greater. */
export function compare(code: Code, op: CompareOp, type: ValueType, d: string, a: string, b: string): void {
  if (type === 'pred') {
    comparePredicates(code, op, d, a, b);
    return;
  }
  const relation = op === 'ne' && isFloat(type) ? 'neu' : op;
  code.op(`setp.${relation}.${arithmeticType(type)}`, d, a, b);
}

/** Truth values compared as 0 and 1. */
function comparePredicates(code: Code, op: CompareOp, d: string, a: string, b: string): void {
  const not = (p: string) => code.result('pred', 'not.pred', p);
  switch (op) {
    case 'ne':
      code.op('xor.pred', d, a, b);
      break;
    case 'eq':
      code.op('xor.pred', d, a, not(b));
      break;
    case 'lt':
      code.op('and.pred', d, not(a), b);
      break;
    case 'gt':
      code.op('and.pred', d, a, not(b));
      break;
    case 'le':
      code.op('or.pred', d, not(a), b);
      break;
    case 'ge':
      code.op('or.pred', d, a, not(b));
      break;
  }
}

export function unary(code: Code, op: UnaryOp, type: ValueType, d: string, a: string): void {
  if (type === 'pred') {
    if (op !== 'not') refuse(op, type);
    code.op('not.pred', d, a);
    return;
  }
  const of = arithmeticType(type);
  switch (op) {
    case 'not':
      if (isFloat(type)) refuse(op, type);
      code.op(`not.${bitType(type)}`, d, a);
      break;
    case 'neg':
      code.op(isFloat(type) ? `neg.${of}` : `neg.${isWide(type) ? 's64' : 's32'}`, d, a);
      break;
    case 'abs':
      if (isFloat(type) || isSigned(type)) code.op(`abs.${of}`, d, a);
      else code.op(`mov.${bitType(type)}`, d, a);
      break;
    case 'clz':
    case 'popcnt':
    case 'ctz': {
      if (isFloat(type)) refuse(op, type);
      const bits = bitType(type);
      const from = op === 'ctz' ? code.result(isWide(type) ? 'b64' : 'b32', `brev.${bits}`, a) : a;
      const name = op === 'popcnt' ? 'popc' : 'clz';
      if (!isWide(type)) code.op(`${name}.${bits}`, d, from);
      else code.op('cvt.u64.u32', d, code.result('b32', `${name}.${bits}`, from));
      break;
    }
  }
}

function one(type: ValueType): string {
  return type === 'f32' ? float32Literal(1) : type === 'f64' ? float64Literal(1) : '1';
}

function zero(type: ValueType): string {
  return type === 'f32' ? float32Literal(0) : type === 'f64' ? float64Literal(0) : '0';
}

/** Conversion of values: integers truncate or extend, floats to integers saturate and a NaN becomes 0. */
export function cast(code: Code, from: ValueType, to: ValueType, d: string, a: string): void {
  if (from === 'packet' || to === 'packet') refuse(`cast from ${from}`, to);
  const source = arithmeticType(from);
  const target = arithmeticType(to);
  if (from === to) code.op(`mov.${bitType(to)}`, d, a);
  else if (to === 'pred') code.op(`setp.${isFloat(from) ? 'neu' : 'ne'}.${source}`, d, a, zero(from));
  else if (from === 'pred') code.op(`selp.${bitType(to)}`, d, one(to), zero(to), a);
  else if (isFloat(from) && isFloat(to)) {
    code.op(to === 'f32' ? 'cvt.rn.f32.f64' : 'cvt.f64.f32', d, a);
  } else if (isFloat(to)) code.op(`cvt.rn.${target}.${source}`, d, a);
  else if (isFloat(from)) {
    // What the hardware makes of a NaN depends on the widths.
    const whole = code.result(isWide(to) ? 'b64' : 'b32', `cvt.rzi.${target}.${source}`, a);
    const number = code.result('pred', `setp.num.${source}`, a, a);
    code.op(`selp.${bitType(to)}`, d, whole, '0', number);
  } else if (isWide(from) === isWide(to)) code.op(`mov.${bitType(to)}`, d, a);
  else if (isWide(to)) code.op(isSigned(from) ? 'cvt.s64.s32' : 'cvt.u64.u32', d, a);
  else code.op('cvt.u32.u64', d, a);
}

/** The same bits as another type of the same width. */
export function bitcast(code: Code, from: ValueType, to: ValueType, d: string, a: string): void {
  const width = (type: ValueType) => (isWide(type) || type === 'f64' ? 64 : 32);
  if (from === 'packet' || to === 'packet' || from === 'pred' || to === 'pred' || width(from) !== width(to)) {
    refuse(`bitcast from ${from}`, to);
  }
  code.op(`mov.b${width(to)}`, d, a);
}
