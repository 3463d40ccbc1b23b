/**
 * One program to the code of one PTX entry function.
 *
 * Structured control becomes labels and predicated branches. Every register of the program that is written once is
 * the PTX register that its operation made; variables have registers of their own.
 *
 * A thread that ends with a status other than 0 stores it in the status word of its block. A wait polls in a tight
 * loop, looks at the abort word now and then, and sleeps between polls when it has waited long. What an aborted wait
 * does depends on the program: threads that are gone do not count at a barrier of the whole block, so the thread just
 * ends; a barrier over a part of the block counts threads and would wait for those gone, so in programs with such
 * barriers an aborted thread goes on as if its waits held (the data are garbage, as all results of an aborted
 * communicator are) and reports the status at once.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { type Operand, type Program, type Pure, STATUS, type Statement, type ValueType } from '../ir.js';
import type { PtxArchitecture, PtxVersion } from './architecture.js';
import { Code } from './code.js';
import * as memory from './memory.js';
import { narrowFromFloat32, widenToFloat32 } from './narrow-floats.js';
import * as packets from './packets.js';
import * as scalars from './scalars.js';
import { bitType, classOf, literal, registersFor, type Words, word } from './values.js';

/**
 * Polls of a wait between two looks at the abort word, a power of two: a poll takes about 0.5 us, so some 20 ms. A look
 * goes to the host, and a GPU gets about 30 of them answered in a microsecond: when all threads of a large launch look,
 * they are delayed by up to a millisecond. If that were as long as the time between looks, the other ranks would come
 * to look as well while they wait for these, and so on without end (seen with 512 polls: 300 us in place of 3).
 */
const POLLS_PER_ABORT_CHECK = 32768;

/** Polls after which a wait sleeps between polls: about 2 ms, more than any operation that is on its way takes. */
const POLLS_BEFORE_SLEEP = 4096;

/** Nanoseconds of one sleep (the hardware sleeps 0 to 2 times that): short against what was waited already. */
const SLEEP_NANOSECONDS = 256;

/** Language versions that waits and warp operations need. */
const NANOSLEEP_VERSION: PtxVersion = 63;

/** Parameters of every entry function, in this order. */
export const PARAMETERS = ['descriptor', 'abort', 'status'] as const;

/** `fence.proxy.alias`. */
const ALIAS_FENCE_VERSION: PtxVersion = 75;

/** Where launches of a stream may overlap: `griddepcontrol`. */
const LAUNCH_ORDER_CAPABILITY = 90;
const LAUNCH_ORDER_VERSION: PtxVersion = 78;

/** Width of a warp less one: lane numbers are taken from the whole warp. */
const SHUFFLE_CLAMP = '31';
const ALL_LANES = '0xffffffff';

const IDENTITY = {
  threadIndex: '%tid.x',
  threadCount: '%ntid.x',
  blockIndex: '%ctaid.x',
  blockCount: '%nctaid.x',
} as const;

type Kind<K extends Statement['kind']> = Extract<Statement, { kind: K }>;

interface OpenLoop {
  readonly exit: string;
  readonly next: string;
}

class FunctionCompiler {
  readonly #code: Code;
  readonly #program: Program;
  /** PTX registers of each register. */
  readonly #registers: (Words | undefined)[] = [];
  readonly #loops = new Map<number, OpenLoop>();
  /** Names of the parameters. */
  readonly #parameter: (name: (typeof PARAMETERS)[number]) => string;
  /** Set in a thread that was aborted and goes on, in programs with barriers over a part of the block. */
  readonly #aborted: string | undefined;
  /** What addresses the descriptor where it is a parameter itself: good for loads only. */
  readonly #descriptorAddresses = new Set<string>();

