/** What a program may do at the same time on GPUs, and in which order it happens. */
import { describe, expect, it, vi } from 'vitest';
import { createLocalCudaCommunicators } from '#src/communicator/cuda/create-local.js';
import { cuda } from '#src/communicator/cuda/cuda-device-name.js';
import { PeerMessages } from '#src/communicator/cuda/peer-messages.js';
import { codeOf, fakeGpus, fakeProcesses, fakePrograms } from './fake-gpus.js';

type Gpus = Awaited<ReturnType<typeof fakeGpus>>;

/** Another communicator on the GPUs of a team. */
function another({ driver, cudaDriver }: Gpus, gpus: readonly number[]) {
  return createLocalCudaCommunicators(
    gpus.map((gpu) => cuda(gpu)),
    { timeoutMs: 5000, driver: cudaDriver, programs: fakePrograms(driver), chunkBytes: 65536 },
  );
}

function makeStream({ driver }: Gpus): number {
  const stream: [number] = [0];
  driver.cuStreamCreate(stream);
  return stream[0];
}

describe('a copy', () => {
  it('that nobody awaits comes before the calls after it', async () => {
    const { comms } = await fakeGpus([0, 0]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 40));
    const sums = comms.map((comm) => comm.alloc(Int32Array, 40));
    const reads = comms.map(() => new Int32Array(40));
    await Promise.all(
      comms.flatMap((comm, rank) => [
        buffers[rank]!.copyFrom(new Int32Array(40).fill(rank + 1)),
        comm.allReduce(buffers[rank]!, sums[rank]!),
        sums[rank]!.copyTo(reads[rank]!),
        comm.allReduce(sums[rank]!, sums[rank]!),
      ]),
    );
    for (const read of reads) expect(read).toEqual(new Int32Array(40).fill(3));
    expect(await sums[1]!.read()).toEqual(new Int32Array(40).fill(6));
  });

  it('makes a run() that would overtake it fail, and nothing is launched then', async () => {
    const { comms, driver } = await fakeGpus([0]);
    const [a, b] = [comms[0]!.alloc(Int32Array, 4), comms[0]!.alloc(Int32Array, 4)];
    const step = comms[0]!.prepare.allReduce(a, b);
    await step.ready;
    const copied = a.copyFrom(new Int32Array(4).fill(7));
    expect(() => step.run()).toThrow('run() came before earlier calls or copies');
    await copied;
    expect(await b.read()).toEqual(new Int32Array(4));
    step.run();
    expect(await b.read()).toEqual(new Int32Array(4).fill(7));
    expect(driver.blocked).toEqual([]);
  });
});

describe('fresh memory', () => {
  it('is set to zeros before work that other streams do with it', async () => {
    const gpus = await fakeGpus([0], { delay: 3 });
    const { comms, driver } = gpus;
    const stream = makeStream(gpus);
    const first = comms[0]!.alloc(Int32Array, 4);
    await comms[0]!.allReduce(first, comms[0]!.alloc(Int32Array, 4), { stream });
    await comms[0]!.synchronize();
    const buffer = comms[0]!.alloc(Int32Array, 4);
    driver.cuMemsetD8Async(buffer.address, 1, 16, stream);
    await comms[0]!.synchronize();
    expect(await buffer.read()).toEqual(new Int32Array(4).fill(0x01010101));
    driver.cuStreamDestroy(stream);
  });
});

