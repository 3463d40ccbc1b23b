/**
 * Readable text of a device program: one statement a line, nested blocks indented, and the TypeScript place
 * that made a statement behind it where places were recorded (`withPlaces`).
 *
 * ```text
 * kernel fill (wasm, 7 registers, 0 waits)
 * r1: ptr = load [r0]                                       ; fill.ts:12:20
 * loop L0 {
 *   r4: pred = ge.u64 r3, r2
 *   if r4 {
 *     break L0
 *   }
 * ...
 * ```
 *
 * Registers are r0, r1, ...; `:=` assigns a variable. An operation whose operands have another type than its
 * result names it (`lt.u32`). Of memory accesses only what differs from the default is written: a weak access
 * of the register's own type, aligned naturally, at system scope.
 */

import {
  MEMORY_BYTES,
  type MemoryType,
  type Operand,
  type Place,
  type Program,
  type Pure,
  type Register,
  type Scope,
  type Statement,
  type ValueType,
  valueTypeOf,
} from './ir.js';

/** Column where source places start, unless the line is longer. */
const PLACE_COLUMN = 64;

function operand(o: Operand): string {
  if (o.kind === 'register') return `r${o.id}`;
  if (o.type === 'pred') return o.value ? 'true' : 'false';
  return Object.is(o.value, -0) ? '-0' : String(o.value);
}

function list(operands: readonly Operand[]): string {
  return operands.map(operand).join(', ');
}

function defined(r: Register): string {
  return `r${r.id}: ${r.type}`;
}

/** Attributes of a packet operation, between its name and its operands. */
function attributes(value: Pure): string {
  switch (value.op) {
    case 'pk.half':
      return ` ${value.half === 0 ? 'low' : 'high'}`;
    case 'pk.reduce':
      return ` ${value.type} ${value.step}`;
    case 'pk.widen':
      return ` ${value.type} part ${value.part}`;
    case 'pk.splat':
    case 'pk.narrow':
    case 'pk.divide':
      return ` ${value.type}`;
    default:
      return '';
  }
}

function pure(value: Pure, type: ValueType): string {
  const from = value.args[0]?.type;
  const typed = !value.op.startsWith('pk.') && value.op !== 'select' && from !== undefined && from !== type;
  const name = typed ? `${value.op}.${from}` : value.op;
  const args = value.args.length === 0 ? '' : ` ${list(value.args)}`;
  return name + attributes(value) + args;
}

function address(base: Operand, offset: number): string {
  if (offset === 0) return `[${operand(base)}]`;
  return `[${operand(base)} ${offset < 0 ? '-' : '+'} ${Math.abs(offset)}]`;
}

type Access = Extract<Statement, { kind: 'load' | 'store' }>;

/** What a memory access is beyond the default. */
function qualities(s: Access): string {
  const words: string[] = [];
  if (s.order !== 'weak') words.push(s.order);
  if (s.order !== 'weak' && s.scope !== 'system') words.push(s.scope);
  if (s.cache !== 'none') words.push(s.cache);
  if (s.align !== MEMORY_BYTES[s.memory]) words.push(`align ${s.align}`);
  return words.map((word) => ` ${word}`).join('');
}

function cell(memory: MemoryType, type: ValueType): string {
  return valueTypeOf(memory) === memory && memory === type ? '' : `.${memory}`;
}

function scopeOf(scope: Scope): string {
  return scope === 'system' ? '' : ` ${scope}`;
}

class Printer {
  readonly #lines: string[] = [];
  #depth = 0;

  #line(text: string, place: Place = ''): void {
    const indented = '  '.repeat(this.#depth) + text;
    this.#lines.push(place === '' ? indented : `${indented.padEnd(PLACE_COLUMN)} ; ${place}`);
  }

