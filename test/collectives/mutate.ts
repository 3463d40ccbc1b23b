/**
 * Faults put into finished programs: each kind says which statements it changes and how. A program has as many
 * mutants of a kind as it has such statements.
 */

import { RingChannel } from '#src/collectives/ring-connection.js';
import type { MemoryType, Order, Program, Register, Statement, ValueType } from '#src/kernel/ir.js';

/** What an edit may ask about the program. */
export interface Surroundings {
  readonly program: Program;
  /** A register that nobody uses yet. */
  fresh(type: ValueType): Register;
  /** Registers that hold this field of the channel's descriptor. */
  channelField(field: keyof typeof RingChannel.fields): ReadonlySet<number>;
}

/** What to put in place of a statement; undefined leaves it and is no mutant. */
export type Edit = (statement: Statement, around: Surroundings) => readonly Statement[] | undefined;

function* everyStatement(list: readonly Statement[]): Generator<Statement> {
  for (const statement of list) {
    yield statement;
    if (statement.kind === 'if') {
      yield* everyStatement(statement.taken);
      yield* everyStatement(statement.otherwise);
    } else if (statement.kind === 'loop') {
      yield* everyStatement(statement.body);
      yield* everyStatement(statement.step);
    } else if (statement.kind === 'wait') yield* everyStatement(statement.poll);
  }
}

/** The program with an edit applied at one place of those it fits (counted from 0), or at all of them. */
export function mutated(program: Program, edit: Edit, which: number | 'all'): Program {
  let registers = program.registers;
  let seen = 0;
  const around: Surroundings = {
    program,
    fresh: (type) => ({ kind: 'register', id: registers++, type }),
    channelField: (field) => {
      const { offset, type } = RingChannel.fields[field];
      const found = new Set<number>();
      for (const s of everyStatement(program.body)) {
        if (s.kind === 'load' && s.memory === type && s.offset === offset) found.add(s.target.id);
      }
      return found;
    },
  };
  const list = (statements: readonly Statement[]): Statement[] =>
    statements.flatMap((statement) => {
      const changed = edit(statement, around);
      if (changed !== undefined) {
        const index = seen++;
        if (which === 'all' || which === index) return changed;
      }
      switch (statement.kind) {
        case 'if':
          return [{ ...statement, taken: list(statement.taken), otherwise: list(statement.otherwise) }];
        case 'loop':
          return [{ ...statement, body: list(statement.body), step: list(statement.step) }];
        case 'wait':
          return [{ ...statement, poll: list(statement.poll) }];
        default:
          return [statement];
      }
    });
  const body = list(program.body);
  return { ...program, body, registers };
}

/** How many places of a program an edit fits. */
export function placesOf(program: Program, edit: Edit): number {
  let places = 0;
  mutated(
    program,
    (statement, around) => {
      if (edit(statement, around) !== undefined) places++;
      return undefined;
    },
    'all',
  );
  return places;
}

/** Flags that are published with a weaker order. */
export const weakerStore =
  (order: Order): Edit =>
  (s) =>
    s.kind === 'store' && s.order === 'release' ? [{ ...s, order }] : undefined;

/** Flags that are read with a weaker order. */
export const weakerLoad =
  (order: Order): Edit =>
  (s) =>
    s.kind === 'load' && s.order === 'acquire' ? [{ ...s, order }] : undefined;

/** A wait that nobody makes. */
export const withoutWait: Edit = (s) => (s.kind === 'wait' ? [] : undefined);

/** A wait for lines of data, or for counters and flags, that nobody makes. */
export const withoutWaitFor =
  (memory: MemoryType): Edit =>
  (s) =>
    s.kind === 'wait' && s.poll.some((load) => load.kind === 'load' && load.memory === memory)
      ? []
      : undefined;

export const withoutBarrier: Edit = (s) => (s.kind === 'barrier' ? [] : undefined);

export const withoutWarpBarrier: Edit = (s) => (s.kind === 'warpBarrier' ? [] : undefined);

/** A flag or counter that is never stored. */
export const withoutStore: Edit = (s) => (s.kind === 'store' && s.order === 'release' ? [] : undefined);

/** A receiver that keeps the slots it has emptied. */
export const withoutCredit: Edit = (s, around) =>
  s.kind === 'store' &&
  s.order === 'release' &&
  s.address.kind === 'register' &&
  around.channelField('prevSender').has(s.address.id)
    ? []
    : undefined;

/** An LL line that is taken when its first flag is right. */
export const oneFlag: Edit = (s) => {
  if (s.kind !== 'wait') return undefined;
  const last = s.poll.at(-1);
  if (last?.kind !== 'let' || last.value.op !== 'and' || last.target.type !== 'pred') return undefined;
  return [{ ...s, condition: last.value.args[0]! }];
};

/** Lines that may come in any pieces, at any time. */
export const plainLines: Edit = (s) =>
  (s.kind === 'store' || s.kind === 'load') && s.order === 'volatile' ? [{ ...s, order: 'weak' }] : undefined;

/** A value loaded from a field that is one too large: a count, a limit. */
export const oneMore =
  ({ offset, type }: { offset: number; type: MemoryType }): Edit =>
  (s, around) => {
    if (s.kind !== 'load' || s.memory !== type || s.offset !== offset || type !== 'u64') return undefined;
    const loaded = around.fresh('u64');
    const one = { kind: 'constant', type: 'u64', value: 1n } as const;
    return [
      { ...s, target: loaded },
      { kind: 'let', target: s.target, value: { op: 'add', args: [loaded, one] }, place: s.place },
    ];
  };

/** A constant factor that is another: the grain of shares, the stride of blocks. */
export const factor =
  (from: bigint, to: bigint): Edit =>
  (s) => {
    if (s.kind !== 'let' || s.value.op !== 'mul') return undefined;
    const [a, b] = s.value.args;
    if (b?.kind !== 'constant' || b.value !== from) return undefined;
    return [{ ...s, value: { op: 'mul', args: [a!, { ...b, value: to }] } }];
  };

/** The closing division of an integer average that is not done. */
export const withoutDivision: Edit = (s) =>
  s.kind === 'let' && s.value.op === 'pk.divide'
    ? [{ kind: 'assign', target: s.target, value: s.value.args[0]!, place: s.place }]
    : undefined;