describe('recorded calls', () => {
  it('name no stream, take no memory, and are made at once', async () => {
    const gpus = await fakeGpus([0]);
    const comm = gpus.comms[0]!;
    const [a, b] = [comm.alloc(Int32Array, 4), comm.alloc(Int32Array, 4)];
    await a.copyFrom(new Int32Array(4).fill(5));
    const stream = makeStream(gpus);
    expect(() => comm.capture(() => void comm.allReduce(a, b, { stream }))).toThrow('names no stream');
    expect(() => comm.capture(() => void comm.alloc(Int32Array, 4))).toThrow('make the buffer before');
    const late = async () => {
      await null;
      await comm.allReduce(a, b);
    };
    expect(() => comm.capture(late)).toThrow('may not be async');
    // The promise of a call may be returned.
    comm.capture(() => comm.allReduce(a, b)).release();
    const reads: Promise<unknown>[] = [];
    comm.capture(() => void reads.push(comm.allReduce(a, b), a.read().catch(String))).release();
    expect(await reads[1]).toContain('copyTo: copies cannot be recorded in a graph');
    await comm.synchronize();
    gpus.driver.cuStreamDestroy(stream);
  });

  it('leave alone what the next call follows', async () => {
    const gpus = await fakeGpus([0, 0]);
    const { comms, driver } = gpus;
    const streams = comms.map(() => makeStream(gpus));
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 4));
    await Promise.all(buffers.map((buffer) => buffer.copyFrom(new Int32Array(4).fill(1))));
    const step = comms.map((comm, rank) => comm.prepare.allReduce(buffers[rank]!, buffers[rank]!));
    await Promise.all(step.map(({ ready }) => ready));
    // Work in a foreign stream that is not done, a graph recorded meanwhile, and its run.
    step.forEach((one, rank) => {
      one.run(streams[rank]);
    });
    const graphs = comms.map((comm, rank) =>
      comm.capture(() => void comm.allReduce(buffers[rank]!, buffers[rank]!)),
    );
    for (const graph of graphs) graph.run();
    await Promise.all(comms.map((comm) => comm.synchronize()));
    expect(await buffers[0]!.read()).toEqual(new Int32Array(4).fill(4));
    // Two streams of others, one of them captured in between.
    const others = comms.map(() => makeStream(gpus));
    step.forEach((one, rank) => {
      one.run();
      driver.cuStreamBeginCapture(others[rank]!);
      one.run(others[rank]);
      driver.cuStreamEndCapture(others[rank]!, [0]);
      one.run(streams[rank]);
    });
    await Promise.all(comms.map((comm) => comm.synchronize()));
    expect(await buffers[1]!.read()).toEqual(new Int32Array(4).fill(16));
    for (const stream of [...streams, ...others]) driver.cuStreamDestroy(stream);
    driver.live.graphs.clear();
  });
});

describe('while a kernel waits for a call that this thread makes later', () => {
  it('no other communicator blocks the thread: not by freeing, not by closing', async () => {
    const gpus = await fakeGpus([0, 0]);
    const { comms, driver } = gpus;
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 4));
    const others = await another(gpus, [0, 0]);
    const large = others.map((comm) => comm.alloc(Int32Array, 40_000));
    await Promise.all(others.map((comm, rank) => comm.allReduce(large[rank]!, large[rank]!)));
    const waits = comms[0]!.allReduce(buffers[0]!, buffers[0]!);
    large[0]!.free();
    await Promise.all(others.map((comm) => comm.close()));
    expect(driver.leaks.length).toBeGreaterThan(0);
    await comms[1]!.allReduce(buffers[1]!, buffers[1]!);
    await waits;
    await Promise.all(comms.map((comm) => comm.close()));
    // What could not be given back then is given back now.
    await vi.waitFor(() => expect(driver.leaks).toEqual([]));
    expect(driver.blocked).toEqual([]);
  });

  it('a peer that frees memory does not block this process', async () => {
    const { comms, driver } = await fakeProcesses([0, 1]);
    const [a, b] = comms;
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 4));
    const large = a!.alloc(Int32Array, 40_000);
    await Promise.all(comms.map((comm, rank) => comm.allReduce(buffers[rank]!, buffers[rank]!)));
    const waits = b!.allReduce(buffers[1]!, buffers[1]!);
    large.free();
    const next = a!.alloc(Int32Array, 50_000);
    await a!.allReduce(buffers[0]!, buffers[0]!);
    await waits;
    next.free();
    await Promise.all(comms.map((comm) => comm.close()));
    expect([driver.blocked, driver.leaks]).toEqual([[], []]);
  });
});