  constructor(program: Program, code: Code, parameterName: (name: string) => string, byValue: boolean) {
    this.#program = program;
    this.#code = code;
    this.#parameter = parameterName;
    for (const [id, type] of typesOfAssigned(program.body)) this.#registers[id] = registersFor(code, type);
    let descriptor = parameterName('descriptor');
    if (byValue) this.#descriptorAddresses.add(descriptor);
    else {
      const address = code.register('b64');
      code.op('ld.param.u64', address, `[${descriptor}]`);
      descriptor = address;
    }
    this.#registers[program.descriptor.id] = [descriptor];
    if (program.waits > 0 && hasCountedBarrier(program.body)) {
      this.#aborted = code.register('pred');
      code.op('setp.ne.u32', this.#aborted, '0', '0');
    }
    this.#list(program.body);
    code.at('');
    code.op('ret');
  }

  // ---- operands ----

  #wordsOf(operand: Operand): Words {
    if (operand.kind === 'constant') return [this.#literalRegister(operand.type, operand)];
    const words = this.#registers[operand.id];
    if (words !== undefined) {
      if (this.#descriptorAddresses.has(words[0]!)) {
        throw new TuttiError(
          'internalError',
          `program ${this.#program.name} does more with its descriptor than load from it; pass its address instead`,
        );
      }
      return words;
    }
    throw new TuttiError(
      'internalError',
      `program ${this.#program.name} reads register ${operand.id} that nothing sets before`,
    );
  }

  #literalRegister(type: ValueType, operand: Operand & { kind: 'constant' }): string {
    const code = this.#code;
    if (type === 'pred') return code.result('pred', 'setp.ne.u32', operand.value ? '1' : '0', '0');
    return code.result(classOf(type), `mov.${bitType(type)}`, literal(operand));
  }

