/**
 * A plain evaluator of programs: one thread, integers as bigints, nothing shared with the compiler.
 *
 * It walks the statements as ir.ts describes them. A wait that does not hold calls `blocked` before the next
 * poll, which is where the outside world may change the memory.
 */
import {
  MEMORY_BYTES,
  type Operand,
  type Program,
  type Pure,
  type Statement,
  type ValueType,
} from '#src/kernel/ir.js';

/** Integers and addresses are bigints in the range of their type, packets unsigned bigints of 128 bits. */
type Scalar = bigint | number;

const SIGNED: ValueType[] = ['i32', 'i64'];
const WIDTH: Record<ValueType, number> = {
  pred: 1,
  i32: 32,
  u32: 32,
  ptr: 32,
  i64: 64,
  u64: 64,
  packet: 128,
  f32: 0,
  f64: 0,
};

function wrap(type: ValueType, value: bigint): bigint {
  return SIGNED.includes(type) ? BigInt.asIntN(WIDTH[type], value) : BigInt.asUintN(WIDTH[type], value);
}

function isFloat(type: ValueType): boolean {
  return type === 'f32' || type === 'f64';
}

function rounded(type: ValueType, value: number): number {
  return type === 'f32' ? Math.fround(value) : value;
}

function bitsOf(type: ValueType, value: Scalar): bigint {
  const view = new DataView(new ArrayBuffer(8));
  if (type === 'f32') {
    view.setFloat32(0, value as number);
    return BigInt(view.getUint32(0));
  }
  if (type === 'f64') {
    view.setFloat64(0, value as number);
    return view.getBigUint64(0);
  }
  return BigInt.asUintN(WIDTH[type], value as bigint);
}

function fromBits(type: ValueType, bits: bigint): Scalar {
  const view = new DataView(new ArrayBuffer(8));
  if (type === 'f32') {
    view.setUint32(0, Number(bits));
    return view.getFloat32(0);
  }
  if (type === 'f64') {
    view.setBigUint64(0, bits);
    return view.getFloat64(0);
  }
  return wrap(type, bits);
}

function saturated(type: ValueType, value: number): bigint {
  if (Number.isNaN(value)) return 0n;
  const signed = SIGNED.includes(type);
  const bits = BigInt(WIDTH[type] - (signed ? 1 : 0));
  const largest = (1n << bits) - 1n;
  const smallest = signed ? -(1n << bits) : 0n;
  if (value >= Number(largest)) return largest;
  if (value <= Number(smallest)) return smallest;
  return BigInt(Math.trunc(value));
}

function integerBinary(op: string, type: ValueType, a: bigint, b: bigint): bigint {
  switch (op) {
    case 'add':
      return a + b;
    case 'sub':
      return a - b;
    case 'mul':
      return a * b;
    case 'mulHi':
      return (a * b) >> BigInt(WIDTH[type]);
    case 'div':
      return a / b;
    case 'rem':
      return a % b;
    case 'min':
      return a < b ? a : b;
    case 'max':
      return a > b ? a : b;
    case 'and':
      return a & b;
    case 'or':
      return a | b;
    case 'xor':
      return a ^ b;
    default:
      throw new Error(`no ${op}`);
  }
}

function floatBinary(op: string, a: number, b: number): number {
  switch (op) {
    case 'add':
      return a + b;
    case 'sub':
      return a - b;
    case 'mul':
      return a * b;
    case 'div':
      return a / b;
    case 'min':
      return Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.min(a, b);
    case 'max':
      return Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b);
    default:
      throw new Error(`no ${op}`);
  }
}

function compare(op: string, a: Scalar, b: Scalar): boolean {
  switch (op) {
    case 'eq':
      return a === b;
    case 'ne':
      return a !== b;
    case 'lt':
      return a < b;
    case 'le':
      return a <= b;
    case 'gt':
      return a > b;
    default:
      return a >= b;
  }
}

function countBits(op: string, type: ValueType, value: bigint): bigint {
  const digits = BigInt.asUintN(WIDTH[type], value).toString(2).padStart(WIDTH[type], '0');
  if (op === 'popcnt') return BigInt(digits.split('1').length - 1);
  const one = op === 'clz' ? digits.indexOf('1') : [...digits].reverse().join('').indexOf('1');
  return BigInt(one < 0 ? WIDTH[type] : one);
}

type Outcome = 'next' | { leave: 'break' | 'continue'; loop: number } | { status: number };

export interface World {
  readonly view: DataView;
  readonly descriptor: number;
  readonly block?: number;
  readonly blocks?: number;
  readonly blocked?: () => void;
}

class Evaluator {
  readonly #registers = new Map<number, Scalar>();

  constructor(readonly world: World) {}

  set(id: number, value: Scalar): void {
    this.#registers.set(id, value);
  }

  operand(o: Operand): Scalar {
    if (o.kind === 'constant') return isFloat(o.type) ? Number(o.value) : BigInt(o.value);
    const value = this.#registers.get(o.id);
    if (value === undefined) throw new Error(`register ${o.id} is read before it is set`);
    return value;
  }

