/**
 * Finds out who keeps a rank waiting, so that a time-out can name it.
 *
 * While programs make progress nothing is sent. A rank whose program sleeps, and to which nothing has come for a
 * while, asks both neighbours how they are. One that does not answer is silent: stopped, or cut off. One that
 * answers that it has begun fewer ring operations and waits for nobody is absent. Either suspicion goes around
 * the ring, since most ranks only see neighbours that wait as they do. Progress ends it.
 */

import type { Side } from './link-frame.js';

/** Milliseconds without progress before questions, between questions, and that an answer may take. */
export const PATIENCE_MS = 400;

/** Answers in a row that a neighbour is absent before it is suspected: it may be about to begin. */
const ABSENT_ANSWERS = 2;

export interface Suspicion {
  readonly rank: number;
  readonly kind: 'silent' | 'absent';
}

export type RollCallNote =
  | { readonly kind: 'probe' }
  | { readonly kind: 'state'; readonly calls: number; readonly waiting: boolean }
  | { readonly kind: 'suspect'; readonly suspicion: Suspicion };

export interface RollCallOptions {
  readonly ranks: Readonly<Record<Side, number>>;
  /** A program of this rank sleeps. */
  readonly isWaiting: () => boolean;
  /** Ring operations that this rank has begun, as a 32-bit counter. */
  readonly calls: () => number;
  readonly send: (side: Side, note: RollCallNote) => void;
  /** The suspicion has changed. */
  readonly report: (suspicion: Suspicion | undefined) => void;
  readonly patienceMs?: number;
}

interface Questioned {
  askedAt: number | undefined;
  answered: boolean;
  absences: number;
}

const SIDES = ['next', 'prev'] as const;

export class RollCall {
  readonly #options: RollCallOptions;
  readonly #patienceMs: number;
  readonly #asked: Record<Side, Questioned> = {
    next: { askedAt: undefined, answered: false, absences: 0 },
    prev: { askedAt: undefined, answered: false, absences: 0 },
  };
  #progressAt = performance.now();
  #suspicion: Suspicion | undefined;

  constructor(options: RollCallOptions) {
    this.#options = options;
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS;
  }

  /** Data or credits have come. */
  progressed(): void {
    this.#progressAt = performance.now();
    for (const side of SIDES) this.#asked[side].askedAt = undefined;
    if (this.#suspicion !== undefined) this.#set(undefined);
  }

  /** To be called every now and then. */
  tick(): void {
    if (!this.#options.isWaiting()) {
      this.#progressAt = performance.now();
      return;
    }
    const now = performance.now();
    if (now - this.#progressAt < this.#patienceMs) return;
    for (const side of SIDES) {
      const asked = this.#asked[side];
      if (asked.askedAt === undefined) asked.absences = 0;
      else {
        if (now - asked.askedAt < this.#patienceMs) continue;
        if (!asked.answered) {
          this.#suspect({ rank: this.#options.ranks[side], kind: 'silent' });
          continue;
        }
      }
      asked.askedAt = now;
      asked.answered = false;
      this.#options.send(side, { kind: 'probe' });
    }
  }

  hear(side: Side, note: RollCallNote): void {
    switch (note.kind) {
      case 'probe': {
        const { calls, isWaiting } = this.#options;
        this.#options.send(side, { kind: 'state', calls: calls(), waiting: isWaiting() });
        return;
      }
      case 'state': {
        const asked = this.#asked[side];
        asked.answered = true;
        const rank = this.#options.ranks[side];
        if (this.#suspicion?.rank === rank && this.#suspicion.kind === 'silent') this.#set(undefined);
        const lags = ((note.calls - this.#options.calls()) | 0) < 0;
        asked.absences = lags && !note.waiting ? asked.absences + 1 : 0;
        if (asked.absences >= ABSENT_ANSWERS) this.#suspect({ rank, kind: 'absent' });
        return;
      }
      case 'suspect':
        this.#suspect(note.suspicion, side);
        return;
    }
  }

  /** Takes a suspicion over and passes it on, unless there is one as good: so it goes around once. */
  #suspect(suspicion: Suspicion, from?: Side): void {
    const known = this.#suspicion;
    if (known !== undefined && (known.kind === 'silent' || suspicion.kind === 'absent')) return;
    this.#set(suspicion);
    for (const side of SIDES) if (side !== from) this.#options.send(side, { kind: 'suspect', suspicion });
  }

  #set(suspicion: Suspicion | undefined): void {
    this.#suspicion = suspicion;
    this.#options.report(suspicion);
  }
}
