/** Bad input and faults of communicators on GPUs: clear errors, nobody hangs, everything is given back. */
import { describe, expect, it } from 'vitest';
import { STAGED } from '#src/collectives/gpu/names.js';
import { createLocalCudaCommunicators } from '#src/communicator/cuda/create-local.js';
import type { CudaCommunicator } from '#src/communicator/cuda/cuda-communicator.js';
import { cuda } from '#src/communicator/cuda/cuda-device-name.js';
import type { DeviceBuffer } from '#src/communicator/cuda/device-buffer.js';
import { createLocalCudaTeams } from '#src/communicator/cuda/local-cuda-team.js';
import { CUDA } from '#src/device/cuda/cuda-error.js';
import { CudaDriver } from '#src/device/cuda/driver.js';
import { TuttiError } from '#src/errors/tutti-error.js';
import { group } from '#src/index.js';
import { FakeDriver, type FakeDriverOptions } from '../../device/cuda/fake-driver.js';
import { codeOf, fakeGpus, fakeProcesses, fakePrograms } from './fake-gpus.js';

/** The error that a promise ends with. */
async function errorOf(promise: Promise<unknown>): Promise<TuttiError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!TuttiError.is(error)) throw new Error('no TuttiError', { cause: error });
  return error;
}

/** The errors of all ranks that could not be opened. */
async function errorsOf(opened: Promise<unknown>): Promise<TuttiError[]> {
  const error = await opened.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof AggregateError)) throw new Error('no errors of ranks', { cause: error });
  return error.errors as TuttiError[];
}

function open(gpus: readonly number[], options: FakeDriverOptions = {}) {
  const driver = new FakeDriver({ ranks: gpus.length, ...options });
  const made = createLocalCudaCommunicators(
    gpus.map((gpu) => cuda(gpu)),
    { timeoutMs: 2000, driver: new CudaDriver(driver), programs: fakePrograms(driver), chunkBytes: 65536 },
  );
  return { driver, made };
}

describe('opening', () => {
  it('refuses GPUs that are not there and too many ranks', async () => {
    expect((await errorOf(open([0, 1]).made)).message).toContain(
      'there is no GPU 1; the driver sees one GPU, 0',
    );
    expect((await errorOf(open(new Array(9).fill(0)).made)).message).toMatch(/9 ranks on GPU 0 .* at most 8/);
    expect(() => cuda(-1)).toThrow('cuda(-1)');
    expect(await codeOf(createLocalCudaCommunicators([], { timeoutMs: 1 }))).toBe('invalidArgument');
  });

  it('gives everything back when any step fails', async () => {
    const steps = [
      'cuDevicePrimaryCtxRetain',
      'cuMemHostRegister',
      'cuMemAlloc',
      'cuMemsetD8Async',
      'cuStreamCreate',
      'cuStreamSynchronize',
      'cuCtxEnablePeerAccess',
    ] as const;
    for (const step of steps) {
      for (const after of [0, 1]) {
        const driver = new FakeDriver({ gpus: 2, ranks: 2 });
        driver.failures.set(step, { code: CUDA.outOfMemory, after });
        const error = await errorOf(
          createLocalCudaCommunicators([cuda(0), cuda(1)], {
            timeoutMs: 2000,
            driver: new CudaDriver(driver),
            programs: fakePrograms(driver),
          }),
        );
        expect(error.message, step).toContain('CUDA_ERROR_OUT_OF_MEMORY');
        expect(driver.leaks, `${step} after ${after}`).toEqual([]);
      }
    }
  });
});

