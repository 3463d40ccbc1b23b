/**
 * Whether a communicator is still of use, and how it came to an end.
 *
 * The first failure is final: every later call throws it again. The rank that is first to know writes the culprit
 * into the abort words of all control blocks it reaches and tells the others by message; whoever waits gives up
 * and reports the same culprit.
 */

import { ControlBlock } from '../collectives/control-block.js';
import { wakeDoorbell } from '../device/host/doorbell.js';
import { TuttiError } from '../errors/tutti-error.js';
import { describeTrouble } from './diagnosis.js';
import type { RunFailure } from './engine.js';
import type { Gate } from './gate.js';
import { decodeTrouble, encodeTrouble, type Team, type Trouble } from './team.js';
import type { Witness } from './witness.js';

export class FailureState {
  readonly #team: Team;
  readonly #timeoutMs: number;
  readonly #gate: Gate;
  #error: TuttiError | undefined;
  #trouble: Trouble | undefined;
  #detail: string | undefined;

  constructor(team: Team, timeoutMs: number, gate: Gate) {
    this.#gate = gate;
    this.#team = team;
    this.#timeoutMs = timeoutMs;
  }

  /** The failure, once a call here has met it. */
  get error(): TuttiError | undefined {
    return this.#error;
  }

  /** The failure, also one that only others have met so far; that a rank has left is none as long as nobody calls. */
  get known(): TuttiError | undefined {
    if (this.#error === undefined && this.#trouble !== undefined) this.failWith(this.#heard(this.#trouble));
    return this.#error;
  }

  /** Nobody has reported anything bad. */
  get healthy(): boolean {
    return this.#error === undefined && this.#trouble === undefined;
  }

  /** Throws the failure, also one that only others have met so far. */
  check(): void {
    if (this.#error !== undefined) throw this.#error;
    if (this.#trouble !== undefined) throw this.failWith(this.#heard(this.#trouble));
    const departed = this.#team.departed?.();
    if (departed !== undefined) throw this.failWith(this.#heard({ kind: 'left', culprit: departed }));
  }

  /** Turns the end of a program into an error and tells the other ranks. */
  fail(call: string, failure: RunFailure, witness: Witness): TuttiError {
    if (this.#error !== undefined) return this.#error;
    const difference = witness.difference(failure.status);
    if (difference !== undefined) return this.failWith(difference.error, difference.trouble);
    // What a peer has written goes before what was noticed here: the peer that fell silent may be one that has
    // reported the culprit and ended.
    const heard = decodeTrouble(this.#abortWord()) ?? this.#trouble;
    if (heard !== undefined) {
      return this.failWith(witness.heard?.(heard) ?? this.#heard(heard, `noticed during ${call}`));
    }
    const reason = failure.reason;
    if (reason?.kind === 'timeout') {
      const { error, trouble } = witness.timeout(this.#timeoutMs);
      return this.failWith(error, trouble);
    }
    if (reason?.kind === 'peerDied') {
      const trouble: Trouble = { kind: 'peerDied', culprit: reason.peer ?? this.#team.rank };
      return this.failWith(describeTrouble(trouble, this.#team.rank, `noticed during ${call}`), trouble);
    }
    return this.failWith(
      new TuttiError('internalError', `${call} ended with status ${failure.status}`, {
        rank: this.#team.rank,
      }),
      { kind: 'aborted', culprit: this.#team.rank },
    );
  }

  /** Records the failure; with `trouble`, this rank is the first to know and tells the others. */
  failWith(error: TuttiError, trouble?: Trouble): TuttiError {
    if (this.#error !== undefined) return this.#error;
    this.#error = error;
    this.#gate.bar();
    if (trouble !== undefined) {
      if (this.#team.shared) for (const area of this.#team.areas) this.#raise(area, trouble);
      else this.#raise(this.#team.area, trouble);
      this.#team.tell(trouble);
    }
    return error;
  }

  /** News from the others: whatever waits here gives up. */
  hear(trouble: Trouble, detail?: string): void {
    if (this.#trouble !== undefined) return;
    this.#gate.bar();
    this.#raise(this.#team.area, trouble);
    this.#trouble = decodeTrouble(this.#abortWord()) ?? trouble;
    this.#detail = detail;
  }

  /** This rank gives up for a reason of its own. */
  abort(reason: string): void {
    if (this.#error !== undefined) return;
    const trouble: Trouble = { kind: 'aborted', culprit: this.#team.rank };
    this.#trouble ??= trouble;
    this.failWith(describeTrouble(trouble, this.#team.rank, reason), trouble);
  }

  /** This rank closes while others wait for it in an operation that it will not call. */
  leave(): void {
    const trouble: Trouble = { kind: 'left', culprit: this.#team.rank };
    this.failWith(describeTrouble(trouble, this.#team.rank), trouble);
  }

  #heard(trouble: Trouble, detail?: string): TuttiError {
    return describeTrouble(trouble, this.#team.rank, this.#detail ?? detail);
  }

  #abortWord(): number {
    const at = this.#team.area + ControlBlock.fields.abort.offset;
    return Atomics.load(this.#team.device.i32, at >>> 2);
  }

  /** Sets the abort word of a control block, unless it is set, and wakes whoever sleeps there. */
  #raise(area: number, trouble: Trouble): void {
    const { device } = this.#team;
    const word = (area + ControlBlock.fields.abort.offset) >>> 2;
    Atomics.compareExchange(device.i32, word, 0, encodeTrouble(trouble));
    wakeDoorbell(device, area);
  }
}