  #pure(type: ValueType, value: Pure): Scalar {
    const operands = value.args;
    const args = operands.map((o) => this.operand(o));
    const [a, b] = args as [Scalar, Scalar];
    const from = operands[0]?.type ?? type;
    switch (value.op) {
      case 'threadIndex':
        return 0n;
      case 'threadCount':
        return 1n;
      case 'blockIndex':
        return BigInt(this.world.block ?? 0);
      case 'blockCount':
        return BigInt(this.world.blocks ?? 1);
      case 'eq':
      case 'ne':
      case 'lt':
      case 'le':
      case 'gt':
      case 'ge':
        return compare(value.op, a, b) ? 1n : 0n;
      case 'shl':
        return wrap(type, (a as bigint) << (b as bigint));
      case 'shr':
        return wrap(type, (a as bigint) >> (b as bigint));
      case 'neg':
        return isFloat(type) ? -a : wrap(type, -(a as bigint));
      case 'abs':
        return isFloat(type) ? Math.abs(a as number) : wrap(type, a < 0n ? -(a as bigint) : (a as bigint));
      case 'not':
        return wrap(type, ~(a as bigint));
      case 'clz':
      case 'ctz':
      case 'popcnt':
        return countBits(value.op, type, a as bigint);
      case 'cast':
        if (type === 'pred') return isFloat(from) ? (a !== 0 ? 1n : 0n) : a !== 0n ? 1n : 0n;
        if (isFloat(type))
          return rounded(type, type === 'f32' && !isFloat(from) ? nearest32(a as bigint) : Number(a));
        return isFloat(from) ? saturated(type, a as number) : wrap(type, a as bigint);
      case 'bitcast':
        return fromBits(type, bitsOf(from, a));
      case 'select':
        return args[0] !== 0n ? args[1]! : args[2]!;
      case 'offset':
        return wrap('ptr', (a as bigint) + (b as bigint));
      case 'pk.make':
        return ((b as bigint) << 64n) | (a as bigint);
      case 'pk.half':
        return wrap('u64', (a as bigint) >> BigInt(64 * value.half));
      case 'pk.reduce': {
        if (value.type !== 'int64' || value.step !== 'sum') throw new Error('sums of int64 only');
        const [x, y] = [a as bigint, b as bigint];
        return (wrap('u64', (x >> 64n) + (y >> 64n)) << 64n) | wrap('u64', x + y);
      }
      case 'pk.splat':
      case 'pk.widen':
      case 'pk.narrow':
      case 'pk.divide':
        throw new Error(`${value.op} is not for this evaluator`);
      default:
        if (isFloat(type)) return rounded(type, floatBinary(value.op, a as number, b as number));
        return wrap(type, integerBinary(value.op, type, a as bigint, b as bigint));
    }
  }

  #load(s: Extract<Statement, { kind: 'load' }>): Scalar {
    const at = Number(this.operand(s.address)) + s.offset;
    const view = this.world.view;
    let bits = 0n;
    const bytes = s.memory === 'ptr' ? 4 : MEMORY_BYTES[s.memory];
    for (let i = bytes - 1; i >= 0; i--) bits = (bits << 8n) | BigInt(view.getUint8(at + i));
    if (s.memory === 'i8' || s.memory === 'i16') bits = BigInt.asIntN(8 * bytes, bits);
    return fromBits(s.target.type, bits);
  }

  #store(s: Extract<Statement, { kind: 'store' }>): void {
    const at = Number(this.operand(s.address)) + s.offset;
    let bits = bitsOf(s.value.type, this.operand(s.value));
    for (let i = 0; i < MEMORY_BYTES[s.memory]; i++) {
      this.world.view.setUint8(at + i, Number(bits & 0xffn));
      bits >>= 8n;
    }
  }

  list(statements: readonly Statement[]): Outcome {
    for (const s of statements) {
      const outcome = this.#statement(s);
      if (outcome !== 'next') return outcome;
    }
    return 'next';
  }

  #statement(s: Statement): Outcome {
    switch (s.kind) {
      case 'let':
        this.set(s.target.id, this.#pure(s.target.type, s.value));
        return 'next';
      case 'assign':
        this.set(s.target.id, this.operand(s.value));
        return 'next';
      case 'load':
        this.set(s.target.id, this.#load(s));
        return 'next';
      case 'store':
        this.#store(s);
        return 'next';
      case 'if':
        return this.list(this.operand(s.condition) !== 0n ? s.taken : s.otherwise);
      case 'loop':
        for (;;) {
          for (const list of [s.body, s.step]) {
            const outcome = this.list(list);
            if (outcome === 'next') continue;
            if ('status' in outcome || outcome.loop !== s.id) return outcome;
            if (outcome.leave === 'break') return 'next';
          }
        }
      case 'break':
      case 'continue':
        return { leave: s.kind, loop: s.loop };
      case 'wait':
        for (;;) {
          this.list(s.poll);
          if (this.operand(s.condition) !== 0n) return 'next';
          if (this.world.blocked === undefined) throw new Error('blocked for ever');
          this.world.blocked();
        }
      case 'return':
        return { status: Number(this.operand(s.status)) };
      default:
        throw new Error(`${s.kind} is not for this evaluator`);
    }
  }
}

/** A 64-bit integer rounded to the nearest float32; by way of float64 it could be rounded twice. */
function nearest32(value: bigint): number {
  const magnitude = value < 0n ? -value : value;
  const length = magnitude.toString(2).length;
  if (length <= 24) return Number(value);
  const shift = BigInt(length - 24);
  const units = magnitude >> shift;
  const rest = magnitude - (units << shift);
  const half = 1n << (shift - 1n);
  const up = rest > half || (rest === half && units % 2n === 1n);
  const result = Number((units + (up ? 1n : 0n)) << shift);
  return value < 0n ? -result : result;
}

/** Runs a program to its end and gives its status. */
export function evaluate(program: Program, world: World): number {
  const evaluator = new Evaluator(world);
  evaluator.set(program.descriptor.id, BigInt(world.descriptor));
  const outcome = evaluator.list(program.body);
  return outcome !== 'next' && 'status' in outcome ? outcome.status : 0;
}
