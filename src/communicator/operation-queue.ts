/**
 * The order of a rank's operations: queued for the executor, or run at once on the calling thread.
 *
 * Operations are handed to the executor in the order of the calls, and most of them at once. One that is cut into
 * pieces, is compared first, or works on arrays that an earlier one still copies (hazards.ts) holds its turn until
 * it is finished; those behind it wait.
 */

import type { WasmFunction } from '../device/host/webassembly.js';
import { TuttiError } from '../errors/tutti-error.js';
import type { CallBoard } from './call-board.js';
import type { Comparison } from './comparison.js';
import type { Engine, RunFailure } from './engine.js';
import type { FailureState } from './failure-state.js';
import type { Gate } from './gate.js';
import { type Accesses, type ByteRange, mustFollow, overlap } from './hazards.js';
import type { QueuedWork } from './queued-work.js';

/** An operation that is not finished; `done` never rejects. */
interface UnderWay {
  readonly operation: QueuedWork;
  readonly done: Promise<void>;
}

export class OperationQueue {
  readonly #rank: number;
  readonly #engine: Engine;
  readonly #failure: FailureState;
  readonly #comparison: Comparison;
  readonly #gate: Gate;
  readonly #board: CallBoard;
  readonly #underWay = new Set<UnderWay>();
  /** Those of them that were handed over at once. */
  readonly #atOnce = new Set<UnderWay>();
  /** How many of all copy between arrays and staging memory. */
  #stagedUnderWay = 0;
  /** Settles when the operation before the next one is finished, where it takes turns. */
  #turn: Promise<void> | undefined;

  constructor(
    rank: number,
    engine: Engine,
    failure: FailureState,
    comparison: Comparison,
    gate: Gate,
    board: CallBoard,
  ) {
    this.#gate = gate;
    this.#board = board;
    this.#rank = rank;
    this.#engine = engine;
    this.#failure = failure;
    this.#comparison = comparison;
  }

