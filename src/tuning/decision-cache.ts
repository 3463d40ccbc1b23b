/**
 * Remembers decisions: programs repeat the same calls, and a decision depends on nothing that changes in between.
 *
 * A lookup walks two small tables and makes no garbage. Decisions of a tuner that may change its mind are not kept.
 */
import type { TuningCall } from './call.js';
import { type Decision, decide } from './decide.js';
import type { TuningTables } from './model.js';

/** Sizes remembered of one kind of call; a program with more distinct sizes loses the oldest half. */
const MAX_SIZES = 4096;

/** Decisions of one kind of call by number of bytes. */
type BySize = Map<number, Decision>;

export class DecisionCache {
  readonly #tables: TuningTables;
  readonly #keep: boolean;
  readonly #kinds = new Map<string, BySize>();
  /** The kind that was asked for last, without making its key. */
  #last: { readonly call: TuningCall; readonly sizes: BySize } | undefined;

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
    if (this.#last !== undefined && sameKind(this.#last.call, call)) return this.#last.sizes;
    const { function: fn, type, reduction, operator, pipelined, registered } = call;
    const key = `${fn} ${type} ${reduction} ${operator} ${pipelined} ${registered}`;
    let sizes = this.#kinds.get(key);
    if (sizes === undefined) {
      sizes = new Map();
      this.#kinds.set(key, sizes);
    }
    this.#last = { call: { ...call }, sizes };
    return sizes;
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
