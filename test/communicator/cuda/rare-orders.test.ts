/** What programs do seldom and in odd orders: nothing is left behind, nothing runs on what is gone, errors are clear. */
import { describe, expect, it, vi } from 'vitest';
import { STAGED } from '#src/collectives/gpu/names.js';
import type { DeviceBuffer } from '#src/communicator/cuda/device-buffer.js';
import { createLocalCudaTeams } from '#src/communicator/cuda/local-cuda-team.js';
import { PeerMessages } from '#src/communicator/cuda/peer-messages.js';
import { CUDA } from '#src/device/cuda/cuda-error.js';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { group } from '#src/index.js';
import { FakeDriver } from '../../device/cuda/fake-driver.js';
import { fakeGpus, fakeProcesses, fakePrograms } from './fake-gpus.js';

const KINDS = [
  ['one process', fakeGpus],
  ['processes', fakeProcesses],
] as const;

/** A code of the driver for a context that is of no more use: an illegal address. */
const BROKEN = 700;

/** Peers say so late, or never, that they have mapped memory; until the returned function is called. */
function delayAnswers(ms: number): () => void {
  const { send } = PeerMessages.prototype;
  const spy = vi.spyOn(PeerMessages.prototype, 'send').mockImplementation(function (
    this: PeerMessages,
    peer,
    message,
  ) {
    if (message.type !== 'mapped') send.call(this, peer, message);
    else if (ms < Number.POSITIVE_INFINITY) setTimeout(() => send.call(this, peer, message), ms);
  });
  return () => spy.mockRestore();
}

describe('a graph', () => {
  it('is not made when a buffer of it is given back while it is recorded', async () => {
    const { comms, driver } = await fakeGpus([0, 1]);
    const [a] = comms;
    const buffer = a!.alloc(Int32Array, 4);
    const recording = () =>
      a!.capture(() => {
        void a!.allReduce(buffer, buffer);
        buffer.free();
      });
    expect(recording).toThrow('capture: a buffer was given back that a call of the graph works on');
    expect([driver.live.graphs.size, driver.live.executables.size]).toEqual([0, 0]);
  });

  it('takes the calls of another one that is run while it is recorded', async () => {
    const { comms, driver } = await fakeGpus([0, 1]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 4));
    await Promise.all(buffers.map((buffer) => buffer.copyFrom(new Int32Array(4).fill(1))));
    const inner = comms.map((comm, rank) =>
      comm.capture(() => void comm.allReduce(buffers[rank]!, buffers[rank]!)),
    );
    const outer = comms.map((comm, rank) =>
      comm.capture(() => {
        inner[rank]!.run();
        inner[rank]!.run();
      }),
    );
    for (const graph of inner) graph.release();
    await Promise.all(outer.map((graph) => graph.start()));
    for (const buffer of buffers) expect([...(await buffer.read())]).toEqual([4, 4, 4, 4]);
    expect(driver.nested).toBe(0);
  });

  it('goes on when an operation in it is released, and not when its buffer is', async () => {
    const { comms } = await fakeGpus([0, 1]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 4));
    const steps = comms.map((comm, rank) => comm.prepare.allReduce(buffers[rank]!, buffers[rank]!));
    await Promise.all(steps.map(({ ready }) => ready));
    const graphs = comms.map((comm, rank) => comm.capture(() => steps[rank]!.run()));
    for (const step of steps) step.release();
    await Promise.all(graphs.map((graph) => graph.start()));
    for (const buffer of buffers) buffer.free();
    for (const graph of graphs) expect(() => graph.run()).toThrow('a buffer that it works on was given back');
  });

  it('is not recorded in an open group, which its messages would leave', async () => {
    const { comms } = await fakeGpus([0, 0]);
    const [a] = comms;
    const buffer = a!.alloc(Int32Array, 4);
    await expect(
      group(() => {
        a!.capture(() => void a!.send(buffer, 1));
      }),
    ).rejects.toThrow('capture: a group is open');
  });
});

describe('a prepared operation', () => {
  it('that is released before it is ready leaves nothing', async () => {
    const { comms, driver } = await fakeProcesses([0, 1]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 4));
    await Promise.all(comms.map((comm, rank) => comm.broadcast(buffers[rank]!)));
    const end = delayAnswers(30);
    try {
      const step = comms[0]!.prepare.broadcast(comms[0]!.alloc(Int32Array, 40_000));
      step.release();
      await step.ready;
      await Promise.all(comms.map((comm) => comm.close()));
      expect(driver.leaks).toEqual([]);
    } finally {
      end();
    }
  });

  it('is not ready any more when its communicator closes first', async () => {
    const { comms, driver } = await fakeProcesses([0, 1]);
    const [a, b] = comms;
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 4));
    await Promise.all(comms.map((comm, rank) => comm.allReduce(buffers[rank]!, buffers[rank]!)));
    const end = delayAnswers(Number.POSITIVE_INFINITY);
    try {
      // The peer never says that it has this one.
      const fresh = a!.alloc(Int32Array, 40_000);
      const step = a!.prepare.broadcast(fresh);
      const refused = expect(step.ready).rejects.toThrow(
        'broadcast: the communicator was closed before it was ready',
      );
      await Promise.all([a!.close(), b!.close()]);
      await refused;
      expect(driver.leaks).toEqual([]);
    } finally {
      end();
    }
  });
});

