/**
 * The code of one PTX function while it is being written: instructions, registers by class, labels, and the
 * language version that the instructions so far ask for.
 *
 * Registers are declared by count and class, `%r7` is the eighth of `.reg .b32 %r<8>`. Integers and packets live
 * in untyped bits (PTX lets every instruction take untyped registers of its width); an instruction names the type.
 */

import type { Place } from '../ir.js';
import { capability, type PtxArchitecture, type PtxVersion } from './architecture.js';

export type RegisterClass = 'pred' | 'b16' | 'b32' | 'b64' | 'f32' | 'f64';

/** Name of the registers of a class, without number. */
export const REGISTER_PREFIX: Readonly<Record<RegisterClass, string>> = {
  pred: '%p',
  b16: '%h',
  b32: '%r',
  b64: '%rd',
  f32: '%f',
  f64: '%fd',
};

export interface CodeLine {
  readonly kind: 'instruction' | 'label';
  readonly text: string;
  readonly place: Place;
}

export class Code {
  readonly lines: CodeLine[] = [];
  /** Compute capability that the code is for: 90 for sm_90. */
  readonly capability: number;
  #version: PtxVersion;
  #labels = 0;
  #place: Place = '';
  readonly #counts = new Map<RegisterClass, number>();

  constructor(arch: PtxArchitecture, version: PtxVersion) {
    this.capability = capability(arch);
    this.#version = version;
  }

  /** The lowest language version that carries everything written so far. */
  get version(): PtxVersion {
    return this.#version;
  }

  /** Declared registers of each class. */
  get registers(): ReadonlyMap<RegisterClass, number> {
    return this.#counts;
  }

  /** Says that an instruction needs a language version. */
  need(version: PtxVersion): void {
    this.#version = Math.max(this.#version, version);
  }

  /** Source place of the instructions that follow. */
  at(place: Place): void {
    this.#place = place;
  }

  /** A fresh register. */
  register(kind: RegisterClass): string {
    const number = this.#counts.get(kind) ?? 0;
    this.#counts.set(kind, number + 1);
    return `${REGISTER_PREFIX[kind]}${number}`;
  }

  /** A fresh label, not placed yet. */
  label(): string {
    return `$L${this.#labels++}`;
  }

  place(label: string): void {
    this.lines.push({ kind: 'label', text: `${label}:`, place: this.#place });
  }

  /** One instruction: operation and operands. */
  op(operation: string, ...operands: readonly string[]): void {
    const text = operands.length === 0 ? `${operation};` : `${operation} ${operands.join(', ')};`;
    this.lines.push({ kind: 'instruction', text, place: this.#place });
  }

  /** One instruction that runs where the predicate is true (or, with `!` before it, false). */
  when(predicate: string, operation: string, ...operands: readonly string[]): void {
    this.op(`@${predicate} ${operation}`, ...operands);
  }

  /** The result, in a fresh register, of an instruction whose first operand is its result. */
  result(kind: RegisterClass, operation: string, ...operands: readonly string[]): string {
    const target = this.register(kind);
    this.op(operation, target, ...operands);
    return target;
  }
}
