/**
 * Remembers decisions: programs repeat the same calls, and a decision depends on nothing that changes in between.
 *
 * A lookup makes no garbage. Decisions of a tuner that may change its mind are not kept.
 */
import type { TuningCall } from './call.js';
import { type Decision, decide } from './decide.js';
import type { TuningTables } from './model.js';

/** Sizes remembered of one kind of call; a program with more distinct sizes loses the oldest half. */
const MAX_SIZES = 4096;

/** Kinds remembered: function, type, operator and so on. Programs use a handful, so they are looked through in turn. */
const MAX_KINDS = 32;

/** Decisions of one kind of call by number of bytes. */
type BySize = Map<number, Decision>;

interface Kind {
  readonly like: TuningCall;
  readonly sizes: BySize;
}

export class DecisionCache {
  readonly #tables: TuningTables;
  readonly #keep: boolean;
  /** The oldest first. */
  readonly #kinds: Kind[] = [];

  constructor(tables: TuningTables) {
    this.#tables = tables;
    this.#keep = tables.tuner === undefined || tables.tuner.tuner.repeatable === true;
  }

  /**
   * As `decide`. The decision is shared: do not write to its tables.
   *
   * @throws as `decide`; errors are not remembered
   */
  decide(call: TuningCall): Decision {
    if (!this.#keep) return decide(this.#tables, call);
    const sizes = this.#sizesOf(call);
    const known = sizes.get(call.bytes);
    if (known !== undefined) return known;
    const decision = decide(this.#tables, call);
    if (sizes.size >= MAX_SIZES) forgetOldest(sizes, MAX_SIZES / 2);
    sizes.set(call.bytes, decision);
    return decision;
  }

  #sizesOf(call: TuningCall): BySize {
    for (const { like, sizes } of this.#kinds) {
      if (sameKind(like, call)) return sizes;
    }
    if (this.#kinds.length >= MAX_KINDS) this.#kinds.shift();
    const kind = { like: { ...call }, sizes: new Map() };
    this.#kinds.push(kind);
    return kind.sizes;
  }
}

const sameKind = (a: TuningCall, b: TuningCall): boolean =>
  a.function === b.function &&
  a.type === b.type &&
  a.reduction === b.reduction &&
  a.operator === b.operator &&
  a.pipelined === b.pipelined &&
  a.registered === b.registered;

function forgetOldest(sizes: BySize, count: number): void {
  let left = count;
  for (const bytes of sizes.keys()) {
    if (left-- <= 0) break;
    sizes.delete(bytes);
  }
}
