/**
 * Assigns the registers of a program to few JavaScript locals.
 *
 * A fibre saves all its locals whenever it gives way, so their number is the cost of a step. A register lives
 * from its first to its last mention, seen from the innermost statement list that holds all of them; two
 * registers of one kind whose lives do not meet share a local. Lists inside loops are safe because a value
 * that a loop carries from round to round is mentioned before the loop, too.
 */

import type { Operand, Program, Register, Statement, ValueType } from '../ir.js';

/** JavaScript representations: number, bigint, Packet. */
export type SlotKind = 'n' | 'b' | 'p';

export function slotKind(type: ValueType): SlotKind {
  return type === 'u64' || type === 'i64' ? 'b' : type === 'packet' ? 'p' : 'n';
}

export interface Slots {
  /** Name of the local of each register, by register id. */
  readonly names: readonly string[];
  /** All locals. */
  readonly locals: readonly string[];
}

interface List {
  readonly parent: List | undefined;
  readonly depth: number;
  /** Index of the statement of the parent that holds this list. */
  readonly at: number;
}

interface Life {
  list: List;
  first: number;
  last: number;
  readonly kind: SlotKind;
}

/** The statement lists nested in a statement. */
function nested(s: Statement): readonly (readonly Statement[])[] {
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

/** Registers that a statement itself mentions, not those of nested lists. */
function mentioned(s: Statement): Register[] {
  const operands: (Operand | undefined)[] = [];
  for (const [key, value] of Object.entries(s)) {
    if (key === 'value' && s.kind === 'let') operands.push(...s.value.args);
    else if (typeof value === 'object' && value !== null && 'kind' in value) operands.push(value as Operand);
  }
  return operands.filter((o): o is Register => o?.kind === 'register');
}

export function assignSlots(program: Program): Slots {
  const lives: (Life | undefined)[] = new Array(program.registers).fill(undefined);
  const lists = new Map<readonly Statement[], List>();

  const mention = (register: Register, list: List, at: number) => {
    const life = lives[register.id];
    if (life === undefined) {
      lives[register.id] = { list, first: at, last: at, kind: slotKind(register.type) };
      return;
    }
    // Mentions come in the order of the text, so the last one is last in the common list, too.
    let [a, first] = [life.list, life.first];
    let [b, bAt] = [list, at];
    while (a !== b) {
      if (a.depth >= b.depth) {
        first = a.at;
        a = a.parent!;
      } else {
        bAt = b.at;
        b = b.parent!;
      }
    }
    life.list = a;
    life.first = first;
    life.last = bAt;
  };

  const scan = (statements: readonly Statement[], parent: List | undefined, at: number) => {
    const list: List = { parent, depth: parent === undefined ? 0 : parent.depth + 1, at };
    lists.set(statements, list);
    if (parent === undefined) mention(program.descriptor, list, -1);
    statements.forEach((s, i) => {
      for (const register of mentioned(s)) mention(register, list, i);
      for (const inner of nested(s)) scan(inner, list, i);
    });
  };
  scan(program.body, undefined, 0);

  const starts = new Map<List, Map<number, number[]>>();
  const ends = new Map<List, Map<number, number[]>>();
  const note = (where: Map<List, Map<number, number[]>>, list: List, at: number, id: number) => {
    let byIndex = where.get(list);
    if (byIndex === undefined) where.set(list, (byIndex = new Map()));
    const ids = byIndex.get(at);
    if (ids === undefined) byIndex.set(at, [id]);
    else ids.push(id);
  };
  lives.forEach((life, id) => {
    if (life === undefined) return;
    note(starts, life.list, life.first, id);
    note(ends, life.list, life.last, id);
  });

  const names: string[] = new Array(program.registers).fill('');
  const counts: Record<SlotKind, number> = { n: 0, b: 0, p: 0 };
  const free: Record<SlotKind, string[]> = { n: [], b: [], p: [] };
  const begin = (list: List, at: number) => {
    for (const id of starts.get(list)?.get(at) ?? []) {
      const { kind } = lives[id]!;
      names[id] = free[kind].pop() ?? `${kind}${counts[kind]++}`;
    }
  };
  const finish = (list: List, at: number) => {
    for (const id of ends.get(list)?.get(at) ?? []) free[lives[id]!.kind].push(names[id]!);
  };
  const allot = (statements: readonly Statement[]) => {
    const list = lists.get(statements)!;
    begin(list, -1);
    finish(list, -1);
    statements.forEach((s, i) => {
      begin(list, i);
      for (const inner of nested(s)) allot(inner);
      finish(list, i);
    });
  };
  allot(program.body);

  const locals = (['n', 'b', 'p'] as const).flatMap((k) =>
    Array.from({ length: counts[k] }, (_, i) => `${k}${i}`),
  );
  return { names, locals };
}