describe('memory', () => {
  it('is given back when a peer cannot be told of it, or it cannot be set to zeros', async () => {
    for (const [call, make] of [
      ['cuIpcGetMemHandle', fakeProcesses],
      ['cuMemsetD8Async', fakeGpus],
    ] as const) {
      const { comms, driver } = await make([0, 1]);
      const before = driver.live.memory.size;
      driver.failures.set(call, { code: CUDA.invalidValue });
      for (let k = 0; k < 3; k++)
        expect(() => comms[0]!.alloc(Int32Array, 40_000)).toThrow(/^(alloc: )?cannot/);
      driver.failures.clear();
      await vi.waitFor(() => expect(driver.live.memory.size).toBe(before));
      const buffers = comms.map((comm) => comm.alloc(Int32Array, 40_000));
      await Promise.all(comms.map((comm, rank) => comm.allReduce(buffers[rank]!, buffers[rank]!)));
    }
  });

  it('of large buffers does not pile up in a loop', async () => {
    const { comms, driver } = await fakeProcesses([1, 0]);
    const before = driver.live.memory.size;
    for (let k = 0; k < 12; k++) {
      const buffers = comms.map((comm) => comm.alloc(Int32Array, 20_000 + k));
      await Promise.all(comms.map((comm, rank) => comm.broadcast(buffers[rank]!)));
      for (const buffer of buffers) buffer.free();
    }
    expect(driver.live.memory.size).toBeLessThan(before + 12);
    await vi.waitFor(() => expect(driver.live.memory.size).toBeLessThanOrEqual(before + 2));
  });

  it('that is wrapped twice with different lengths is reached as far as each of them goes', async () => {
    const driver = new FakeDriver({ gpus: 2, ranks: 2 });
    const cudaDriver = new CudaDriver(driver);
    const devices = [0, 1].map((index) => cudaDriver.device(index));
    const teams = createLocalCudaTeams(cudaDriver, devices, {
      timeoutMs: 1000,
      programs: fakePrograms(driver),
    });
    const team = teams[0]!;
    devices[0]!.makeCurrent();
    const address = driver.virtualMemory(2 ** 22, [[0, 1], [0]]);
    const nameOf = (bytes: number) =>
      team.nameOf({ allocation: { address, bytes, foreign: true, freed: false } } as DeviceBuffer, address);
    team.adopt(address, 64);
    team.adopt(address, 2 ** 22);
    expect([nameOf(64), nameOf(2 ** 22)]).toEqual([address, STAGED]);
    team.adopt(address, 64);
    team.release(address, 64);
    expect(nameOf(64)).toBe(address);
    team.release(address, 64);
    expect(nameOf(64)).toBe(STAGED);
    driver.live.memory.delete(address);
    await Promise.all(teams.map((one) => one.close(true)));
    expect(driver.leaks).toEqual([]);
  });
});

describe('closing', () => {
  it.each(KINDS)('comes to its end where the GPU is broken, in %s', async (_, make) => {
    const { comms, driver } = await make([1, 0]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 40_000));
    await Promise.all(comms.map((comm, rank) => comm.broadcast(buffers[rank]!)));
    const unhandled = vi.fn();
    process.on('unhandledRejection', unhandled);
    try {
      for (const call of [
        'cuEventQuery',
        'cuStreamQuery',
        'cuMemFree',
        'cuMemHostUnregister',
        'cuDevicePrimaryCtxRelease',
      ] as const)
        driver.failures.set(call, { code: BROKEN });
      buffers[0]!.free();
      const ends = await Promise.allSettled(comms.map((comm, rank) => comm.broadcast(buffers[rank]!)));
      expect(ends.map(({ status }) => status)).toContain('rejected');
      await Promise.all(comms.map((comm) => comm.close()));
      await new Promise((resolve) => setTimeout(resolve, 5));
      expect(unhandled).not.toHaveBeenCalled();
      // The contexts are given back: the process may begin anew.
      expect(driver.retained).toEqual([0, 0]);
    } finally {
      process.off('unhandledRejection', unhandled);
    }
  });

  it('lets copies end that were called for before, and refuses later ones', async () => {
    const { comms, driver } = await fakeGpus([0, 1]);
    const [a, b] = comms;
    const buffer = a!.alloc(Int32Array, 4);
    const early = buffer.read();
    const closed = [a!.close(), b!.close()];
    await expect(buffer.read()).rejects.toThrow('copyTo: the communicator is closed');
    expect([...(await early)]).toEqual([0, 0, 0, 0]);
    await Promise.all(closed);
    expect(driver.leaks).toEqual([]);
  });
});

describe('streams of other libraries', () => {
  it('may be as many as a program likes', async () => {
    const { comms, driver } = await fakeGpus([0]);
    const [comm] = comms;
    const [a, b] = [comm!.alloc(Int32Array, 4), comm!.alloc(Int32Array, 4)];
    await a.copyFrom(Int32Array.of(1, 2, 3, 4));
    driver.cuCtxSetCurrent(0xc0);
    for (let k = 0; k < 300; k++) {
      const stream: [number] = [0];
      driver.cuStreamCreate(stream);
      await comm!.allReduce(a, b, { stream: stream[0] });
      await comm!.synchronize();
      driver.cuStreamDestroy(stream[0]);
    }
    expect([...(await b.read())]).toEqual([1, 2, 3, 4]);
    expect(driver.live.events.size).toBeLessThan(200);
    await comm!.close();
    expect(driver.leaks).toEqual([]);
  });
});
