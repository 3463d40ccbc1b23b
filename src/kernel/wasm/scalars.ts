/**
 * Instructions of scalar operations. Operands are on the stack already, in their order.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { BinaryOp, CompareOp, UnaryOp, ValueType } from '../ir.js';
import type { Code } from './code.js';
import type { WasmType } from './instructions.js';
import { wasmType } from './locals.js';

function isSigned(type: ValueType): boolean {
  return type === 'i32' || type === 'i64';
}

function refuse(op: string, type: ValueType): never {
  throw new TuttiError('internalError', `the WebAssembly target has no ${op} of type ${type}`);
}

export function isComparison(op: string): op is CompareOp {
  return op === 'eq' || op === 'ne' || op === 'lt' || op === 'le' || op === 'gt' || op === 'ge';
}

const INVERSE: Record<CompareOp, CompareOp> = { eq: 'ne', ne: 'eq', lt: 'ge', ge: 'lt', gt: 'le', le: 'gt' };

/** The comparison that holds exactly when `op` does not; none for floats, where a NaN fails both. */
export function inverseComparison(op: CompareOp, type: ValueType): CompareOp | undefined {
  return type === 'f32' || type === 'f64' ? undefined : INVERSE[op];
}

export function constant(code: Code, type: ValueType, value: number | bigint): void {
  switch (wasmType(type)) {
    case 'i32':
      code.i32(Number(value));
      break;
    case 'i64':
      code.i64(BigInt(value));
      break;
    case 'f32':
      code.f32(Number(value));
      break;
    case 'f64':
      code.f64(Number(value));
      break;
    case 'v128':
      refuse('literal', type);
  }
}

export function comparison(code: Code, op: CompareOp, type: ValueType): void {
  const wasm = wasmType(type);
  if (wasm === 'v128') refuse(op, type);
  if (op === 'eq' || op === 'ne') code.op(`${wasm}.${op}`);
  else if (!isInteger(wasm)) code.op(`${wasm}.${op}`);
  else code.op(`${wasm}.${op}_${isSigned(type) ? 's' : 'u'}`);
}

function isInteger(wasm: WasmType): wasm is 'i32' | 'i64' {
  return wasm === 'i32' || wasm === 'i64';
}

export function binary(code: Code, op: BinaryOp, type: ValueType): void {
  const wasm = wasmType(type);
  if (type === 'pred' && op !== 'and' && op !== 'or' && op !== 'xor') refuse(op, type);
  if (wasm === 'v128') {
    if (op === 'and' || op === 'or' || op === 'xor') code.op(`v128.${op}`);
    else refuse(op, type);
    return;
  }
  const sign = isSigned(type) ? 's' : 'u';
  switch (op) {
    case 'add':
    case 'sub':
    case 'mul':
      code.op(`${wasm}.${op}`);
      break;
    case 'and':
    case 'or':
    case 'xor':
    case 'shl':
      if (!isInteger(wasm)) refuse(op, type);
      code.op(`${wasm}.${op}`);
      break;
    case 'shr':
      if (!isInteger(wasm)) refuse(op, type);
      code.op(`${wasm}.shr_${sign}`);
      break;
    case 'div':
      if (!isInteger(wasm)) code.op(`${wasm}.div`);
      else if (sign === 's') signedDivision(code, wasm);
      else code.op(`${wasm}.div_u`);
      break;
    case 'rem':
      if (!isInteger(wasm)) refuse(op, type);
      code.op(`${wasm}.rem_${sign}`);
      break;
    case 'min':
    case 'max':
      if (isInteger(wasm)) {
        code.scratch(wasm, 2, (a, b) => {
          code.set(b!);
          code.set(a!);
          code.get(a!, b!, a!, b!);
          code.op(op === 'min' ? `${wasm}.lt_${sign}` : `${wasm}.gt_${sign}`, 'select');
        });
      } else floatExtreme(code, op, wasm);
      break;
    case 'mulHi':
      if (wasm === 'i32') highProduct32(code, sign);
      else if (wasm === 'i64') highProduct64(code, sign);
      else refuse(op, type);
      break;
  }
}

/** The most negative number divided by -1 traps in WebAssembly; here it wraps around like on a GPU. */
function signedDivision(code: Code, wasm: 'i32' | 'i64'): void {
  const number = (value: number) => (wasm === 'i32' ? code.i32(value) : code.i64(BigInt(value)));
  code.scratch(wasm, 2, (a, b) => {
    code.set(b!);
    code.set(a!);
    code.get(b!);
    number(-1);
    code.op(`${wasm}.eq`);
    code.if(
      () => {
        number(0);
        code.get(a!);
        code.op(`${wasm}.sub`);
      },
      () => {
        code.get(a!, b!);
        code.op(`${wasm}.div_s`);
      },
      wasm,
    );
  });
}

/** C's fmin and fmax: a NaN loses against a number. WebAssembly's own keep NaNs (and order the zeros). */
function floatExtreme(code: Code, op: 'min' | 'max', wasm: 'f32' | 'f64'): void {
  code.scratch(wasm, 2, (a, b) => {
    code.set(b!);
    code.set(a!);
    for (const [x, other] of [
      [a!, b!],
      [b!, a!],
    ] as const) {
      code.get(x, other, x, x);
      code.op(`${wasm}.eq`, 'select');
    }
    code.op(`${wasm}.${op}`);
  });
}

