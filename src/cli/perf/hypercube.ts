/**
 * An all-gather as nccl-tests' hypercube does it: the own block into place, then log2(n) groups, one behind the other, in
 * each of which ranks whose numbers differ in one bit exchange all blocks that they have so far.
 *
 * Source: behaviour of nccl-tests 2.19.6 (hypercube), restated from its description.
 */
import type { Buffer } from '../../communicator/buffers.js';
import type { Communicator } from '../../communicator/communicator.js';
import type { PreparedOperation } from '../../communicator/prepared-operation.js';

/** What the measuring loop does with an operation on host memory. */
export type HostOperation = Pick<PreparedOperation, 'run' | 'start' | 'release'>;

/** `ranks` must be a power of two; `recv` holds as many blocks, and `send` is one. */
export function prepareHypercube(comm: Communicator, send: Buffer, recv: Buffer): HostOperation {
  const { rank, size } = comm;
  const count = send.length;
  const blocks = (first: number, many: number): Buffer =>
    recv.subarray(first * count, (first + many) * count) as Buffer;
  const steps: PreparedOperation[] = [];
  const own = blocks(rank, 1);
  if (own.buffer !== send.buffer || own.byteOffset !== send.byteOffset) {
    steps.push(
      comm.prepare.group(() => {
        void comm.send(send, rank);
        void comm.recv(own, rank);
      }),
    );
  }
  for (let mask = 1; mask < size; mask *= 2) {
    const first = rank & ~(mask - 1);
    const peer = rank ^ mask;
    steps.push(
      comm.prepare.group(() => {
        void comm.send(blocks(first, mask), peer);
        void comm.recv(blocks(first ^ mask, mask), peer);
      }),
    );
  }
  return {
    run: () => {
      for (const step of steps) step.run();
    },
    start: async () => {
      // Operations of one communicator follow each other.
      await Promise.all(steps.map((step) => step.start()));
    },
    release: () => {
      for (const step of steps) step.release();
    },
  };
}
