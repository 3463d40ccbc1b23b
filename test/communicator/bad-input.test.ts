/**
 * Mistakes that one rank can see by itself, before anything starts: a clear error at once, and the communicator
 * goes on as if nothing had been called.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createUniqueId } from '#src/bootstrap/unique-id.js';
import { type Collectives, Communicator, createLocalCommunicators } from '#src/communicator/communicator.js';
import { group } from '#src/communicator/group.js';
import { HostDevice } from '#src/device/host/host-device.js';
import { type Expected, expectError, rejections, thrownBy } from './errors.js';

const RANKS = 3;
let comms: Communicator[];
let comm: Communicator;

beforeAll(async () => {
  comms = await createLocalCommunicators(RANKS, { timeoutMs: 10_000 });
  comm = comms[1]!;
});
afterAll(() => Promise.all(comms.map((one) => one.close())));

/** The call fails alike in all forms. */
async function expectRefusal(call: (to: Collectives<unknown>) => unknown, expected: Expected) {
  const [rejection] = await rejections([call(comm) as Promise<void>]);
  expectError(rejection, { rank: 1, ...expected });
  expectError(
    thrownBy(() => call(comm.prepare)),
    { rank: 1, ...expected },
  );
}

const f32 = (length: number) => new Float32Array(length);
/** For what the types forbid. */
const any = (value: unknown) => value as never;
/** The same for buffers. */
const asBuffer = (value: unknown) => value as Float32Array;

