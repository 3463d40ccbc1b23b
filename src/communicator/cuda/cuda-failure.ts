/**
 * Whether a communicator on GPUs is still of use, and how it came to an end. The first failure is final: every later
 * call throws it again. Whoever is first to know ends the kernels it reaches and tells the others.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { describeTrouble } from '../diagnosis.js';
import type { Trouble } from '../team.js';
import type { CallMismatch } from './call-boards.js';
import {
  describeCudaMismatch,
  describeCudaTimeout,
  describeMappingTimeout,
  describeMessageMismatch,
} from './cuda-diagnosis.js';
import type { CudaTeam } from './cuda-team.js';
import type { MessageMismatch } from './message-boards.js';

export class CudaFailure {
  readonly #team: CudaTeam;
  readonly #timeoutMs: number;
  readonly #onFailure: (error: TuttiError) => void;
  #error: TuttiError | undefined;

  /** `onFailure` is called once, with the error that waiting calls are to end with. */
  constructor(team: CudaTeam, timeoutMs: number, onFailure: (error: TuttiError) => void) {
    this.#team = team;
    this.#timeoutMs = timeoutMs;
    this.#onFailure = onFailure;
  }

  get error(): TuttiError | undefined {
    return this.#error;
  }

  /** Throws the failure, if there is one: for what needs no other rank, such as copies. */
  checkOwn(): void {
    const error = this.#error ?? this.ended();
    if (error !== undefined) throw error;
  }

  /** The failure, if this rank's kernels were ended by somebody who could not tell this thread yet. */
  ended(): TuttiError | undefined {
    if (this.#error !== undefined) return this.#error;
    const { calls, rank } = this.#team;
    const { trouble } = calls;
    if (trouble === undefined) return undefined;
    if (trouble.kind === 'stalled' && trouble.culprit === rank) {
      // The watchdog has kept the time limit while this thread was blocked.
      return this.timeout('a launch', this.#timeoutMs, calls.begun);
    }
    return this.failWith(this.#described(trouble));
  }

  /** Others have noticed that calls differ: this rank may see how. */
  #described(trouble: Trouble, detail?: string): TuttiError {
    const { calls, rank } = this.#team;
    if (trouble.kind !== 'mismatch') return describeTrouble(trouble, rank, detail);
    const call = calls.findMismatch();
    if (call !== undefined) return describeCudaMismatch(rank, call).error;
    const message = calls.messages.findMismatch();
    return message === undefined
      ? describeTrouble(trouble, rank, detail)
      : describeMessageMismatch(rank, message).error;
  }

  /** Before a call that all ranks make: throws the failure, also that somebody has left who would not make it. */
  check(): void {
    this.checkOwn();
    const culprit = this.#team.departed();
    if (culprit !== undefined)
      throw this.failWith(describeTrouble({ kind: 'left', culprit }, this.#team.rank));
  }

  /** Records the failure; with `trouble`, this rank is the first to know and tells the others, with the detail. */
  failWith(error: TuttiError, trouble?: Trouble, detail = error.message): TuttiError {
    if (this.#error !== undefined) return this.#error;
    this.#error = error;
    this.#team.calls.raiseAbort(trouble ?? { kind: 'aborted', culprit: error.rank ?? this.#team.rank });
    if (trouble !== undefined) this.#team.tell(trouble, detail === '' ? undefined : detail);
    this.#onFailure(error);
    return error;
  }

  /** News from the others. */
  hear(trouble: Trouble, detail?: string): void {
    this.failWith(this.#described(trouble, detail));
  }

  /** The driver reports an error of work on the GPU: its context is of no more use. */
  broken(cause: unknown): TuttiError {
    const { rank } = this.#team;
    const text = cause instanceof Error ? cause.message : String(cause);
    return this.failWith(new TuttiError('unhandledCudaError', text, { rank, cause }), {
      kind: 'aborted',
      culprit: rank,
    });
  }

  /** The time limit of a call has passed, when this rank had begun so many operations. */
  timeout(call: string, timeoutMs: number, operations: number): TuttiError {
    const { error, trouble } = describeCudaTimeout(this.#team, call, timeoutMs, operations);
    return this.failWith(error, trouble);
  }

  /** Keeps the time limit of a call that waits for peers to open memory, until the returned function is called. */
  limitMapping(call: string): () => void {
    if (this.#timeoutMs === 0) return () => {};
    const timer = setTimeout(() => {
      const { error, trouble } = describeMappingTimeout(this.#team, call, this.#timeoutMs);
      this.failWith(error, trouble);
    }, this.#timeoutMs);
    return () => clearTimeout(timer);
  }

  /** A meeting of all ranks on the host has failed, which names who did not come. */
  meetingFailed(error: unknown): TuttiError {
    if (this.#error !== undefined) return this.#error;
    const { rank } = this.#team;
    if (!TuttiError.is(error)) return this.broken(error);
    const kind = error.code === 'timeout' ? 'timeout' : 'aborted';
    return this.failWith(error, { kind, culprit: error.rank ?? rank });
  }

  /** Another rank calls something else. */
  mismatch(found: CallMismatch): TuttiError {
    const { error, trouble } = describeCudaMismatch(this.#team.rank, found);
    return this.failWith(error, trouble);
  }

  /** The other end of a message has another size. */
  messageMismatch(found: MessageMismatch): TuttiError {
    const { error, trouble } = describeMessageMismatch(this.#team.rank, found);
    return this.failWith(error, trouble);
  }

  /** This rank gives up for a reason of its own. */
  abort(reason: string): void {
    const trouble: Trouble = { kind: 'aborted', culprit: this.#team.rank };
    this.failWith(describeTrouble(trouble, this.#team.rank, reason), trouble, reason);
  }

  /** This rank closes while others wait for it. */
  leave(): void {
    const trouble: Trouble = { kind: 'left', culprit: this.#team.rank };
    // The kind says it all.
    this.failWith(describeTrouble(trouble, this.#team.rank), trouble, '');
  }
}
