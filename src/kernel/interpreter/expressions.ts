/**
 * JavaScript text of the operations without side effects.
 *
 * i32 and u32 are numbers kept in range (`| 0`, `>>> 0`), f32 numbers kept rounded (Math.fround), i64 and u64
 * bigints kept in range, `pred` 0 or 1, `ptr` a number, packets `Packet` objects. Names `S.x` are functions of
 * scalar.ts, `P.x` of packet.ts, `x.trap` reports an operation without a result.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { BinaryOp, CompareOp, Constant, Operand, Pure, Register, UnaryOp, ValueType } from '../ir.js';

/** The local of a register. */
export type NameOf = (register: Register) => string;

function unsupported(op: string, type: ValueType): never {
  throw new TuttiError('internalError', `the operation ${op} does not exist on ${type}`);
}

function constantText({ type, value }: Constant): string {
  if (type === 'i64' || type === 'u64') return value < 0 ? `(${value}n)` : `${value}n`;
  if (Object.is(value, -0)) return '(-0)';
  return Number(value) < 0 ? `(${value})` : String(value);
}

export function operandText(operand: Operand, name: NameOf): string {
  return operand.kind === 'constant' ? constantText(operand) : name(operand);
}

/** Brings an integer expression into the range of its type. */
function wrap(type: ValueType, text: string): string {
  switch (type) {
    case 'i32':
      return `(${text}|0)`;
    case 'u32':
      return `((${text})>>>0)`;
    case 'i64':
      return `BigInt.asIntN(64,${text})`;
    case 'u64':
      return `BigInt.asUintN(64,${text})`;
    case 'f32':
      return `Math.fround(${text})`;
    default:
      return text;
  }
}

const SYMBOLS = { add: '+', sub: '-', mul: '*', div: '/', rem: '%', and: '&', or: '|', xor: '^' } as const;

function binaryText(op: BinaryOp, type: ValueType, left: Operand, right: Operand, name: NameOf): string {
  const a = operandText(left, name);
  const b = operandText(right, name);
  const float = type === 'f32' || type === 'f64';
  const wide = type === 'i64' || type === 'u64';
  if (type === 'packet') {
    if (op === 'and') return `P.packetAnd(${a},${b})`;
    if (op === 'or') return `P.packetOr(${a},${b})`;
    if (op === 'xor') return `P.packetXor(${a},${b})`;
    unsupported(op, type);
  }
  if (type === 'pred') {
    if (op === 'and' || op === 'or' || op === 'xor') return `(${a}${SYMBOLS[op]}${b})`;
    unsupported(op, type);
  }
  if (type === 'ptr') {
    // Addresses exceed 32 bits: compute in 64 and come back.
    const wideArgs = [`BigInt(${a})`, `BigInt(${b})`] as const;
    if (op === 'min' || op === 'max') return `Math.${op}(${a},${b})`;
    if (op === 'shl' || op === 'shr' || op === 'mulHi') unsupported(op, type);
    return `Number(BigInt.asUintN(64,${wideArgs[0]}${SYMBOLS[op]}${wideArgs[1]}))`;
  }
  switch (op) {
    case 'add':
    case 'sub':
      return wrap(type, `${a}${SYMBOLS[op]}${b}`);
    case 'mul':
      return type === 'i32' || type === 'u32' ? wrap(type, `Math.imul(${a},${b})`) : wrap(type, `${a}*${b}`);
    case 'mulHi':
      if (float) unsupported(op, type);
      return wide ? wrap(type, `(${a}*${b})>>64n`) : wrap(type, `S.mulHi32(${a},${b})`);
    case 'div':
    case 'rem': {
      const text = wrap(type, `${a}${SYMBOLS[op]}${b}`);
      if (float || right.kind === 'constant') return text;
      return `(${b}===${wide ? '0n' : '0'}?x.trap(t,'division by zero'):${text})`;
    }
    case 'min':
    case 'max':
      if (float) return `S.f${op}(${a},${b})`;
      return `(${a}${op === 'min' ? '<' : '>'}${b}?${a}:${b})`;
    case 'and':
    case 'or':
    case 'xor':
      if (float) unsupported(op, type);
      return wrap(type, `${a}${SYMBOLS[op]}${b}`);
    case 'shl':
    case 'shr': {
      if (float) unsupported(op, type);
      const symbol = op === 'shl' ? '<<' : type === 'u32' ? '>>>' : '>>';
      const text = wrap(type, `${a}${symbol}${wide ? `BigInt(${b})` : b}`);
      const width = wide ? 64 : 32;
      return `(${b}>=${width}?x.trap(t,'shift by '+${b}+' of ${width} bits'):${text})`;
    }
  }
}

const COMPARISONS: Readonly<Record<CompareOp, string>> = {
  eq: '===',
  ne: '!==',
  lt: '<',
  le: '<=',
  gt: '>',
  ge: '>=',
};