describe('a call is refused at once, with what is wrong and what would be right', () => {
  it.each([
    ['reduceScatter', f32(8), f32(3), /send holds 8 elements, 9 are due \(3 ranks x 3 of recv\)/],
    ['allGather', f32(3), f32(8), /recv holds 8 elements, 9 are due \(3 ranks x 3 of send\)/],
    ['allToAll', f32(8), f32(8), /send holds 8 elements, which 3 ranks cannot share/],
    ['allToAll', f32(6), f32(9), /recv holds 9 elements, 6 are due \(as many as in send\)/],
    ['allReduce', f32(4), f32(3), /recv holds 3 elements, 4 are due/],
    ['allReduce', f32(4), f32(5), /recv holds 5 elements, 4 are due/],
  ] as const)('%s with a buffer of the wrong size', async (name, send, recv, words) => {
    await expectRefusal((to) => to[name](send, recv), { code: 'invalidArgument', words: [name, words] });
  });

  it('reduce at the root and broadcast with buffers of different sizes', async () => {
    await expectRefusal((to) => to.reduce(f32(4), f32(3), { root: 1 }), {
      code: 'invalidArgument',
      words: [/recv holds 3 elements, 4 are due/],
    });
    await expectRefusal((to) => to.broadcast(f32(4), f32(3), { root: 1 }), {
      code: 'invalidArgument',
      words: [/recv holds 3 elements, 4 are due/],
    });
  });

  it('no buffer where one is needed, or something that is no typed array', async () => {
    const code = 'invalidArgument';
    await expectRefusal((to) => to.reduce(f32(4), null, { root: 1 }), {
      code,
      words: [/recv must be a typed array, not null/],
    });
    await expectRefusal((to) => to.broadcast(null, f32(4), { root: 1 }), {
      code,
      words: [/send must be a typed array, not null/],
    });
    await expectRefusal((to) => to.broadcast(f32(4), asBuffer(null), { root: 0 }), {
      code,
      words: [/recv must be a typed array, not null/],
    });
    await expectRefusal((to) => to.allReduce(asBuffer([1, 2]), f32(2)), {
      code,
      words: [/send must be a typed array, not Array/],
    });
    await expectRefusal((to) => to.allReduce(asBuffer(undefined), f32(2)), {
      code,
      words: [/send must be a typed array/],
    });
    await expectRefusal((to) => to.allReduce(asBuffer(new ArrayBuffer(8)), f32(2)), {
      code,
      words: [/not ArrayBuffer/],
    });
    await expectRefusal((to) => to.allReduce(asBuffer(new DataView(new ArrayBuffer(8))), f32(2)), {
      code,
      words: [/not DataView/],
    });
    await expectRefusal((to) => to.allGather(f32(2), any('x')), {
      code,
      words: [/recv must be a typed array, not string/],
    });
  });

  it('an array that does not hold the type', async () => {
    const code = 'invalidArgument';
    await expectRefusal((to) => to.allReduce(f32(2), f32(2), { type: 'bfloat16' }), {
      code,
      words: [/bfloat16 lives in a Uint16Array, but send is a Float32Array/],
    });
    await expectRefusal((to) => to.allReduce(f32(2), any(new Float64Array(2))), {
      code,
      words: [/send holds float32, recv holds float64; both must agree/],
    });
    await expectRefusal((to) => to.allReduce(new Uint16Array(2), new Uint16Array(2)), {
      code,
      words: [/Uint16Array/, /type: 'float16'/, /type: 'bfloat16'/],
    });
    await expectRefusal((to) => to.allReduce(any(new Int16Array(2)), any(new Int16Array(2))), {
      code,
      words: [/no element type belongs to a Int16Array/],
    });
    await expectRefusal((to) => to.allReduce(f32(2), f32(2), { type: any('float') }), {
      code,
      words: [/unknown type float; use one of int8, .*float8e5m2/],
    });
  });

  it('an unknown operator, a root that is no rank', async () => {
    const code = 'invalidArgument';
    await expectRefusal((to) => to.allReduce(f32(2), f32(2), { op: any('mean') }), {
      code,
      words: [/unknown operator mean; use one of sum, prod, max, min, avg/],
    });
    for (const root of [3, -1, 1.5, Number.NaN, '0', null]) {
      if (root === null) continue;
      await expectRefusal((to) => to.broadcast(f32(2), { root: any(root) }), {
        code,
        words: [`invalid root ${String(root)}; it must be a rank from 0 to 2`],
      });
      await expectRefusal((to) => to.reduce(f32(2), f32(2), { root: any(root) }), {
        code,
        words: [/invalid root/],
      });
    }
  });

  it('an option that the collective does not have', async () => {
    const code = 'invalidArgument';
    await expectRefusal((to) => to.allReduce(f32(2), f32(2), any({ operator: 'max' })), {
      code,
      words: [/allReduce: unknown option 'operator'; there are op, type/],
    });
    await expectRefusal((to) => to.allReduce(f32(2), f32(2), any({ root: 1 })), {
      code,
      words: [/unknown option 'root'/],
    });
    await expectRefusal((to) => to.allGather(f32(2), f32(6), any({ op: 'sum' })), {
      code,
      words: [/unknown option 'op'/],
    });
    await expectRefusal((to) => to.broadcast(f32(2), any({ rooot: 1 })), {
      code,
      words: [/unknown option 'rooot'; there are root, type/],
    });
    await expectRefusal((to) => to.allReduce(f32(2), f32(2), any('sum')), {
      code,
      words: [/options must be an object like \{ op: ... \}, not 'sum'/],
    });
    await expectRefusal((to) => to.broadcast(f32(2), any(1)), { code, words: [/options must be an object/] });
  });

  it('messages of a group that meet in memory', async () => {
    for (const memory of [f32(20), comm.alloc(Float32Array, 20)]) {
      const exchange = () => {
        void comm.send(memory.subarray(0, 10), 0);
        void comm.recv(memory.subarray(9, 19), 0);
      };
      const words =
        'send to rank 0 (40 bytes) and recv from rank 0 (40 bytes), which begins 36 bytes after it';
      await expect(group(exchange)).rejects.toThrow(words);
      expect(() => comm.prepare.group(exchange)).toThrow(words);
    }
  });

  it('buffers that overlap and are not the in-place form', async () => {
    const code = 'invalidArgument';
    for (const memory of [f32(20), comm.alloc(Float32Array, 20)]) {
      const at = (from: number, length: number) => memory.subarray(from, from + length);
      await expectRefusal((to) => to.allReduce(at(0, 4), at(3, 4)), {
        code,
        words: [
          /send \(\d+ bytes\) and recv \(\d+ bytes\), which begins \d+ bytes (before|after) it, overlap; pass the same buffer twice/,
        ],
      });
      await expectRefusal((to) => to.reduce(at(1, 4), at(0, 4), { root: 1 }), { code, words: [/overlap/] });
      await expectRefusal((to) => to.broadcast(at(1, 4), at(0, 4), { root: 1 }), {
        code,
        words: [/overlap/],
      });
      // Block 0 of recv is the in-place form of rank 0, not of rank 1.
      await expectRefusal((to) => to.allGather(at(0, 4), at(0, 12)), {
        code,
        words: [/in place, send is block 1 of recv/],
      });
      await expectRefusal((to) => to.allToAll(at(0, 6), at(0, 6)), {
        code,
        words: [/it has no in-place form, pass two arrays/],
      });
      await expectRefusal((to) => to.reduceScatter(at(0, 12), at(5, 4)), {
        code,
        words: [/in place, recv is block 1 of send/],
      });
    }
  });

  it('and leaves the communicator as it was', async () => {
    const data = comms.map(() => Float32Array.of(1, 2));
    await Promise.all(comms.map((one, rank) => one.allReduce(data[rank]!, data[rank]!)));
    expect(data).toEqual(comms.map(() => Float32Array.of(3, 6)));
  });
});