  /** Everything queued so far is finished. */
  async drained(): Promise<void> {
    await Promise.all(Array.from(this.#underWay, ({ done }) => done));
  }

  /** Operations are queued that are not finished. */
  get isBusy(): boolean {
    return this.#underWay.size > 0;
  }

  /** The call under way that works on these bytes. */
  userOf(range: ByteRange): string | undefined {
    for (const { operation } of this.#underWay) {
      const { reads, writes } = operation.accesses;
      if (overlap([range], reads) || overlap([range], writes)) return operation.name;
    }
    return undefined;
  }

  /** An operation holds its turn: what is queued now begins when that is finished. */
  get takesTurns(): boolean {
    return this.#turn !== undefined;
  }

  /** Queues an operation; settles when its result may be read. */
  async enqueue(operation: QueuedWork): Promise<void> {
    this.#failure.check();
    const before = this.#before(operation.accesses);
    const inTurn =
      this.#turn !== undefined ||
      operation.pieces > 1 ||
      before.length > 0 ||
      this.#comparison.needsMessages(operation);
    const finished = inTurn ? this.#inTurn(operation, before) : this.#submit(operation, 0);
    const entry: UnderWay = { operation, done: finished.catch(() => {}) };
    this.#underWay.add(entry);
    if (!inTurn) this.#atOnce.add(entry);
    this.#gate.enter();
    const staged = operation.accesses.staged ? 1 : 0;
    this.#stagedUnderWay += staged;
    try {
      await finished;
    } finally {
      this.#underWay.delete(entry);
      this.#atOnce.delete(entry);
      this.#gate.leave();
      this.#stagedUnderWay -= staged;
    }
  }

  /** Runs an operation now. */
  run(operation: QueuedWork, program: WasmFunction): void {
    if (this.#underWay.size > 0) this.#checkApart(operation);
    if (this.#comparison.applies(operation)) this.#comparison.now(operation);
    const { pieces, descriptor, blocks, frames, frameBytes, requests } = operation;
    for (let piece = 0; piece < pieces; piece++) {
      this.copyIn(operation, piece);
      if (piece === 0) this.#announce(operation);
      const failure = this.#engine.run(program, descriptor, blocks, frames, frameBytes, requests);
      if (failure !== undefined) throw this.#fail(operation, failure);
      this.copyOut(operation, piece);
    }
  }

  /** True for an operation that is nothing but one call of its program, and copies of ordinary arrays around it. */
  isPlain(operation: QueuedWork): boolean {
    const { pieces, isCounted } = operation;
    return pieces === 1 && !isCounted && !this.#comparison.applies(operation);
  }

  /** The error of a program that ended with a status other than done. */
  failureOf(operation: QueuedWork, failure: RunFailure): TuttiError {
    return this.#fail(operation, failure);
  }

  /**
   * What an operation with these accesses has to wait for besides its turn. Those that take turns are finished when
   * it comes, so a long queue is not searched.
   */
  #before(accesses: Accesses): Promise<void>[] {
    if (!accesses.staged && this.#stagedUnderWay === 0) return [];
    const found: Promise<void>[] = [];
    for (const { operation, done } of this.#atOnce) {
      if (mustFollow(accesses, operation.accesses)) found.push(done);
    }
    return found;
  }

  /** The copies of earlier calls happen in their promises, for which a synchronous call cannot wait. */
  #checkApart(operation: QueuedWork): void {
    if (this.#turn === undefined && this.#before(operation.accesses).length === 0) return;
    throw new TuttiError(
      'invalidUsage',
      `${operation.name}Sync: an asynchronous call before this one is still moving ordinary arrays; await it first`,
      { rank: this.#rank },
    );
  }

  async #inTurn(operation: QueuedWork, before: readonly Promise<void>[]): Promise<void> {
    const previous = this.#turn;
    let finish!: () => void;
    const turn = new Promise<void>((resolve) => {
      finish = resolve;
    });
    this.#turn = turn;
    try {
      await previous;
      await Promise.all(before);
      if (this.#comparison.needsMessages(operation)) {
        this.#failure.check();
        await this.#comparison.byMessages(operation);
      }
      for (let piece = 0; piece < operation.pieces; piece++) await this.#submit(operation, piece);
    } finally {
      if (this.#turn === turn) this.#turn = undefined;
      finish();
    }
  }

  async #submit(operation: QueuedWork, piece: number): Promise<void> {
    this.#failure.check();
    this.copyIn(operation, piece);
    if (piece === 0) this.#announce(operation);
    const { program, descriptor, blocks, frames, frameBytes, requests } = operation;
    // The executor gives up what is behind a comparison that fails.
    const compares = piece === 0 && operation.comparison !== 0;
    const compared = compares ? this.#comparison.inQueue(operation) : undefined;
    const run = this.#engine.queue(program, descriptor, blocks, frames, frameBytes, requests);
    const [failure] = await Promise.all([run, compared]).catch((error) => {
      throw this.#abandon(operation, error);
    });
    if (failure !== undefined) throw this.#fail(operation, failure);
    // An earlier operation failed: nothing after it counts.
    if (this.#failure.error !== undefined) throw this.#failure.error;
    this.copyOut(operation, piece);
  }

  /** From here on the operation is begun: the other ranks count on it. */
  #announce({ announcement }: QueuedWork): void {
    if (announcement === undefined) return;
    const { signature, count, meets } = announcement;
    if (meets) this.#board.meeting(signature, count);
    else this.#board.connected(signature, count);
  }

  #fail(operation: QueuedWork, failure: RunFailure): TuttiError {
    return this.#failure.fail(operation.name, failure, operation.witness);
  }

  /** Brings the input of a piece in place. Throws, naming the call, when an array is not what it was. */
  copyIn(operation: QueuedWork, piece: number): void {
    try {
      operation.before(piece);
    } catch (error) {
      const begun = piece > 0 || this.#comparison.needsMessages(operation);
      throw this.#describe(operation, error, begun);
    }
  }

  /** The error of an operation in one piece that runs without being asked about, and of which an array cannot be copied. */
  copyFailure(operation: QueuedWork, error: unknown): unknown {
    return this.#describe(operation, error, false);
  }

  /** Takes out the result of a piece. Throws as `copyIn` does. */
  copyOut(operation: QueuedWork, piece: number): void {
    try {
      operation.after(piece);
    } catch (error) {
      throw this.#describe(operation, error, piece < operation.pieces - 1);
    }
  }

  /** The executor's thread could not be started or has ended: the other ranks wait for this one in vain. */
  #abandon(operation: QueuedWork, cause: unknown): unknown {
    if (!TuttiError.is(cause)) return cause;
    const rank = this.#rank;
    const text = `${operation.name}: ${cause.message}`;
    const kind = cause.code === 'systemError' ? 'outOfMemory' : 'aborted';
    return this.#failure.failWith(new TuttiError(cause.code, text, { rank, cause }), { kind, culprit: rank });
  }

  /** An array cannot be copied. In the middle of an operation that leaves the other ranks without a partner. */
  #describe(operation: QueuedWork, cause: unknown, abandons: boolean): unknown {
    if (!TuttiError.is(cause)) return cause;
    const rank = this.#rank;
    const error = new TuttiError(cause.code, `${operation.name}: ${cause.message}`, {
      rank,
      cause,
    });
    return abandons ? this.#failure.failWith(error, { kind: 'aborted', culprit: rank }) : error;
  }
}