describe('ranks that share a GPU', () => {
  it('do not wait for it to be idle when another one has loaded the kernel meanwhile and waits in it', async () => {
    const gpus = await fakeProcesses([0, 0], { timeoutMs: 1000 });
    const { comms, driver } = gpus;
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 3));
    const streams = comms.map(() => makeStream(gpus));
    await Promise.all(
      comms.flatMap((comm, rank) => {
        const stream = { stream: streams[rank]! };
        return [
          comm.broadcast(buffers[rank]!, stream),
          comm.reduce(buffers[rank]!, buffers[rank]!, stream),
          comm.allReduce(buffers[rank]!, buffers[rank]!, stream),
        ];
      }),
    );
    await Promise.all(comms.map((comm) => comm.synchronize()));
    for (const stream of streams) driver.cuStreamDestroy(stream);
  });
});

describe('memory that peers open', () => {
  it('may be freed before they have answered', async () => {
    const { comms, driver } = await fakeProcesses([0, 1]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 4));
    for (let k = 0; k < 3; k++) {
      comms[0]!.alloc(Uint8Array, 200_000).free();
      await Promise.all(comms.map((comm, rank) => comm.allReduce(buffers[rank]!, buffers[rank]!)));
    }
    await Promise.all(comms.map((comm) => comm.close()));
    expect(driver.leaks).toEqual([]);
  });

  it('is waited for until the time limit, and who did not answer is named', async () => {
    const { comms } = await fakeProcesses([0, 1], { timeoutMs: 200 });
    const { send } = PeerMessages.prototype;
    const mute = vi.spyOn(PeerMessages.prototype, 'send').mockImplementation(function (
      this: PeerMessages,
      peer,
      message,
    ) {
      if (message.type !== 'mapped') send.call(this, peer, message);
    });
    try {
      const buffer = comms[0]!.alloc(Uint8Array, 200_000);
      await expect(comms[0]!.allReduce(buffer, buffer)).rejects.toMatchObject({
        code: 'timeout',
        rank: 1,
        message: 'allReduce: not begun after 200 ms; rank 1 did not open new buffers of rank 0',
      });
      expect(await codeOf(comms[1]!.barrier())).toBe('remoteError');
    } finally {
      mute.mockRestore();
    }
  });
});

describe('what only one process knows', () => {
  it('is told to the others at once: that a peer cannot open memory, or says what makes no sense', async () => {
    for (const [what, message] of [
      ['problem', 'rank 1 has aborted the communicator (it cannot open memory of rank 0: no room)'],
      ['garbage', 'rank 1 sent data that make no sense'],
    ] as const) {
      const { comms } = await fakeProcesses([0, 1], { timeoutMs: 60_000 });
      const { send } = PeerMessages.prototype;
      const spy = vi.spyOn(PeerMessages.prototype, 'send').mockImplementation(function (
        this: PeerMessages,
        peer,
        one,
      ) {
        const wrong = what === 'garbage' ? null : { ...one, problem: 'no room' };
        send.call(this, peer, one.type === 'mapped' && peer === 0 ? (wrong as typeof one) : one);
      });
      try {
        // Rank 1 has no part in what goes wrong, and waits for rank 0 all the same.
        const buffers = comms.map((comm) => comm.alloc(Uint8Array, 200_000));
        const ends = await Promise.allSettled(
          comms.map((comm, i) => comm.allReduce(buffers[i]!, buffers[i]!)),
        );
        expect(ends[0]).toMatchObject({ reason: { code: 'remoteError', rank: 1, message } });
        expect(ends[1]).toMatchObject({ reason: { code: 'remoteError', rank: 1 } });
      } finally {
        spy.mockRestore();
      }
    }
  });
});