describe('synchronous forms of ranks that share a thread', () => {
  it('are refused, since the first would wait for ever', () => {
    for (const call of [
      () => comm.allReduceSync(f32(2), f32(2)),
      () => comm.reduceSync(f32(2), f32(2)),
      () => comm.broadcastSync(f32(2)),
      () => comm.allGatherSync(f32(2), f32(6)),
      () => comm.reduceScatterSync(f32(6), f32(2)),
      () => comm.allToAllSync(f32(6), f32(6)),
      () => comm.barrierSync(),
      () => comm.prepare.allReduce(f32(2), f32(2)).run(),
    ]) {
      expectError(thrownBy(call), {
        code: 'invalidUsage',
        rank: 1,
        words: [/would block the thread that all 3 local ranks share; await \w+ instead/],
      });
    }
  });
});

describe('prepared operations', () => {
  it('that were released say so', async () => {
    const prepared = comm.prepare.allReduce(f32(2), f32(2));
    prepared.release();
    prepared.release();
    const expected: Expected = {
      code: 'invalidUsage',
      rank: 1,
      words: [/allReduce: the prepared operation was released; prepare it again/],
    };
    expectError((await rejections([prepared.start()]))[0], expected);
    expectError(
      thrownBy(() => prepared.run()),
      expected,
    );
  });

  it('may be released while they are under way', async () => {
    const data = comms.map(() => Float32Array.of(1, 2, 3));
    const all = comms.map((one, rank) => one.prepare.allReduce(data[rank]!, data[rank]!));
    const started = all.map((one) => one.start());
    for (const one of all) one.release();
    // Memory that is given out now must not be that of the operations.
    const others = comms.map((one, rank) => one.prepare.broadcast(Float32Array.of(rank), { root: 0 }));
    await Promise.all(started);
    expect(data).toEqual(comms.map(() => Float32Array.of(3, 6, 9)));
    for (const one of others) one.release();
  });

  it('notice that their array was transferred, and the others wait no longer than the time limit', async () => {
    const fresh = await createLocalCommunicators(2, { timeoutMs: 500 });
    const arrays = fresh.map(() => new Float32Array(1000));
    const all = fresh.map((one, rank) => one.prepare.allReduce(arrays[rank]!, arrays[rank]!));
    structuredClone(arrays[0], { transfer: [arrays[0]!.buffer] });
    const errors = await rejections(all.map((one) => one.start()));
    expectError(errors[0], {
      code: 'invalidUsage',
      rank: 0,
      words: [/allReduce: an array of 4000 bytes now has 0: its buffer was transferred or resized/],
    });
    expectError(errors[1], {
      code: 'timeout',
      rank: 0,
      words: [/not done after 500 ms; rank 0 did not call it/],
    });
    await Promise.all(fresh.map((one) => one.close()));
  });

  it('give their memory back when the communicator is closed', async () => {
    const device = HostDevice.shared();
    const before = device.freeBytes;
    const fresh = await createLocalCommunicators(2);
    for (const one of fresh) for (let i = 0; i < 5; i++) one.prepare.allReduce(f32(100_000), f32(100_000));
    expect(before - device.freeBytes).toBeGreaterThan(10 * 2 * 400_000);
    await Promise.all(fresh.map((one) => one.close()));
    expect(device.freeBytes).toBe(before);
  });

  it('of a single rank notice it too', async () => {
    const [alone] = await createLocalCommunicators(1);
    const array = new Float32Array(1000);
    const prepared = alone!.prepare.allReduce(array, new Float32Array(1000));
    structuredClone(array, { transfer: [array.buffer] });
    expectError(
      thrownBy(() => prepared.run()),
      { code: 'invalidUsage', rank: 0, words: [/4000 bytes now has 0/] },
    );
    await alone!.close();
  });
});

