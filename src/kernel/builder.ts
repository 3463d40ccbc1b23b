/**
 * The builder of device programs: TypeScript that runs when a program is generated.
 *
 * `kernel(name, traits, (k, descriptor) => { ... })` runs the function once and records what it does.
 * Ordinary TypeScript (loops over peers, choices by element type) happens at generation time and leaves no
 * trace; what goes through `k` and through `Value` methods is done at run time, on every target. Inlining is
 * simply calling a function. Constants fold, so on a single-thread target `threadIndex` and everything that
 * depends on it alone disappears.
 *
 * ```ts
 * const Work = struct('Work', { data: 'ptr', count: 'u64' });
 * const program = kernel('fill', WASM_TRAITS, (k, work) => {
 *   const data = k.field(work, Work, 'data');
 *   const count = k.field(work, Work, 'count');
 *   k.for(k.u64(0), count, k.u64(1), (i) => {
 *     k.store('u32', data.offset(i.mul(4n)), i.cast('u32'));
 *   });
 * });
 * ```
 */

import { TuttiError } from '../errors/tutti-error.js';
import { canReduceInSwitch, type ElementType, type StepOp } from './element-types.js';
import {
  type AtomicOp,
  type BinaryOp,
  type CacheHint,
  type CompareOp,
  type Constant,
  type IdentityOp,
  MEMORY_BYTES,
  type MemoryType,
  type Operand,
  type Order,
  type Place,
  type Program,
  type Pure,
  type Register,
  type Scope,
  STATUS,
  type Statement,
  type Traits,
  type UnaryOp,
  type ValueType,
  valueTypeOf,
} from './ir.js';
import type { CellOf, FieldType, Struct } from './layout.js';

/** The value type that a memory cell of type M loads as. */
export type Loaded<M extends MemoryType> = M extends 'i8' | 'i16'
  ? 'i32'
  : M extends 'u8' | 'u16'
    ? 'u32'
    : M extends ValueType
      ? M
      : never;

/** Whatever may stand for a run-time value of type T: the value itself, or a literal. */
export type Input<T extends ValueType> = Value<T> | number | bigint;

/** A run-time value. Methods record an operation in the program under construction. */
export class Value<T extends ValueType = ValueType> {
  constructor(
    readonly builder: KernelBuilder,
    readonly operand: Operand,
    readonly type: T,
  ) {}

  #binary(op: BinaryOp, other: Input<T>): Value<T> {
    return this.builder.binary(op, this, other);
  }

  add(other: Input<T>): Value<T> {
    return this.#binary('add', other);
  }
  sub(other: Input<T>): Value<T> {
    return this.#binary('sub', other);
  }
  mul(other: Input<T>): Value<T> {
    return this.#binary('mul', other);
  }
  /** High half of the product (integers). */
  mulHi(other: Input<T>): Value<T> {
    return this.#binary('mulHi', other);
  }
  div(other: Input<T>): Value<T> {
    return this.#binary('div', other);
  }
  rem(other: Input<T>): Value<T> {
    return this.#binary('rem', other);
  }
  min(other: Input<T>): Value<T> {
    return this.#binary('min', other);
  }
  max(other: Input<T>): Value<T> {
    return this.#binary('max', other);
  }
  and(other: Input<T>): Value<T> {
    return this.#binary('and', other);
  }
  or(other: Input<T>): Value<T> {
    return this.#binary('or', other);
  }
  xor(other: Input<T>): Value<T> {
    return this.#binary('xor', other);
  }
  /** Shift left by a number of bits below the width. */
  shl(bits: Input<'u32'>): Value<T> {
    return this.builder.shift('shl', this, bits);
  }
  /** Shift right: arithmetic on signed, logical on unsigned types. */
  shr(bits: Input<'u32'>): Value<T> {
    return this.builder.shift('shr', this, bits);
  }
  neg(): Value<T> {
    return this.builder.unary('neg', this);
  }
  not(): Value<T> {
    return this.builder.unary('not', this);
  }
  clz(): Value<T> {
    return this.builder.unary('clz', this);
  }
  ctz(): Value<T> {
    return this.builder.unary('ctz', this);
  }
  popcnt(): Value<T> {
    return this.builder.unary('popcnt', this);
  }
  abs(): Value<T> {
    return this.builder.unary('abs', this);
  }
  eq(other: Input<T>): Value<'pred'> {
    return this.builder.compare('eq', this, other);
  }
  ne(other: Input<T>): Value<'pred'> {
    return this.builder.compare('ne', this, other);
  }
  lt(other: Input<T>): Value<'pred'> {
    return this.builder.compare('lt', this, other);
  }
  le(other: Input<T>): Value<'pred'> {
    return this.builder.compare('le', this, other);
  }
  gt(other: Input<T>): Value<'pred'> {
    return this.builder.compare('gt', this, other);
  }
  ge(other: Input<T>): Value<'pred'> {
    return this.builder.compare('ge', this, other);
  }
  /** Value conversion: integers truncate or extend, floats to integers saturate, ptr with u64. */
  cast<U extends ValueType>(type: U): Value<U> {
    return this.builder.cast(this, type);
  }
  /** The same bits as another type of the same width. */
  bitcast<U extends ValueType>(type: U): Value<U> {
    return this.builder.pure(type, { op: 'bitcast', args: [this.operand] });
  }
  /** Address arithmetic: this address plus bytes. */
  offset(bytes: Value<'u32'> | Value<'i32'> | Value<'u64'> | number | bigint): Value<'ptr'> {
    return this.builder.offset(this as unknown as Value<'ptr'>, bytes);
  }
  /** One 8-byte half of a packet. */
  half(which: 0 | 1): Value<'u64'> {
    return this.builder.pure('u64', { op: 'pk.half', args: [this.operand], half: which });
  }
}

