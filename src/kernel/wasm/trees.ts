/**
 * From statements over registers to expression trees.
 *
 * WebAssembly is a stack machine: a value that is used once need not be named. This pass moves every such
 * value into the statement that uses it, wherever nothing in between could tell the difference, removes what
 * nobody uses, and replaces copies of variables by the variable where it does not change meanwhile. What is
 * left of the registers becomes locals.
 *
 * A value may be moved down within one list of statements. Pure values stop where a variable that they read
 * is assigned; weak loads also stop at anything that writes or orders memory; stronger loads stop at any
 * other access. Control statements stop everything.
 */

import { TuttiError } from '../../errors/tutti-error.js';
import type { Constant, Operand, Place, Program, Pure, Register, Statement, ValueType } from '../ir.js';

type Kind<K extends Statement['kind']> = Extract<Statement, { kind: K }>;

/** An expression: evaluated where it stands, leaving one value. */
export type Tree =
  | Constant
  | Register
  | { readonly kind: 'pure'; readonly type: ValueType; readonly value: Pure; readonly args: readonly Tree[] }
  | { readonly kind: 'fetch'; readonly type: ValueType; readonly load: Kind<'load'>; readonly address: Tree };

/** Statements that act on memory. Their operands are given in the order in which the emitter wants them. */
export type Action = Kind<
  'store' | 'loadPart' | 'storePart' | 'copy' | 'atomic' | 'compareExchange' | 'fence' | 'wake'
>;

export type Node = { readonly place: Place } & (
  | { readonly kind: 'set'; readonly target: Register; readonly value: Tree }
  | { readonly kind: 'drop'; readonly value: Tree }
  | { readonly kind: 'action'; readonly action: Action; readonly operands: readonly Tree[] }
  | {
      readonly kind: 'if';
      readonly condition: Tree;
      readonly taken: readonly Node[];
      readonly otherwise: readonly Node[];
    }
  | {
      readonly kind: 'loop';
      readonly id: number;
      readonly body: readonly Node[];
      readonly step: readonly Node[];
    }
  | { readonly kind: 'break' | 'continue'; readonly loop: number }
  | {
      readonly kind: 'wait';
      readonly id: number;
      readonly poll: readonly Node[];
      readonly condition: Tree;
    }
  | { readonly kind: 'return'; readonly status: Tree }
);

/** The register that an action writes. */
export function targetOf(action: Action): Register | undefined {
  return action.kind === 'loadPart' || action.kind === 'atomic' || action.kind === 'compareExchange'
    ? action.target
    : undefined;
}

/** Operands that a statement itself reads (not those of nested statements). */
function operandsOf(s: Statement): readonly Operand[] {
  switch (s.kind) {
    case 'let':
      return s.value.args;
    case 'assign':
    case 'vote':
      return [s.value];
    case 'shuffle':
      return [s.value];
    case 'load':
    case 'wake':
      return [s.address];
    case 'store':
      return [s.address, s.value];
    case 'storeLine':
      return [s.address, s.value, s.active];
    case 'loadPart':
      return [s.address, s.bytes];
    case 'storePart':
      return [s.address, s.value, s.bytes];
    case 'copy':
      return [s.to, s.from, s.bytes];
    case 'atomic':
    case 'multicastStore':
    case 'multicastAdd':
      return [s.address, s.value];
    case 'multicastLoad':
      return [s.address];
    case 'compareExchange':
      return [s.address, s.expected, s.value];
    case 'if':
    case 'wait':
      return [s.condition];
    case 'return':
      return [s.status];
    case 'fence':
    case 'barrier':
    case 'warpBarrier':
    case 'launchOrder':
    case 'loop':
    case 'break':
    case 'continue':
      return [];
  }
}

function targetOfStatement(s: Statement): Register | undefined {
  return 'target' in s ? s.target : undefined;
}

/** Nested lists of a statement, in source order. */
function listsOf(s: Statement): readonly (readonly Statement[])[] {
  if (s.kind === 'if') return [s.taken, s.otherwise];
  if (s.kind === 'loop') return [s.body, s.step];
  if (s.kind === 'wait') return [s.poll];
  return [];
}

/** Where a register is read and written, by positions in source order. */
interface Usage {
  reads: number;
  firstRead: number;
  lastRead: number;
  /** Positions of the statements that write it. */
  readonly writes: number[];
  /** The statement that wrote it last; the only one when `writes` has one entry. */
  definition: Statement | undefined;
}

interface Span {
  readonly start: number;
  /** Position after the last nested statement. */
  end: number;
}

/** A value that waits for its only use. */
interface Pending {
  readonly target: Register;
  readonly tree: Tree;
  readonly place: Place;
  /** Variables that it reads. */
  readonly reads: ReadonlySet<number>;
  readonly memory: MemoryUse;
}

/** Loads in a tree: none, weak ones only, or some with an order. */
type MemoryUse = 0 | 1 | 2;
const NO_LOAD = 0;
const WEAK_LOAD = 1;
const ORDERED_LOAD = 2;

const NO_READS: ReadonlySet<number> = new Set();

