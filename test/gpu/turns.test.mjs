/** Ranks of one thread on several GPUs that are not called in turns. `node --test test/gpu/*.test.mjs`. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { createLocalCommunicators, cuda } from '#src/index.js';

const COUNT = 1000;
const TIMEOUT_MS = 8000;
const { deviceCount } = new CudaDriver();

/** Two ranks with buffers that hold 1 and 2, and their prepared all-reduce. */
async function open() {
  const comms = await createLocalCommunicators([cuda(0), cuda(1)], { timeoutMs: TIMEOUT_MS });
  const ranks = comms.map((comm) => ({
    comm,
    send: comm.alloc(Int32Array, COUNT),
    recv: comm.alloc(Int32Array, COUNT),
  }));
  await Promise.all(ranks.map(({ send }, rank) => send.copyFrom(new Int32Array(COUNT).fill(rank + 1))));
  for (const rank of ranks) rank.step = rank.comm.prepare.allReduce(rank.send, rank.recv);
  await Promise.all(ranks.map(({ step }) => step.ready));
  await Promise.all(comms.map((comm) => comm.synchronize()));
  return ranks;
}

const closeAll = (ranks) => Promise.all(ranks.map(({ comm }) => comm.close()));

describe('ranks of one thread, one after the other', { skip: deviceCount < 2 }, () => {
  it('prepare and run more while the kernel of the first waits', { timeout: 30_000 }, async () => {
    const ranks = await open();
    try {
      const begin = performance.now();
      for (const { comm, send, recv, step } of ranks) {
        step.run();
        for (let k = 1; k < 30; k++) {
          comm.prepare.allReduce(send.subarray(0, COUNT - k), recv.subarray(0, COUNT - k)).run();
        }
      }
      await Promise.all(ranks.map(({ comm }) => comm.synchronize()));
      const ms = performance.now() - begin;
      assert.ok(ms < TIMEOUT_MS / 2, `it took ${ms} ms`);
      for (const { recv } of ranks) assert.deepEqual(await recv.read(), new Int32Array(COUNT).fill(3));
    } finally {
      await closeAll(ranks);
    }
  });

  it('are refused far ahead, and go on when the others have come', { timeout: 30_000 }, async () => {
    const ranks = await open();
    try {
      const [first, second] = ranks;
      const begin = performance.now();
      let done = 0;
      assert.throws(() => {
        for (; done < 3000; done++) first.step.run();
      }, /wait for rank 1 of the same thread/);
      for (let k = 0; k < done; k++) second.step.run();
      await Promise.all(ranks.map(({ comm }) => comm.synchronize()));
      const ms = performance.now() - begin;
      assert.ok(ms < TIMEOUT_MS / 2, `it took ${ms} ms`);
      for (const { step } of ranks) step.run();
      for (const { recv } of ranks) assert.deepEqual(await recv.read(), new Int32Array(COUNT).fill(3));
    } finally {
      await closeAll(ranks);
    }
  });

  it('may call several communicators in the same order, also with kernels that fill a GPU', {
    timeout: 60_000,
  }, async () => {
    const large = 8 << 20;
    const teams = [];
    for (let k = 0; k < 3; k++) {
      teams.push(await createLocalCommunicators([cuda(0), cuda(1)], { timeoutMs: TIMEOUT_MS }));
    }
    try {
      const buffers = teams.map((comms) =>
        comms.map((comm) => ({ send: comm.alloc(Int32Array, large), recv: comm.alloc(Int32Array, large) })),
      );
      await Promise.all(
        buffers.flatMap((ranks, k) =>
          ranks.map(({ send }, rank) => send.copyFrom(new Int32Array(large).fill(10 * k + rank))),
        ),
      );
      const calls = [];
      for (let round = 0; round < 6; round++) {
        for (const [k, comms] of teams.entries()) {
          for (const [rank, comm] of comms.entries()) {
            const { send, recv } = buffers[k][rank];
            calls.push(comm.allReduce(send, recv));
          }
        }
      }
      await Promise.all(calls);
      for (const [k, ranks] of buffers.entries()) {
        for (const { recv } of ranks) {
          const wrong = (await recv.read()).findIndex((value) => value !== 20 * k + 1);
          assert.equal(wrong, -1, `an element of communicator ${k}`);
        }
      }
    } finally {
      await Promise.all(teams.flat().map((comm) => comm.close()));
    }
  });
});
