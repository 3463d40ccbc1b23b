/**
 * A small seeded random generator, so that a run of the interpreter is a function of its seed alone.
 *
 * Mulberry32 (Tommy Ettinger, public domain): 32 bits of state, good enough to mix schedules and fast.
 */
export class Random {
  #state: number;

  constructor(seed: number) {
    // Neighbouring seeds must give unrelated runs: scramble before use.
    this.#state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ (seed / 4294967296);
    this.bits();
    this.bits();
  }

  /** 32 random bits as an unsigned number. */
  bits(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let x = this.#state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return (x ^ (x >>> 14)) >>> 0;
  }

  /** A whole number from 0 to n - 1. */
  below(n: number): number {
    return Math.floor((this.bits() / 4294967296) * n);
  }

  /** True with the given probability. */
  chance(probability: number): boolean {
    return this.bits() < probability * 4294967296;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }
}