describe('other libraries of the thread', () => {
  it('may make another GPU current at any time', async () => {
    const { comms, driver } = await fakeGpus([0, 1]);
    const contexts = [0, 1].map((device) => {
      const out: [number] = [0];
      driver.cuDevicePrimaryCtxRetain(out, device);
      return out[0];
    });
    const disturb = (rank: number) => driver.cuCtxSetCurrent(contexts[1 - rank]!);
    const buffers = comms.map((comm, rank) => {
      disturb(rank);
      return comm.alloc(Int32Array, 40_000);
    });
    for (const [rank, buffer] of buffers.entries()) {
      expect(driver.live.memory.get(buffer.address)!.device).toBe(rank);
      disturb(rank);
      await buffer.copyFrom(new Int32Array(40_000).fill(rank));
    }
    disturb(1);
    expect((await buffers[1]!.read())[0]).toBe(1);
    disturb(0);
    for (const buffer of buffers) buffer.free();
    await Promise.all(comms.map((comm) => comm.close()));
    for (const device of [0, 1]) driver.cuDevicePrimaryCtxRelease(device);
    expect(driver.leaks).toEqual([]);
  });
});

describe('a buffer of another communicator', () => {
  it('is not freed, and neither is what is no buffer', async () => {
    const gpus = await fakeGpus([0, 0]);
    const [a, b] = gpus.comms;
    const buffer = b!.alloc(Int32Array, 4);
    expect(() => a!.free(buffer)).toThrow('not a buffer of another communicator');
    expect(() => a!.free(new Int32Array(3) as never)).toThrow('not Int32Array');
    expect(() => a!.free(undefined as never)).toThrow('not undefined');
    expect(buffer.freed).toBe(false);
    b!.free(buffer);
    expect(buffer.freed).toBe(true);
  });
});

describe('the others', () => {
  it('are told once that a rank has left or aborted, and why', async () => {
    for (const [leave, message, start] of [
      [
        'close',
        'rank 1 has closed the communicator, but other ranks still call it; all ranks must make the same calls',
        fakeGpus,
      ],
      ['abort', 'rank 1 has aborted the communicator (tired)', fakeGpus],
      ['abort', /^rank 1 has aborted the communicator( \(tired\))?$/, fakeProcesses],
    ] as const) {
      const { comms } = await start([0, 0]);
      const buffer = comms[0]!.alloc(Int32Array, 4);
      const waits = comms[0]!.allReduce(buffer, buffer);
      const ended = expect(waits).rejects.toMatchObject({
        code: 'remoteError',
        rank: 1,
        message: typeof message === 'string' ? message : expect.stringMatching(message),
      });
      await (leave === 'close' ? comms[1]!.close() : comms[1]!.abort('tired'));
      await ended;
    }
  });
});

describe('peer access', () => {
  it('is given between GPUs whose ranks are threads of a process', async () => {
    const { comms, driver } = await fakeProcesses([0, 1], { threads: true });
    expect(driver.log).toEqual(expect.arrayContaining(['peer 0 1', 'peer 1 0']));
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 400));
    await Promise.all(buffers.map((buffer) => buffer.copyFrom(new Int32Array(400).fill(1))));
    await Promise.all(comms.map((comm, rank) => comm.allReduce(buffers[rank]!, buffers[rank]!)));
    expect(await buffers[0]!.read()).toEqual(new Int32Array(400).fill(2));
    await Promise.all(comms.map((comm) => comm.close()));
    expect(driver.leaks).toEqual([]);
  });

  it('is given again to the context that follows one that has gone', async () => {
    const gpus = await fakeGpus([0], { gpus: 2 });
    const { driver } = gpus;
    for (let k = 0; k < 2; k++) {
      const comms = await another(gpus, [0, 1]);
      expect(driver.log.splice(0).filter((line) => line.startsWith('peer'))).toEqual([
        'peer 0 1',
        'peer 1 0',
      ]);
      await Promise.all(comms.map((comm) => comm.close()));
    }
  });
});