describe('calls', () => {
  it('refuse memory of the host, of another GPU, and what was given back', async () => {
    const { comms } = await fakeGpus([0, 1]);
    const [a, b] = comms;
    const own = a!.alloc(Float32Array, 8);
    const other = b!.alloc(Float32Array, 8);
    const host = await errorOf(a!.allReduce(new Float32Array(8) as never, own));
    expect(host.message).toMatch(
      /send must be memory of the GPU, not a Float32Array, which lies in memory of the host/,
    );
    expect((await errorOf(a!.allReduce(own, other))).message).toContain(
      'recv is memory of GPU 1, but rank 0 works on GPU 0',
    );
    expect((await errorOf(a!.allReduce(own, a!.alloc(Float32Array, 9)))).message).toContain('8 are due');
    expect((await errorOf(a!.allReduce(own, own, { stream: 12345 }))).message).toContain('stream 12345');
    own.free();
    expect(own.subarray(1).freed).toBe(true);
    expect(await codeOf(a!.allReduce(own, own))).toBe('invalidUsage');
    expect(() => own.free()).toThrow('free already');
    expect(() => a!.alloc(Array as never, 3)).toThrow('not a typed-array class');
    expect(() => a!.alloc(Float32Array, -1)).toThrow('invalid length');
    // None of these was a call.
    const fresh = comms.map((comm) => comm.alloc(Int32Array, 5));
    await Promise.all(comms.map((comm, rank) => comm.allReduce(fresh[rank]!, fresh[rank]!)));
  });

  it('take pointers of other libraries, and refuse those that are none', async () => {
    const { comms, driver } = await fakeGpus([0, 1]);
    const [a] = comms;
    const memory = a!.alloc(Float32Array, 100);
    const wrapped = a!.wrap(BigInt(memory.address) + 40n, Float32Array, 10);
    await wrapped.copyFrom(new Float32Array(10).fill(3));
    expect([...(await memory.read()).subarray(9, 21)]).toEqual([0, ...new Array(10).fill(3), 0]);
    wrapped.free();
    expect(memory.freed).toBe(false);
    const out: [number] = [0];
    driver.cuMemHostAlloc(out, 4096);
    expect(() => a!.wrap(out[0], Float32Array, 1)).toThrow(/memory of the host; a device pointer is due/);
    driver.cuMemFreeHost(out[0]);
    expect(() => a!.wrap(memory.address + 1, Float32Array, 1)).toThrow('not a multiple of the 4 bytes');
    expect(() => a!.wrap(memory.address, Uint8Array, 1e9)).toThrow('more than the');
    expect(() => a!.wrap(comms[1]!.alloc(Int8Array, 1).address, Int8Array, 1)).toThrow(
      'the pointer is memory of GPU 1, but rank 0 works on GPU 0',
    );
    expect(() => a!.wrap(Number.NaN, Int8Array, 1)).toThrow('NaN is no address');
    expect(() => a!.wrap(`0x${memory.address.toString(16)}` as never, Int8Array, 1)).toThrow(
      'string is no address; what is due is a device pointer, as a number or BigInt',
    );
    expect(() => a!.wrap(memory as never, Int8Array, 1)).toThrow('DeviceBuffer is no address');
  });

  it('refuse streams that are none, and what cannot be captured, and say what is due', async () => {
    const { comms } = await fakeGpus([0, 1]);
    const [a] = comms;
    const own = a!.alloc(Float32Array, 4);
    for (const stream of ['main', `${a!.stream}`, -1, 3n, null, {}]) {
      await expect(a!.allReduce(own, own, { stream: stream as never })).rejects.toThrow(
        /^stream .* is none that the driver knows; pass the handle \(CUstream, cudaStream_t\) as a number or BigInt/,
      );
    }
    await expect(a!.allReduce(own, own, { stream: 'main' as never })).rejects.toThrow("stream 'main' is");
    expect(() => a!.capture(own as never)).toThrow('capture: what is due is a function that makes the calls');
    await expect(own.copyFrom(undefined as never)).rejects.toThrow('pass one of 4 elements, not undefined');
    own.free();
    await expect(own.read()).rejects.toThrow('read: the buffer was given back');
    expect(a!.capture(() => {}).explanation).toBe('a graph of 0 calls');
  });

  it('say that they are closed once all have closed', async () => {
    for (const start of [fakeGpus, fakeProcesses]) {
      const { comms } = await start([0, 1]);
      const buffers = comms.map((comm) => comm.alloc(Float32Array, 4));
      const steps = comms.map((comm, rank) => comm.prepare.allReduce(buffers[rank]!, buffers[rank]!));
      await Promise.all(steps.map((step) => step.start()));
      await Promise.all(comms.map((comm) => comm.close()));
      for (const [rank, comm] of comms.entries()) {
        const closed = /^\w+: the communicator is closed$/;
        await expect(comm.allReduce(buffers[rank]!, buffers[rank]!)).rejects.toThrow(closed);
        await expect(comm.synchronize()).rejects.toThrow(closed);
        expect(() => comm.alloc(Float32Array, 1)).toThrow(closed);
        expect(() => steps[rank]!.run()).toThrow(closed);
      }
    }
  });

  it.each([
    ['in one process', fakeGpus],
    ['in processes', fakeProcesses],
  ] as const)('%s: end with the time limit when a rank does not come, which is named', async (_, start) => {
    const { comms } = await start([0, 0, 0], { timeoutMs: 150 });
    const buffers = comms.map((comm) => comm.alloc(Float32Array, 10));
    await Promise.all(comms.map((comm) => comm.synchronize()));
    const begin = Date.now();
    const ends = await Promise.all(
      [0, 1].map((rank) => errorOf(comms[rank]!.allReduce(buffers[rank]!, buffers[rank]!))),
    );
    expect(Date.now() - begin).toBeLessThan(2000);
    expect(ends.map(({ code }) => code).sort()).toEqual(['remoteError', 'timeout']);
    expect(ends.map(({ rank }) => rank)).toEqual([2, 2]);
    const [first] = ends.filter(({ code }) => code === 'timeout');
    expect(first!.message).toBe('allReduce: not done after 150 ms; rank 2 did not call it');
    expect(await codeOf(comms[2]!.allReduce(buffers[2]!, buffers[2]!))).toBe('remoteError');
    expect(await codeOf(comms[2]!.barrier())).toBe('remoteError');
  });

  it('that are messages say with whom they are, when the other side does not come', async () => {
    const { comms } = await fakeGpus([0, 0, 0], { timeoutMs: 120 });
    const buffer = comms[0]!.alloc(Float32Array, 10);
    const done = group(() => {
      void comms[0]!.send(buffer, 2);
      void comms[0]!.recv(comms[0]!.alloc(Float32Array, 10), 1);
    });
    const { code, message } = await errorOf(done);
    expect(code).toBe('timeout');
    expect(message).toBe(
      "send to rank 2, recv from rank 1: not done after 120 ms; rank 1 has not called the send to rank 0; rank 2 has not called the recv of rank 0's message",
    );
  });

  it('without a promise end with the time limit too', async () => {
    const { comms, driver } = await fakeGpus([0, 0], { timeoutMs: 100 });
    const buffer = comms[0]!.alloc(Float32Array, 10);
    const prepared = comms[0]!.prepare.allReduce(buffer, buffer);
    prepared.run();
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(() => prepared.run()).toThrow('not done after 100 ms; rank 1 did not call it');
    await Promise.all(comms.map((comm) => comm.close()));
    expect(driver.leaks).toEqual([]);
  });

  it('end when a rank aborts or closes, and the kernels with them', async () => {
    for (const leave of ['abort', 'close'] as const) {
      const { comms, driver } = await fakeGpus([0, 0]);
      const [a, b] = comms;
      const buffer = a!.alloc(Float32Array, 10);
      const waiting = errorOf(a!.allReduce(buffer, buffer));
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (leave === 'abort') b!.abort('enough');
      else await b!.close();
      const error = await waiting;
      expect([error.code, error.rank]).toEqual(['remoteError', 1]);
      await Promise.all(comms.map((comm) => comm.close()));
      expect(driver.leaks).toEqual([]);
      expect(await codeOf(a!.allReduce(buffer, buffer))).toBe('remoteError');
    }
  });

  it('report that the GPU broke down, to all ranks', async () => {
    const { comms, driver } = await fakeGpus([0, 1]);
    const buffers = comms.map((comm) => comm.alloc(Float32Array, 10));
    await Promise.all(comms.map((comm) => comm.synchronize()));
    driver.failures.set('cuEventQuery', { code: 700 });
    const ends = await Promise.all(
      comms.map((comm, rank) => errorOf(comm.allReduce(buffers[rank]!, buffers[rank]!))),
    );
    expect(ends.some(({ message }) => message.includes('CUDA error 700'))).toBe(true);
    driver.failures.clear();
  });

  it('report that a launch or a kernel failed at one rank, to all ranks', async () => {
    for (const [step, start] of [
      ['cuLaunchKernel', fakeGpus],
      ['cuLinkComplete', fakeProcesses],
    ] as const) {
      const { comms, driver } = await start([0, 1]);
      const buffers = comms.map((comm) => comm.alloc(Float32Array, 10));
      await Promise.all(comms.map((comm) => comm.synchronize()));
      driver.failures.set(step, { code: CUDA.outOfMemory });
      const first = errorOf(comms[0]!.allReduce(buffers[0]!, buffers[0]!));
      expect((await first).message).toMatch(/^cannot (launch|compile) .*CUDA_ERROR_OUT_OF_MEMORY/);
      driver.failures.clear();
      const other = await errorOf(comms[1]!.allReduce(buffers[1]!, buffers[1]!));
      expect([other.code, other.rank]).toEqual(['remoteError', 0]);
      await Promise.all(comms.map((comm) => comm.close()));
      expect(driver.leaks).toEqual([]);
    }
  });

  it('report that memory is missing, and go on', async () => {
    const { comms } = await fakeGpus([0, 0], { memory: 400_000 });
    const [a] = comms;
    expect(() => a!.alloc(Float32Array, 200_000)).toThrow(
      /^alloc: cannot allocate .* CUDA_ERROR_OUT_OF_MEMORY/,
    );
    await Promise.all(
      comms.map((comm) => comm.allReduce(comm.alloc(Int8Array, 4), comm.alloc(Int8Array, 4))),
    );
  });
});

