/** Any call of the driver may fail at any time: nobody hangs, errors are clear, everything is given back. */
import { describe, expect, it } from 'vitest';
import type { CudaCommunicator } from '#src/communicator/cuda/cuda-communicator.js';
import { CUDA } from '#src/device/cuda/cuda-error.js';
import { TuttiError } from '#src/errors/tutti-error.js';
import { group } from '#src/index.js';
import type { FakeDriver } from '../../device/cuda/fake-driver.js';
import { effort } from '../../effort.js';
import { fakeGpus, fakeProcesses } from './fake-gpus.js';

/** Calls that a communicator makes after it has been opened. */
const CALLS = [
  'cuMemAlloc',
  'cuMemsetD8Async',
  'cuMemcpyHtoDAsync',
  'cuMemcpyDtoHAsync',
  'cuIpcGetMemHandle',
  'cuIpcOpenMemHandle',
  'cuStreamCreate',
  'cuStreamQuery',
  'cuStreamWaitEvent',
  'cuEventCreate',
  'cuEventRecord',
  'cuEventQuery',
  'cuLinkCreate',
  'cuLinkComplete',
  'cuModuleLoadData',
  'cuModuleGetFunction',
  'cuLaunchKernel',
  'cuStreamBeginCapture',
  'cuStreamEndCapture',
  'cuGraphInstantiate',
  'cuGraphLaunch',
] as const;

/** What a rank does: a little of everything. */
async function work(comm: CudaCommunicator, stream: number): Promise<void> {
  const peer = 1 - comm.rank;
  const [a, b] = [comm.alloc(Int32Array, 4), comm.alloc(Int32Array, 4)];
  await a.copyFrom(new Int32Array(4).fill(1));
  await comm.allReduce(a, b);
  const step = comm.prepare.allReduce(a, b);
  await step.ready;
  step.run();
  step.run(stream);
  await comm.broadcast(b, { stream });
  await comm.synchronize();
  const large = comm.alloc(Int32Array, 30_000);
  await comm.broadcast(large);
  const graph = comm.capture(() => void comm.allReduce(a, b));
  await graph.start();
  graph.release();
  await group(() => {
    void comm.send(a, peer);
    void comm.recv(b, peer);
  });
  large.free();
  step.release();
  await b.read();
}

async function tryWith(
  open: typeof fakeGpus,
  arrange: (driver: FakeDriver) => void,
  timeoutMs = 200,
): Promise<{ ends: unknown[]; left: string[] }> {
  const { comms, driver } = await open([0, 1], { timeoutMs });
  const streams = comms.map((_comm, rank) => {
    driver.cuCtxSetCurrent(0xc0 + rank);
    const out: [number] = [0];
    driver.cuStreamCreate(out);
    return out[0];
  });
  await Promise.all(comms.map((comm) => comm.synchronize()));
  arrange(driver);
  const settled = await Promise.allSettled(comms.map((comm, rank) => work(comm, streams[rank]!)));
  driver.failures.clear();
  await Promise.all(comms.map((comm) => comm.close()));
  for (const stream of streams) driver.cuStreamDestroy(stream);
  return {
    ends: settled.flatMap((one) => (one.status === 'rejected' ? [one.reason] : [])),
    left: driver.leaks,
  };
}

describe.each([
  ['in one process', fakeGpus],
  ['in processes', fakeProcesses],
] as const)('%s', (_, open) => {
  it('nothing fails by itself', async () => {
    expect(await tryWith(open, () => {}, 10_000)).toEqual({ ends: [], left: [] });
  });

  it.each(CALLS)('a failure of %s ends what is under way, and is named', async (call) => {
    for (const after of effort([0, 4], [0, 1, 2, 3, 4, 8])) {
      const begin = performance.now();
      const { ends, left } = await tryWith(open, (driver) => {
        driver.failures.set(call, { code: CUDA.outOfMemory, after });
      });
      expect(left, `after ${after}`).toEqual([]);
      for (const end of ends) expect(TuttiError.is(end), `after ${after}: ${String(end)}`).toBe(true);
      expect(performance.now() - begin).toBeLessThan(20_000);
    }
  });
});