describe('memory', () => {
  it('that cannot be had is refused with what there is and what to do', () => {
    expectError(
      thrownBy(() => comm.alloc(Float64Array, 2 ** 30)),
      {
        code: 'systemError',
        rank: 1,
        words: [
          /out of memory: 1073741824 elements of Float64Array take 8589934592 bytes/,
          /\d+ are free/,
          /comm\.free/,
          /ordinary arrays/,
        ],
      },
    );
    for (const length of [-1, 1.5, Number.NaN, '8']) {
      expectError(
        thrownBy(() => comm.alloc(Float32Array, any(length))),
        { code: 'invalidArgument', rank: 1, words: [`invalid length ${String(length)}`] },
      );
    }
  });

  it('is not given back twice, nor when it is not ours, nor while it is in use', async () => {
    const array = comm.alloc(Float32Array, 100);
    const unknown = /not made by alloc of this communicator, or is free already/;
    expectError(
      thrownBy(() => comm.free(f32(1))),
      { code: 'invalidArgument', rank: 1, words: [unknown] },
    );
    expectError(
      thrownBy(() => comms[0]!.free(array)),
      { code: 'invalidArgument', rank: 0, words: [unknown] },
    );
    const own = comm.allReduce(array, array);
    expectError(
      thrownBy(() => comm.free(array)),
      {
        code: 'invalidUsage',
        rank: 1,
        words: [/free: allReduce is still working on the array; await it first/],
      },
    );
    await Promise.all([
      own,
      comms[0]!.allReduce(f32(100), f32(100)),
      comms[2]!.allReduce(f32(100), f32(100)),
    ]);
    comm.free(array);
    expectError(
      thrownBy(() => comm.free(array)),
      { code: 'invalidArgument', rank: 1, words: [unknown] },
    );
  });
});