describe('streams of other libraries', () => {
  it('are worked in, in the order of all calls', async () => {
    const { comms, driver } = await fakeGpus([0, 0]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 50));
    const streams = comms.map(() => {
      const stream: [number] = [0];
      driver.cuStreamCreate(stream);
      return stream[0];
    });
    await Promise.all(buffers.map((buffer) => buffer.copyFrom(new Int32Array(50).fill(1))));
    const launched = driver.launches;
    for (let k = 0; k < 4; k++) {
      // Enqueued, not done: nobody has looked at the GPU.
      const stream = k % 2 === 0 ? { stream: BigInt(streams[0]!) } : {};
      const calls = comms.map((comm, rank) =>
        comm.allReduce(buffers[rank]!, buffers[rank]!, rank === 0 ? stream : { stream: streams[1]! }),
      );
      await Promise.all(calls);
    }
    expect(driver.launches - launched).toBe(8);
    await Promise.all(comms.map((comm) => comm.synchronize()));
    expect([...(await buffers[1]!.read())]).toEqual(new Array(50).fill(16));
    const prepared = comms.map((comm, rank) => comm.prepare.allReduce(buffers[rank]!, buffers[rank]!));
    for (const [rank, one] of prepared.entries()) one.run(streams[rank]);
    await Promise.all(comms.map((comm) => comm.synchronize()));
    expect([...(await buffers[0]!.read())]).toEqual(new Array(50).fill(32));
    await Promise.all(comms.map((comm) => comm.close()));
    for (const stream of streams) driver.cuStreamDestroy(stream);
    expect(driver.leaks).toEqual([]);
  });
});