class Lowering {
  readonly #usage: Usage[];
  readonly #spans = new Map<Statement, Span>();
  /** Registers that stand for another one, for a constant, or for a parameter. */
  readonly #aliases = new Map<number, Tree>();
  readonly #pending = new Map<number, Pending>();
  readonly #pinned: number;
  #nodes: Node[] = [];

  constructor(program: Program) {
    this.#usage = Array.from({ length: program.registers }, () => ({
      reads: 0,
      firstRead: Number.POSITIVE_INFINITY,
      lastRead: -1,
      writes: [],
      definition: undefined,
    }));
    this.#pinned = program.doorbell?.id ?? -1;
    this.#survey(program.body, 0);
    if (program.doorbell !== undefined) this.#usage[program.doorbell.id]!.reads++;
    this.#bury();
  }

  // ---- analysis ----

  #survey(list: readonly Statement[], from: number): number {
    let position = from;
    for (const s of list) {
      const span: Span = { start: position, end: position };
      this.#spans.set(s, span);
      position++;
      for (const nested of listsOf(s)) position = this.#survey(nested, position);
      // The condition of a wait is read after its poll.
      const readAt = s.kind === 'wait' ? position++ : span.start;
      for (const o of operandsOf(s)) {
        if (o.kind !== 'register') continue;
        const usage = this.#usage[o.id]!;
        usage.reads++;
        usage.firstRead = Math.min(usage.firstRead, readAt);
        usage.lastRead = Math.max(usage.lastRead, readAt);
      }
      const target = targetOfStatement(s);
      if (target !== undefined) {
        const usage = this.#usage[target.id]!;
        usage.writes.push(span.start);
        usage.definition = s;
      }
      span.end = position;
    }
    return position;
  }

  /** Takes away the reads of values that nobody reads, until none is left. */
  #bury(): void {
    const dead = this.#usage.map((_, id) => id).filter((id) => this.#isDead(id));
    for (let id = dead.pop(); id !== undefined; id = dead.pop()) {
      for (const o of operandsOf(this.#usage[id]!.definition!)) {
        if (o.kind !== 'register') continue;
        this.#usage[o.id]!.reads--;
        if (this.#isDead(o.id)) dead.push(o.id);
      }
    }
  }

  #isDead(id: number): boolean {
    const { reads, writes, definition } = this.#usage[id]!;
    if (reads > 0 || writes.length !== 1) return false;
    const kind = definition!.kind;
    return (
      kind === 'let' ||
      kind === 'assign' ||
      kind === 'shuffle' ||
      kind === 'vote' ||
      (kind === 'load' && (definition as Kind<'load'>).order === 'weak')
    );
  }

  #isVariable(id: number): boolean {
    return this.#usage[id]!.writes.length > 1;
  }

  /**
   * Whether the copy `s` (at `index` of `list`) of a register can be replaced by that register: all reads of
   * the copy follow in this list, and the source is not written before the last of them.
   */
  #mayAlias(list: readonly Statement[], index: number, target: Register, source: Register): boolean {
    const { firstRead, lastRead } = this.#usage[target.id]!;
    const { start } = this.#spans.get(list[index]!)!;
    if (firstRead < start) return false;
    const last = list.slice(index + 1).find((s) => lastRead < this.#spans.get(s)!.end);
    if (last === undefined) return false;
    const { end } = this.#spans.get(last)!;
    return this.#usage[source.id]!.writes.every((at) => at < start || at >= end);
  }

  // ---- values in waiting ----

  #reads(tree: Tree, into: Set<number>): Set<number> {
    if (tree.kind === 'register') {
      if (this.#isVariable(tree.id)) into.add(tree.id);
    } else if (tree.kind === 'pure') for (const arg of tree.args) this.#reads(arg, into);
    else if (tree.kind === 'fetch') this.#reads(tree.address, into);
    return into;
  }

  /** The value of an operand; a value in waiting is handed over. */
  #take(o: Operand): Tree {
    if (o.kind === 'constant') return o;
    const pending = this.#pending.get(o.id);
    if (pending !== undefined) {
      this.#pending.delete(o.id);
      return pending.tree;
    }
    return this.#aliases.get(o.id) ?? o;
  }

  #flush(which: (p: Pending) => boolean): void {
    for (const p of this.#pending.values()) {
      if (!which(p)) continue;
      this.#pending.delete(p.target.id);
      this.#nodes.push({ kind: 'set', target: p.target, value: p.tree, place: p.place });
    }
  }

  #flushAll(): void {
    this.#flush(() => true);
  }

  /** Keeps a value back when it has one use, or gives it its register. */
  #define(target: Register, tree: Tree, place: Place): void {
    const { reads, writes } = this.#usage[target.id]!;
    if (reads === 1 && writes.length === 1 && target.id !== this.#pinned) {
      const variables = this.#reads(tree, new Set());
      this.#pending.set(target.id, {
        target,
        tree,
        place,
        reads: variables.size === 0 ? NO_READS : variables,
        memory: memoryUse(tree),
      });
    } else this.#set(target, tree, place);
  }

  #set(target: Register, value: Tree, place: Place): void {
    if (this.#isVariable(target.id)) this.#flush((p) => p.reads.has(target.id));
    this.#nodes.push({ kind: 'set', target, value, place });
  }

  // ---- statements ----

  list(list: readonly Statement[]): Node[] {
    const outer = this.#nodes;
    const nodes: Node[] = [];
    this.#nodes = nodes;
    for (const [index, s] of list.entries()) {
      this.#statement(list, index, s);
      if (s.kind === 'break' || s.kind === 'continue' || s.kind === 'return') break;
    }
    this.#flushAll();
    this.#nodes = outer;
    return nodes;
  }

  #statement(list: readonly Statement[], index: number, s: Statement): void {
    const place = s.place;
    const target = targetOfStatement(s);
    if (target !== undefined && this.#isDead(target.id)) return;
    switch (s.kind) {
      case 'let': {
        const args = s.value.args.map((o) => this.#take(o));
        const tree: Tree = { kind: 'pure', type: s.target.type, value: s.value, args };
        if (args.length === 0 && s.target.id !== this.#pinned) this.#aliases.set(s.target.id, tree);
        else this.#define(s.target, tree, place);
        return;
      }
      case 'assign':
      case 'shuffle':
      case 'vote':
        // A warp of one thread: the value of any lane, and of all lanes together, is the thread's own.
        this.#copy(list, index, s.target, s.value, place);
        return;
      case 'multicastLoad':
      case 'multicastStore':
      case 'multicastAdd':
        throw new TuttiError('internalError', 'the wasm target has no multicast addresses');
      case 'storeLine':
        throw new TuttiError('internalError', 'the wasm target has no warps that store lines of 128 bytes');
      case 'load': {
        const address = this.#take(s.address);
        const tree: Tree = { kind: 'fetch', type: s.target.type, load: s, address };
        const limit = s.order === 'weak' ? ORDERED_LOAD : WEAK_LOAD;
        this.#flush((p) => p.memory >= limit);
        if (this.#usage[s.target.id]!.reads === 0) this.#nodes.push({ kind: 'drop', value: tree, place });
        else this.#define(s.target, tree, place);
        return;
      }
      case 'store':
      case 'loadPart':
      case 'storePart':
      case 'copy':
      case 'atomic':
      case 'compareExchange':
      case 'fence':
      case 'wake': {
        const operands = operandsOf(s).map((o) => this.#take(o));
        this.#flush((p) => p.memory !== NO_LOAD);
        this.#nodes.push({ kind: 'action', action: s, operands, place });
        return;
      }
      case 'barrier':
      case 'warpBarrier':
      case 'launchOrder':
        return;
      case 'if': {
        const condition = this.#take(s.condition);
        this.#flushAll();
        const taken = this.list(s.taken);
        const otherwise = this.list(s.otherwise);
        this.#nodes.push({ kind: 'if', condition, taken, otherwise, place });
        return;
      }
      case 'loop': {
        this.#flushAll();
        const body = this.list(s.body);
        const step = this.list(s.step);
        this.#nodes.push({ kind: 'loop', id: s.id, body, step, place });
        return;
      }
      case 'break':
      case 'continue':
        this.#flushAll();
        this.#nodes.push({ kind: s.kind, loop: s.loop, place });
        return;
      case 'wait':
        this.#flushAll();
        this.#nodes.push(this.#wait(s));
        return;
      case 'return': {
        const status = this.#take(s.status);
        this.#flushAll();
        this.#nodes.push({ kind: 'return', status, place });
        return;
      }
    }
  }

  #copy(list: readonly Statement[], index: number, target: Register, source: Operand, place: Place): void {
    const single = this.#usage[target.id]!.writes.length === 1 && target.id !== this.#pinned;
    const tree = this.#take(source);
    const still =
      tree.kind === 'constant' || (tree.kind === 'register' && this.#mayAlias(list, index, target, tree));
    if (single && still) {
      this.#aliases.set(target.id, tree);
    } else if (single) this.#define(target, tree, place);
    else this.#set(target, tree, place);
  }

  /** The poll of a wait is a list of its own whose last value is the condition. */
  #wait(s: Kind<'wait'>): Node {
    const outer = this.#nodes;
    const poll: Node[] = [];
    this.#nodes = poll;
    s.poll.forEach((statement, index) => {
      this.#statement(s.poll, index, statement);
    });
    const condition = this.#take(s.condition);
    this.#flushAll();
    this.#nodes = outer;
    return { kind: 'wait', id: s.id, poll, condition, place: s.place };
  }
}

function memoryUse(tree: Tree): MemoryUse {
  if (tree.kind === 'pure') {
    return tree.args.reduce<MemoryUse>((most, arg) => Math.max(most, memoryUse(arg)) as MemoryUse, NO_LOAD);
  }
  if (tree.kind !== 'fetch') return NO_LOAD;
  return tree.load.order === 'weak'
    ? (Math.max(WEAK_LOAD, memoryUse(tree.address)) as MemoryUse)
    : ORDERED_LOAD;
}

/** The body of a program as statements over expression trees. */
export function toTrees(program: Program): Node[] {
  return new Lowering(program).list(program.body);
}
