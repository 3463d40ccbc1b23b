/** The all-gather of hypercube-rounds.ts on host memory. */
import type { Buffer } from '../../communicator/buffers.js';
import type { Communicator } from '../../communicator/communicator.js';
import type { PreparedOperation } from '../../communicator/prepared-operation.js';
import { hypercubeRounds } from './hypercube-rounds.js';

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
  for (const { peer, held, wanted, many } of hypercubeRounds(rank, size)) {
    steps.push(
      comm.prepare.group(() => {
        void comm.send(blocks(held, many), peer);
        void comm.recv(blocks(wanted, many), peer);
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
