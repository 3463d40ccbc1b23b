/**
 * Comparing what the ranks are about to do, before an operation over connections: those do not find out by themselves.
 *
 * Ranks that share memory meet as in a barrier whose post carries the call; others exchange messages.
 */

import type { ProgramRequest } from '../collectives/registry.js';
import { TuttiError } from '../errors/tutti-error.js';
import { describeCall, operationWitness } from './diagnosis.js';
import type { Engine, RunFailure } from './engine.js';
import type { FailureState } from './failure-state.js';
import type { QueuedWork } from './queued-work.js';
import type { Team } from './team.js';

export class Comparison {
  readonly #team: Team;
  readonly #engine: Engine;
  readonly #failure: FailureState;
  readonly #barrier: ProgramRequest;
  readonly #enabled: boolean;

  constructor(team: Team, engine: Engine, failure: FailureState, enabled: boolean) {
    this.#team = team;
    this.#engine = engine;
    this.#failure = failure;
    this.#enabled = enabled;
    this.#barrier = {
      algorithm: 'OneShot',
      collective: 'barrier',
      protocol: 'Simple',
      type: 'uint8',
      op: 'sum',
      ranks: team.size,
    };
  }

  /** Whether the operation is to be compared; direct programs do it by themselves. */
  applies(operation: QueuedWork): boolean {
    return this.#enabled && operation.isComparable;
  }

  /** Compares on the calling thread. */
  now(operation: QueuedWork): void {
    const call = operation.name;
    if (operation.comparison === 0) {
      throw new TuttiError(
        'invalidUsage',
        `${call}Sync: with check on and ranks that share no memory, use the asynchronous form`,
        { rank: this.#team.rank },
      );
    }
    const failure = this.#engine.run(this.#engine.inline(this.#barrier), operation.comparison, 1);
    if (failure !== undefined) throw this.#fail(call, failure);
  }

  #fail(call: string, failure: RunFailure): TuttiError {
    return this.#failure.fail(call, failure, operationWitness(this.#team, call, true));
  }

  /** Whether the ranks share no memory in which they could compare. */
  needsMessages(operation: QueuedWork): boolean {
    return this.applies(operation) && operation.comparison === 0;
  }

  /** Compares when everything queued before is done. */
  async inQueue(operation: QueuedWork): Promise<void> {
    const failure = await this.#engine.queue(this.#barrier, operation.comparison, 1);
    if (failure !== undefined) throw this.#fail(operation.name, failure);
  }

  /** Compares by messages between the ranks' main threads. */
  async byMessages(operation: QueuedWork): Promise<void> {
    const { signature, count } = operation.announcement!;
    const own = Float64Array.of(signature, count);
    const all = await this.#team.allGather(new Uint8Array(own.buffer), 'check');
    const describe = (values: Float64Array) => describeCall(values[0]!, values[1]!);
    all.forEach((bytes, peer) => {
      const other = new Float64Array(bytes.slice().buffer);
      if (other[0] === own[0] && other[1] === own[1]) return;
      throw this.#failure.failWith(
        new TuttiError(
          'invalidUsage',
          `the ranks do different things: rank ${this.#team.rank} calls ${describe(own)}, rank ${peer} calls ${describe(other)}; ` +
            'all ranks must make the same calls in the same order',
          { rank: peer },
        ),
        { kind: 'mismatch', culprit: peer },
      );
    });
  }
}
