/**
 * Programs made from a list of random numbers: every number is one choice, so that a failing list shrinks to
 * a small program. Values, variables, loads, stores, ifs, nested loops with break and continue, and waits.
 *
 * Memory: 256 bytes at the descriptor for loads and stores, a counter after them that waits look at, and
 * results from 512 on.
 */
import { type KernelBuilder, kernel, type Value, type Variable } from '#src/kernel/builder.js';
import { type Program, type ValueType, WASM_TRAITS } from '#src/kernel/ir.js';

export const COUNTER = 256;
export const RESULTS = 512;

type Whole = 'i32' | 'u32' | 'i64' | 'u64';
const WHOLE: Whole[] = ['i32', 'u32', 'i64', 'u64'];
const TYPES: ValueType[] = [...WHOLE, 'pred', 'f32', 'f64', 'packet'];

const BINARY = [
  'add',
  'sub',
  'mul',
  'mulHi',
  'div',
  'rem',
  'min',
  'max',
  'and',
  'or',
  'xor',
  'shl',
  'shr',
] as const;
const COMPARE = ['eq', 'ne', 'lt', 'le', 'gt', 'ge'] as const;
const UNARY = ['neg', 'not', 'clz', 'ctz', 'popcnt', 'abs'] as const;
const CONSTANTS = [
  0n,
  1n,
  2n,
  7n,
  31n,
  63n,
  255n,
  65536n,
  0x7fff_ffffn,
  0x8000_0000n,
  0xffff_ffffn,
  1n << 63n,
  -1n,
];

export interface RandomOptions {
  /** Waits look at the counter, which grows by one each time the program is blocked. */
  readonly waits: boolean;
}

class Generator {
  readonly #values = new Map<ValueType, Value[]>();
  readonly #variables: Variable[] = [];
  #at = 0;
  #statements = 0;
  #waits = 0;
  #results = RESULTS;

  constructor(
    readonly choices: readonly number[],
    readonly options: RandomOptions,
    readonly k: KernelBuilder,
    readonly base: Value<'ptr'>,
  ) {}

  #choose(count: number): number {
    return (this.choices[this.#at++] ?? 0) % count;
  }
  #pick<T>(list: readonly T[]): T {
    return list[this.#choose(list.length)]!;
  }
  get #exhausted(): boolean {
    return this.#at >= this.choices.length || this.#statements > 120;
  }