describe('making communicators', () => {
  it('refuses numbers of ranks that make no sense', async () => {
    for (const size of [0, -1, 1.5, 513, '2', undefined]) {
      const [error] = await rejections([createLocalCommunicators(any(size))]);
      expectError(error, {
        code: 'invalidArgument',
        words: [`${String(size)} ranks; it must be from 1 to 512`],
      });
    }
  });

  it.each([
    [{ timeout: 5 }, "unknown option 'timeout'; there are timeoutMs, "],
    [{ timeoutMs: -1 }, 'timeoutMs is -1; it must be a number of at least 0'],
    [{ timeoutMs: '5' }, 'timeoutMs is 5; it must be a number'],
    [{ initTimeoutMs: 0 }, 'initTimeoutMs is 0; it must be a number of at least 1'],
    [{ channels: 0 }, 'channels is 0; it must be an integer from 1 to 64'],
    [{ channels: 2.5 }, 'channels is 2.5; it must be an integer'],
    [{ check: 'yes' }, 'check is yes; it must be true or false'],
    [{ algorithm: 'Trie' }, 'Unrecognized element token "Trie" (did you mean Tree?)'],
    [{ algorithm: 'allreduce:Ring;Tree' }, 'All entries except the first must have a prefix'],
    [{ algorithm: 7 }, 'algorithm is 7; it must be a name or a list of names'],
    [{ protocol: 'LL64' }, 'Unrecognized element token "LL64"'],
    [{ ranksPerNode: 0 }, 'ranksPerNode is 0; it must be an integer of at least 1'],
  ])('refuses %j', async (options, words) => {
    const [error] = await rejections([createLocalCommunicators(2, options as never)]);
    expectError(error, { code: 'invalidArgument', words: [words] });
  });

  it('refuses a rank that is not one of the ranks, and an id that is none', async () => {
    for (const rank of [2, -1, 0.5]) {
      const root = await createUniqueId({ host: '127.0.0.1' });
      const { id } = root;
      const [error] = await rejections([Communicator.init({ id, rank, size: 2, initTimeoutMs: 3000 })]);
      expectError(error, { code: 'invalidArgument', words: [`${rank}`, /rank/i] });
      root.close();
    }
    const [error] = await rejections([Communicator.init({ id: new Uint8Array(3), rank: 0, size: 1 })]);
    expectError(error, { code: 'invalidArgument', words: [/id/] });
  });

  it('refuses a rank that is there already, and ranks that disagree about their number', async () => {
    for (const places of [
      [
        { rank: 0, size: 2 },
        { rank: 0, size: 2 },
      ],
      [
        { rank: 0, size: 2 },
        { rank: 1, size: 3 },
      ],
    ]) {
      const root = await createUniqueId({ host: '127.0.0.1' });
      const since = performance.now();
      const errors = await rejections(
        places.map((place) => Communicator.init({ id: root.id, ...place, initTimeoutMs: 5000 })),
      );
      for (const error of errors) expectError(error, { code: 'invalidArgument', words: [/rank|size/i] });
      expect(performance.now() - since).toBeLessThan(3000);
      root.close();
    }
  });

  it('names the settings in which ranks differ', async () => {
    const root = await createUniqueId({ host: '127.0.0.1' });
    const errors = await rejections(
      [1, 2].map((channels, rank) =>
        Communicator.init({ id: root.id, rank, size: 2, channels, initTimeoutMs: 5000 }),
      ),
    );
    for (const error of errors) {
      expectError(error, {
        code: 'invalidUsage',
        rank: 1,
        words: [/ranks 0 and 1 have different settings: channels \(1 and 2\); set the same options/],
      });
    }
    root.close();
  });
});

describe('after close', () => {
  it('every call says that the communicator is closed', async () => {
    const fresh = await createLocalCommunicators(2);
    const prepared = fresh[0]!.prepare.allReduce(f32(2), f32(2));
    // One after the other, as code does that knows nothing of ranks in one thread.
    for (const one of fresh) await one.close();
    await fresh[0]!.close();
    const closed = fresh[0]!;
    const errors = await rejections([
      closed.allReduce(f32(2), f32(2)),
      closed.reduce(f32(2), f32(2)),
      closed.broadcast(f32(2)),
      closed.allGather(f32(2), f32(4)),
      closed.reduceScatter(f32(4), f32(2)),
      closed.barrier(),
      prepared.start(),
    ]);
    errors.push(
      thrownBy(() => closed.alloc(Float32Array, 2)),
      thrownBy(() => closed.prepare.allReduce(f32(2), f32(2))),
    );
    for (const error of errors) {
      expectError(error, { code: 'invalidUsage', rank: 0, words: [/: the communicator is closed/] });
    }
    closed.abort();
    prepared.release();
  });

  it('waits for what is under way, in pieces too', async () => {
    const fresh = await createLocalCommunicators(2, { algorithm: 'Ring', check: true });
    const data = fresh.map(() => new Float64Array(1000).fill(1));
    const calls = fresh.flatMap((one, rank) => [1, 2, 3].map(() => one.allReduce(data[rank]!, data[rank]!)));
    await Promise.all(fresh.map((one) => one.close()));
    await Promise.all(calls);
    expect(data[0]![999]).toBe(8);
  });
});