function unaryText(op: UnaryOp, type: ValueType, a: string): string {
  const wide = type === 'i64' || type === 'u64';
  const narrow = type === 'i32' || type === 'u32';
  switch (op) {
    case 'neg':
      if (type === 'packet' || type === 'pred' || type === 'ptr') unsupported(op, type);
      return wrap(type, `-${a}`);
    case 'not':
      if (type === 'pred') return `(${a}^1)`;
      if (type === 'packet') return `P.packetNot(${a})`;
      return wide || narrow ? wrap(type, `~${a}`) : unsupported(op, type);
    case 'clz':
      return wide ? `S.clz64(${a})` : narrow ? `Math.clz32(${a})` : unsupported(op, type);
    case 'ctz':
      return wide ? `S.ctz64(${a})` : narrow ? `S.ctz32(${a})` : unsupported(op, type);
    case 'popcnt':
      return wide ? `S.popcnt64(${a})` : narrow ? `S.popcnt32(${a})` : unsupported(op, type);
    case 'abs':
      if (type === 'u32' || type === 'u64') return a;
      if (wide) return wrap(type, `(${a}<0n?-${a}:${a})`);
      if (type === 'packet' || type === 'pred' || type === 'ptr') unsupported(op, type);
      return wrap(type, `Math.abs(${a})`);
  }
}

function castText(from: ValueType, to: ValueType, a: string): string {
  const wide = from === 'i64' || from === 'u64';
  const float = from === 'f32' || from === 'f64';
  if (from === 'packet' || to === 'packet') unsupported(`cast from ${from}`, to);
  switch (to) {
    case 'pred':
      return wide ? `(${a}!==0n?1:0)` : `(${a}!==0?1:0)`;
    case 'i32':
      return wide ? `Number(BigInt.asIntN(32,${a}))` : float ? `S.toI32(${a})` : `(${a}|0)`;
    case 'u32':
      return wide ? `Number(BigInt.asUintN(32,${a}))` : float ? `S.toU32(${a})` : `(${a}>>>0)`;
    case 'i64':
      return wide ? wrap(to, a) : float ? `S.toI64(${a})` : `BigInt(${a})`;
    case 'u64':
      return wide || from === 'i32'
        ? wrap(to, wide ? a : `BigInt(${a})`)
        : float
          ? `S.toU64(${a})`
          : `BigInt(${a})`;
    case 'f32':
      return wide ? `S.wideToF32(${a})` : `Math.fround(${a})`;
    case 'f64':
      return wide ? `Number(${a})` : a;
    case 'ptr':
      return wide ? `Number(${a})` : a;
  }
}

function bitcastText(from: ValueType, to: ValueType, a: string): string {
  switch (`${from}>${to}`) {
    case 'f32>i32':
      return `S.bitsOfF32(${a})`;
    case 'f32>u32':
      return `(S.bitsOfF32(${a})>>>0)`;
    case 'i32>f32':
    case 'u32>f32':
      return `S.f32OfBits(${a})`;
    case 'f64>u64':
      return `S.bitsOfF64(${a})`;
    case 'f64>i64':
      return `BigInt.asIntN(64,S.bitsOfF64(${a}))`;
    case 'i64>f64':
    case 'u64>f64':
      return `S.f64OfBits(${a})`;
    case 'i32>u32':
    case 'u32>i32':
    case 'i64>u64':
    case 'u64>i64':
      return wrap(to, a);
    default:
      return from === to ? a : unsupported(`bitcast from ${from}`, to);
  }
}

function offsetText(base: Operand, bytes: Operand, name: NameOf): string {
  const a = operandText(base, name);
  // A u64 may stand for a negative distance.
  if (bytes.kind === 'constant') {
    const distance = BigInt.asIntN(64, BigInt(bytes.value));
    return distance < 0n ? `(${a}-${-distance})` : `(${a}+${distance})`;
  }
  const b = operandText(bytes, name);
  return bytes.type === 'u64' || bytes.type === 'i64'
    ? `(${a}+Number(BigInt.asIntN(64,${b})))`
    : `(${a}+${b})`;
}

/** The text of a pure operation whose result has the type `to`. */
export function pureText(pure: Pure, to: ValueType, name: NameOf): string {
  const args = pure.args.map((o) => operandText(o, name));
  const [a = '', b = '', c = ''] = args;
  const from = pure.args[0]?.type ?? to;
  switch (pure.op) {
    case 'cast':
      return castText(from, to, a);
    case 'bitcast':
      return bitcastText(from, to, a);
    case 'select':
      return `(${a}?${b}:${c})`;
    case 'offset':
      return offsetText(pure.args[0]!, pure.args[1]!, name);
    case 'pk.make':
      return `P.makePacket(${a},${b})`;
    case 'pk.half':
      return `P.packetHalf(${a},${pure.half})`;
    case 'pk.splat':
      return `P.splat('${pure.type}',${a})`;
    case 'pk.reduce':
      return `P.reduceLanes('${pure.type}','${pure.step}',${a},${b})`;
    case 'pk.widen':
      return `P.widenLanes('${pure.type}',${a},${pure.part})`;
    case 'pk.narrow':
      return `P.narrowLanes('${pure.type}',[${args.join(',')}])`;
    case 'pk.divide':
      return `P.divideLanes('${pure.type}',${a},${b})`;
    case 'threadIndex':
      return 't.index';
    case 'blockIndex':
      return 't.block';
    case 'threadCount':
      return 't.threadCount';
    case 'blockCount':
      return 't.blockCount';
    case 'eq':
    case 'ne':
    case 'lt':
    case 'le':
    case 'gt':
    case 'ge':
      if (from === 'packet') unsupported(pure.op, from);
      return `(${a}${COMPARISONS[pure.op]}${b}?1:0)`;
    case 'neg':
    case 'not':
    case 'clz':
    case 'ctz':
    case 'popcnt':
    case 'abs':
      return unaryText(pure.op, from, a);
    default:
      return binaryText(pure.op, from, pure.args[0]!, pure.args[1]!, name);
  }
}
