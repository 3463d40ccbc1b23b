/**
 * Instructions of operations on 16-byte packets of elements, word by word.
 *
 * The arithmetic is that of one step of an ordinary kernel (rounded to the element type each time): integers wrap
 * around, floats of 32 and 64 bits are native, narrower floats are in narrow-floats.ts. Minima and maxima of PTX
 * are those wanted: a NaN loses against a number, and -0 is less than +0.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { ELEMENT_TYPES, type ElementType, type StepOp } from '../element-types.js';
import type { Code } from './code.js';
import { isNarrow, packBytes, reduceNarrow } from './narrow-floats.js';
import { type Words, word } from './values.js';

/** A 64-bit register from two words, the low one first. */
export function joinWords(code: Code, low: string, high: string): string {
  return code.result('b64', 'mov.b64', `{${low}, ${high}}`);
}

/** The two words of a 64-bit register, the low one first. */
export function splitWords(code: Code, value: string): [string, string] {
  const low = code.register('b32');
  const high = code.register('b32');
  code.op('mov.b64', `{${low}, ${high}}`, value);
  return [low, high];
}

/** Does something with the two 64-bit lanes of packets. */
function by64(code: Code, packets: readonly Words[], lane: (values: string[]) => string): Words {
  return [0, 2].flatMap((at) => {
    const values = packets.map((packet) => joinWords(code, packet[at]!, packet[at + 1]!));
    return splitWords(code, lane(values));
  });
}

/** Lane by lane `step(a, b)`. */
export function reducePackets(code: Code, type: ElementType, step: StepOp, a: Words, b: Words): Words {
  if (ELEMENT_TYPES[type].size === 8) {
    const operation = wideOperation(type, step);
    return by64(code, [a, b], ([x, y]) => code.result('b64', operation, x!, y!));
  }
  return a.map((x, i) => reduceWords(code, type, step, x, b[i]!));
}

function wideOperation(type: ElementType, step: StepOp): string {
  const of = type === 'float64' ? 'f64' : type === 'int64' ? 's64' : 'u64';
  if (step === 'sum') return of === 'f64' ? 'add.rn.f64' : `add.${of}`;
  if (step === 'prod') return of === 'f64' ? 'mul.rn.f64' : `mul.lo.${of}`;
  return `${step}.${of}`;
}

function reduceWords(code: Code, type: ElementType, step: StepOp, a: string, b: string): string {
  if (isNarrow(type)) return reduceNarrow(code, type, step, a, b);
  switch (type) {
    case 'float32':
      if (step === 'sum') return code.result('b32', 'add.rn.f32', a, b);
      if (step === 'prod') return code.result('b32', 'mul.rn.f32', a, b);
      return code.result('b32', `${step}.f32`, a, b);
    case 'int32':
    case 'uint32': {
      const of = type === 'int32' ? 's32' : 'u32';
      if (step === 'sum') return code.result('b32', `add.${of}`, a, b);
      if (step === 'prod') return code.result('b32', `mul.lo.${of}`, a, b);
      return code.result('b32', `${step}.${of}`, a, b);
    }
    case 'int8':
    case 'uint8':
      if (step === 'sum') return byteSum(code, a, b);
      if (step === 'prod') return byteProduct(code, a, b);
      return byteExtreme(code, step, type === 'int8', a, b);
    default:
      throw new TuttiError('internalError', `the ptx target cannot reduce ${type}`);
  }
}

/** Sums of the lower seven bits cannot reach the next byte; the top bits are added without carry. */
function byteSum(code: Code, a: string, b: string): string {
  const lower = (x: string) => code.result('b32', 'and.b32', x, word(0x7f7f7f7f));
  const sum = code.result('b32', 'add.u32', lower(a), lower(b));
  const differ = code.result('b32', 'xor.b32', a, b);
  const top = code.result('b32', 'and.b32', differ, word(0x80808080));
  return code.result('b32', 'xor.b32', sum, top);
}

/** The low byte of a product depends on the low bytes of the factors alone. */
function byteProduct(code: Code, a: string, b: string): string {
  const products = [0, 8, 16, 24].map((shift) => {
    const from = (x: string) => (shift === 0 ? x : code.result('b32', 'shr.u32', x, word(shift)));
    return code.result('b32', 'mul.lo.u32', from(a), from(b));
  });
  return packBytes(code, products);
}

/** Byte lane `index` of a word as a 32-bit integer. */
function byteOf(code: Code, w: string, index: number, signed: boolean): string {
  return code.result('b32', signed ? 'bfe.s32' : 'bfe.u32', w, word(8 * index), '8');
}

function byteExtreme(code: Code, step: 'min' | 'max', signed: boolean, a: string, b: string): string {
  const lanes = [0, 1, 2, 3].map((i) =>
    code.result(
      'b32',
      `${step}.${signed ? 's32' : 'u32'}`,
      byteOf(code, a, i, signed),
      byteOf(code, b, i, signed),
    ),
  );
  return packBytes(code, lanes);
}

/** The low bits of a 64-bit register in every lane. */
export function splatPacket(code: Code, type: ElementType, bits: string): Words {
  const { size } = ELEMENT_TYPES[type];
  if (size === 8) {
    const [low, high] = splitWords(code, bits);
    return [low, high, low, high];
  }
  let lane = code.result('b32', 'cvt.u32.u64', bits);
  if (size < 4) lane = code.result('b32', 'prmt.b32', lane, '0', word(size === 2 ? 0x1010 : 0x0000));
  return [lane, lane, lane, lane];
}

/** Integer lanes divided by an unsigned 64-bit number, truncating toward zero. */
export function dividePacket(code: Code, type: ElementType, packet: Words, divisor: string): Words {
  const { size, kind } = ELEMENT_TYPES[type];
  if (kind === 'float') throw new TuttiError('internalError', `pk.divide is for integers, not ${type}`);
  const signed = kind === 'signed';
  if (size === 8) return by64(code, [packet], ([value]) => divided(code, 'b64', signed, value!, divisor));
  // Every magnitude divided by 2^32 - 1 is 0 but for 2^32 - 1 itself, an uint32; larger divisors are clamped to
  // 2^32 - 1 and that one quotient is put right below.
  const small = code.result('b32', 'cvt.u32.u64', code.result('b64', 'min.u64', divisor, word(0xffffffff)));
  const fits = code.result('pred', 'setp.le.u64', divisor, word(0xffffffff));
  return packet.map((w) => {
    if (size === 4) {
      const quotient = divided(code, 'b32', signed, w, small);
      return signed ? quotient : code.result('b32', 'selp.b32', quotient, '0', fits);
    }
    const lanes = [0, 1, 2, 3].map((i) => divided(code, 'b32', signed, byteOf(code, w, i, signed), small));
    return packBytes(code, lanes);
  });
}

/** Signed values: the magnitude is divided as an unsigned number and gets its sign back. */
function divided(code: Code, kind: 'b32' | 'b64', signed: boolean, value: string, divisor: string): string {
  const bits = kind.slice(1);
  if (!signed) return code.result(kind, `div.u${bits}`, value, divisor);
  // (x ^ s) - s negates x where s is -1.
  const sign = code.result(kind, `shr.s${bits}`, value, String(Number(bits) - 1));
  const turn = (x: string) =>
    code.result(kind, `sub.s${bits}`, code.result(kind, `xor.b${bits}`, x, sign), sign);
  return turn(code.result(kind, `div.u${bits}`, turn(value), divisor));
}
