/** Virtual memory of other libraries, in pieces, with and without access for the peers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CudaDriver, cudaDriver } from '#src/device/cuda/driver.js';
import { createLocalCommunicators, cuda } from '#src/index.js';
import { makeVirtualMemory } from './virtual-memory.mjs';

const { deviceCount } = new CudaDriver();
const TEAMS = [{ gpus: [0, 0], accessible: [0] }];
if (deviceCount > 1) {
  TEAMS.push({ gpus: [0, 1], accessible: [0, 1] });
  TEAMS.push({ gpus: [0, 1], accessible: [] });
}
/** Sizes that go as lines and directly, the larger ones over several pieces. */
const LENGTHS = [100, 100_000, 1_400_000];

for (const { gpus, accessible } of TEAMS) {
  const who = accessible.length === 0 ? 'their own GPUs' : `GPUs ${accessible.join(', ')}`;
  describe(`virtual memory of ranks on GPUs ${gpus.join(', ')}, for ${who}`, () => {
    it('is reduced and gathered as other memory', { timeout: 60_000 }, async () => {
      const comms = await createLocalCommunicators(gpus.map((gpu) => cuda(gpu)));
      const memories = gpus.flatMap((gpu) => {
        cudaDriver().device(gpu).makeCurrent();
        const make = () => makeVirtualMemory(gpu, 6, accessible.length === 0 ? [gpu] : accessible);
        return [{ send: make(), recv: make() }];
      });
      try {
        for (const length of LENGTHS) {
          const sends = comms.map((comm, rank) =>
            comm.wrap(memories[rank].send.address, Float32Array, length),
          );
          const recvs = comms.map((comm, rank) =>
            comm.wrap(memories[rank].recv.address, Float32Array, 2 * length),
          );
          await Promise.all(
            sends.map((send, rank) =>
              send.copyFrom(Float32Array.from({ length }, (_, i) => (i % 1000) + rank)),
            ),
          );
          await Promise.all(comms.map((comm, rank) => comm.allGather(sends[rank], recvs[rank])));
          for (const recv of recvs) {
            const found = await recv.read();
            const wrong = found.findIndex(
              (value, i) => value !== ((i % length) % 1000) + Math.floor(i / length),
            );
            assert.equal(wrong, -1, `all-gather of ${length}: element ${wrong} is ${found[wrong]}`);
          }
          await Promise.all(comms.map((comm, rank) => comm.allReduce(sends[rank], sends[rank])));
          for (const send of sends) {
            const found = await send.read();
            const wrong = found.findIndex((value, i) => value !== 2 * (i % 1000) + 1);
            assert.equal(wrong, -1, `all-reduce of ${length}: element ${wrong} is ${found[wrong]}`);
          }
          for (const buffer of [...sends, ...recvs]) buffer.free();
        }
      } finally {
        await Promise.all(comms.map((comm) => comm.synchronize()));
        for (const { send, recv } of memories) {
          send.free();
          recv.free();
        }
        await Promise.all(comms.map((comm) => comm.close()));
      }
    });
  });
}
