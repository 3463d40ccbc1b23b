/** Prepared operations as kernels and as graphs of one kernel. */
import { describe, expect, it, vi } from 'vitest';
import type { CudaDevice } from '#src/device/cuda/cuda-device.js';
import type { FakeDriver } from '../../device/cuda/fake-driver.js';
import { fakeProcesses } from './fake-gpus.js';

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
});
