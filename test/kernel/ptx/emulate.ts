/**
 * An emulator of generated PTX: one thread over one memory, instruction by instruction, by the PTX ISA.
 *
 * It knows the instructions that the target writes for programs without partners (no barriers, warp operations or
 * atomics). Registers hold unsigned bigints of their width, predicates 0n or 1n. The arithmetic of 16-bit floats
 * and the conversions of narrow floats are those of numeric.ts; everything else stands here.
 */
import type { ElementType } from '#src/kernel/element-types.js';
import { type NarrowFloat, narrowBits, reduceNumber, widenBits } from '#src/kernel/numeric.js';
import { elements, type Instruction, type PtxFunction, parsePtx } from './parse.js';

const scratch = new DataView(new ArrayBuffer(8));

function toFloat(bits: bigint, width: number): number {
  if (width === 32) {
    scratch.setUint32(0, Number(bits));
    return scratch.getFloat32(0);
  }
  scratch.setBigUint64(0, bits);
  return scratch.getFloat64(0);
}

function fromFloat(value: number, width: number): bigint {
  if (Number.isNaN(value)) return width === 32 ? 0x7fffffffn : 0x7fffffffffffffffn;
  if (width === 32) {
    scratch.setFloat32(0, value);
    return BigInt(scratch.getUint32(0));
  }
  scratch.setFloat64(0, value);
  return scratch.getBigUint64(0);
}

const PAIRS: Readonly<Record<string, NarrowFloat>> = {
  f16: 'float16',
  bf16: 'bfloat16',
  f16x2: 'float16',
  bf16x2: 'bfloat16',
  e4m3x2: 'float8e4m3',
  e5m2x2: 'float8e5m2',
};

const STEPS: Readonly<Record<string, 'sum' | 'prod' | 'min' | 'max'>> = {
  add: 'sum',
  mul: 'prod',
  min: 'min',
  max: 'max',
};

function widthOf(type: string): number {
  return type === 'pred'
    ? 1
    : type.endsWith('x2')
      ? type.startsWith('e')
        ? 16
        : 32
      : Number(/\d+$/.exec(type)![0]);
}

function signedValue(type: string, bits: bigint): bigint {
  return type.startsWith('s') ? BigInt.asIntN(widthOf(type), bits) : BigInt.asUintN(widthOf(type), bits);
}

function bitCount(bits: bigint): bigint {
  return BigInt(bits.toString(2).replaceAll('0', '').length);
}

/** Nearest float32 of an integer. */
function nearest32(value: bigint): number {
  const magnitude = value < 0n ? -value : value;
  const drop = magnitude.toString(2).length - 24;
  if (drop <= 0) return Number(value);
  const unit = 1n << BigInt(drop);
  const rest = magnitude % unit;
  let units = magnitude / unit;
  if (2n * rest > unit || (2n * rest === unit && units % 2n === 1n)) units++;
  return (value < 0n ? -1 : 1) * Number(units) * 2 ** drop;
}

export interface World {
  /** Memory; addresses are offsets into it. */
  readonly view: DataView;
  /** Values of the parameters, in their order. */
  readonly parameters: readonly number[];
}

class Thread {
  readonly #registers = new Map<string, bigint>();
  readonly #shared: DataView;

  constructor(
    readonly f: PtxFunction,
    readonly world: World,
  ) {
    this.#shared = world.view;
  }

