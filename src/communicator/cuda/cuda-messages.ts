/** Sends and receives of a rank on a GPU: those of a group are collected and go together. */
import { TuttiError } from '../../errors/tutti-error.js';
import { failGroup, type GroupMember, isGroupOpen, joinGroup } from '../group.js';
import type { Completions } from './completions.js';
import type { CudaCallChecks } from './cuda-call-checks.js';
import type { StreamOption } from './cuda-collectives.js';
import type { CudaTeam } from './cuda-team.js';
import type { DeviceBuffer } from './device-buffer.js';
import type { StreamHandle } from './foreign-streams.js';
import type { LaunchQueue } from './launch-queue.js';
import { type Message, MessageBatch } from './message-batch.js';
import type { Recording } from './recorded-graph.js';

/** Messages that wait for the end of their group, and the promise of their calls. */
class PendingMessages {
  readonly list: Message[] = [];
  /** They together, once the group is over and none of them is wrong. */
  batch: MessageBatch | undefined;
  stream: StreamHandle | undefined;
  readonly done: Promise<void>;
  resolve!: () => void;
  reject!: (error: unknown) => void;

  constructor() {
    this.done = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // The group's promise tells of errors too.
    this.done.catch(() => {});
  }
}

/** What messages need of their communicator. */
export interface MessageOwner {
  readonly team: CudaTeam;
  readonly checks: CudaCallChecks;
  readonly queue: LaunchQueue;
  readonly completions: Completions;
  /** Throws when the communicator is closed or has failed. */
  checkUsable(what: string): void;
  /** The graph that is being recorded. */
  recording(): Recording | undefined;
}

export class CudaMessages implements GroupMember {
  readonly #owner: MessageOwner;
  /** Messages of the open group. */
  #pending: PendingMessages | undefined;

  constructor(owner: MessageOwner) {
    this.#owner = owner;
  }

  /** Resolves when the message is done, or enqueued where a stream is named; in a group with all of it. */
  call(kind: Message['kind'], buffer: DeviceBuffer, peer: number, options: StreamOption = {}): Promise<void> {
    const message = this.#call(kind, buffer, peer, options);
    // Nobody has to await single messages of a group or a graph: who makes it is told of their errors.
    if (isGroupOpen() || this.#owner.recording() !== undefined) message.catch(() => {});
    return message;
  }

  async #call(
    kind: Message['kind'],
    buffer: DeviceBuffer,
    peer: number,
    options: StreamOption,
  ): Promise<void> {
    let pending: PendingMessages;
    try {
      this.#owner.checkUsable(kind);
      const message = this.#owner.checks.message(kind, buffer, peer, options);
      pending = this.#pending ?? new PendingMessages();
      if (pending.list.length > 0 && pending.stream !== options.stream) {
        throw new TuttiError('invalidUsage', `${kind}: all messages of a group must be in the same stream`, {
          rank: this.#owner.team.rank,
        });
      }
      pending.list.push(message);
    } catch (error) {
      this.#noteInGraph(error);
      failGroup(error);
      throw error;
    }
    pending.stream = options.stream;
    this.#pending = pending;
    if (!joinGroup(this)) await this.submitGroup();
    else await pending.done;
  }

  /** Throws what is wrong with the messages together, before any rank of the group has put one into a stream. */
  planGroup(): void {
    const pending = this.#pending;
    if (pending === undefined) return;
    try {
      pending.batch = new MessageBatch(this.#owner.team, pending.list);
    } catch (error) {
      this.#noteInGraph(error);
      throw error;
    }
  }

  /** The graph that is being recorded, if one is, is wrong. */
  #noteInGraph(error: unknown): void {
    const recording = this.#owner.recording();
    if (recording !== undefined) recording.error ??= error;
  }

  async submitGroup(): Promise<void> {
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending === undefined) return;
    const { team, queue, completions } = this.#owner;
    const recording = this.#owner.recording();
    try {
      const batch = pending.batch ?? new MessageBatch(team, pending.list);
      const stream = queue.streamOf(pending.stream);
      const launched = queue.submit(batch, stream);
      recording?.works.push(batch);
      if (launched !== undefined) await launched;
      if (recording === undefined) {
        if (pending.stream !== undefined) completions.launched(stream);
        else await completions.after(stream.handle, batch.name);
      }
      pending.resolve();
    } catch (error) {
      this.#noteInGraph(error);
      pending.reject(error);
      throw error;
    }
  }

  discardGroup(): void {
    this.#pending?.reject(
      new TuttiError('invalidUsage', 'the group was given up before its end', {
        rank: this.#owner.team.rank,
      }),
    );
    this.#pending = undefined;
  }
}
