/**
 * One program to the code of one WebAssembly function.
 *
 * Control of the intermediate representation maps onto blocks one to one. In a resumable function every list
 * of statements that holds a wait is entered twice: from the start, or on the way to the wait at which the
 * program was blocked. On that way (the local `resume` is not 0) all statements are skipped but those that
 * contain the wait; waits are numbered in source order, so that containment is a comparison of numbers.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import { type Program, STATUS, type ValueType } from '../ir.js';
import { Code, type Label } from './code.js';
import { frameSlots } from './frame.js';
import type { WasmType } from './instructions.js';
import { divideLanes } from './integer-division.js';
import { type LocalPlan, planLocals, wasmType } from './locals.js';
import * as memory from './memory.js';
import { narrowFromFloat32, widenToFloat32 } from './narrow-floats.js';
import * as packets from './packets.js';
import * as scalars from './scalars.js';
import { type Node, type Tree, targetOf, toTrees } from './trees.js';

/** Indices of what compile.ts imports. */
const RELAX = 0;
const WAKE = 1;
const SPINS = 0;

/** Parameters of every function; the frame only in resumable ones. */
const DESCRIPTOR = 0;
const BLOCK = 1;
const BLOCKS = 2;
const FRAME = 3;

type NodeOf<K extends Node['kind']> = Extract<Node, { kind: K }>;
type PureTree = Extract<Tree, { kind: 'pure' }>;

/** Numbers of the waits inside of nodes: first and last, or undefined when there is none. */
interface WaitRange {
  readonly first: number;
  readonly last: number;
}

interface OpenLoop {
  readonly exit: Label;
  readonly next: Label;
}

class FunctionCompiler {
  readonly #code: Code;
  readonly #program: Program;
  readonly #resumable: boolean;
  readonly #plan: LocalPlan;
  /** Local per register id. */
  readonly #locals: (number | undefined)[];
  readonly #planned: readonly number[];
  readonly #ranges = new Map<Node, WaitRange>();
  readonly #loops = new Map<number, OpenLoop>();
  /** Wait to resume at, plus one; 0 in normal running. */
  readonly #resume: number;

  constructor(program: Program, resumable: boolean) {
    this.#program = program;
    this.#resumable = resumable && program.waits > 0;
    this.#code = new Code(new Array<WasmType>(resumable ? FRAME + 1 : BLOCKS + 1).fill('i32'));
    const nodes = toTrees(program);
    this.#plan = planLocals(program, nodes);
    this.#planned = this.#plan.types.map((type) => this.#code.newLocal(type));
    this.#locals = this.#plan.local.map((index) => (index === undefined ? undefined : this.#planned[index]));
    this.#locals[program.descriptor.id] = DESCRIPTOR;
    this.#resume = this.#resumable ? this.#code.newLocal('i32') : -1;
    if (this.#resumable) {
      this.#findWaits(nodes);
      this.#code.get(FRAME);
      this.#code.memory('i32.load', 4);
      this.#code.set(this.#resume);
      // Whatever ends the program, the next call starts from the beginning unless a wait says otherwise.
      this.#code.get(FRAME);
      this.#code.i32(0);
      this.#code.memory('i32.store', 4);
    }
    this.#list(nodes, true);
    this.#code.at('');
    this.#code.i32(STATUS.done);
  }

  get code(): Code {
    return this.#code;
  }

  // ---- expressions ----

