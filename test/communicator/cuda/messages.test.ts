/** Sends and receives between ranks on GPUs of a fake driver. */
import { describe, expect, it } from 'vitest';
import { group } from '#src/index.js';
import { randomFrom } from '../../gpu/random.mjs';
import { apartProcesses, codeOf, fakeGpus, fakeProcesses } from './fake-gpus.js';

describe.each([
  ['ranks of one process', fakeGpus],
  ['processes', fakeProcesses],
  ['processes that meet in memory of the host', apartProcesses],
] as const)('%s', (_, open) => {
  it('send to each other in a group, every rank first', async () => {
    const { comms } = await open([0, 1, 1]);
    const random = randomFrom(11);
    const size = comms.length;
    for (let round = 0; round < 4; round++) {
      const lengths = comms.map(() => comms.map(() => random.size(200)));
      const from = (rank: number, peer: number) =>
        Int32Array.from({ length: lengths[rank]![peer]! }, (_, i) => 10_000 * rank + 1000 * peer + i + round);
      const sends = comms.map((comm, rank) =>
        comms.map((_, peer) => comm.alloc(Int32Array, lengths[rank]![peer]!)),
      );
      const recvs = comms.map((comm, rank) =>
        comms.map((_, peer) => comm.alloc(Int32Array, lengths[peer]![rank]!)),
      );
      await Promise.all(sends.flatMap((list, rank) => list.map((b, peer) => b.copyFrom(from(rank, peer)))));
      await group(() => {
        comms.forEach((comm, rank) => {
          for (let peer = 0; peer < size; peer++) {
            void comm.send(sends[rank]![peer]!, peer);
            void comm.recv(recvs[rank]![peer]!, peer);
          }
        });
      });
      for (let rank = 0; rank < size; rank++) {
        for (let peer = 0; peer < size; peer++) {
          expect(await recvs[rank]![peer]!.read()).toEqual(from(peer, rank));
        }
      }
    }
  });

  it('send and receive one by one', async () => {
    const { comms } = await open([0, 1]);
    const [a, b] = comms.map((comm) => comm.alloc(Float64Array, 50));
    await a!.copyFrom(Float64Array.from({ length: 50 }, (_, i) => i / 3));
    await Promise.all([comms[0]!.send(a!, 1), comms[1]!.recv(b!, 0)]);
    expect(await b!.read()).toEqual(await a!.read());
  });
});

it('refuses messages of a group that meet in memory, and goes on', async () => {
  const { comms } = await fakeGpus([0, 1]);
  const buffers = comms.map((comm) => comm.alloc(Float32Array, 100));
  const exchange = (sends: [number, number][], recvs: [number, number][]) =>
    group(() => {
      for (const [rank, comm] of comms.entries()) {
        for (const part of sends) void comm.send(buffers[rank]!.subarray(...part), 1 - rank);
        for (const part of recvs) void comm.recv(buffers[rank]!.subarray(...part), 1 - rank);
      }
    });
  await expect(exchange([[0, 20]], [[19, 39]])).rejects.toThrow(
    'send to rank 1 (80 bytes) and recv from rank 1 (80 bytes), which begins 76 bytes after it, overlap',
  );
  // A send in between that is shorter does not hide the long one.
  await expect(
    exchange(
      [
        [0, 50],
        [2, 4],
      ],
      [
        [40, 90],
        [98, 100],
      ],
    ),
  ).rejects.toThrow('recv from rank 1 (200 bytes), which begins 160 bytes after it, overlap');
  await expect(
    exchange(
      [
        [0, 5],
        [0, 5],
      ],
      [
        [50, 55],
        [54, 59],
      ],
    ),
  ).rejects.toThrow('recv from rank 1 (20 bytes) and recv from rank 1 (20 bytes)');
  // What is wrong at the last rank keeps the others from beginning.
  const wrongAtTheLast = group(() => {
    for (const [rank, comm] of comms.entries()) {
      void comm.send(buffers[rank]!.subarray(0, 10), 1 - rank);
      void comm.recv(buffers[rank]!.subarray(10 - rank, 20 - rank), 1 - rank);
    }
  });
  await expect(wrongAtTheLast).rejects.toMatchObject({ code: 'invalidArgument', rank: 1 });
  // Sends may read the same, and neighbours may touch.
  await buffers[0]!.copyFrom(new Float32Array(100).fill(7));
  await exchange(
    [
      [0, 20],
      [10, 30],
    ],
    [
      [30, 50],
      [50, 70],
    ],
  );
  expect((await buffers[1]!.read()).subarray(28, 72)).toEqual(
    Float32Array.from([0, 0, ...new Array(40).fill(7), 0, 0]),
  );
  // What a rank sends to itself may stay where it is.
  await group(() => {
    for (const [rank, comm] of comms.entries()) {
      void comm.send(buffers[rank]!, rank);
      void comm.recv(buffers[rank]!, rank);
    }
  });
});

it('refuses wrong peers, ordinary arrays and asynchronous groups', async () => {
  const { comms } = await fakeGpus([0, 0]);
  const [comm] = comms;
  const buffer = comm!.alloc(Float32Array, 4);
  expect(await codeOf(comm!.send(buffer, 2))).toBe('invalidArgument');
  expect(await codeOf(comm!.recv(new Float32Array(4) as never, 1))).toBe('invalidArgument');
  expect(await codeOf(group((async () => {}) as () => void))).toBe('invalidUsage');
  expect(await codeOf(comm!.send(buffer, 0))).toBe('invalidUsage');
  // One wrong call keeps all of its group from being submitted: the right ones would wait for ever.
  const wrong = group(() => {
    void comm!.send(buffer, 1);
    void comm!.recv(buffer, 7);
  });
  expect(await codeOf(wrong)).toBe('invalidArgument');
  await Promise.all(comms.map((one) => one.allReduce(one.alloc(Int8Array, 3), one.alloc(Int8Array, 3))));
});
