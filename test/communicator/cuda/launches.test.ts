/** Prepared operations as kernels and as graphs of one kernel. */
import { describe, expect, it, vi } from 'vitest';
import type { DeviceBuffer } from '#src/communicator/cuda/device-buffer.js';
import { MOST_AHEAD } from '#src/communicator/cuda/launches-ahead.js';
import type { CudaDevice } from '#src/device/cuda/cuda-device.js';
import type { FakeDriver } from '../../device/cuda/fake-driver.js';
import { fakeGpus, fakeProcesses } from './fake-gpus.js';

const COUNT = 16;

/** How often kernels and graphs were launched since it was asked last. */
function countLaunches(driver: FakeDriver) {
  const kernels = vi.spyOn(driver, 'cuLaunchKernelEx');
  const graphs = vi.spyOn(driver, 'cuGraphLaunch');
  return () => {
    const counted = { kernels: kernels.mock.calls.length, graphs: graphs.mock.calls.length };
    kernels.mockClear();
    graphs.mockClear();
    return counted;
  };
}

/** Makes the GPUs' estimates what launches that take so long would make them. */
function teach(devices: readonly CudaDevice[], us: number): void {
  for (const { launchCosts } of devices) {
    for (let i = 0; i < 200; i++) launchCosts.end(performance.now() - us / 1e3, false, 100);
  }
}

describe('prepared operations of GPUs whose kernels overlap', () => {
  it('are launched as what is faster at the cost of launches, and are right either way', async () => {
    const { comms, driver, cudaDriver } = await fakeProcesses([0, 1]);
    const devices = [0, 1].map((gpu) => cudaDriver.device(gpu));
    const send = comms.map((comm) => comm.alloc(Int32Array, COUNT));
    const recv = comms.map((comm) => comm.alloc(Int32Array, COUNT));
    const steps = comms.map((comm, rank) => comm.prepare.allReduce(send[rank]!, recv[rank]!));
    await Promise.all(steps.map(({ ready }) => ready));
    const counted = countLaunches(driver);
    const kinds: unknown[] = [];
    let round = 0;
    for (const us of [9, 1, 9]) {
      round += 1;
      await Promise.all(
        send.map((buffer, rank) => buffer.copyFrom(new Int32Array(COUNT).fill(round + rank))),
      );
      teach(devices, us);
      counted();
      for (const step of steps) step.run();
      kinds.push(counted());
      await Promise.all(comms.map((comm) => comm.synchronize()));
      for (const buffer of recv)
        expect(await buffer.read()).toEqual(new Int32Array(COUNT).fill(2 * round + 1));
    }
    const [graphs, kernels] = [
      { kernels: 0, graphs: 2 },
      { kernels: 2, graphs: 0 },
    ];
    expect(kinds).toEqual([graphs, kernels, graphs]);
  });

  it('may differ between ranks', async () => {
    const { comms, driver, cudaDriver } = await fakeProcesses([0, 1]);
    teach([cudaDriver.device(0)], 1);
    teach([cudaDriver.device(1)], 9);
    const send = comms.map((comm) => comm.alloc(Int32Array, COUNT));
    const recv = comms.map((comm) => comm.alloc(Int32Array, COUNT));
    await Promise.all(send.map((buffer, rank) => buffer.copyFrom(new Int32Array(COUNT).fill(5 + rank))));
    const steps = comms.map((comm, rank) => comm.prepare.allReduce(send[rank]!, recv[rank]!));
    await Promise.all(steps.map(({ ready }) => ready));
    const counted = countLaunches(driver);
    for (let i = 0; i < 3; i++) for (const step of steps) step.run();
    expect(counted()).toEqual({ kernels: 3, graphs: 3 });
    await Promise.all(comms.map((comm) => comm.synchronize()));
    for (const buffer of recv) expect(await buffer.read()).toEqual(new Int32Array(COUNT).fill(11));
  });

  it('are no graphs where they are prepared while a kernel waits: making one would wait for it', async () => {
    const { comms, driver } = await fakeGpus([0, 1]);
    const send = comms.map((comm) => comm.alloc(Int32Array, 2 * COUNT));
    const recv = comms.map((comm) => comm.alloc(Int32Array, 2 * COUNT));
    const half = (rank: number, from: number) =>
      [send, recv].map((list) => list[rank]!.subarray(from, from + COUNT)) as [
        DeviceBuffer<Int32Array>,
        DeviceBuffer<Int32Array>,
      ];
    await Promise.all(send.map((buffer, rank) => buffer.copyFrom(new Int32Array(2 * COUNT).fill(1 + rank))));
    const first = comms.map((comm, rank) => comm.prepare.allReduce(...half(rank, 0)));
    await Promise.all(first.map(({ ready }) => ready));
    await Promise.all(comms.map((comm) => comm.synchronize()));
    const graphs = vi.spyOn(driver, 'cuGraphInstantiate');
    const streams = vi.spyOn(driver, 'cuStreamCreate');
    for (const [rank, comm] of comms.entries()) {
      first[rank]!.run();
      const second = comm.prepare.allReduce(...half(rank, COUNT));
      if (rank === 0) expect([graphs.mock.calls, streams.mock.calls]).toEqual([[], []]);
      await second.ready;
      second.run();
    }
    await Promise.all(comms.map((comm) => comm.synchronize()));
    for (const buffer of recv) expect(await buffer.read()).toEqual(new Int32Array(2 * COUNT).fill(3));
    // Where nothing runs there are graphs.
    graphs.mockClear();
    comms[0]!.prepare.allReduce(...half(0, COUNT));
    expect(graphs.mock.calls).toHaveLength(1);
  });
});

describe('launches in a loop that never lets the event loop go on', () => {
  it('end as soon as the kernels were ended, before anybody can say why', async () => {
    const { comms } = await fakeProcesses([0, 1]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, COUNT));
    const steps = comms.map((comm, rank) => comm.prepare.allReduce(buffers[rank]!, buffers[rank]!));
    await Promise.all(steps.map(({ ready }) => ready));
    steps[0]!.run();
    comms[1]!.abort('no more');
    expect(() => steps[0]!.run()).toThrow(/rank 1 has aborted/);
  });

  it('are refused to a rank that is too far ahead of another one of its thread', async () => {
    const { comms } = await fakeGpus([0, 1]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 1));
    const steps = comms.map((comm, rank) => comm.prepare.allReduce(buffers[rank]!, buffers[rank]!));
    await Promise.all(steps.map(({ ready }) => ready));
    const runs = (rank: number, most: number) => {
      let done = 0;
      try {
        while (done < most) {
          steps[rank]!.run();
          done += 1;
        }
      } catch (error) {
        expect(error).toMatchObject({
          code: 'invalidUsage',
          rank: 0,
          message: expect.stringMatching(
            /wait for rank 1 of the same thread.*call the ranks of a thread in turns/,
          ),
        });
      }
      return done;
    };
    const ahead = runs(0, 2000);
    expect(ahead).toBeGreaterThanOrEqual(MOST_AHEAD);
    expect(ahead).toBeLessThan(MOST_AHEAD + 20);
    // The communicator is as it was: who was behind may come.
    expect(runs(0, 1)).toBe(0);
    expect(runs(1, 100)).toBe(100);
    expect(runs(0, 50)).toBe(50);
    for (const comm of comms) comm.abort();
  });
});