  #localOf(id: number): number {
    const local = this.#locals[id];
    if (local !== undefined) return local;
    throw new TuttiError(
      'internalError',
      `program ${this.#program.name} reads register ${id} that nothing sets`,
    );
  }

  #tree(tree: Tree): void {
    switch (tree.kind) {
      case 'constant':
        scalars.constant(this.#code, tree.type, tree.value);
        break;
      case 'register':
        this.#code.get(this.#localOf(tree.id));
        break;
      case 'fetch':
        memory.load(this.#code, tree.load, this.#address(tree.address, tree.load.offset));
        break;
      case 'pure':
        this.#pure(tree);
        break;
    }
  }

  #pure(tree: PureTree): void {
    const code = this.#code;
    const { value, type, args } = tree;
    switch (value.op) {
      case 'threadIndex':
        code.i32(0);
        break;
      case 'threadCount':
        code.i32(1);
        break;
      case 'blockIndex':
        code.get(BLOCK);
        break;
      case 'blockCount':
        code.get(BLOCKS);
        break;
      case 'select':
        this.#tree(args[1]!);
        this.#tree(args[2]!);
        this.#tree(args[0]!);
        code.op('select');
        break;
      case 'offset':
        this.#tree(args[0]!);
        this.#low32(args[1]!);
        code.op('i32.add');
        break;
      case 'cast':
        this.#cast(type, args[0]!);
        break;
      case 'shl':
      case 'shr':
        this.#tree(args[0]!);
        this.#shiftCount(type, args[1]!);
        scalars.binary(code, value.op, type);
        break;
      case 'not':
        if (type === 'pred') this.#condition(args[0]!, true);
        else this.#operation(tree);
        break;
      default:
        this.#operation(tree);
    }
  }

  /** Operations whose operands are simply pushed in order. */
  #operation({ value, type, args }: PureTree): void {
    const code = this.#code;
    for (const arg of args) this.#tree(arg);
    switch (value.op) {
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
        scalars.binary(code, value.op, type);
        break;
      case 'eq':
      case 'ne':
      case 'lt':
      case 'le':
      case 'gt':
      case 'ge':
        scalars.comparison(code, value.op, args[0]!.type);
        break;
      case 'neg':
      case 'not':
      case 'clz':
      case 'ctz':
      case 'popcnt':
      case 'abs':
        scalars.unary(code, value.op, type);
        break;
      case 'bitcast':
        scalars.bitcast(code, args[0]!.type, type);
        break;
      case 'pk.make':
        packets.makePacket(code);
        break;
      case 'pk.half':
        code.lane('i64x2.extract_lane', value.half);
        break;
      case 'pk.splat':
        packets.splatPacket(code, value.type);
        break;
      case 'pk.reduce':
        packets.reducePackets(code, value.type, value.step);
        break;
      case 'pk.widen':
        widenToFloat32(code, value.type, value.part);
        break;
      case 'pk.narrow':
        narrowFromFloat32(code, value.type);
        break;
      case 'pk.divide':
        divideLanes(code, value.type);
        break;
      default:
        throw new TuttiError('internalError', `the WebAssembly target does not know ${value.op}`);
    }
  }

  #cast(type: ValueType, from: Tree): void {
    if (wasmType(type) === 'i32' && type !== 'pred' && wasmType(from.type) === 'i64') this.#low32(from);
    else {
      this.#tree(from);
      scalars.cast(this.#code, from.type, type);
    }
  }

  #shiftCount(type: ValueType, count: Tree): void {
    if (wasmType(type) !== 'i64') this.#tree(count);
    else if (count.kind === 'constant') this.#code.i64(BigInt(count.value));
    else {
      this.#tree(count);
      this.#code.op('i64.extend_i32_u');
    }
  }

  /** The low 32 bits of an integer; sums and products are computed in 32 bits from the start. */
  #low32(tree: Tree): void {
    const code = this.#code;
    if (wasmType(tree.type) === 'i32') this.#tree(tree);
    else if (tree.kind === 'constant') code.i32(Number(BigInt.asIntN(32, BigInt(tree.value))));
    else if (tree.kind !== 'pure' || !this.#lowArithmetic(tree)) {
      this.#tree(tree);
      code.op('i32.wrap_i64');
    }
  }

  /** Whether the low 32 bits depend on low bits of the operands alone; if so they are pushed. */
  #lowArithmetic({ value, args }: PureTree): boolean {
    const [first, second] = args;
    switch (value.op) {
      case 'add':
      case 'sub':
      case 'mul':
      case 'and':
      case 'or':
      case 'xor':
        this.#low32(first!);
        this.#low32(second!);
        this.#code.op(`i32.${value.op}`);
        return true;
      case 'shl':
        if (second!.kind !== 'constant' || Number(second!.value) > 31) return false;
        this.#low32(first!);
        this.#code.i32(Number(second!.value));
        this.#code.op('i32.shl');
        return true;
      case 'cast':
        if (wasmType(first!.type) !== 'i32' && wasmType(first!.type) !== 'i64') return false;
        this.#low32(first!);
        return true;
      default:
        return false;
    }
  }

  /** Pushes an address and returns the constant offset to put into the instruction. */
  #address(address: Tree, offset: number): number {
    this.#tree(address);
    if (offset >= 0) return offset;
    this.#code.i32(offset);
    this.#code.op('i32.add');
    return 0;
  }

  /** A truth value, or its negation, without a negation where the comparison can be turned around. */
  #condition(tree: Tree, negated: boolean): void {
    if (tree.kind === 'pure' && tree.value.op === 'not') this.#condition(tree.args[0]!, !negated);
    else if (!negated || !this.#inverse(tree)) {
      this.#tree(tree);
      if (negated) this.#code.op('i32.eqz');
    }
  }

  /** Pushes the negation of a comparison if there is a comparison for it. */
  #inverse(tree: Tree): boolean {
    if (tree.kind !== 'pure' || !scalars.isComparison(tree.value.op)) return false;
    const type = tree.args[0]!.type;
    const inverse = scalars.inverseComparison(tree.value.op, type);
    if (inverse === undefined) return false;
    for (const arg of tree.args) this.#tree(arg);
    scalars.comparison(this.#code, inverse, type);
    return true;
  }

  // ---- statements ----

  /** Waits inside of nodes, by node. */
  #findWaits(nodes: readonly Node[]): WaitRange | undefined {
    let range: WaitRange | undefined;
    const include = (inner: WaitRange | undefined) => {
      if (inner === undefined) return;
      range = range === undefined ? inner : { first: range.first, last: inner.last };
    };
    for (const node of nodes) {
      const own =
        node.kind === 'wait'
          ? { first: node.id, last: node.id }
          : node.kind === 'if'
            ? this.#findWaits([...node.taken, ...node.otherwise])
            : node.kind === 'loop'
              ? this.#findWaits([...node.body, ...node.step])
              : undefined;
      if (own !== undefined) this.#ranges.set(node, own);
      include(own);
    }
    return range;
  }

  #rangeOf(nodes: readonly Node[]): WaitRange | undefined {
    const ranges = nodes.map((node) => this.#ranges.get(node)).filter((range) => range !== undefined);
    const first = ranges[0];
    return first === undefined ? undefined : { first: first.first, last: ranges.at(-1)!.last };
  }

  /**
   * A list of statements. `exact`: when the program is on its way to a wait, that wait is in this list, so
   * that the last statement with waits needs no test.
   */
  #list(nodes: readonly Node[], exact: boolean): void {
    if (this.#rangeOf(nodes) === undefined) {
      if (exact) this.#plain(nodes);
      else this.#unlessResuming(nodes);
      return;
    }
    let plain: Node[] = [];
    let left = nodes.filter((node) => this.#ranges.has(node)).length;
    for (const [index, node] of nodes.entries()) {
      const range = this.#ranges.get(node);
      if (range === undefined) {
        plain.push(node);
        continue;
      }
      this.#unlessResuming(plain);
      plain = [];
      left--;
      if (exact && left === 0) this.#node(node, nodes, index);
      else {
        // Statements before this one were passed, so the wait is in here, or later, or nothing is resumed.
        this.#code.at(node.place);
        this.#code.get(this.#resume);
        this.#code.i32(range.last + 1);
        this.#code.op('i32.le_u');
        this.#code.if(() => this.#node(node, nodes, index));
      }
    }
    // After the last statement with waits nothing is resumed any more if the wait was in this list.
    if (exact) this.#plain(plain);
    else this.#unlessResuming(plain);
  }

  #unlessResuming(nodes: readonly Node[]): void {
    if (nodes.length === 0) return;
    this.#code.get(this.#resume);
    this.#code.op('i32.eqz');
    this.#code.if(() => this.#plain(nodes));
  }

  #plain(nodes: readonly Node[]): void {
    nodes.forEach((node, index) => {
      this.#node(node, nodes, index);
    });
  }

  #node(node: Node, list: readonly Node[], index: number): void {
    const code = this.#code;
    code.at(node.place);
    switch (node.kind) {
      case 'set':
        this.#tree(node.value);
        code.set(this.#localOf(node.target.id));
        break;
      case 'drop':
        this.#tree(node.value);
        code.op('drop');
        break;
      case 'action':
        this.#action(node, list, index);
        break;
      case 'if':
        this.#if(node);
        break;
      case 'loop':
        this.#loop(node);
        break;
      case 'break':
        code.branch(this.#loops.get(node.loop)!.exit);
        break;
      case 'continue':
        code.branch(this.#loops.get(node.loop)!.next);
        break;
      case 'wait':
        this.#wait(node);
        break;
      case 'return':
        this.#tree(node.status);
        code.op('return');
        break;
    }
  }

  #action(node: NodeOf<'action'>, list: readonly Node[], position: number): void {
    const code = this.#code;
    const { action, operands } = node;
    let offset = 0;
    operands.forEach((tree, index) => {
      const place = index === 0 && 'offset' in action ? action.offset : 0;
      if (index === 0) offset = this.#address(tree, place);
      else if (action.kind === 'copy') this.#low32(tree);
      else this.#tree(tree);
    });
    switch (action.kind) {
      case 'store':
        memory.store(code, action, offset);
        break;
      case 'loadPart':
        memory.loadPart(code, action.align);
        break;
      case 'storePart':
        memory.storePart(code, action.align);
        break;
      case 'copy':
        memory.copy(code);
        break;
      case 'atomic':
        memory.atomic(code, action, offset);
        break;
      case 'compareExchange':
        memory.compareExchange(code, action, offset);
        break;
      case 'fence':
        code.op('atomic.fence');
        break;
      case 'wake':
        this.#wake(followsFullBarrier(list, position));
        break;
    }
    const target = targetOf(action);
    if (target === undefined) return;
    const local = this.#locals[target.id];
    if (local === undefined) code.op('drop');
    else code.set(local);
  }

  /** The address is on the stack. */
  #wake(fenced: boolean): void {
    const code = this.#code;
    code.scratch('i32', 1, (doorbell) => {
      code.set(doorbell!);
      // The sleeper announces itself and looks once more before it sleeps. Between the publication and the
      // look at the announcement there must be a full barrier, which an ordered write is by itself.
      if (!fenced) code.op('atomic.fence');
      code.get(doorbell!);
      code.memory('i32.atomic.load', 4);
      code.if(() => {
        code.get(doorbell!);
        code.call(WAKE);
      });
    });
  }

  /** The loop label that a list branches to when that is all it does. */
  #onlyBranch(nodes: readonly Node[]): Label | undefined {
    const only = nodes[0];
    if (nodes.length !== 1 || only === undefined) return undefined;
    if (only.kind === 'break') return this.#loops.get(only.loop)!.exit;
    if (only.kind === 'continue') return this.#loops.get(only.loop)!.next;
    return undefined;
  }

  #if(node: NodeOf<'if'>): void {
    const code = this.#code;
    const { condition, taken, otherwise } = node;
    const takenRange = this.#rangeOf(taken);
    const otherwiseRange = this.#rangeOf(otherwise);
    if (takenRange !== undefined || otherwiseRange !== undefined) {
      // On the way to a wait the side is known by number and the condition must not be evaluated.
      code.get(this.#resume);
      code.if(
        () => {
          if (takenRange === undefined) code.i32(0);
          else if (otherwiseRange === undefined) code.i32(1);
          else {
            code.get(this.#resume);
            code.i32(takenRange.last + 1);
            code.op('i32.le_u');
          }
        },
        () => this.#condition(condition, false),
        'i32',
      );
    } else {
      const exit = this.#onlyBranch(taken);
      if (exit !== undefined) {
        this.#condition(condition, false);
        code.branchIf(exit);
        this.#list(otherwise, true);
        return;
      }
      const otherExit = this.#onlyBranch(otherwise);
      if (otherExit !== undefined) {
        this.#condition(condition, true);
        code.branchIf(otherExit);
        this.#list(taken, true);
        return;
      }
      if (taken.length === 0) {
        if (otherwise.length === 0) {
          this.#condition(condition, false);
          code.op('drop');
          return;
        }
        this.#condition(condition, true);
        code.if(() => this.#list(otherwise, true));
        return;
      }
      this.#condition(condition, false);
    }
    code.if(
      () => this.#list(taken, true),
      otherwise.length === 0 ? undefined : () => this.#list(otherwise, true),
    );
  }

  #loop(node: NodeOf<'loop'>): void {
    const code = this.#code;
    const stepWaits = this.#rangeOf(node.step) !== undefined;
    const inBody = (exit: Label, next: Label) => {
      this.#loops.set(node.id, { exit, next });
      this.#list(node.body, !stepWaits);
    };
    code.block((exit) => {
      code.loop((again) => {
        if (node.step.length === 0) inBody(exit, again);
        else {
          if (continues(node.body, node.id)) code.block((next) => inBody(exit, next));
          else inBody(exit, again);
          this.#list(node.step, true);
        }
        code.at(node.place);
        code.branch(again);
      });
    });
    this.#loops.delete(node.id);
  }

  #wait(node: NodeOf<'wait'>): void {
    const code = this.#code;
    if (this.#resumable) {
      code.get(this.#resume);
      code.if(() => {
        for (const { local, type, offset } of frameSlots(this.#plan, node.id)) {
          code.get(FRAME);
          code.memory(`${type}.load`, 4, offset);
          code.set(this.#planned[local]!);
        }
        code.i32(0);
        code.set(this.#resume);
      });
    }
    code.block((done) => {
      code.scratch('i32', 2, (...locals) => {
        const [polls, round] = locals as [number, number];
        code.i32(0);
        code.set(polls);
        if (!this.#resumable) {
          code.i32(0);
          code.set(round);
        }
        code.loop((again) => {
          this.#plain(node.poll);
          code.at(node.place);
          this.#condition(node.condition, false);
          code.branchIf(done);
          code.get(polls);
          code.i32(1);
          code.op('i32.add');
          code.tee(polls);
          code.globalGet(SPINS);
          code.op('i32.lt_u');
          code.branchIf(again);
          if (this.#resumable) {
            this.#block(node.id);
            return;
          }
          code.i32(0);
          code.set(polls);
          code.get(round);
          this.#doorbell();
          code.call(RELAX);
          code.if(() => {
            code.i32(STATUS.aborted);
            code.op('return');
          });
          code.get(round);
          code.i32(1);
          code.op('i32.add');
          code.set(round);
          code.branch(again);
        });
      });
    });
  }

  #doorbell(): void {
    const doorbell = this.#program.doorbell;
    const local = doorbell === undefined ? undefined : this.#locals[doorbell.id];
    if (local === undefined) this.#code.i32(0);
    else this.#code.get(local);
  }

  /** Stores the state and leaves the program. */
  #block(wait: number): void {
    const code = this.#code;
    for (const { local, type, offset } of frameSlots(this.#plan, wait)) {
      code.get(FRAME, this.#planned[local]!);
      code.memory(`${type}.store`, 4, offset);
    }
    code.get(FRAME);
    code.i32(wait + 1);
    code.memory('i32.store', 4);
    code.i32(STATUS.blocked);
    code.op('return');
  }
}

/** Whether all writes before a node of a list are visible to others already when it starts. */
function followsFullBarrier(list: readonly Node[], index: number): boolean {
  let at = index - 1;
  while (list[at]?.kind === 'set' || list[at]?.kind === 'drop') at--; // these read at most
  const node = list[at];
  if (node?.kind !== 'action') return false;
  switch (node.action.kind) {
    case 'store':
      return node.action.order === 'release' && node.action.memory !== 'packet';
    case 'atomic':
    case 'compareExchange':
    case 'fence':
    case 'wake': // after a barrier, whether its own or an earlier one
      return true;
    default:
      return false;
  }
}

/** Whether a `continue` of the loop is somewhere in its body. */
function continues(nodes: readonly Node[], loop: number): boolean {
  return nodes.some((node) => {
    if (node.kind === 'continue') return node.loop === loop;
    if (node.kind === 'if') return continues(node.taken, loop) || continues(node.otherwise, loop);
    return node.kind === 'loop' && (continues(node.body, loop) || continues(node.step, loop));
  });
}

/** Compiles one program; see compile.ts for what the function expects. */
export function compileFunction(program: Program, resumable: boolean): Code {
  return new FunctionCompiler(program, resumable).code;
}