  #keep(value: Value): void {
    const list = this.#values.get(value.type);
    if (list === undefined) this.#values.set(value.type, [value]);
    else list.push(value);
  }

  #constant<T extends ValueType>(type: T): Value<T> {
    const { k } = this;
    const bits = CONSTANTS[this.#choose(CONSTANTS.length)]!;
    if (type === 'pred') return k.bool(bits % 2n === 1n) as Value as Value<T>;
    if (type === 'packet') return k.packet(BigInt.asUintN(64, bits), bits + 5n) as Value as Value<T>;
    if (type === 'f32' || type === 'f64') {
      return k.input(type, [0, 1.5, -2.25, 1e10, -1e-10, 3e38][this.#choose(6)]!);
    }
    return k.input(type, bits);
  }

  #value<T extends ValueType>(type: T): Value<T> {
    const list = this.#values.get(type);
    if (list === undefined || this.#choose(5) === 0) return this.#constant(type);
    // Mostly recent values, so that some are used once and soon, and others often and late.
    const back = this.#choose(3) === 0 ? this.#choose(list.length) : this.#choose(Math.min(3, list.length));
    return list[list.length - 1 - back] as unknown as Value<T>;
  }

  #address(): Value<'ptr'> {
    return this.base.offset(this.#value('u32').and(0xf0));
  }

  #compute(): void {
    const { k } = this;
    const type = this.#pick(WHOLE);
    switch (this.#choose(12)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const op = this.#pick(BINARY);
        const a = this.#value(type);
        if (op === 'shl' || op === 'shr') {
          const bits = type === 'i32' || type === 'u32' ? 31 : 63;
          this.#keep(a[op](this.#value('u32').and(bits)));
        } else {
          const b = this.#value(type);
          this.#keep(a[op](op === 'div' || op === 'rem' ? b.or(1) : b));
        }
        break;
      }
      case 4:
        this.#keep(this.#value(type)[this.#pick(COMPARE)](this.#value(type)));
        break;
      case 5: {
        const kind = this.#pick(TYPES);
        this.#keep(k.select(this.#value('pred'), this.#value(kind), this.#value(kind)));
        break;
      }
      case 6:
        this.#keep(this.#value(type)[this.#pick(UNARY)]());
        break;
      case 7: {
        const from = this.#pick([...WHOLE, 'pred', 'f32', 'f64'] as const);
        this.#keep(this.#value(from).cast(this.#pick([...WHOLE, 'pred', 'f32', 'f64'] as const)));
        break;
      }
      case 8: {
        const float = this.#pick(['f32', 'f64'] as const);
        const op = this.#pick(['add', 'sub', 'mul', 'div', 'min', 'max'] as const);
        this.#keep(this.#value(float)[op](this.#value(float)));
        break;
      }
      case 9: {
        const float = this.#pick(['f32', 'f64'] as const);
        this.#keep(this.#value(float)[this.#pick(COMPARE)](this.#value(float)));
        break;
      }
      case 10: {
        const packet = this.#value('packet');
        const other = this.#value('packet');
        this.#keep(this.#choose(2) === 0 ? packet.xor(other) : k.reduce('int64', 'sum', packet, other));
        this.#keep(packet.half(this.#choose(2) as 0 | 1));
        break;
      }
      case 11: {
        const p = this.#value('pred');
        const q = this.#value('pred');
        this.#keep([p.and(q), p.or(q), p.xor(q), p.not()][this.#choose(4)]!);
        break;
      }
    }
  }

  #memory(): void {
    const { k } = this;
    const memory = this.#pick([
      'u8',
      'i8',
      'u16',
      'i16',
      'u32',
      'i32',
      'u64',
      'i64',
      'f32',
      'f64',
      'packet',
      'ptr',
    ] as const);
    const offset = this.#choose(2) * 8;
    if (this.#choose(2) === 0) {
      const order =
        memory === 'packet' ? 'weak' : this.#pick(['weak', 'weak', 'weak', 'acquire', 'relaxed'] as const);
      const align = memory === 'packet' ? 8 : undefined;
      const value = k.load(memory, this.#address(), {
        offset,
        order,
        ...(align === undefined ? {} : { align }),
      });
      if (memory === 'ptr') this.#keep(value.cast('u64'));
      else if (memory !== 'f32' && memory !== 'f64') this.#keep(value);
      else {
        // Payloads of NaNs are not compared.
        const number = value as Value<'f32'> | Value<'f64'>;
        this.#keep(k.select(number.eq(number as never), number as Value, k.input(memory, 0) as Value));
      }
    } else {
      const order = memory === 'packet' ? 'weak' : this.#pick(['weak', 'weak', 'release'] as const);
      const address = this.#address();
      const options = memory === 'packet' ? { offset, align: 8 } : { offset, order };
      switch (memory) {
        case 'u8':
        case 'u16':
        case 'u32':
          k.store(memory, address, this.#value('u32'), options);
          break;
        case 'i8':
        case 'i16':
        case 'i32':
          k.store(memory, address, this.#value('i32'), options);
          break;
        case 'ptr':
          k.store(memory, address, this.#value('u32').cast('ptr'), options);
          break;
        case 'f32':
        case 'f64':
          break;
        default:
          k.store(memory, address, this.#value(memory) as never, options);
      }
    }
  }

  #variable(): void {
    const { k } = this;
    const action = this.#choose(4);
    if (this.#variables.length === 0 || action === 0) {
      const type = this.#pick(TYPES);
      this.#variables.push(k.variable(type, this.#value(type)));
    } else {
      const variable = this.#pick(this.#variables);
      if (action === 1) variable.set(this.#value(variable.type));
      else this.#keep(variable.value);
    }
  }

  #scoped(body: () => void): void {
    const lengths = TYPES.map((type) => [type, this.#values.get(type)?.length ?? 0] as const);
    const variables = this.#variables.length;
    body();
    for (const [type, length] of lengths) {
      const list = this.#values.get(type);
      if (list === undefined) continue;
      if (length === 0) this.#values.delete(type);
      else list.length = length;
    }
    this.#variables.length = variables;
  }

  #control(depth: number, escapes: readonly (() => void)[]): void {
    const { k } = this;
    switch (this.#choose(4)) {
      case 0:
      case 1: {
        const condition = this.#value('pred');
        const both = this.#choose(2) === 0;
        k.if(
          condition,
          () => this.#scoped(() => this.#body(depth + 1, escapes)),
          both ? () => this.#scoped(() => this.#body(depth + 1, escapes)) : undefined,
        );
        break;
      }
      case 2: {
        const rounds = this.#choose(4);
        k.for(k.u32(0), k.u32(rounds), k.u32(1), (i, loop) =>
          this.#scoped(() => {
            this.#keep(i);
            this.#body(depth + 1, [...escapes, () => loop.break(), () => loop.continue()]);
          }),
        );
        break;
      }
      case 3: {
        const left = k.variable('i32', 1 + this.#choose(3));
        const inStep = this.#choose(2) === 0;
        k.loop(
          (loop) =>
            this.#scoped(() => {
              k.if(left.value.le(0), () => loop.break());
              left.set(left.value.sub(1));
              this.#body(depth + 1, [...escapes, () => loop.break(), () => loop.continue()]);
            }),
          inStep ? () => this.#scoped(() => this.#body(depth + 1, [])) : undefined,
        );
        break;
      }
    }
  }

  #wait(): void {
    const { k } = this;
    // The counter is behind at most once in a while: the limit grows from wait to wait, and inside of loops
    // the same wait holds at once the second time.
    this.#waits += this.#choose(3);
    const limit = this.#waits;
    let seen: Value<'u32'> | undefined;
    k.wait(() => {
      seen = k.load('u32', this.base, { offset: COUNTER, order: 'acquire' });
      return seen.ge(limit);
    });
    this.#keep(seen!);
  }

  #body(depth: number, escapes: readonly (() => void)[]): void {
    const length = 1 + this.#choose(depth === 0 ? 24 : 6);
    for (let i = 0; i < length && !this.#exhausted; i++) {
      this.#statements++;
      const kind = this.#choose(16);
      if (kind < 6) this.#compute();
      else if (kind < 9) this.#memory();
      else if (kind < 12) this.#variable();
      else if (kind < 14) {
        if (depth < 4) this.#control(depth, escapes);
        else this.#compute();
      } else if (kind === 14) {
        if (this.options.waits) this.#wait();
        else this.#compute();
      } else if (escapes.length > 0) {
        const leave = this.#pick(escapes);
        this.k.if(this.#value('pred'), () => leave());
      } else if (depth > 0 && this.#choose(8) === 0) {
        this.k.if(this.#value('pred'), () => this.k.return(this.#value('u32').or(16)));
      }
    }
  }

  run(): void {
    this.#body(0, []);
    this.#body(0, []);
    for (const list of this.#values.values()) for (const value of list) this.#write(value);
    for (const variable of this.#variables) this.#write(variable.value);
  }

  #write(value: Value): void {
    const { k } = this;
    const at = { offset: this.#results };
    this.#results += 16;
    switch (value.type) {
      case 'pred':
        k.store('u32', this.base, k.select(value as Value<'pred'>, k.u32(1), 0), at);
        break;
      case 'f32':
      case 'f64': {
        const number = value as unknown as Value<'f32'>;
        k.store('u32', this.base, k.select(number.ne(number), k.u32(1), 0), at);
        const clean = k.select(number.eq(number), number as Value, k.input(value.type, 0) as Value);
        k.store(value.type, this.base, clean as never, { offset: at.offset + 8 });
        break;
      }
      case 'ptr':
        break;
      default:
        k.store(value.type, this.base, value as never, at);
    }
  }
}

/** The program that these choices make; it writes its values and variables at its end. */
export function randomProgram(choices: readonly number[], options: RandomOptions): Program {
  return kernel('random', WASM_TRAITS, (k, base) => new Generator(choices, options, k, base).run());
}
