/** Sends and receives between ranks of one process on GPUs: every rank to every rank at the same time, all sizes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { createLocalCommunicators, cuda, group } from '#src/index.js';
import { randomFrom, SEED } from './random.mjs';

const { deviceCount } = new CudaDriver();
const ROUNDS = Number(process.env.TUTTI_GPU_CASES ?? 20);
const TEAMS = [[0], [0, 0], [0, 0, 0]];
if (deviceCount > 1) TEAMS.push([0, 1], [1, 0, 1]);

const content = (from, to, length, round) =>
  Int32Array.from({ length }, (_, i) => (from << 24) ^ (to << 16) ^ (i * 2654435761 + round));

for (const gpus of TEAMS) {
  describe(`ranks on GPUs ${gpus.join(', ')}`, () => {
    it(`send to each other in groups (seed ${SEED})`, { timeout: 90_000 }, async () => {
      const random = randomFrom(SEED);
      const comms = await createLocalCommunicators(
        gpus.map((gpu) => cuda(gpu)),
        { timeoutMs: 10_000 },
      );
      try {
        for (let round = 0; round < ROUNDS; round++) {
          const lengths = comms.map(() =>
            comms.map(() => random.size(round % 10 === 0 ? 3_000_000 : 50_000)),
          );
          const offset = random.below(4);
          const sends = comms.map((comm, rank) =>
            comms.map((_, peer) => comm.alloc(Int32Array, lengths[rank][peer] + offset).subarray(offset)),
          );
          const memories = comms.map((comm, rank) =>
            comms.map((_, peer) => comm.alloc(Int32Array, lengths[peer][rank] + 8)),
          );
          const recvs = memories.map((list) => list.map((memory) => memory.subarray(4, memory.length - 4)));
          for (const [rank, list] of sends.entries()) {
            for (const [peer, buffer] of list.entries()) {
              await buffer.copyFrom(content(rank, peer, lengths[rank][peer], round));
              await memories[rank][peer].copyFrom(new Int32Array(memories[rank][peer].length).fill(-7));
            }
          }
          await group(() => {
            for (const [rank, comm] of comms.entries()) {
              for (const peer of comms.keys()) {
                void comm.recv(recvs[rank][peer], peer);
                void comm.send(sends[rank][peer], peer);
              }
            }
          });
          for (const [rank, list] of memories.entries()) {
            for (const [peer, memory] of list.entries()) {
              const found = await memory.read();
              const length = lengths[peer][rank];
              const want = new Int32Array(length + 8).fill(-7);
              want.set(content(peer, rank, length, round), 4);
              assert.ok(
                Buffer.from(found.buffer).equals(Buffer.from(want.buffer)),
                `round ${round}: ${length} elements from ${peer} to ${rank} differ`,
              );
            }
          }
          for (const buffer of [...sends.flat(), ...memories.flat()]) buffer.free();
        }
      } finally {
        await Promise.all(comms.map((comm) => comm.close()));
      }
    });
  });
}
