/** Bad input and faults on real GPUs: clear errors, nobody hangs, the GPU goes on. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { createLocalCommunicators, cuda } from '#src/index.js';

const driver = new CudaDriver();
const { deviceCount } = driver;
const { functions } = driver.calls;

async function open(gpus, timeoutMs = 10_000) {
  return createLocalCommunicators(
    gpus.map((gpu) => cuda(gpu)),
    { timeoutMs },
  );
}

const closeAll = (comms) => Promise.all(comms.map((comm) => comm.close()));

/** The sum over all ranks of ones, to see that everything still works. */
async function sum(comms) {
  const buffers = comms.map((comm) => comm.alloc(Int32Array, 1000));
  await Promise.all(buffers.map((buffer) => buffer.copyFrom(new Int32Array(1000).fill(1))));
  await Promise.all(comms.map((comm, rank) => comm.allReduce(buffers[rank], buffers[rank])));
  return (await buffers[0].read())[999];
}

/** What a process says that cannot open a communicator. */
function complaint(env) {
  const script = `import { createLocalCommunicators, cuda } from '#src/index.js';
    try { await createLocalCommunicators([cuda(0)]); } catch (error) { console.log(error.code, error.message); }`;
  const cwd = new URL('.', import.meta.url).pathname;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    timeout: 30_000,
  });
  return `${stdout}${stderr}`.trim();
}

describe('opening', () => {
  it('says that there is no GPU to be seen', { timeout: 40_000 }, () => {
    assert.match(complaint({ CUDA_VISIBLE_DEVICES: '' }), /^unhandledCudaError .*CUDA_VISIBLE_DEVICES/);
  });

  it('says that there is no such GPU', async () => {
    await assert.rejects(open([deviceCount]), /^TuttiError.*there is no GPU \d+; the driver sees/s);
  });
});

describe('memory', () => {
  it('of the host, of another GPU, or more than there is, is refused, and all goes on', async () => {
    const gpus = deviceCount > 1 ? [0, 1] : [0, 0];
    const comms = await open(gpus);
    try {
      const [a, b] = comms;
      const out = [0];
      assert.equal(functions.cuMemHostAlloc(out, 4096, 0), 0);
      assert.throws(() => a.wrap(out[0], Float32Array, 4), /is memory of the host; a device pointer is due/);
      functions.cuMemFreeHost(out[0]);
      const array = new Float32Array(new ArrayBuffer(4096));
      assert.throws(
        () => a.wrap(functions.addressOf(array), Float32Array, 4),
        /no memory that the NVIDIA driver knows; a device pointer is due/,
      );
      assert.throws(() => a.alloc(Float64Array, 2 ** 40), /^TuttiError.*CUDA_ERROR_OUT_OF_MEMORY.*free/s);
      const own = a.alloc(Float32Array, 16);
      await assert.rejects(a.allReduce(own, array.subarray(0, 16)), /recv must be memory of the GPU/);
      assert.throws(() => a.wrap(own.address, Float32Array, 1e12), /more than the/);
      if (deviceCount > 1) {
        const other = b.alloc(Float32Array, 16);
        assert.throws(() => a.wrap(other.address, Float32Array, 16), /memory of GPU 1, but rank 0 works on/);
        await assert.rejects(a.allReduce(own, other), /recv is memory of GPU 1, but rank 0 works on GPU 0/);
      }
      assert.equal(await sum(comms), 2);
    } finally {
      await closeAll(comms);
    }
  });
});

describe('ranks of one process', () => {
  it('are told when they call different things', { timeout: 20_000 }, async () => {
    const comms = await open([0, 0]);
    try {
      await sum(comms);
      const ends = await Promise.allSettled(
        comms.map(async (comm, rank) => {
          const buffer = comm.alloc(Float32Array, 500 + rank);
          await comm.allReduce(buffer, buffer);
        }),
      );
      const texts = ends.map(({ reason }) => String(reason));
      assert.ok(
        texts.some((text) => /rank 1 calls allReduce of 501 float32, op sum, rank 0 calls/.test(text)),
        texts.join('\n'),
      );
      for (const { reason } of ends) assert.equal(reason?.code, 'invalidUsage');
    } finally {
      await closeAll(comms);
    }
    const again = await open([0, 0]);
    try {
      assert.equal(await sum(again), 2);
    } finally {
      await closeAll(again);
    }
  });

  it('are set free at the time limit while their event loop is blocked', { timeout: 30_000 }, async () => {
    const comms = await open([0, 0], 1000);
    try {
      await sum(comms);
      const [a] = comms;
      const buffer = a.alloc(Float32Array, 1000);
      const step = a.prepare.allReduce(buffer, buffer);
      await step.ready;
      await a.synchronize();
      const begin = performance.now();
      step.run();
      // The other rank does not come; this call of the driver blocks the thread until the kernel ends.
      functions.cuStreamSynchronize(a.stream);
      const ms = performance.now() - begin;
      assert.ok(ms > 900 && ms < 5000, `it took ${ms} ms`);
      await assert.rejects(a.synchronize(), /not done after 1000 ms; rank 1 did not call it/);
    } finally {
      await closeAll(comms);
    }
  });
});
