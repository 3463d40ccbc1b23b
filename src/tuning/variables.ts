/**
 * Reads NCCL_* variables as NCCL does: integers as C reads them (text without a number is 0), empty text counts as
 * unset, and each value that is used is logged.
 */
import { cInteger } from '../topology/c-integer.js';
import type { LogSink } from '../topology/log.js';
import type { Environment } from '../topology/settings.js';

/** NCCL's mark of an integer that nobody set. */
const UNSET = -2n;

export class VariableReader {
  readonly #env: Environment;
  readonly #log: LogSink;

  constructor(env: Environment, log: LogSink) {
    this.#env = env;
    this.#log = log;
  }

  /** An integer; beyond 64 bits it counts as unset. */
  integer(name: string, fallback: number): number {
    return Number(this.#wide(name, BigInt(fallback)));
  }

  /** An integer that may be absent; -2 says so too. */
  optional(name: string): number | undefined {
    const value = this.#wide(name, UNSET);
    return value === UNSET ? undefined : Number(value);
  }

  flag(name: string, fallback: boolean): boolean {
    return this.integer(name, fallback ? 1 : 0) !== 0;
  }

  /** A text as it is, also an empty one. */
  text(name: string): string | undefined {
    const text = this.#env[name];
    if (text !== undefined) this.#log('INFO', 'ENV', `${name} set by environment to ${text}`);
    return text;
  }

  #wide(name: string, fallback: bigint): bigint {
    const text = this.#env[name];
    if (text === undefined || text === '') return fallback;
    const value = cInteger(text);
    if (value !== BigInt.asIntN(64, value)) {
      this.#log('INFO', 'ENV', `Invalid value ${text} for ${name}, using default ${fallback}.`);
      return fallback;
    }
    this.#log('INFO', 'ENV', `${name} set by environment to ${value}.`);
    return value;
  }
}
