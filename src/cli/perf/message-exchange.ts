/**
 * Send to the next rank and receive from the one before, as an operation that is prepared once: the first time the two
 * messages are submitted as a group, then they are replayed from a graph.
 */
import type { CudaCommunicator } from '../../communicator/cuda/cuda-communicator.js';
import type { PreparedCudaOperation } from '../../communicator/cuda/cuda-prepared.js';
import type { DeviceBuffer } from '../../communicator/cuda/device-buffer.js';
import { group } from '../../communicator/group.js';
import { TuttiError } from '../../errors/tutti-error.js';

export class MessageExchange {
  readonly #comm: CudaCommunicator;
  readonly #send: DeviceBuffer;
  readonly #recv: DeviceBuffer;
  #graph: PreparedCudaOperation | undefined;

  constructor(comm: CudaCommunicator, send: DeviceBuffer, recv: DeviceBuffer) {
    this.#comm = comm;
    this.#send = send;
    this.#recv = recv;
  }

  /** Submits the messages, or records them in the graph that is being captured. */
  #exchange(): Promise<void> {
    const { rank, size } = this.#comm;
    return group(() => {
      void this.#comm.send(this.#send, (rank + 1) % size);
      void this.#comm.recv(this.#recv, (rank + size - 1) % size);
    });
  }

  /** Resolves when the messages of both directions are there. */
  async start(): Promise<void> {
    if (this.#graph !== undefined) {
      await this.#graph.start();
      return;
    }
    await this.#exchange();
    this.#graph = this.#comm.capture(() => this.record());
  }

  /** Enqueues the messages; `start` must have been called once. */
  run(): void {
    if (this.#graph === undefined) {
      throw new TuttiError('internalError', 'an exchange was run before it was started once');
    }
    this.#graph.run();
  }

  /** Puts the messages into the graph that is being captured. */
  record(): void {
    // While a graph is captured nothing is done, and errors come out of the capture.
    this.#exchange().catch(() => {});
  }

  release(): void {
    this.#graph?.release();
  }
}