  #read(operand: string): bigint {
    if (operand.startsWith('%')) {
      if (operand === '%ntid.x' || operand === '%nctaid.x') return 1n;
      if (operand === '%tid.x' || operand === '%ctaid.x') return 0n;
      const value = this.#registers.get(operand);
      if (value === undefined) throw new Error(`${operand} has no value`);
      return value;
    }
    if (/^0[fd]/.test(operand)) return BigInt(`0x${operand.slice(2)}`);
    return BigInt(operand);
  }

  #value(operand: string, type: string): bigint {
    return signedValue(type, this.#read(operand));
  }

  #write(register: string, value: bigint): void {
    const kind = this.f.registers.get(register)!;
    this.#registers.set(register, BigInt.asUintN(kind === 'pred' ? 1 : Number(kind.slice(1)), value));
  }

  #address(operand: string): number {
    const [, base, offset] = /^\[(%rd\d+)(?:\+(-?\d+))?\]$/.exec(operand)!;
    return Number(this.#read(base!)) + Number(offset ?? 0);
  }

  /** Runs to the end of the function; the number of instructions. */
  run(limit = 1_000_000): number {
    const { instructions, labels } = this.f;
    let at = 0;
    for (let count = 1; count < limit; count++) {
      const instruction = instructions[at]!;
      const { guard, name, operands } = instruction;
      at++;
      if (guard !== undefined && (this.#read(guard.register) === 1n) === guard.negated) continue;
      if (name[0] === 'ret') return count;
      if (name[0] === 'bra') at = labels.get(operands[0]!)!;
      else this.#step(instruction);
    }
    throw new Error(`${this.f.name} runs without end`);
  }

  #step({ name, operands }: Instruction): void {
    const base = name[0]!;
    const type = name.at(-1)!;
    const [d, a, b, c] = operands as [string, string, string, string];
    switch (base) {
      case 'nanosleep':
      case 'fence':
        break;
      case 'ld':
        if (name[1] === 'param')
          this.#write(d, BigInt(this.world.parameters[this.f.parameters.indexOf(a.slice(1, -1))]!));
        else this.#load(d, this.#address(a), type);
        break;
      case 'st':
        this.#store(this.#address(d), a, type);
        break;
      case 'mov':
        this.#move(d, a, type);
        break;
      case 'cvt':
        this.#convert(name, operands);
        break;
      case 'setp':
        this.#write(d, this.#compare(name[1]!, type, a, b) ? 1n : 0n);
        break;
      case 'selp':
        this.#write(d, this.#read(this.#read(c) === 1n ? a : b));
        break;
      case 'shl':
        this.#write(d, this.#read(a) << this.#value(b, 'u32'));
        break;
      case 'shr':
        this.#write(d, this.#value(a, type) >> this.#value(b, 'u32'));
        break;
      case 'clz':
        this.#write(
          d,
          BigInt(widthOf(type)) - BigInt(this.#read(a) === 0n ? 0 : this.#read(a).toString(2).length),
        );
        break;
      case 'popc':
        this.#write(d, bitCount(this.#read(a)));
        break;
      case 'brev':
        this.#write(
          d,
          BigInt(`0b${[...this.#read(a).toString(2).padStart(widthOf(type), '0')].reverse().join('')}`),
        );
        break;
      case 'bfe': {
        const field = (this.#read(a) >> this.#read(b)) & ((1n << this.#read(c)) - 1n);
        this.#write(d, type === 's32' ? BigInt.asIntN(Number(this.#read(c)), field) : field);
        break;
      }
      case 'bfi': {
        const [, , , position, length] = operands.map((o, i) => (i === 0 ? 0n : this.#read(o)));
        const mask = ((1n << length!) - 1n) << position!;
        this.#write(d, (this.#read(b) & ~mask) | ((this.#read(a) << position!) & mask));
        break;
      }
      case 'prmt': {
        const bytes = (this.#value(b, 'u32') << 32n) | this.#value(a, 'u32');
        let result = 0n;
        for (let i = 0n; i < 4n; i++) {
          const from = (this.#read(c) >> (4n * i)) & 15n;
          if (from > 7n) throw new Error('prmt that repeats a sign');
          result |= ((bytes >> (8n * from)) & 255n) << (8n * i);
        }
        this.#write(d, result);
        break;
      }
      case 'fma': {
        if (type !== 'bf16x2') throw new Error(`fma of ${type}`);
        // One rounding: the exact product of two bfloat16 and the sum fit a double in the uses made of it.
        this.#pairs(
          d,
          (x, y, z) => {
            const [p, q, r] = [x, y, z].map((bits) => toFloat(BigInt(bits) << 16n, 32));
            return narrowBits('bfloat16', Number(fromFloat(p! * q! + r!, 32)));
          },
          a,
          b,
          c,
        );
        break;
      }
      default:
        if (type.endsWith('x2')) {
          const of = PAIRS[type] as Exclude<ElementType, 'int64' | 'uint64' | 'float64'>;
          this.#pairs(d, (x, y) => reduceNumber(of, STEPS[base]!, x, y), a, b);
        } else if (type.startsWith('f')) this.#write(d, this.#float(base, type, operands.slice(1)));
        else this.#write(d, this.#integer(name, type, operands.slice(1)));
    }
  }

  #load(target: string, address: number, type: string): void {
    const registers = elements(target);
    const bytes = widthOf(type) / 8;
    registers.forEach((register, i) => {
      let bits = 0n;
      for (let j = bytes - 1; j >= 0; j--)
        bits = bits * 256n + BigInt(this.#shared.getUint8(address + i * bytes + j));
      this.#write(register, signedValue(type, bits));
    });
    if (address % (bytes * registers.length) !== 0) throw new Error(`load of ${type} at ${address}`);
  }

  #store(address: number, source: string, type: string): void {
    const registers = elements(source);
    const bytes = widthOf(type) / 8;
    if (address % (bytes * registers.length) !== 0) throw new Error(`store of ${type} at ${address}`);
    registers.forEach((register, i) => {
      const bits = this.#read(register);
      for (let j = 0; j < bytes; j++) {
        this.#shared.setUint8(address + i * bytes + j, Number((bits >> BigInt(8 * j)) & 255n));
      }
    });
  }

  #move(d: string, a: string, type: string): void {
    const half = BigInt(widthOf(type)) / 2n;
    if (d.startsWith('{')) {
      const [low, high] = elements(d);
      this.#write(low!, this.#read(a));
      this.#write(high!, this.#read(a) >> half);
    } else if (a.startsWith('{')) {
      const [low, high] = elements(a);
      this.#write(d, (this.#read(high!) << half) | this.#read(low!));
    } else this.#write(d, this.#read(a));
  }

  /** Two lanes of 16 bits, each for itself. */
  #pairs(d: string, lane: (...bits: number[]) => number, ...sources: string[]): void {
    const words = sources.map((s) => Number(this.#value(s, 'u32')));
    const low = lane(...words.map((w) => w & 0xffff));
    const high = lane(...words.map((w) => w >>> 16));
    this.#write(d, (BigInt(high) << 16n) | BigInt(low));
  }

  #convert(name: readonly string[], operands: readonly string[]): void {
    const [d, a, b] = operands as [string, string, string];
    const [to, from] = name.slice(-2) as [string, string];
    const narrowTo = PAIRS[to];
    const narrowFrom = PAIRS[from];
    if (narrowTo !== undefined && from === 'f32') {
      const round = (source: string) => BigInt(narrowBits(narrowTo, Number(this.#read(source))));
      // Of two sources the first becomes the upper half.
      this.#write(d, b === undefined ? round(a) : (round(a) << BigInt(widthOf(to) / 2)) | round(b));
    } else if (narrowFrom !== undefined && to === 'f32') {
      this.#write(d, BigInt(widenBits(narrowFrom, Number(this.#read(a)))));
    } else if (narrowTo !== undefined && narrowFrom !== undefined) {
      const [narrow, wide] = [BigInt(widthOf(from) / 2), BigInt(widthOf(to) / 2)];
      const lanes = [0n, narrow].map((shift) => {
        const bits = Number((this.#read(a) >> shift) & ((1n << narrow) - 1n));
        return BigInt(narrowBits(narrowTo, widenBits(narrowFrom, bits)));
      });
      this.#write(d, (lanes[1]! << wide) | lanes[0]!);
    } else if (from.startsWith('f') && to.startsWith('f')) {
      this.#write(d, fromFloat(toFloat(this.#read(a), widthOf(from)), widthOf(to)));
    } else if (to.startsWith('f')) {
      const value = this.#value(a, from);
      this.#write(d, fromFloat(to === 'f32' ? nearest32(value) : Number(value), widthOf(to)));
    } else if (from.startsWith('f')) {
      const value = toFloat(this.#read(a), widthOf(from));
      const bits = BigInt(widthOf(to));
      // What a NaN becomes differs between widths on real hardware; here it is never 0.
      if (Number.isNaN(value)) {
        this.#write(d, 1n << (bits - 1n));
        return;
      }
      const signed = to.startsWith('s');
      const least = signed ? -(1n << (bits - 1n)) : 0n;
      const most = (1n << (signed ? bits - 1n : bits)) - 1n;
      const whole = Number.isFinite(value) ? BigInt(Math.trunc(value)) : value > 0 ? most : least;
      this.#write(d, whole < least ? least : whole > most ? most : whole);
    } else this.#write(d, signedValue(to, this.#value(a, from)));
  }

  #compare(relation: string, type: string, a: string, b: string): boolean {
    const float = type.startsWith('f');
    const [x, y] = [a, b].map((o) =>
      float ? toFloat(this.#value(o, `u${widthOf(type)}`), widthOf(type)) : this.#value(o, type),
    ) as [number, number];
    const unordered = float && (Number.isNaN(x) || Number.isNaN(y));
    switch (relation) {
      case 'num':
        return !unordered;
      case 'nan':
        return unordered;
      case 'neu':
        return unordered || x !== y;
      case 'eq':
        return x === y;
      case 'ne':
        return !unordered && x !== y;
      case 'lt':
        return x < y;
      case 'le':
        return x <= y;
      case 'gt':
        return x > y;
      case 'ge':
        return x >= y;
      default:
        throw new Error(`unknown relation ${relation}`);
    }
  }

  #float(base: string, type: string, sources: readonly string[]): bigint {
    const width = widthOf(type);
    const [x, y] = sources.map((s) => toFloat(this.#value(s, `u${width}`), width)) as [number, number];
    const bits = this.#value(sources[0]!, `u${width}`);
    const sign = 1n << BigInt(width - 1);
    const missing = Number.isNaN(x) ? y : Number.isNaN(y) ? x : undefined;
    switch (base) {
      case 'add':
        return fromFloat(x + y, width);
      case 'sub':
        return fromFloat(x - y, width);
      case 'mul':
        return fromFloat(x * y, width);
      case 'div':
        return fromFloat(x / y, width);
      case 'min':
        return fromFloat(missing ?? Math.min(x, y), width);
      case 'max':
        return fromFloat(missing ?? Math.max(x, y), width);
      case 'neg':
        return bits ^ sign;
      case 'abs':
        return bits & ~sign;
      default:
        throw new Error(`unknown ${base}.${type}`);
    }
  }

  #integer(name: readonly string[], type: string, sources: readonly string[]): bigint {
    const [x, y] = sources.map((s) => this.#value(s, type)) as [bigint, bigint];
    const form = name.slice(0, -1).join('.');
    switch (form) {
      case 'add':
        return x + y;
      case 'sub':
        return x - y;
      case 'mul.lo':
        return x * y;
      case 'mul.hi':
        return (x * y) >> BigInt(widthOf(type));
      case 'mul.wide':
        return x * y;
      case 'div':
        return x / y;
      case 'rem':
        return x % y;
      case 'min':
      case 'max':
        return x < y === (form === 'min') ? x : y;
      case 'and':
        return x & y;
      case 'or':
        return x | y;
      case 'xor':
        return x ^ y;
      case 'not':
        return ~x;
      case 'neg':
        return -x;
      case 'abs':
        return x < 0n ? -x : x;
      default:
        throw new Error(`unknown instruction ${name.join('.')}`);
    }
  }
}

/** Runs the first function of a module as the only thread; the number of instructions that ran. */
export function emulate(text: string, world: World): number {
  return new Thread(parsePtx(text).functions[0]!, world).run();
}