describe('a stream of another library', () => {
  it('may be destroyed as soon as a call is in it', async () => {
    const { comms, driver } = await fakeGpus([0, 0]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 50));
    await Promise.all(buffers.map((buffer) => buffer.copyFrom(new Int32Array(50).fill(1))));
    for (let k = 0; k < 3; k++) {
      const streams = comms.map(() => {
        const stream: [number] = [0];
        driver.cuStreamCreate(stream);
        return stream[0];
      });
      const reduce = (options = {}) =>
        Promise.all(comms.map((comm, i) => comm.allReduce(buffers[i]!, buffers[i]!, options)));
      await Promise.all(
        comms.map((comm, i) => comm.allReduce(buffers[i]!, buffers[i]!, { stream: streams[i]! })),
      );
      for (const stream of streams) driver.cuStreamDestroy(stream);
      // The next call waits for that one, and whoever waits for all of them does.
      if (k > 0) await reduce();
      await Promise.all(comms.map((comm) => comm.synchronize()));
    }
    expect([...(await buffers[1]!.read())]).toEqual(new Array(50).fill(32));
    await Promise.all(comms.map((comm) => comm.close()));
    expect(driver.leaks).toEqual([]);
  });
});

describe('virtual memory of another library', () => {
  it.each([
    ['one process', fakeGpus],
    ['processes', fakeProcesses],
  ])('works as far as it goes, in %s', async (_, make) => {
    const { comms, driver, cudaDriver } = await make([0, 1]);
    const arrays = comms.map((comm, rank) => {
      cudaDriver.device(rank).makeCurrent();
      const address = driver.virtualMemory(4096, [rank === 0 ? [0, 1] : [1]]);
      expect(() => comm.wrap(address, Float32Array, 1025)).toThrow(
        '4100 bytes at the pointer are more than the 4096',
      );
      return comm.wrap(address, Float32Array, 1000);
    });
    for (const [rank, array] of arrays.entries()) await array.copyFrom(new Float32Array(1000).fill(rank + 1));
    const recvs = comms.map((comm) => comm.alloc(Float32Array, 1000));
    await Promise.all(comms.map((comm, rank) => comm.allReduce(arrays[rank]!, recvs[rank]!)));
    for (const recv of recvs) expect([...(await recv.read())]).toEqual(new Array(1000).fill(3));
  });

  it('is read and written by peers where all of them may, and copied on the way otherwise', async () => {
    const driver = new FakeDriver({ gpus: 2, ranks: 2 });
    const cudaDriver = new CudaDriver(driver);
    const devices = [0, 1].map((index) => cudaDriver.device(index));
    const programs = fakePrograms(driver);
    const teams = createLocalCudaTeams(cudaDriver, devices, { timeoutMs: 1000, programs });
    const [team] = teams;
    devices[0]!.makeCurrent();
    const piece = 2 ** 21;
    const both = [0, 1];
    for (const [pieces, from, bytes, reached] of [
      [[both], 64, 160, true],
      [[[0]], 64, 160, false],
      [[both, [0]], piece - 160, 160, true],
      [[both, [0]], piece - 128, 160, false],
      [[[0], both, both], piece, 2 * piece, true],
    ] as const) {
      const address = from + driver.virtualMemory(pieces.length * piece, pieces);
      team!.adopt(address, bytes);
      const allocation = { address, bytes, foreign: true, freed: false };
      const name = team!.nameOf({ allocation } as DeviceBuffer, address);
      expect(name).toBe(reached ? address : STAGED);
    }
    await Promise.all(teams.map((one) => one.close(true)));
  });
});