/** A run-time variable; `value` reads it as it is now. */
export class Variable<T extends ValueType = ValueType> {
  constructor(
    readonly builder: KernelBuilder,
    readonly register: Register,
    readonly type: T,
  ) {}

  /** A copy of the present content; later assignments do not change it. */
  get value(): Value<T> {
    return this.builder.readVariable(this);
  }

  set(value: Input<T>): void {
    this.builder.assign(this, value);
  }
}

export interface AccessOptions {
  /** Constant bytes added to the address. */
  offset?: number;
  order?: Order;
  scope?: Scope;
  cache?: CacheHint;
  /** Guaranteed alignment in bytes; default: the natural one. */
  align?: number;
}

/** A loop under construction: leave or continue it from inside its body, also from nested loops. */
export interface Loop {
  break(): void;
  continue(): void;
}

/** Whether nodes remember the source place that made them; off in hot compilation because stacks are slow. */
let recordPlaces = false;

/** Runs `build` with source places recorded in every node (for `tutti kernel show` and the interpreter). */
export function withPlaces<R>(build: () => R): R {
  const before = recordPlaces;
  recordPlaces = true;
  try {
    return build();
  } finally {
    recordPlaces = before;
  }
}

/** The first frame outside the builder, as `file:line:column` with the file's last two path parts. */
function callerPlace(): Place {
  if (!recordPlaces) return '';
  const stack = new Error().stack ?? '';
  for (const line of stack.split('\n').slice(2)) {
    const match = /\(?((?:file:\/\/)?[^\s()]+):(\d+):(\d+)\)?$/.exec(line);
    if (match === null || /\/kernel\/builder\.[jt]s$/.test(match[1]!)) continue;
    return `${match[1]!.split('/').slice(-2).join('/')}:${match[2]}:${match[3]}`;
  }
  return '';
}

const WIDTH: Partial<Record<ValueType, number>> = { i32: 32, u32: 32, i64: 64, u64: 64 };

function isSigned(type: ValueType): boolean {
  return type === 'i32' || type === 'i64';
}

/** Brings an exact integer into the range of a type, as a constant of it. */
function integerConstant(type: ValueType, value: bigint): Constant {
  const bits = WIDTH[type]!;
  const wrapped = isSigned(type) ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value);
  return { kind: 'constant', type, value: bits === 64 ? wrapped : Number(wrapped) };
}

function constantOf(type: ValueType, value: number | bigint): Constant {
  if (WIDTH[type] !== undefined) return integerConstant(type, BigInt(value));
  if (type === 'packet') throw new TuttiError('internalError', 'a packet has no literal; use k.packet()');
  if (type === 'f32') return { kind: 'constant', type, value: Math.fround(Number(value)) };
  return { kind: 'constant', type, value: Number(value) };
}

