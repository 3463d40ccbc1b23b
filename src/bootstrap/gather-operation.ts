/**
 * One control operation at the root: every participant brings bytes, all get everybody's bytes.
 *
 * It ends once: with the parts of all, or with a failure that every participant learns, those who come late
 * too. So a rank that was stopped and goes on does not wait for an operation that the others gave up.
 */

import {
  type Contribution,
  encodeFromRoot,
  encodeGatheredBody,
  encodeGatheredHead,
  type WireError,
} from './control-message.js';
import { formatDuration, startTimer } from './deadline.js';
import { formatRanks } from './rank-list.js';

export interface GatherEnvironment {
  /** Sends one message, given in parts. */
  send(rank: number, head: Uint8Array, ...body: Uint8Array[]): void;
  /** Names a rank with its host and process, for messages. */
  describe(rank: number): string;
  /** No participant needs the operation any more. */
  onDone(): void;
}

export class GatherOperation {
  readonly #participants: readonly number[];
  readonly #environment: GatherEnvironment;
  readonly #parts = new Map<number, Uint8Array>();
  readonly #tickets = new Map<number, number>();
  /** Participants that still have to be told the outcome. */
  readonly #untold: Set<number>;
  #first: { rank: number; label: string } | undefined;
  #failure: WireError | undefined;
  #endsAt = Number.POSITIVE_INFINITY;
  #cancelTimer: () => void = () => {};

  constructor(participants: readonly number[], environment: GatherEnvironment) {
    this.#participants = participants;
    this.#environment = environment;
    this.#untold = new Set(participants);
  }

  includes(rank: number): boolean {
    return this.#untold.has(rank);
  }

  join(rank: number, { ticket, label, bytes, timeoutMs }: Contribution): void {
    this.#tickets.set(rank, ticket);
    if (this.#failure !== undefined) {
      this.#tell(rank, encodeFromRoot({ type: 'failed', ticket, error: this.#failure }));
      return;
    }
    this.#first ??= { rank, label };
    if (label !== this.#first.label) {
      const other = this.#first;
      this.fail({
        code: 'invalidUsage',
        rank: -1,
        message:
          `The ranks disagree about their next control operation: rank ${other.rank} calls '${other.label}', ` +
          `rank ${rank} calls '${label}'. All ranks must make the same calls in the same order.`,
      });
      return;
    }
    this.#parts.set(rank, bytes);
    if (this.#parts.size === this.#participants.length) this.#complete();
    else this.#limit(rank, timeoutMs);
  }

  #limit(rank: number, timeoutMs: number): void {
    const endsAt = performance.now() + timeoutMs;
    if (endsAt >= this.#endsAt) return;
    this.#endsAt = endsAt;
    this.#cancelTimer();
    const strike = (): void => {
      const missing = this.#participants.filter((participant) => !this.#parts.has(participant));
      const who = missing.length === 1 ? this.#environment.describe(missing[0]!) : formatRanks(missing);
      this.fail({
        code: 'timeout',
        rank: missing[0] ?? -1,
        message: `Control operation '${this.#first?.label}': ${who} did not join within ${formatDuration(timeoutMs)} (the time-out of rank ${rank}).`,
      });
    };
    this.#cancelTimer = startTimer(timeoutMs, strike, { keepAlive: false });
  }

  #complete(): void {
    this.#cancelTimer();
    const parts = this.#participants.map((participant) => this.#parts.get(participant)!);
    const body = encodeGatheredBody(parts);
    for (const participant of this.#participants) {
      this.#tell(participant, encodeGatheredHead(this.#tickets.get(participant)!), body);
    }
  }

  fail(error: WireError): void {
    if (this.#failure !== undefined) return;
    this.#cancelTimer();
    this.#failure = error;
    this.#parts.clear();
    for (const [rank, ticket] of this.#tickets) {
      this.#tell(rank, encodeFromRoot({ type: 'failed', ticket, error }));
    }
  }

  /** A participant is gone: the others cannot succeed, and nobody has to be told there. */
  withdraw(rank: number, error: WireError): void {
    this.#tickets.delete(rank);
    this.fail(error);
    this.#settle(rank);
  }

  #tell(rank: number, head: Uint8Array, ...body: Uint8Array[]): void {
    if (!this.#untold.has(rank)) return;
    this.#environment.send(rank, head, ...body);
    this.#settle(rank);
  }

  #settle(rank: number): void {
    if (this.#untold.delete(rank) && this.#untold.size === 0) this.#environment.onDone();
  }

  /** Drops the time limit; for a session that ends. */
  dispose(): void {
    this.#cancelTimer();
  }
}