describe('prepared operations and graphs', () => {
  it('say why they cannot run any more', async () => {
    const { comms } = await fakeGpus([0]);
    const [comm] = comms;
    const buffer = comm!.alloc(Float32Array, 10);
    const other = comm!.alloc(Float32Array, 10);
    const prepared = comm!.prepare.allReduce(buffer, other);
    const graph = comm!.capture(() => void comm!.allReduce(buffer, other));
    expect(graph.explanation).toBe('a graph of 1 call');
    await graph.start();
    prepared.run();
    buffer.free();
    expect(() => prepared.run()).toThrow('a buffer that it works on was given back; prepare it again');
    expect(await codeOf(graph.start())).toBe('invalidUsage');
    const released = comm!.prepare.broadcast(other);
    released.release();
    expect(() => released.run()).toThrow('was released');
  });

  it('refuse a bad call in a graph, and nothing stays recorded', async () => {
    const { comms } = await fakeGpus([0, 0]);
    const [comm] = comms;
    const buffer = comm!.alloc(Float32Array, 10);
    await comm!.synchronize();
    expect(() => comm!.capture(() => void comm!.allReduce(buffer, null as never))).toThrow('recv must be');
    expect(() => comm!.capture(() => void comm!.capture(() => {}))).toThrow('being recorded already');
    const graphs = comms.map((one) => {
      const own = one.alloc(Int32Array, 4);
      return one.capture(() => void one.allReduce(own, own));
    });
    await Promise.all(graphs.map((graph) => graph.start()));
  });
});