export class KernelBuilder {
  readonly traits: Traits;
  #registers = 0;
  #loops = 0;
  #waits = 0;
  #doorbell: Register | undefined;
  #block: Statement[] = [];
  readonly #openLoops: number[] = [];

  constructor(traits: Traits) {
    this.traits = traits;
  }

  // ---- plumbing used by Value and Variable ----

  #register(type: ValueType): Register {
    return { kind: 'register', id: this.#registers++, type };
  }

  #emit(statement: Statement): void {
    this.#block.push(statement);
  }

  #nested(body: () => void): Statement[] {
    const outer = this.#block;
    this.#block = [];
    try {
      body();
      return this.#block;
    } finally {
      this.#block = outer;
    }
  }

  input<T extends ValueType>(type: T, value: Input<T>): Value<T> {
    if (value instanceof Value) {
      if (value.type !== type) {
        throw new TuttiError('internalError', `a value of type ${value.type} where ${type} is due`);
      }
      return value;
    }
    return new Value(this, constantOf(type, value), type);
  }

  pure<T extends ValueType>(type: T, value: Pure): Value<T> {
    const target = this.#register(type);
    this.#emit({ kind: 'let', target, value, place: callerPlace() });
    return new Value(this, target, type);
  }

  binary<T extends ValueType>(op: BinaryOp, left: Value<T>, right: Input<T>): Value<T> {
    const a = left.operand;
    const b = this.input(left.type, right).operand;
    if (WIDTH[left.type] !== undefined) {
      if (a.kind === 'constant' && b.kind === 'constant') {
        const folded = foldInteger(op, left.type, BigInt(a.value), BigInt(b.value));
        if (folded !== undefined) return new Value(this, folded, left.type);
      }
      const zero = (o: Operand) => o.kind === 'constant' && BigInt(o.value) === 0n;
      const one = (o: Operand) => o.kind === 'constant' && BigInt(o.value) === 1n;
      if ((op === 'add' || op === 'or' || op === 'xor') && zero(a)) return new Value(this, b, left.type);
      if ((op === 'add' || op === 'sub' || op === 'or' || op === 'xor') && zero(b)) return left;
      if ((op === 'mul' || op === 'div') && one(b)) return left;
      if (op === 'mul' && one(a)) return new Value(this, b, left.type);
      if ((op === 'mul' || op === 'and') && (zero(a) || zero(b))) {
        return new Value(this, constantOf(left.type, 0), left.type);
      }
    }
    if (left.type === 'pred') {
      const folded = foldPredicate(op, a, b);
      if (folded !== undefined) return new Value(this, folded, left.type);
    }
    return this.pure(left.type, { op, args: [a, b] });
  }

  shift<T extends ValueType>(op: 'shl' | 'shr', left: Value<T>, bits: Input<'u32'>): Value<T> {
    const a = left.operand;
    const b = this.input('u32', bits).operand;
    if (b.kind === 'constant' && b.value === 0) return left;
    if (a.kind === 'constant' && b.kind === 'constant') {
      const v = BigInt(a.value);
      const result = op === 'shl' ? v << BigInt(b.value) : v >> BigInt(b.value);
      return new Value(this, integerConstant(left.type, result), left.type);
    }
    return this.pure(left.type, { op, args: [a, b] });
  }

  unary<T extends ValueType>(op: UnaryOp, value: Value<T>): Value<T> {
    const a = value.operand;
    if (value.type === 'pred' && op === 'not' && a.kind === 'constant') {
      return new Value(this, { kind: 'constant', type: 'pred', value: a.value ? 0 : 1 }, value.type);
    }
    return this.pure(value.type, { op, args: [a] });
  }

  compare<T extends ValueType>(op: CompareOp, left: Value<T>, right: Input<T>): Value<'pred'> {
    const a = left.operand;
    const b = this.input(left.type, right).operand;
    if (a.kind === 'constant' && b.kind === 'constant') {
      return new Value(
        this,
        { kind: 'constant', type: 'pred', value: foldCompare(op, a, b) ? 1 : 0 },
        'pred',
      );
    }
    return this.pure('pred', { op, args: [a, b] });
  }

  cast<U extends ValueType>(value: Value, type: U): Value<U> {
    if ((value.type as ValueType) === type) return value as unknown as Value<U>;
    const a = value.operand;
    if (a.kind === 'constant' && WIDTH[value.type] !== undefined && WIDTH[type] !== undefined) {
      return new Value(this, integerConstant(type, BigInt(a.value)), type);
    }
    return this.pure(type, { op: 'cast', args: [a] });
  }

  offset(
    base: Value<'ptr'>,
    bytes: Value<'u32'> | Value<'i32'> | Value<'u64'> | number | bigint,
  ): Value<'ptr'> {
    const b = bytes instanceof Value ? bytes.operand : this.input('u64', bytes).operand;
    if (b.kind === 'constant' && BigInt(b.value) === 0n) return base;
    return this.pure('ptr', { op: 'offset', args: [base.operand, b] });
  }

  readVariable<T extends ValueType>(variable: Variable<T>): Value<T> {
    const target = this.#register(variable.type);
    this.#emit({ kind: 'assign', target, value: variable.register, place: callerPlace() });
    return new Value(this, target, variable.type);
  }

  assign<T extends ValueType>(variable: Variable<T>, value: Input<T>): void {
    const operand = this.input(variable.type, value).operand;
    this.#emit({ kind: 'assign', target: variable.register, value: operand, place: callerPlace() });
  }

  // ---- literals, variables, identity ----

  u32(value: number): Value<'u32'> {
    return this.input('u32', value);
  }
  i32(value: number): Value<'i32'> {
    return this.input('i32', value);
  }
  u64(value: number | bigint): Value<'u64'> {
    return this.input('u64', value);
  }
  i64(value: number | bigint): Value<'i64'> {
    return this.input('i64', value);
  }
  f32(value: number): Value<'f32'> {
    return this.input('f32', value);
  }
  f64(value: number): Value<'f64'> {
    return this.input('f64', value);
  }
  bool(value: boolean): Value<'pred'> {
    return this.input('pred', value ? 1 : 0);
  }

  variable<T extends ValueType>(type: T, initial: Input<T>): Variable<T> {
    const variable = new Variable(this, this.#register(type), type);
    this.assign(variable, initial);
    return variable;
  }

  #identity(op: IdentityOp, single: number | undefined): Value<'u32'> {
    if (this.traits.singleThread && single !== undefined) return this.u32(single);
    return this.pure('u32', { op, args: [] });
  }

  /** Index of the thread in its block. */
  get threadIndex(): Value<'u32'> {
    return this.#identity('threadIndex', 0);
  }
  get threadCount(): Value<'u32'> {
    return this.#identity('threadCount', 1);
  }
  get blockIndex(): Value<'u32'> {
    return this.#identity('blockIndex', undefined);
  }
  get blockCount(): Value<'u32'> {
    return this.#identity('blockCount', undefined);
  }

  select<T extends ValueType>(condition: Value<'pred'>, a: Value<T>, b: Input<T>): Value<T> {
    const other = this.input(a.type, b);
    if (condition.operand.kind === 'constant') return condition.operand.value ? a : other;
    return this.pure(a.type, { op: 'select', args: [condition.operand, a.operand, other.operand] });
  }

  // ---- packets ----

  /** A packet from its low and high 8 bytes. */
  packet(low: Input<'u64'>, high: Input<'u64'>): Value<'packet'> {
    const args = [this.input('u64', low).operand, this.input('u64', high).operand];
    return this.pure('packet', { op: 'pk.make', args });
  }

  /** The bits of one element in every lane. */
  splat(type: ElementType, bits: Input<'u64'>): Value<'packet'> {
    return this.pure('packet', { op: 'pk.splat', type, args: [this.input('u64', bits).operand] });
  }

  /** Lane by lane `step(a, b)`, rounded to the element type. */
  reduce(type: ElementType, step: StepOp, a: Value<'packet'>, b: Value<'packet'>): Value<'packet'> {
    return this.pure('packet', { op: 'pk.reduce', type, step, args: [a.operand, b.operand] });
  }

  /** Lanes 4 part .. 4 part + 3 of a packet of a narrow float type, as float32. */
  widen(type: ElementType, value: Value<'packet'>, part: number): Value<'packet'> {
    return this.pure('packet', { op: 'pk.widen', type, part, args: [value.operand] });
  }

  /** The inverse of widen over all parts, rounded to nearest even. */
  narrow(type: ElementType, parts: readonly Value<'packet'>[]): Value<'packet'> {
    return this.pure('packet', { op: 'pk.narrow', type, args: parts.map((p) => p.operand) });
  }

  /** Integer lanes divided by a positive number, truncating toward zero. */
  divide(type: ElementType, value: Value<'packet'>, divisor: Input<'u64'>): Value<'packet'> {
    const args = [value.operand, this.input('u64', divisor).operand];
    return this.pure('packet', { op: 'pk.divide', type, args });
  }

  // ---- memory ----

  load<M extends MemoryType>(
    memory: M,
    address: Value<'ptr'>,
    options: AccessOptions = {},
  ): Value<Loaded<M>> {
    const type = valueTypeOf(memory) as Loaded<M>;
    const target = this.#register(type);
    this.#emit({
      kind: 'load',
      target,
      memory,
      address: address.operand,
      offset: options.offset ?? 0,
      order: options.order ?? 'weak',
      scope: options.scope ?? 'system',
      cache: options.cache ?? 'none',
      align: options.align ?? MEMORY_BYTES[memory],
      place: callerPlace(),
    });
    return new Value(this, target, type);
  }

  store<M extends MemoryType>(
    memory: M,
    address: Value<'ptr'>,
    value: Input<Loaded<M>>,
    options: AccessOptions = {},
  ): void {
    const type = valueTypeOf(memory) as Loaded<M>;
    this.#emit({
      kind: 'store',
      memory,
      address: address.operand,
      offset: options.offset ?? 0,
      value: this.input(type, value).operand,
      order: options.order ?? 'weak',
      scope: options.scope ?? 'system',
      cache: options.cache ?? 'none',
      align: options.align ?? MEMORY_BYTES[memory],
      place: callerPlace(),
    });
  }

  /** A packet of the first `bytes` (0..16) bytes at an element-aligned address; the rest is zero. */
  loadPart(address: Value<'ptr'>, bytes: Input<'u32'>, align: number): Value<'packet'> {
    const target = this.#register('packet');
    const count = this.input('u32', bytes).operand;
    this.#emit({
      kind: 'loadPart',
      target,
      address: address.operand,
      bytes: count,
      align,
      place: callerPlace(),
    });
    return new Value(this, target, 'packet');
  }

  /** Stores the first `bytes` (0..16) bytes of a packet at an element-aligned address. */
  storePart(address: Value<'ptr'>, value: Value<'packet'>, bytes: Input<'u32'>, align: number): void {
    this.#emit({
      kind: 'storePart',
      address: address.operand,
      value: value.operand,
      bytes: this.input('u32', bytes).operand,
      align,
      place: callerPlace(),
    });
  }

  /** Moves bytes by the calling thread alone; the regions must not overlap unless they are the same. */
  copy(to: Value<'ptr'>, from: Value<'ptr'>, bytes: Value<'u64'>): void {
    this.#emit({
      kind: 'copy',
      to: to.operand,
      from: from.operand,
      bytes: bytes.operand,
      place: callerPlace(),
    });
  }

  /** Read-modify-write; the result is the old value. Acquire and release. */
  atomic<M extends 'u32' | 'u64'>(
    operation: AtomicOp,
    memory: M,
    address: Value<'ptr'>,
    value: Input<M>,
    options: { offset?: number; scope?: Scope } = {},
  ): Value<M> {
    const target = this.#register(memory);
    this.#emit({
      kind: 'atomic',
      target,
      operation,
      memory,
      address: address.operand,
      offset: options.offset ?? 0,
      value: this.input(memory, value).operand,
      scope: options.scope ?? 'system',
      place: callerPlace(),
    });
    return new Value(this, target, memory);
  }

  compareExchange<M extends 'u32' | 'u64'>(
    memory: M,
    address: Value<'ptr'>,
    expected: Input<M>,
    value: Input<M>,
    options: { offset?: number; scope?: Scope } = {},
  ): Value<M> {
    const target = this.#register(memory);
    this.#emit({
      kind: 'compareExchange',
      target,
      memory,
      address: address.operand,
      offset: options.offset ?? 0,
      expected: this.input(memory, expected).operand,
      value: this.input(memory, value).operand,
      scope: options.scope ?? 'system',
      place: callerPlace(),
    });
    return new Value(this, target, memory);
  }

  fence(order: 'acquire' | 'release' | 'both' | 'aliases', scope: Scope = 'system'): void {
    this.#emit({ kind: 'fence', order, scope, place: callerPlace() });
  }

  /** Barrier over the block (or over `threads` of it, a multiple of 32, with their own barrier number). */
  barrier(id = 0, threads?: Input<'u32'>): void {
    if (this.traits.singleThread) return;
    const place = callerPlace();
    this.#emit(
      threads === undefined
        ? { kind: 'barrier', id, place }
        : { kind: 'barrier', id, threads: this.input('u32', threads).operand, place },
    );
  }

  /** Barrier over the warp of the thread. */
  warpBarrier(): void {
    if (!this.traits.singleThread) this.#emit({ kind: 'warpBarrier', place: callerPlace() });
  }

  shuffle<T extends ValueType>(value: Value<T>, lane: Input<'u32'>): Value<T> {
    if (this.traits.singleThread) return value;
    const target = this.#register(value.type);
    const source = this.input('u32', lane).operand;
    this.#emit({ kind: 'shuffle', target, value: value.operand, lane: source, place: callerPlace() });
    return new Value(this, target, value.type);
  }

  vote(mode: 'any' | 'all', value: Value<'pred'>): Value<'pred'> {
    if (this.traits.singleThread) return value;
    const target = this.#register('pred');
    this.#emit({ kind: 'vote', target, mode, value: value.operand, place: callerPlace() });
    return new Value(this, target, 'pred');
  }

  /**
   * Stores a packet of each lane of the warp, where `active` holds: eight lanes write one line of 128 bytes that arrives
   * whole (see the statement `storeLine`). All lanes of a warp must come here, and whole blocks of eight be active or not.
   */
  storeLine(address: Value<'ptr'>, value: Value<'packet'>, active: Value<'pred'>): void {
    if (this.traits.singleThread) {
      throw new TuttiError(
        'internalError',
        `lines of 128 bytes are stored by warps; the ${this.traits.name} target runs single threads`,
      );
    }
    this.#emit({
      kind: 'storeLine',
      address: address.operand,
      value: value.operand,
      active: active.operand,
      place: callerPlace(),
    });
  }

  // ---- multicast ----

  #requireMulticast(): void {
    if (!this.traits.singleThread) return;
    throw new TuttiError('internalError', `the ${this.traits.name} target has no multicast addresses`);
  }

  /** The packets at all replicas of a multicast address, combined. Throws where no switch combines them. */
  multicastLoad(address: Value<'ptr'>, type: ElementType, step: StepOp): Value<'packet'> {
    this.#requireMulticast();
    if (!canReduceInSwitch(type, step)) {
      throw new TuttiError('internalError', `no switch combines ${type} with ${step}`);
    }
    const target = this.#register('packet');
    const place = callerPlace();
    this.#emit({ kind: 'multicastLoad', target, address: address.operand, type, step, place });
    return new Value(this, target, 'packet');
  }

  /** Stores a packet to all replicas of a multicast address. */
  multicastStore(address: Value<'ptr'>, value: Value<'packet'>): void {
    this.#requireMulticast();
    const place = callerPlace();
    this.#emit({ kind: 'multicastStore', address: address.operand, value: value.operand, place });
  }

  /** Adds to all replicas of a u32 at a multicast address, with release order. */
  multicastAdd(address: Value<'ptr'>, value: Input<'u32'>): void {
    this.#requireMulticast();
    const amount = this.input('u32', value).operand;
    this.#emit({ kind: 'multicastAdd', address: address.operand, value: amount, place: callerPlace() });
  }

  // ---- structs ----

  /** Address of a field (or of one cell of an array field). */
  fieldAddress<F extends Record<string, FieldType>>(
    base: Value<'ptr'>,
    struct: Struct<F>,
    field: keyof F & string,
    index?: Input<'u32'>,
  ): Value<'ptr'> {
    const place = struct.fields[field];
    const at = base.offset(place.offset);
    if (index === undefined) return at;
    return at.offset(this.input('u32', index).mul(MEMORY_BYTES[place.type]));
  }

  /** Loads a field of a struct. */
  field<F extends Record<string, FieldType>, K extends keyof F & string>(
    base: Value<'ptr'>,
    struct: Struct<F>,
    field: K,
    index: Input<'u32'> = 0,
    options: AccessOptions = {},
  ): Value<Loaded<CellOf<F[K]>>> {
    const place = struct.fields[field];
    const cell = MEMORY_BYTES[place.type];
    if (typeof index === 'number' || typeof index === 'bigint') {
      const offset = place.offset + Number(index) * cell;
      return this.load(place.type, base, { ...options, offset }) as Value<Loaded<CellOf<F[K]>>>;
    }
    const address = base.offset(index.mul(cell));
    return this.load(place.type, address, { ...options, offset: place.offset }) as Value<
      Loaded<CellOf<F[K]>>
    >;
  }

  /** Stores a field of a struct. */
  setField<F extends Record<string, FieldType>, K extends keyof F & string>(
    base: Value<'ptr'>,
    struct: Struct<F>,
    field: K,
    value: Input<Loaded<CellOf<F[K]>>>,
    options: AccessOptions = {},
  ): void {
    const place = struct.fields[field];
    this.store(place.type as CellOf<F[K]>, base, value, { ...options, offset: place.offset });
  }

  // ---- control ----

  if(condition: Value<'pred'>, then: () => void, otherwise?: () => void): void {
    if (condition.operand.kind === 'constant') {
      if (condition.operand.value) then();
      else otherwise?.();
      return;
    }
    const place = callerPlace();
    const thenBlock = this.#nested(then);
    const otherwiseBlock = otherwise === undefined ? [] : this.#nested(otherwise);
    this.#emit({
      kind: 'if',
      condition: condition.operand,
      taken: thenBlock,
      otherwise: otherwiseBlock,
      place,
    });
  }

  /** Repeats the body until `loop.break()`; `step` runs after each round and on `loop.continue()`. */
  loop(body: (loop: Loop) => void, step?: () => void): void {
    const id = this.#loops++;
    const place = callerPlace();
    const handle: Loop = {
      break: () => {
        this.#requireOpen(id);
        this.#emit({ kind: 'break', loop: id, place: callerPlace() });
      },
      continue: () => {
        this.#requireOpen(id);
        this.#emit({ kind: 'continue', loop: id, place: callerPlace() });
      },
    };
    this.#openLoops.push(id);
    const bodyBlock = this.#nested(() => body(handle));
    this.#openLoops.pop();
    const stepBlock = step === undefined ? [] : this.#nested(step);
    this.#emit({ kind: 'loop', id, body: bodyBlock, step: stepBlock, place });
  }

  #requireOpen(id: number): void {
    if (!this.#openLoops.includes(id)) {
      throw new TuttiError('internalError', 'break or continue outside of its loop');
    }
  }

  /** While `condition()` holds (evaluated before every round). */
  while(condition: () => Value<'pred'>, body: (loop: Loop) => void): void {
    this.loop((loop) => {
      const holds = condition();
      this.if(holds.not(), () => loop.break());
      body(loop);
    });
  }

  /** for (i = start; i < end; i += step). */
  for<T extends 'u32' | 'i32' | 'u64' | 'i64' | 'ptr'>(
    start: Value<T>,
    end: Input<T>,
    step: Input<T>,
    body: (index: Value<T>, loop: Loop) => void,
  ): void {
    const index = this.variable(start.type, start);
    const limit = this.input(start.type, end);
    this.loop(
      (loop) => {
        const now = index.value;
        this.if(now.ge(limit), () => loop.break());
        body(now, loop);
      },
      () => {
        if (start.type === 'ptr') {
          const next = (index.value as Value<'ptr'>).offset(step as Value<'u64'> | number | bigint);
          (index as unknown as Variable<'ptr'>).set(next);
        } else index.set(index.value.add(step));
      },
    );
  }

  /**
   * Waits until the polled condition holds. The function may only load and compute; it runs again for every
   * poll. Ends the program with status `aborted` when the communicator is aborted meanwhile.
   */
  wait(poll: () => Value<'pred'>): void {
    const id = this.#waits++;
    const place = callerPlace();
    let condition: Operand | undefined;
    const block = this.#nested(() => {
      condition = poll().operand;
    });
    this.#emit({ kind: 'wait', id, poll: block, condition: condition!, place });
  }

  /**
   * Waits until the launch before in the stream is over. Where launches may overlap (GPUs), a program that calls
   * `releaseLaunch` or was launched so may begin earlier, and touches nothing but its descriptor before this.
   */
  awaitLaunch(): void {
    this.#emit({ kind: 'launchOrder', mode: 'await', place: callerPlace() });
  }

  /** Lets the next launch of the stream begin, up to its `awaitLaunch`, as soon as all blocks have come here. */
  releaseLaunch(): void {
    this.#emit({ kind: 'launchOrder', mode: 'release', place: callerPlace() });
  }

  /** From here on waits sleep on this doorbell (two u32: sleepers, rings) when they wait long. Host only. */
  sleepOn(doorbell: Value<'ptr'>): void {
    if (doorbell.operand.kind !== 'register') {
      throw new TuttiError('internalError', 'the doorbell must be a run-time address');
    }
    this.#doorbell = doorbell.operand;
  }

  /** Wakes whoever sleeps on a doorbell, after something was published for it. */
  wake(doorbell: Value<'ptr'>): void {
    this.#emit({ kind: 'wake', address: doorbell.operand, place: callerPlace() });
  }

  /** Ends the calling thread's program. */
  return(status: Input<'u32'> = STATUS.done): void {
    this.#emit({ kind: 'return', status: this.input('u32', status).operand, place: callerPlace() });
  }

  finish(name: string, descriptor: Register): Program {
    const program: Program = {
      name,
      traits: this.traits,
      descriptor,
      body: this.#block,
      registers: this.#registers,
      waits: this.#waits,
    };
    return this.#doorbell === undefined ? program : { ...program, doorbell: this.#doorbell };
  }

  descriptor(): Register {
    return this.#register('ptr');
  }
}

