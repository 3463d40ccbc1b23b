import { expect, it } from 'vitest';
import { fakeGpus } from './fake-gpus.js';

it('adds up', async () => {
  const { comms, driver } = await fakeGpus([0, 0]);
  for (const n of [5, 100]) {
  const buffers = comms.map((c) => ({ send: c.alloc(Float32Array, n), recv: c.alloc(Float32Array, n) }));
  await Promise.all(buffers.map((b, r) => b.send.copyFrom(Float32Array.from({ length: n }, (_, i) => i + r * 100))));
  await Promise.all(comms.map((c, r) => c.allReduce(buffers[r]!.send, buffers[r]!.recv)));
  for (const b of buffers) {
    expect(await b.recv.read()).toEqual(Float32Array.from({ length: n }, (_, i) => 2 * i + 100));
  }
  }
  await Promise.all(comms.map((c) => c.close()));
  expect(driver.leaks).toEqual([]);
});
