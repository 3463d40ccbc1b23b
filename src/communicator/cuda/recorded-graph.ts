/** Calls of a communicator that were recorded in a CUDA graph and are replayed together. */
import { Graph } from '../../device/cuda/graph.js';
import type { CallRecord } from './call-boards.js';
import type { PreparedWork } from './cuda-prepared.js';
import type { DeviceBuffer } from './device-buffer.js';
import type { LaunchQueue } from './launch-queue.js';
import type { MessageRecord } from './message-boards.js';

/** A graph that is being recorded: what it holds so far, and the first error of a call. */
export interface Recording {
  readonly works: PreparedWork[];
  error?: unknown;
}

export class RecordedGraph implements PreparedWork {
  readonly name = 'graph';
  readonly isLoaded = true;
  readonly #graph: Graph;
  readonly #users: readonly PreparedWork[];
  readonly records: readonly CallRecord[];
  readonly messages: readonly MessageRecord[];

  /** Records what `record` calls; it returns what was called. */
  constructor(queue: LaunchQueue, record: () => readonly PreparedWork[]) {
    let users: readonly PreparedWork[] = [];
    this.#graph = Graph.capture(queue.stream, () => {
      users = queue.whileCapturing(record);
    });
    this.#users = users;
    this.records = users.flatMap(({ records }) => records);
    this.messages = users.flatMap(({ messages = [] }) => messages);
  }

  get explanation(): string {
    return `a graph of ${this.#users.length} ${this.#users.length === 1 ? 'call' : 'calls'}`;
  }

  load(): void {}

  launch(stream: number, recorded: boolean): void {
    // In a graph that is being recorded its calls are recorded: the driver does not take one graph's launch into another.
    if (recorded) for (const user of this.#users) user.launch(stream, true);
    else this.#graph.launch(stream);
  }

  uses(buffer: DeviceBuffer): boolean {
    return this.#users.some((user) => user.uses(buffer));
  }

  release(): void {
    this.#graph.destroy();
  }
}