function foldInteger(op: BinaryOp, type: ValueType, a: bigint, b: bigint): Constant | undefined {
  switch (op) {
    case 'add':
      return integerConstant(type, a + b);
    case 'sub':
      return integerConstant(type, a - b);
    case 'mul':
      return integerConstant(type, a * b);
    case 'div':
      return b === 0n ? undefined : integerConstant(type, a / b);
    case 'rem':
      return b === 0n ? undefined : integerConstant(type, a % b);
    case 'min':
      return integerConstant(type, a < b ? a : b);
    case 'max':
      return integerConstant(type, a > b ? a : b);
    case 'and':
      return integerConstant(type, a & b);
    case 'or':
      return integerConstant(type, a | b);
    case 'xor':
      return integerConstant(type, a ^ b);
    default:
      return undefined;
  }
}

function foldPredicate(op: BinaryOp, a: Operand, b: Operand): Operand | undefined {
  const known = a.kind === 'constant' ? a : b.kind === 'constant' ? b : undefined;
  if (known === undefined) return undefined;
  const other = known === a ? b : a;
  if (op === 'and') return known.value ? other : known;
  if (op === 'or') return known.value ? known : other;
  return undefined;
}

function foldCompare(op: CompareOp, a: Constant, b: Constant): boolean {
  const x = a.value;
  const y = b.value;
  switch (op) {
    case 'eq':
      return x === y;
    case 'ne':
      return x !== y;
    case 'lt':
      return x < y;
    case 'le':
      return x <= y;
    case 'gt':
      return x > y;
    case 'ge':
      return x >= y;
  }
}

/** Builds a program; `define` gets the builder and the address of the work descriptor. */
export function kernel(
  name: string,
  traits: Traits,
  define: (k: KernelBuilder, descriptor: Value<'ptr'>) => void,
): Program {
  const k = new KernelBuilder(traits);
  const descriptor = k.descriptor();
  define(k, new Value(k, descriptor, 'ptr'));
  return k.finish(name, descriptor);
}