describe('a rank that has made all its calls may close', () => {
  it.each([
    ['in one process', fakeGpus],
    ['in processes', fakeProcesses],
  ] as const)('%s: the others still use their results, and their next call fails', async (_, start) => {
    const { comms, driver } = await start([0, 0]);
    const [a, b] = comms;
    const buffers = comms.map((comm) => comm.alloc(Float32Array, 10));
    await buffers[0]!.copyFrom(new Float32Array(10).fill(3));
    await Promise.all(comms.map((comm, rank) => comm.broadcast(buffers[rank]!, { root: 0 })));
    const closed = a!.close();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await buffers[1]!.read()).toEqual(new Float32Array(10).fill(3));
    await buffers[1]!.copyFrom(new Float32Array(10).fill(4));
    expect(await buffers[1]!.read()).toEqual(new Float32Array(10).fill(4));
    const error = await errorOf(b!.broadcast(buffers[1]!, { root: 0 }));
    expect([error.code, error.rank]).toEqual(['remoteError', 0]);
    await b!.close();
    await closed;
    expect(driver.leaks).toEqual([]);
  });
});

describe('calls that differ', () => {
  const differing: readonly [string, RegExp, (comm: CudaCommunicator) => Promise<void>][] = [
    [
      'in size',
      /rank (\d) calls allReduce of (10|11) float32, op sum, rank (\d) calls allReduce of (10|11) float32, op sum/,
      async (comm) => {
        const buffer = comm.alloc(Float32Array, comm.rank === 1 ? 11 : 10);
        return comm.allReduce(buffer, buffer);
      },
    ],
    [
      'in operator',
      /allReduce of 10 float32, op (sum|max), .*allReduce of 10 float32, op (sum|max)/,
      async (comm) => {
        const buffer = comm.alloc(Float32Array, 10);
        return comm.allReduce(buffer, buffer, { op: comm.rank === 1 ? 'max' : 'sum' });
      },
    ],
    [
      'in root',
      /gather of 4 int32, root (1|2), .*gather of 4 int32, root (1|2)/,
      async (comm) =>
        comm.gather(comm.alloc(Int32Array, 4), comm.alloc(Int32Array, 12), { root: comm.rank === 1 ? 2 : 1 }),
    ],
    [
      'in kind',
      /broadcast of 8 uint8, root 0, .*scatter of 8 uint8, root 0|scatter of 8 uint8, root 0, .*broadcast of 8 uint8/,
      async (comm) =>
        comm.rank === 1
          ? comm.broadcast(comm.alloc(Uint8Array, 8))
          : comm.scatter(comm.alloc(Uint8Array, 24), comm.alloc(Uint8Array, 8)),
    ],
  ];

  it.each(differing)('%s: end with an error that names both', async (_, text, call) => {
    const starts = [fakeGpus, fakeProcesses];
    for (const start of starts) {
      const { comms, driver } = await start([0, 1, 1]);
      const begin = Date.now();
      const ends = await Promise.all(comms.map((comm) => errorOf(call(comm))));
      expect(Date.now() - begin).toBeLessThan(2000);
      expect(ends.map(({ code }) => code)).toEqual(['invalidUsage', 'invalidUsage', 'invalidUsage']);
      expect(ends.some(({ message }) => text.test(message))).toBe(true);
      for (const { message } of ends)
        expect(message).toMatch(/the ranks (do different things|made different)/);
      await Promise.all(comms.map((comm) => comm.close()));
      expect(driver.leaks).toEqual([]);
    }
  });

  it.each([
    ['in one process', fakeGpus],
    ['in processes', fakeProcesses],
  ] as const)('%s, with check: all ranks hear of it before anything begins', async (_, start) => {
    const { comms, driver } = await start([0, 1], { check: true, timeoutMs: 300 });
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 5));
    await Promise.all(comms.map((comm, rank) => comm.allReduce(buffers[rank]!, buffers[rank]!)));
    const { launches } = driver;
    const late = await errorOf(comms[0]!.allReduce(buffers[0]!, buffers[0]!));
    expect([late.code, late.rank, driver.launches]).toEqual(['timeout', 1, launches]);
    expect(late.message).toContain('rank 1');
    const again = await start([0, 1], { check: true });
    const before = again.driver.launches;
    const ends = await Promise.all(
      again.comms.map(async (comm, rank) => {
        const buffer = comm.alloc(Int32Array, 5);
        return errorOf(rank === 0 ? comm.allReduce(buffer, buffer) : comm.broadcast(buffer));
      }),
    );
    expect(again.driver.launches).toBe(before);
    for (const { code, message } of ends) {
      expect(code).toBe('invalidUsage');
      expect(message).toMatch(/rank \d calls (allReduce|broadcast) of 5 int32|made different calls/);
    }
  });

  it('are found in prepared operations and graphs too', async () => {
    for (const way of ['prepare', 'capture'] as const) {
      const { comms } = await fakeGpus([0, 0]);
      const operations = comms.map((comm, rank) => {
        const [a, b] = [comm.alloc(Int32Array, 6), comm.alloc(Int32Array, 6)];
        const options = { op: rank === 0 ? 'min' : 'prod' } as const;
        return way === 'prepare'
          ? comm.prepare.allReduce(a, b, options)
          : comm.capture(() => void comm.allReduce(a, b, options));
      });
      await Promise.all(operations.map(({ ready }) => ready));
      operations[0]!.run();
      expect(() => operations[1]!.run()).toThrow(
        /rank 1 calls allReduce of 6 int32, op prod, rank 0 calls allReduce of 6 int32, op min/,
      );
      await new Promise((resolve) => setTimeout(resolve, 60));
      expect(() => operations[0]!.run()).toThrow(
        /rank 0 calls allReduce of 6 int32, op min, rank 1 calls allReduce of 6 int32, op prod/,
      );
    }
  });
});

