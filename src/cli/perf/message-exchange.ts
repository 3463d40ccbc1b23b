/**
 * Groups of messages between GPUs, one behind the other, as an operation that is prepared once: the first time they are
 * submitted, then they are replayed from a graph.
 */
import type { CudaCommunicator } from '../../communicator/cuda/cuda-communicator.js';
import type { PreparedCudaOperation } from '../../communicator/cuda/cuda-prepared.js';
import type { DeviceBuffer } from '../../communicator/cuda/device-buffer.js';
import { group } from '../../communicator/group.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { hypercubeRounds } from './hypercube-rounds.js';

/** Calls the sends and receives of a group. */
type Messages = () => void;

export class MessageExchange {
  readonly #comm: CudaCommunicator;
  readonly #groups: readonly Messages[];
  #graph: PreparedCudaOperation | undefined;

  constructor(comm: CudaCommunicator, groups: readonly Messages[]) {
    this.#comm = comm;
    this.#groups = groups;
  }

  /** Resolves when all messages are there. */
  async start(): Promise<void> {
    if (this.#graph !== undefined) {
      await this.#graph.start();
      return;
    }
    for (const messages of this.#groups) await group(messages);
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
    for (const messages of this.#groups) group(messages).catch(() => {});
  }

  release(): void {
    this.#graph?.release();
  }
}

/** Sends to the next rank and receives from the one before. */
export function neighbourExchange(
  comm: CudaCommunicator,
  send: DeviceBuffer,
  recv: DeviceBuffer,
): MessageExchange {
  const { rank, size } = comm;
  const messages = () => {
    void comm.send(send, (rank + 1) % size);
    void comm.recv(recv, (rank + size - 1) % size);
  };
  return new MessageExchange(comm, [messages]);
}

/** The all-gather of hypercube-rounds.ts; `recv` holds a block of each rank, and `send` is one. */
export function hypercubeExchange(
  comm: CudaCommunicator,
  send: DeviceBuffer,
  recv: DeviceBuffer,
): MessageExchange {
  const { rank, size } = comm;
  const count = send.length;
  const blocks = (first: number, many: number) => recv.subarray(first * count, (first + many) * count);
  const own = blocks(rank, 1);
  const intoPlace = () => {
    void comm.send(send, rank);
    void comm.recv(own, rank);
  };
  const rounds = hypercubeRounds(rank, size).map(({ peer, held, wanted, many }) => () => {
    void comm.send(blocks(held, many), peer);
    void comm.recv(blocks(wanted, many), peer);
  });
  return new MessageExchange(comm, own.address === send.address ? rounds : [intoPlace, ...rounds]);
}
