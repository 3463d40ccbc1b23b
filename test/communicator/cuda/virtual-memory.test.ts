/** Virtual memory of other libraries between processes: mapped where it was made for that, copied otherwise. */
import { readdirSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import type { CudaCommunicator } from '#src/communicator/cuda/cuda-communicator.js';
import type { DeviceBuffer } from '#src/communicator/cuda/device-buffer.js';
import { CUDA } from '#src/device/cuda/cuda-error.js';
import type { DriverFunctions } from '#src/device/cuda/driver-functions.js';
import { TuttiError } from '#src/errors/tutti-error.js';
import { DescriptorSocket } from '#src/system/descriptor-socket.js';
import { type FakeGpus, fakeProcesses } from './fake-gpus.js';

const PIECE = 2 ** 21;
const LENGTH = 200;

const openDescriptors = () => readdirSync('/proc/self/fd').length;

/** Virtual memory of two pieces for each rank, made to be shared or not. */
function makeMemory({ comms, driver }: FakeGpus, shared: boolean): number[] {
  return comms.map((comm) => {
    const context: [number] = [0];
    driver.cuDevicePrimaryCtxRetain(context, comm.device);
    driver.cuCtxSetCurrent(context[0]);
    driver.cuDevicePrimaryCtxRelease(comm.device);
    return driver.virtualMemory(2 * PIECE, [[comm.device], [comm.device]], shared);
  });
}

/** Buffers that lie in the last bytes of the first piece and the first ones of the second. */
function wrap(comms: readonly CudaCommunicator[], memory: readonly number[]): DeviceBuffer<Int32Array>[] {
  return comms.map((comm, rank) => comm.wrap(memory[rank]! + PIECE - 2 * LENGTH, Int32Array, LENGTH));
}

/** Sums the ranks' numbers over these buffers, and checks the result; how they did it. */
async function sum(
  comms: readonly CudaCommunicator[],
  buffers: readonly DeviceBuffer<Int32Array>[],
): Promise<string> {
  await Promise.all(
    buffers.map((buffer, rank) => buffer.copyFrom(Int32Array.from({ length: LENGTH }, (_, i) => i + rank))),
  );
  const calls = comms.map((comm, rank) => comm.prepare.allReduce(buffers[rank]!, buffers[rank]!));
  await Promise.all(calls.map(({ ready }) => ready));
  await Promise.all(calls.map((call) => call.start()));
  const ranks = comms.length;
  const due = Array.from({ length: LENGTH }, (_, i) => ranks * i + (ranks * (ranks - 1)) / 2);
  for (const buffer of buffers) expect([...(await buffer.read())]).toEqual(due);
  const explanations = calls.map(({ explanation }) => explanation);
  for (const call of calls) call.release();
  return explanations.join('\n');
}

/** Closes all; nothing of the driver stays, but the memory that is somebody else's. */
async function closeAll({ comms, driver }: FakeGpus, memory: readonly number[]): Promise<void> {
  await Promise.all(comms.map((comm) => comm.close()));
  for (const address of memory) driver.live.memory.delete(address);
  expect(driver.leaks).toEqual([]);
}

describe('virtual memory that was made to be shared', () => {
  it.each([{ gpus: [0, 1, 2] }, { gpus: [0, 0], threads: true }])(
    'is mapped by the peers while a buffer is there, on GPUs $gpus',
    async ({ gpus, threads = false }) => {
      const fake = await fakeProcesses(gpus, { threads });
      const { comms, driver } = fake;
      const memory = makeMemory(fake, true);
      const descriptors = openDescriptors();
      const buffers = wrap(comms, memory);
      const peers = gpus.length - 1;
      expect(await sum(comms, buffers)).not.toContain('copied');
      expect(openDescriptors()).toBe(descriptors);
      expect(driver.live.mapped.size).toBe(2 * peers * gpus.length);
      // Others at the same place, or in a part of it, go with them.
      const more = wrap(comms, memory);
      const part = comms.map((comm, rank) => comm.wrap(memory[rank]! + PIECE, Int32Array, LENGTH));
      expect(await sum(comms, part)).not.toContain('copied');
      expect(driver.live.mapped.size).toBe(2 * peers * gpus.length);
      for (const buffer of [...buffers, ...part]) buffer.free();
      expect(await sum(comms, more)).not.toContain('copied');
      for (const buffer of more) buffer.free();
      await Promise.all(comms.map((comm) => comm.synchronize()));
      await vi.waitFor(() => expect(driver.live.mapped.size).toBe(0));
      expect(driver.live.reserved.size).toBe(0);
      expect(driver.live.held.size).toBe(0);
      await closeAll(fake, memory);
    },
  );

  it('is mapped anew where another piece has come in the place of one', async () => {
    const fake = await fakeProcesses([0, 1]);
    const { comms, driver } = fake;
    const memory = makeMemory(fake, true);
    const both = wrap(comms, memory);
    await sum(comms, both);
    const before = driver.live.mapped.size;
    for (const address of memory) driver.replacePiece(address + PIECE);
    const part = comms.map((comm, rank) => comm.wrap(memory[rank]! + PIECE, Int32Array, LENGTH));
    expect(await sum(comms, part)).not.toContain('copied');
    expect(driver.live.mapped.size).toBe(before + 2);
    await closeAll(fake, memory);
  });

  it.each<keyof DriverFunctions>([
    'cuMemRetainAllocationHandle',
    'cuMemExportToShareableHandle',
    'cuMemImportFromShareableHandle',
    'cuMemAddressReserve',
    'cuMemMap',
    'cuMemSetAccess',
  ])('is copied, with the reason, where %s fails half-way', async (name) => {
    const fake = await fakeProcesses([0, 1]);
    const { comms, driver } = fake;
    const memory = makeMemory(fake, true);
    driver.failures.set(name, { code: CUDA.invalidValue, after: 1 });
    const descriptors = openDescriptors();
    const buffers = wrap(comms, memory);
    const explanations = [await sum(comms, buffers)];
    driver.failures.clear();
    expect(explanations[0]).toMatch(
      /; send is copied on the way: .*virtual memory.*CUDA_ERROR_INVALID_VALUE/,
    );
    expect(openDescriptors()).toBe(descriptors);
    for (const buffer of buffers) buffer.free();
    await Promise.all(comms.map((comm) => comm.synchronize()));
    // What is tried again goes well.
    expect(await sum(comms, wrap(comms, memory))).not.toContain('copied');
    await closeAll(fake, memory);
  });

  it('is copied where a peer cannot receive descriptors', async () => {
    const token = vi.spyOn(DescriptorSocket.prototype, 'send').mockImplementation(() => {
      throw new TuttiError('systemError', 'no room for descriptors');
    });
    try {
      const fake = await fakeProcesses([0, 1]);
      const memory = makeMemory(fake, true);
      expect(await sum(fake.comms, wrap(fake.comms, memory))).toContain('rank 1: no room for descriptors');
      await closeAll(fake, memory);
    } finally {
      token.mockRestore();
    }
  });

  it('is waited for while a socket is full, and taken back when it was never sent', async () => {
    const { send } = DescriptorSocket.prototype;
    let full = true;
    const spy = vi.spyOn(DescriptorSocket.prototype, 'send').mockImplementation(function (
      this: DescriptorSocket,
      to,
      token,
      fds,
      from = 0,
    ) {
      // One descriptor at a time.
      return full ? from : send.call(this, to, token, fds.slice(0, from + 1), from);
    });
    try {
      const fake = await fakeProcesses([0, 1]);
      const { comms, driver } = fake;
      const memory = makeMemory(fake, true);
      const descriptors = openDescriptors();
      const buffers = wrap(comms, memory);
      for (const buffer of buffers) buffer.free();
      await vi.waitFor(() => expect(driver.live.held.size).toBe(0));
      expect(openDescriptors()).toBe(descriptors);
      expect(driver.live.mapped.size).toBe(0);
      const again = wrap(comms, memory);
      setTimeout(() => {
        full = false;
      }, 20);
      expect(await sum(comms, again)).not.toContain('copied');
      await closeAll(fake, memory);
    } finally {
      spy.mockRestore();
    }
  });
});

describe('virtual memory that was not made to be shared', () => {
  it('is copied on the way, and the explanation says why', async () => {
    const fake = await fakeProcesses([0, 1]);
    const memory = makeMemory(fake, false);
    expect(await sum(fake.comms, wrap(fake.comms, memory))).toMatch(
      /send is copied on the way: its memory was made without a file descriptor for others \(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR\); recv is copied/,
    );
    expect(fake.driver.live.held.size).toBe(0);
    await closeAll(fake, memory);
  });
});