function highProduct32(code: Code, sign: 's' | 'u'): void {
  code.scratch('i32', 1, (b) => {
    code.set(b!);
    code.op(`i64.extend_i32_${sign}`);
    code.get(b!);
    code.op(`i64.extend_i32_${sign}`, 'i64.mul');
    code.i64(32n);
    code.op('i64.shr_u', 'i32.wrap_i64');
  });
}

/** Four products of 32-bit halves; for signed numbers the usual correction of the unsigned result. */
function highProduct64(code: Code, sign: 's' | 'u'): void {
  const LOW = 0xffff_ffffn;
  code.scratch('i64', 4, (...locals) => {
    const [a, b, middle, carry] = locals as [number, number, number, number];
    const low = (x: number) => {
      code.get(x);
      code.i64(LOW);
      code.op('i64.and');
    };
    const high = (x: number) => {
      code.get(x);
      code.i64(32n);
      code.op('i64.shr_u');
    };
    code.set(b);
    code.set(a);
    // middle = high(a) * low(b) + high(low(a) * low(b)): below 2^64
    high(a);
    low(b);
    code.op('i64.mul');
    low(a);
    low(b);
    code.op('i64.mul');
    code.i64(32n);
    code.op('i64.shr_u', 'i64.add');
    code.set(middle);
    // carry = low(a) * high(b) + low(middle)
    low(a);
    high(b);
    code.op('i64.mul');
    low(middle);
    code.op('i64.add');
    code.set(carry);
    high(a);
    high(b);
    code.op('i64.mul');
    high(middle);
    code.op('i64.add');
    high(carry);
    code.op('i64.add');
    if (sign === 'u') return;
    for (const [x, y] of [
      [a, b],
      [b, a],
    ] as const) {
      code.get(x);
      code.i64(63n);
      code.op('i64.shr_s');
      code.get(y);
      code.op('i64.and', 'i64.sub');
    }
  });
}

export function unary(code: Code, op: UnaryOp, type: ValueType): void {
  const wasm = wasmType(type);
  if (op === 'not') {
    if (type === 'pred') code.op('i32.eqz');
    else if (wasm === 'v128') code.op('v128.not');
    else if (wasm === 'i32') {
      code.i32(-1);
      code.op('i32.xor');
    } else if (wasm === 'i64') {
      code.i64(-1n);
      code.op('i64.xor');
    } else refuse(op, type);
    return;
  }
  if (wasm === 'v128' || type === 'pred') refuse(op, type);
  switch (op) {
    case 'clz':
    case 'ctz':
    case 'popcnt':
      if (!isInteger(wasm)) refuse(op, type);
      code.op(`${wasm}.${op}`);
      break;
    case 'neg':
      if (isInteger(wasm)) {
        if (wasm === 'i32') code.i32(-1);
        else code.i64(-1n);
        code.op(`${wasm}.mul`);
      } else code.op(`${wasm}.neg`);
      break;
    case 'abs':
      if (!isInteger(wasm)) code.op(`${wasm}.abs`);
      else if (isSigned(type)) {
        code.scratch(wasm, 2, (x, mask) => {
          code.tee(x!);
          if (wasm === 'i32') code.i32(31);
          else code.i64(63n);
          code.op(`${wasm}.shr_s`);
          code.tee(mask!);
          code.get(x!);
          code.op(`${wasm}.xor`);
          code.get(mask!);
          code.op(`${wasm}.sub`);
        });
      }
      break;
  }
}

export function cast(code: Code, from: ValueType, to: ValueType): void {
  const source = wasmType(from);
  const target = wasmType(to);
  const sign = isSigned(from) ? 's' : 'u';
  if (source === 'v128' || target === 'v128') refuse(`cast from ${from}`, to);
  if (to === 'pred') {
    // True where not zero.
    if (source === 'i32') {
      code.i32(0);
      code.op('i32.ne');
    } else if (source === 'i64') {
      code.i64(0n);
      code.op('i64.ne');
    } else {
      if (source === 'f32') code.f32(0);
      else code.f64(0);
      code.op(`${source}.ne`);
    }
    return;
  }
  if (source === target) return;
  if (isInteger(source)) {
    if (target === 'i64') code.op(`i64.extend_i32_${sign}`);
    else if (target === 'i32') code.op('i32.wrap_i64');
    else code.op(`${target}.convert_${source}_${sign}`);
  } else if (isInteger(target)) code.op(`${target}.trunc_sat_${source}_${isSigned(to) ? 's' : 'u'}`);
  else code.op(target === 'f64' ? 'f64.promote_f32' : 'f32.demote_f64');
}

export function bitcast(code: Code, from: ValueType, to: ValueType): void {
  const source = wasmType(from);
  const target = wasmType(to);
  if (source === target) return;
  if (source === 'i32' && target === 'f32') code.op('f32.reinterpret_i32');
  else if (source === 'f32' && target === 'i32') code.op('i32.reinterpret_f32');
  else if (source === 'i64' && target === 'f64') code.op('f64.reinterpret_i64');
  else if (source === 'f64' && target === 'i64') code.op('i64.reinterpret_f64');
  else refuse(`bitcast from ${from}`, to);
}