describe('an array that was given back', () => {
  const words = (name: string) => [name, /was given back with comm\.free/, 'comm.alloc'];

  it('is refused by every call, and so are views of it', async () => {
    const array = comm.alloc(Float32Array, 9);
    const view = array.subarray(3, 6);
    const good = f32(3);
    comm.free(array);
    const code = 'invalidUsage';
    await expectRefusal((to) => to.allReduce(array, f32(9)), { code, words: words('allReduce: send') });
    await expectRefusal((to) => to.allReduce(f32(9), array), { code, words: words('allReduce: recv') });
    await expectRefusal((to) => to.allReduce(good, view), { code, words: words('allReduce: recv') });
    await expectRefusal((to) => to.reduce(view, null), { code, words: words('reduce: send') });
    await expectRefusal((to) => to.broadcast(view), { code, words: words('broadcast: recv') });
    await expectRefusal((to) => to.allGather(good, array), { code, words: words('allGather: recv') });
    await expectRefusal((to) => to.reduceScatter(array, good), { code, words: words('reduceScatter: send') });
  });

  it('is refused though its memory serves another array by now', async () => {
    const array = comm.alloc(Float32Array, 9);
    comm.free(array);
    const heir = comm.alloc(Float32Array, 9);
    expect(heir.byteOffset).toBe(array.byteOffset);
    await expectRefusal((to) => to.allReduce(array, array), {
      code: 'invalidUsage',
      words: words('allReduce: send'),
    });
    comm.free(heir);
  });

  it('spoils operations that were prepared with it, and no others', async () => {
    const all = comms.map((one) => ({
      freed: one.alloc(Float32Array, 6),
      kept: one.alloc(Float32Array, 6).fill(one.rank),
    }));
    const spoilt = comms.map((one, rank) => one.prepare.allReduce(all[rank]!.freed, all[rank]!.freed));
    const views = comms.map((one, rank) => one.prepare.broadcast(all[rank]!.freed.subarray(4)));
    const fine = comms.map((one, rank) => one.prepare.allReduce(all[rank]!.kept, all[rank]!.kept));
    await Promise.all(spoilt.map((one) => one.start()));
    comms.forEach((one, rank) => {
      one.free(all[rank]!.freed);
    });
    for (const one of [...spoilt, ...views]) {
      const [error] = await rejections([one.start()]);
      expectError(error, { code: 'invalidUsage', words: [/given back with comm\.free; prepare it again/] });
      expectError(
        thrownBy(() => one.run()),
        { code: 'invalidUsage', words: [/given back with comm\.free/] },
      );
      one.release();
    }
    await Promise.all(fine.map((one) => one.start()));
    for (const { kept } of all) expect(kept).toEqual(f32(6).fill(3));
    for (const one of fine) one.release();
  });

  it('of one rank alone is refused, also by a synchronous call that has used it before', async () => {
    const [alone] = await createLocalCommunicators(1);
    const array = alone!.alloc(Float32Array, 4).fill(7);
    const to = f32(4);
    alone!.allReduceSync(array, to);
    expect(to).toEqual(f32(4).fill(7));
    alone!.free(array);
    expectError(
      thrownBy(() => alone!.allReduceSync(array, to)),
      { code: 'invalidUsage', rank: 0, words: words('allReduce: send') },
    );
    await alone!.close();
  });

  it('with its communicator is refused by another one', async () => {
    const [other] = await createLocalCommunicators(1);
    const array = other!.alloc(Float32Array, 4);
    await other!.close();
    await expectRefusal((to) => to.allReduce(array, array), {
      code: 'invalidUsage',
      words: [/allReduce: send .* belongs to a communicator that is closed/],
    });
  });
});