describe('processes', () => {
  it('are all told what one of them met while it opened', async () => {
    for (const step of ['cuMemHostRegister', 'cuMemAlloc', 'cuIpcOpenMemHandle'] as const) {
      const errors = await errorsOf(
        fakeProcesses([0, 1], { fail: new Map([[step, { code: CUDA.outOfMemory }]]) }),
      );
      expect(errors).toHaveLength(2);
      for (const { message } of errors) expect(message).toMatch(/^rank \d: .*CUDA_ERROR_OUT_OF_MEMORY/);
    }
    const wrong = await errorsOf(fakeProcesses([0, 7], { gpus: 1 }));
    expect(wrong.map(({ message }) => message)).toEqual(
      new Array(2).fill('rank 1: there is no GPU 7; the driver sees one GPU, 0'),
    );
    const divided = await errorsOf(fakeProcesses([0, 0], { check: [true, false] }));
    for (const { code, message } of divided) {
      expect([code, message]).toEqual([
        'invalidUsage',
        expect.stringContaining('rank 1 does not; set it alike'),
      ]);
    }
    expect(divided).toHaveLength(2);
    const crowd = await errorsOf(fakeProcesses(new Array(9).fill(0)));
    for (const { message } of crowd) expect(message).toMatch(/9 ranks on GPU 0 .* at most 8/);
    expect(crowd).toHaveLength(9);
  });

  it('end when one leaves that others wait for', async () => {
    const { comms, driver } = await fakeProcesses([0, 0]);
    const [a, b] = comms;
    const buffer = a!.alloc(Float32Array, 10);
    const waiting = errorOf(a!.allReduce(buffer, buffer));
    await new Promise((resolve) => setTimeout(resolve, 100));
    await b!.close();
    expect((await waiting).code).toBe('remoteError');
    await a!.close();
    expect(driver.leaks).toEqual([]);
  });
});
