/** Which rank works on which GPU. */
import { expect, it } from 'vitest';
import { fakeGpus, fakeProcesses } from './fake-gpus.js';

it.each([
  ['ranks of one process', fakeGpus],
  ['processes', fakeProcesses],
] as const)(
  '%s have the GPUs of the list in its order, and know rank, size and device [C01-09] [C01-11]',
  async (_, open) => {
    const { comms } = await open([2, 0, 1]);
    expect(comms.map(({ rank, size, device }) => [rank, size, device])).toEqual([
      [0, 3, 2],
      [1, 3, 0],
      [2, 3, 1],
    ]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 1));
    await Promise.all(buffers.map((buffer, rank) => buffer.copyFrom(Int32Array.of(10 ** rank))));
    await Promise.all(comms.map((comm, rank) => comm.allReduce(buffers[rank]!, buffers[rank]!)));
    expect(await Promise.all(buffers.map((buffer) => buffer.read()))).toEqual(
      Array(3).fill(Int32Array.of(111)),
    );
  },
);