  /** A scalar in a register. */
  #register(operand: Operand): string {
    return this.#wordsOf(operand)[0]!;
  }

  /** A scalar, literal where it may be one. */
  #value(operand: Operand): string {
    if (operand.kind === 'constant' && operand.type !== 'pred') return literal(operand);
    return this.#register(operand);
  }

  #address(operand: Operand, offset: number): memory.Address {
    return { base: this.#register(operand), offset };
  }

  /** The address where a load finds (part of) the descriptor that is a parameter; else undefined. */
  #descriptorAddress(operand: Operand): string | undefined {
    if (operand.kind === 'constant') return undefined;
    const base = this.#registers[operand.id]?.[0];
    return base !== undefined && this.#descriptorAddresses.has(base) ? base : undefined;
  }

  // ---- expressions ----

  /** The value of an operation. */
  #pure(pure: Pure, type: ValueType): Words {
    const code = this.#code;
    const { args } = pure;
    switch (pure.op) {
      case 'threadIndex':
      case 'threadCount':
      case 'blockIndex':
      case 'blockCount':
        return [code.result('b32', 'mov.u32', IDENTITY[pure.op])];
      case 'select':
        return this.#select(args[0]!, args[1]!, args[2]!, type);
      case 'offset':
        return [this.#offset(args[0]!, args[1]!)];
      case 'pk.make':
        return args.flatMap((half) => packets.splitWords(code, this.#register(half)));
      case 'pk.half': {
        const words = this.#wordsOf(args[0]!);
        return [packets.joinWords(code, words[2 * pure.half]!, words[2 * pure.half + 1]!)];
      }
      case 'pk.splat':
        return packets.splatPacket(code, pure.type, this.#register(args[0]!));
      case 'pk.reduce':
        return packets.reducePackets(
          code,
          pure.type,
          pure.step,
          this.#wordsOf(args[0]!),
          this.#wordsOf(args[1]!),
        );
      case 'pk.widen':
        return widenToFloat32(code, pure.type, this.#wordsOf(args[0]!), pure.part);
      case 'pk.narrow':
        return narrowFromFloat32(
          code,
          pure.type,
          args.map((arg) => this.#wordsOf(arg)),
        );
      case 'pk.divide':
        return packets.dividePacket(code, pure.type, this.#wordsOf(args[0]!), this.#register(args[1]!));
      default:
        return type === 'packet' ? this.#packetBits(pure) : [this.#scalar(pure, type)];
    }
  }

  /** Operations on the bits of whole packets. */
  #packetBits({ op, args }: Pure): Words {
    const operands = args.map((arg) => this.#wordsOf(arg));
    if (op !== 'and' && op !== 'or' && op !== 'xor' && op !== 'not') {
      throw new TuttiError('internalError', `the ptx target has no ${op} of packets`);
    }
    return operands[0]!.map((_, i) =>
      this.#code.result('b32', `${op}.b32`, ...operands.map((words) => words[i]!)),
    );
  }

  #scalar(pure: Pure, type: ValueType): string {
    const code = this.#code;
    const [left, right] = pure.args as [Operand, Operand];
    const from = left.type;
    const a = this.#register(left);
    const d = code.register(classOf(type));
    switch (pure.op) {
      case 'cast':
        scalars.cast(code, from, type, d, a);
        break;
      case 'bitcast':
        scalars.bitcast(code, from, type, d, a);
        break;
      case 'eq':
      case 'ne':
      case 'lt':
      case 'le':
      case 'gt':
      case 'ge':
        scalars.compare(code, pure.op, from, d, a, this.#value(right));
        break;
      case 'neg':
      case 'not':
      case 'clz':
      case 'ctz':
      case 'popcnt':
      case 'abs':
        scalars.unary(code, pure.op, type, d, a);
        break;
      case 'add':
      case 'sub':
      case 'mul':
      case 'mulHi':
      case 'div':
      case 'rem':
      case 'min':
      case 'max':
      case 'and':
      case 'or':
      case 'xor':
      case 'shl':
      case 'shr':
        scalars.binary(code, pure.op, type, d, a, this.#value(right));
        break;
      default:
        throw new TuttiError('internalError', `the ptx target does not know ${pure.op}`);
    }
    return d;
  }

  #select(condition: Operand, a: Operand, b: Operand, type: ValueType): Words {
    const code = this.#code;
    const where = this.#register(condition);
    const x = this.#wordsOf(a);
    const y = this.#wordsOf(b);
    if (type === 'pred') {
      const first = code.result('pred', 'and.pred', where, x[0]!);
      const otherwise = code.result('pred', 'not.pred', where);
      const second = code.result('pred', 'and.pred', otherwise, y[0]!);
      return [code.result('pred', 'or.pred', first, second)];
    }
    return x.map((w, i) => code.result(classOf(type), `selp.${bitType(type)}`, w, y[i]!, where));
  }

  #load(s: Kind<'load'>): Words {
    const parameter = this.#descriptorAddress(s.address);
    if (parameter === undefined) return memory.load(this.#code, s, this.#address(s.address, s.offset));
    return memory.loadParameter(this.#code, s, { base: parameter, offset: s.offset });
  }

  #offset(base: Operand, bytes: Operand): string {
    const code = this.#code;
    const parameter = this.#descriptorAddress(base);
    if (parameter !== undefined) {
      const start = code.result('b64', 'mov.b64', parameter);
      const result = this.#sum(start, bytes);
      this.#descriptorAddresses.add(result);
      return result;
    }
    return this.#sum(this.#register(base), bytes);
  }

  #sum(at: string, bytes: Operand): string {
    const code = this.#code;
    if (bytes.kind === 'constant' || bytes.type === 'u64' || bytes.type === 'i64') {
      return code.result('b64', 'add.s64', at, this.#value(bytes));
    }
    const extend = bytes.type === 'i32' ? 'cvt.s64.s32' : 'cvt.u64.u32';
    return code.result('b64', 'add.s64', at, code.result('b64', extend, this.#register(bytes)));
  }

  // ---- statements ----

  #list(statements: readonly Statement[]): void {
    for (const s of statements) this.#statement(s);
  }

  #statement(s: Statement): void {
    const code = this.#code;
    code.at(s.place);
    switch (s.kind) {
      case 'let':
        this.#define(s.target.id, this.#pure(s.value, s.target.type));
        break;
      case 'assign':
        this.#assign(s);
        break;
      case 'load':
        this.#define(s.target.id, this.#load(s));
        break;
      case 'store':
        memory.store(code, s, this.#address(s.address, s.offset), this.#wordsOf(s.value));
        break;
      case 'loadPart': {
        const address = this.#address(s.address, 0);
        const words =
          s.bytes.kind === 'constant'
            ? memory.loadKnownPart(code, address, Number(s.bytes.value), s.align)
            : memory.loadPart(code, address, this.#register(s.bytes), s.align);
        this.#define(s.target.id, words);
        break;
      }
      case 'storePart': {
        const address = this.#address(s.address, 0);
        const value = this.#wordsOf(s.value);
        if (s.bytes.kind === 'constant') {
          memory.storeKnownPart(code, address, value, Number(s.bytes.value), s.align);
        } else memory.storePart(code, address, value, this.#register(s.bytes), s.align);
        break;
      }
      case 'copy':
        memory.copy(code, this.#register(s.to), this.#register(s.from), this.#register(s.bytes));
        break;
      case 'atomic': {
        const address = this.#address(s.address, s.offset);
        this.#define(s.target.id, [memory.atomic(code, s, address, this.#register(s.value))]);
        break;
      }
      case 'compareExchange': {
        const address = this.#address(s.address, s.offset);
        const expected = this.#register(s.expected);
        const value = this.#register(s.value);
        this.#define(s.target.id, [memory.compareExchange(code, s, address, expected, value)]);
        break;
      }
      case 'fence':
        if (s.order === 'aliases') {
          code.need(ALIAS_FENCE_VERSION);
          code.op('fence.proxy.alias');
        }
        // The one-sided fences are newer than sm_70 and no faster.
        code.op(`fence.acq_rel.${memory.SCOPES[s.scope]}`);
        break;
      case 'barrier':
        this.#barrier(s);
        break;
      case 'warpBarrier':
        code.op('bar.warp.sync', ALL_LANES);
        break;
      case 'if':
        this.#if(s);
        break;
      case 'loop':
        this.#loop(s);
        break;
      case 'break':
        code.op('bra', this.#loops.get(s.loop)!.exit);
        break;
      case 'continue':
        code.op('bra', this.#loops.get(s.loop)!.next);
        break;
      case 'wait':
        this.#wait(s);
        break;
      case 'launchOrder':
        if (code.capability >= LAUNCH_ORDER_CAPABILITY) {
          code.need(LAUNCH_ORDER_VERSION);
          code.op(`griddepcontrol.${s.mode === 'await' ? 'wait' : 'launch_dependents'}`);
        }
        break;
      case 'wake':
        break;
      case 'shuffle':
        this.#define(s.target.id, this.#shuffle(this.#wordsOf(s.value), s.target.type, this.#value(s.lane)));
        break;
      case 'storeLine':
        this.#storeLine(s);
        break;
      case 'multicastLoad':
        this.#define(s.target.id, memory.multicastLoad(code, s.type, s.step, this.#register(s.address)));
        break;
      case 'multicastStore':
        memory.multicastStore(code, this.#register(s.address), this.#wordsOf(s.value));
        break;
      case 'multicastAdd':
        memory.multicastAdd(code, this.#register(s.address), this.#register(s.value));
        break;
      case 'vote': {
        const value = this.#register(s.value);
        this.#define(s.target.id, [code.result('pred', `vote.sync.${s.mode}.pred`, value, ALL_LANES)]);
        break;
      }
      case 'return':
        this.#return(s);
        break;
      default:
        s satisfies never;
    }
  }

  /** Binds a register to what holds its value; a variable is written instead. */
  #define(id: number, words: Words): void {
    const variable = this.#registers[id];
    if (variable === undefined) this.#registers[id] = words;
    else this.#move(variable, words);
  }

  #move(to: Words, from: Words): void {
    to.forEach((target, i) => {
      const source = from[i]!;
      if (target === source) return;
      const kind = target.startsWith('%p') ? 'pred' : /^%(rd|fd)/.test(target) ? 'b64' : 'b32';
      this.#code.op(`mov.${kind}`, target, source);
    });
  }

  #assign(s: Kind<'assign'>): void {
    const target = this.#registers[s.target.id]!;
    if (s.value.kind === 'constant' && s.value.type !== 'pred') {
      this.#code.op(`mov.${bitType(s.value.type)}`, target[0]!, literal(s.value));
    } else this.#move(target, this.#wordsOf(s.value));
  }

  #barrier(s: Kind<'barrier'>): void {
    // Not the aligned form: lanes of a warp may come here one by one, after waits of their own.
    const id = word(s.id);
    if (s.threads === undefined) this.#code.op('barrier.sync', id);
    else this.#code.op('barrier.sync', id, this.#value(s.threads));
  }

  /** Where a list of statements goes when all it does is leave or continue a loop. */
  #onlyBranch(statements: readonly Statement[]): string | undefined {
    const only = statements[0];
    if (statements.length !== 1 || only === undefined) return undefined;
    if (only.kind === 'break') return this.#loops.get(only.loop)!.exit;
    if (only.kind === 'continue') return this.#loops.get(only.loop)!.next;
    return undefined;
  }

  #if(s: Kind<'if'>): void {
    const code = this.#code;
    if (s.taken.length === 0 && s.otherwise.length === 0) return;
    const condition = this.#register(s.condition);
    const leaves = this.#onlyBranch(s.taken);
    if (leaves !== undefined) {
      code.when(condition, 'bra', leaves);
      this.#list(s.otherwise);
      return;
    }
    if (s.taken.length === 0) {
      const end = code.label();
      code.when(condition, 'bra', end);
      this.#list(s.otherwise);
      code.place(end);
      return;
    }
    const otherwise = code.label();
    code.when(`!${condition}`, 'bra', otherwise);
    this.#list(s.taken);
    if (s.otherwise.length === 0) {
      code.place(otherwise);
      return;
    }
    const end = code.label();
    if (!endsInJump(s.taken)) code.op('bra', end);
    code.place(otherwise);
    this.#list(s.otherwise);
    code.place(end);
  }

  #loop(s: Kind<'loop'>): void {
    const code = this.#code;
    const again = code.label();
    const exit = code.label();
    const next = s.step.length === 0 ? again : code.label();
    this.#loops.set(s.id, { exit, next });
    code.place(again);
    this.#list(s.body);
    if (s.step.length > 0) {
      code.place(next);
      this.#list(s.step);
    }
    code.at(s.place);
    code.op('bra', again);
    code.place(exit);
    this.#loops.delete(s.id);
  }

  #wait(s: Kind<'wait'>): void {
    const code = this.#code;
    const aborted = this.#aborted;
    const polls = code.result('b32', 'mov.b32', '0');
    const again = code.label();
    const done = code.label();
    code.place(again);
    this.#list(s.poll);
    code.at(s.place);
    code.when(this.#register(s.condition), 'bra', done);
    if (aborted !== undefined) code.when(aborted, 'bra', done);
    code.op('add.u32', polls, polls, '1');
    code.need(NANOSLEEP_VERSION);
    const long = code.result('pred', 'setp.gt.u32', polls, word(POLLS_BEFORE_SLEEP));
    code.when(long, 'nanosleep.u32', word(SLEEP_NANOSECONDS));
    const phase = code.result('b32', 'and.b32', polls, word(POLLS_PER_ABORT_CHECK - 1));
    code.when(code.result('pred', 'setp.ne.u32', phase, '0'), 'bra', again);
    const address = code.result('b64', 'ld.param.u64', `[${this.#parameter('abort')}]`);
    const flag = code.result('b32', 'ld.relaxed.sys.global.b32', `[${address}]`);
    code.when(code.result('pred', 'setp.eq.u32', flag, '0'), 'bra', again);
    this.#report(word(STATUS.aborted));
    if (aborted === undefined) code.op('ret');
    else code.op('setp.eq.u32', aborted, '0', '0');
    code.place(done);
  }

  /** Stores a status in the word of the block. */
  #report(status: string): void {
    const code = this.#code;
    const base = code.result('b64', 'ld.param.u64', `[${this.#parameter('status')}]`);
    const block = code.result('b32', 'mov.u32', IDENTITY.blockIndex);
    const bytes = code.result('b64', 'mul.wide.u32', block, '4');
    const at = code.result('b64', 'add.s64', base, bytes);
    code.op('st.relaxed.sys.global.b32', `[${at}]`, status);
  }

  #return({ status }: Kind<'return'>): void {
    const code = this.#code;
    if (status.kind === 'constant') {
      if (status.value !== STATUS.done) this.#report(this.#value(status));
    } else {
      const value = this.#register(status);
      const quiet = code.label();
      code.when(code.result('pred', 'setp.eq.u32', value, word(STATUS.done)), 'bra', quiet);
      this.#report(value);
      code.place(quiet);
    }
    code.op('ret');
  }

  #storeLine(s: Kind<'storeLine'>): void {
    const code = this.#code;
    const address = this.#register(s.address);
    const words = this.#wordsOf(s.value);
    // Lanes that have left each other in a wait would each store for themselves.
    code.op('bar.warp.sync', ALL_LANES);
    const store = ['st.volatile.global.v4.b32', `[${address}]`, `{${words.join(', ')}}`] as const;
    if (s.active.kind === 'register') code.when(this.#register(s.active), ...store);
    else if (s.active.value) code.op(...store);
  }

  #shuffle(words: Words, type: ValueType, lane: string): Words {
    const code = this.#code;
    const exchange = (w: string) =>
      code.result('b32', 'shfl.sync.idx.b32', w, lane, SHUFFLE_CLAMP, ALL_LANES);
    const bits = (w: string) => code.result('b32', 'mov.b32', w);
    switch (classOf(type)) {
      case 'pred': {
        const number = code.result('b32', 'selp.b32', '1', '0', words[0]!);
        return [code.result('pred', 'setp.ne.u32', exchange(number), '0')];
      }
      case 'f32':
        return [code.result('f32', 'mov.b32', exchange(bits(words[0]!)))];
      case 'f64': {
        const [low, high] = packets.splitWords(code, words[0]!).map(exchange);
        return [code.result('f64', 'mov.b64', `{${low}, ${high}}`)];
      }
      case 'b64': {
        const [low, high] = packets.splitWords(code, words[0]!).map(exchange);
        return [packets.joinWords(code, low!, high!)];
      }
      default:
        return words.map(exchange);
    }
  }
}

/** Whether nothing runs after the list. */
function endsInJump(statements: readonly Statement[]): boolean {
  const last = statements.at(-1)?.kind;
  return last === 'break' || last === 'continue' || last === 'return';
}

/** Lists of statements inside of a statement. */
function inner(s: Statement): readonly (readonly Statement[])[] {
  switch (s.kind) {
    case 'if':
      return [s.taken, s.otherwise];
    case 'loop':
      return [s.body, s.step];
    case 'wait':
      return [s.poll];
    default:
      return [];
  }
}

/** Registers that are assigned to, with their types: variables, and copies of them. */
function typesOfAssigned(statements: readonly Statement[]): Map<number, ValueType> {
  const types = new Map<number, ValueType>();
  const visit = (list: readonly Statement[]) => {
    for (const s of list) {
      if (s.kind === 'assign') types.set(s.target.id, s.target.type);
      for (const nested of inner(s)) visit(nested);
    }
  };
  visit(statements);
  return types;
}

function hasCountedBarrier(statements: readonly Statement[]): boolean {
  return statements.some(
    (s) => (s.kind === 'barrier' && s.threads !== undefined) || inner(s).some(hasCountedBarrier),
  );
}

/** Compiles one program; `parameterName` gives the full names; `byValue`: the descriptor itself is a parameter. */
export function compileFunction(
  program: Program,
  arch: PtxArchitecture,
  version: PtxVersion,
  parameterName: (name: string) => string,
  byValue: boolean,
): Code {
  const code = new Code(arch, version);
  new FunctionCompiler(program, code, parameterName, byValue);
  return code;
}
