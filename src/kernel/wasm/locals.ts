/**
 * Locals for the registers that are left after trees are built.
 *
 * Positions number the nodes of a program in source order. A register lives from its first to its last
 * occurrence, stretched over every loop that might carry it around; registers whose lives do not meet share
 * a local (linear scan). Few locals keep V8's baseline compiler fast and the frames of resumable programs
 * small. The lives also say what a wait must save.
 */

import type { Program, Register, ValueType } from '../ir.js';
import type { WasmType } from './instructions.js';
import { type Node, type Tree, targetOf } from './trees.js';

/** The WebAssembly type that holds an IR value: addresses are 32 bits, truth values are integers. */
export function wasmType(type: ValueType): WasmType {
  switch (type) {
    case 'pred':
    case 'i32':
    case 'u32':
    case 'ptr':
      return 'i32';
    case 'i64':
    case 'u64':
      return 'i64';
    case 'packet':
      return 'v128';
    default:
      return type;
  }
}

/** A list of nodes, with the loop that repeats it, if one does. */
interface Scope {
  readonly parent: Scope | undefined;
  readonly depth: number;
  /** Positions of the loop (or of the wait) whose list this is. */
  readonly repeats: { readonly start: number; end: number } | undefined;
  /** A poll runs at least once, so what it defines is defined in the list around it. */
  readonly surelyRuns: boolean;
}

interface Life {
  readonly register: Register;
  start: number;
  end: number;
  /** The first occurrence is a write, in this scope; undefined when it is a read. */
  readonly defined: Scope | undefined;
  /** The innermost scope around all occurrences. */
  common: Scope;
  /** Scopes of all occurrences. */
  readonly scopes: Set<Scope>;
}

/** What every node needs to know about locals. */
export interface LocalPlan {
  /** Types of the planned locals. */
  readonly types: readonly WasmType[];
  /** Index into `types` per register id; undefined for registers without a local. */
  readonly local: readonly (number | undefined)[];
  /** Planned locals that must survive each wait, by wait id. */
  readonly liveAtWait: readonly (readonly number[])[];
}

function outermost(scope: Scope): Scope {
  let s = scope;
  while (s.surelyRuns && s.parent !== undefined) s = s.parent;
  return s;
}

function meet(a: Scope, b: Scope): Scope {
  let x = a;
  let y = b;
  while (x !== y) {
    if (x.depth >= y.depth) x = x.parent!;
    else y = y.parent!;
  }
  return x;
}

class Survey {
  readonly lives: (Life | undefined)[];
  readonly waits: number[];
  position = 0;

  constructor(program: Program) {
    this.lives = new Array(program.registers);
    this.waits = new Array(program.waits).fill(0);
  }

  #occurs(register: Register, scope: Scope, write: boolean): void {
    const life = this.lives[register.id];
    if (life === undefined) {
      this.lives[register.id] = {
        register,
        start: this.position,
        end: this.position,
        defined: write ? outermost(scope) : undefined,
        common: outermost(scope),
        scopes: new Set([scope]),
      };
    } else {
      life.end = this.position;
      life.common = meet(life.common, outermost(scope));
      life.scopes.add(scope);
    }
  }

  #tree(tree: Tree, scope: Scope): void {
    if (tree.kind === 'register') this.#occurs(tree, scope, false);
    else if (tree.kind === 'pure') for (const arg of tree.args) this.#tree(arg, scope);
    else if (tree.kind === 'fetch') this.#tree(tree.address, scope);
  }

  #inside(parent: Scope, surelyRuns: boolean, repeats?: Scope['repeats']): Scope {
    return { parent, depth: parent.depth + 1, repeats, surelyRuns };
  }

  list(nodes: readonly Node[], scope: Scope): void {
    for (const node of nodes) {
      this.position++;
      switch (node.kind) {
        case 'set':
          this.#tree(node.value, scope);
          this.#occurs(node.target, scope, true);
          break;
        case 'drop':
          this.#tree(node.value, scope);
          break;
        case 'action': {
          for (const tree of node.operands) this.#tree(tree, scope);
          const target = targetOf(node.action);
          if (target !== undefined) this.#occurs(target, scope, true);
          break;
        }
        case 'if':
          this.#tree(node.condition, scope);
          this.list(node.taken, this.#inside(scope, false));
          this.list(node.otherwise, this.#inside(scope, false));
          break;
        case 'loop': {
          const repeats = { start: this.position, end: 0 };
          this.list(node.body, this.#inside(scope, false, repeats));
          this.list(node.step, this.#inside(scope, false, repeats));
          repeats.end = ++this.position;
          break;
        }
        case 'wait': {
          this.waits[node.id] = this.position;
          const repeats = { start: this.position, end: 0 };
          const poll = this.#inside(scope, true, repeats);
          this.list(node.poll, poll);
          this.position++;
          this.#tree(node.condition, poll);
          repeats.end = ++this.position;
          break;
        }
        case 'return':
          this.#tree(node.status, scope);
          break;
        case 'break':
        case 'continue':
          break;
      }
    }
  }

  /** Stretches a life over the loops that may carry the value from one round to another. */
  stretch(life: Life): void {
    // Defined first, right in the scope around all occurrences: nothing is carried by the loops around it.
    const limit = life.defined === life.common ? life.common : undefined;
    for (const scope of life.scopes) {
      for (let s: Scope | undefined = scope; s !== undefined && s !== limit; s = s.parent) {
        if (s.repeats === undefined) continue;
        life.start = Math.min(life.start, s.repeats.start);
        life.end = Math.max(life.end, s.repeats.end);
      }
    }
  }
}

/** Decides which registers share a local, and what each wait has to keep. */
export function planLocals(program: Program, nodes: readonly Node[]): LocalPlan {
  const survey = new Survey(program);
  survey.list(nodes, { parent: undefined, depth: 0, repeats: undefined, surelyRuns: false });

  const lives: Life[] = [];
  for (const life of survey.lives) {
    if (life === undefined || life.register.id === program.descriptor.id) continue;
    survey.stretch(life);
    if (life.register.id === program.doorbell?.id) {
      // Read by every wait, also before it is set: it keeps a local of its own, zero at first.
      life.start = -1;
      life.end = survey.position + 1;
    }
    lives.push(life);
  }
  lives.sort((a, b) => a.start - b.start);

  const types: WasmType[] = [];
  const local: (number | undefined)[] = new Array(program.registers);
  const live: number[][] = survey.waits.map(() => []);
  const busy: Life[] = [];
  const free = new Map<WasmType, number[]>();
  for (const life of lives) {
    for (let i = busy.length - 1; i >= 0; i--) {
      const other = busy[i]!;
      if (other.end > life.start) continue;
      busy.splice(i, 1);
      const type = wasmType(other.register.type);
      const list = free.get(type);
      if (list === undefined) free.set(type, [local[other.register.id]!]);
      else list.push(local[other.register.id]!);
    }
    const type = wasmType(life.register.type);
    local[life.register.id] = free.get(type)?.pop() ?? types.push(type) - 1;
    busy.push(life);
  }
  survey.waits.forEach((at, id) => {
    const kept = lives.filter((life) => life.start < at && life.end > at);
    live[id] = kept.map((life) => local[life.register.id]!).sort((a, b) => a - b);
  });
  return { types, local, liveAtWait: live };
}
