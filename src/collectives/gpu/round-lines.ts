/** What a thread moves in a round of lines, whatever the lines: a fixed number of values, all of them under way together. */

import type { Value, Variable } from '../../kernel/builder.js';
import type { DirectArithmetic } from '../arithmetic.js';

/** `T`: what a value is, the 8 bytes of an LL line, or a packet of LL128 or Lamport lines. */
export interface RoundLines<T extends 'u64' | 'packet'> {
  /** Variables for the data, to be filled by loads on one path or another. */
  data(): Variable<T>[];
  load(from: Value<'ptr'>, to: readonly Variable<T>[]): void;
  /** The data as they are sent, and as this rank computes with them, where the lines cannot carry everything. */
  sendable?(values: readonly Value<T>[]): Value<T>[];
  store(to: Value<'ptr'>, values: readonly Value<T>[]): void;
  /** Writes lines of this round into a peer's slot. */
  push(outbox: Value<'ptr'>, values: readonly Value<T>[], round: Value<'u32'>): void;
  /** Waits for the lines of all the inboxes together; gives their data by inbox. */
  receive(inboxes: readonly Value<'ptr'>[], round: Value<'u32'>): Value<T>[][];
  /** The results, from one row of values of each rank. */
  combine(rows: readonly (readonly Value<T>[])[], combine: DirectArithmetic): Value<T>[];
}