  #nested(statements: readonly Statement[]): void {
    this.#depth++;
    for (const s of statements) this.#statement(s);
    this.#depth--;
  }

  #statement(s: Statement): void {
    const { place } = s;
    switch (s.kind) {
      case 'let':
        this.#line(`${defined(s.target)} = ${pure(s.value, s.target.type)}`, place);
        break;
      case 'assign':
        this.#line(`${defined(s.target)} := ${operand(s.value)}`, place);
        break;
      case 'load': {
        const name = `load${cell(s.memory, s.target.type)}`;
        this.#line(`${defined(s.target)} = ${name} ${address(s.address, s.offset)}${qualities(s)}`, place);
        break;
      }
      case 'store':
        this.#line(
          `store.${s.memory} ${address(s.address, s.offset)}, ${operand(s.value)}${qualities(s)}`,
          place,
        );
        break;
      case 'loadPart':
        this.#line(
          `${defined(s.target)} = loadPart ${address(s.address, 0)}, ${operand(s.bytes)} align ${s.align}`,
          place,
        );
        break;
      case 'storePart':
        this.#line(
          `storePart ${address(s.address, 0)}, ${operand(s.value)}, ${operand(s.bytes)} align ${s.align}`,
          place,
        );
        break;
      case 'copy':
        this.#line(`copy ${address(s.to, 0)}, ${address(s.from, 0)}, ${operand(s.bytes)}`, place);
        break;
      case 'atomic':
        this.#line(
          `${defined(s.target)} = atomic ${s.operation} ${address(s.address, s.offset)}, ${operand(s.value)}${scopeOf(s.scope)}`,
          place,
        );
        break;
      case 'compareExchange':
        this.#line(
          `${defined(s.target)} = compareExchange ${address(s.address, s.offset)}, ${operand(s.expected)}, ${operand(s.value)}${scopeOf(s.scope)}`,
          place,
        );
        break;
      case 'fence':
        this.#line(`fence ${s.order}${scopeOf(s.scope)}`, place);
        break;
      case 'barrier': {
        const threads = s.threads === undefined ? '' : ` of ${operand(s.threads)}`;
        this.#line(`barrier ${s.id}${threads}`, place);
        break;
      }
      case 'warpBarrier':
        this.#line('warpBarrier', place);
        break;
      case 'multicastLoad':
        this.#line(
          `${defined(s.target)} = multicastLoad ${s.step} ${s.type} ${address(s.address, 0)}`,
          place,
        );
        break;
      case 'multicastStore':
        this.#line(`multicastStore ${address(s.address, 0)}, ${operand(s.value)}`, place);
        break;
      case 'multicastAdd':
        this.#line(`multicastAdd ${address(s.address, 0)}, ${operand(s.value)}`, place);
        break;
      case 'if':
        this.#line(`if ${operand(s.condition)} {`, place);
        this.#nested(s.taken);
        if (s.otherwise.length > 0) {
          this.#line('} else {');
          this.#nested(s.otherwise);
        }
        this.#line('}');
        break;
      case 'loop':
        this.#line(`loop L${s.id} {`, place);
        this.#nested(s.body);
        if (s.step.length > 0) {
          this.#line('} step {');
          this.#nested(s.step);
        }
        this.#line('}');
        break;
      case 'break':
      case 'continue':
        this.#line(`${s.kind} L${s.loop}`, place);
        break;
      case 'wait':
        this.#line(`wait W${s.id} {`, place);
        this.#nested(s.poll);
        this.#line(`} until ${operand(s.condition)}`);
        break;
      case 'launchOrder':
        this.#line(`${s.mode} launch`, place);
        break;
      case 'wake':
        this.#line(`wake ${address(s.address, 0)}`, place);
        break;
      case 'shuffle':
        this.#line(`${defined(s.target)} = shuffle ${operand(s.value)} from ${operand(s.lane)}`, place);
        break;
      case 'storeLine':
        this.#line(`storeLine ${address(s.address, 0)}, ${operand(s.value)} if ${operand(s.active)}`, place);
        break;
      case 'vote':
        this.#line(`${defined(s.target)} = vote ${s.mode} ${operand(s.value)}`, place);
        break;
      case 'return':
        this.#line(`return ${operand(s.status)}`, place);
        break;
    }
  }

  program(program: Program): string {
    const { name, traits, registers, waits, doorbell, descriptor, body } = program;
    const bell = doorbell === undefined ? '' : `, sleeps on r${doorbell.id}`;
    this.#line(`kernel ${name} (${traits.name}, ${registers} registers, ${waits} waits${bell})`);
    this.#line(`descriptor ${defined(descriptor)}`);
    for (const s of body) this.#statement(s);
    return `${this.#lines.join('\n')}\n`;
  }
}

/** The text of a program in its intermediate representation. */
export function printProgram(program: Program): string {
  return new Printer().program(program);
}
