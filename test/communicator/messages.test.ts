/**
 * Messages between ranks that are threads: sends, receives, groups, gather and scatter, compared byte by byte with a
 * plain reference.
 */
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { messageLayout } from '#src/collectives/message-memory.js';
import type { Buffer } from '#src/communicator/buffers.js';
import { type Communicator, createLocalCommunicators } from '#src/communicator/communicator.js';
import { group } from '#src/communicator/group.js';
import { ELEMENT_TYPE_NAMES, type ElementType } from '#src/kernel/element-types.js';
import { arrayFor } from '#src/kernel/numeric.js';
import { effort } from '../effort.js';
import { expectError, rejections, thrownBy } from './errors.js';
import { SEED } from './random.js';

let comms: Communicator[] = [];
afterEach(async () => {
  await Promise.all(comms.splice(0).map((comm) => comm.close()));
});

const open = async (ranks: number, options = {}): Promise<Communicator[]> => {
  comms = await createLocalCommunicators(ranks, { timeoutMs: 20_000, ...options });
  return comms;
};

/** Byte `i` of message `m` from one rank to another. */
const byteOf = (from: number, to: number, m: number, i: number) =>
  (from * 91 + to * 37 + m * 11 + i * 7) & 255;

interface Wire {
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
  readonly fromWindow: boolean;
  readonly toWindow: boolean;
}

const made: [Communicator, Buffer][] = [];
function makeBytes(comm: Communicator, bytes: number, isWindow: boolean): Uint8Array {
  if (!isWindow) return new Uint8Array(bytes);
  const array = comm.alloc(Uint8Array, bytes);
  made.push([comm, array]);
  return array;
}
function freeAll(): void {
  for (const [comm, array] of made.splice(0)) comm.free(array);
}

/** Sends all messages, each rank its own part in one group, in the order of the list, and compares every byte. */
async function deliver(ranks: readonly Communicator[], wires: readonly Wire[], order: readonly number[]) {
  const sends = wires.map(({ from, to, bytes, fromWindow }, m) => {
    const array = makeBytes(ranks[from]!, bytes, fromWindow);
    for (let i = 0; i < bytes; i++) array[i] = byteOf(from, to, m, i);
    return array;
  });
  const recvs = wires.map(({ to, bytes, toWindow }) => makeBytes(ranks[to]!, bytes, toWindow));
  await Promise.all(
    order.map((rank) =>
      group(() => {
        wires.forEach(({ from, to }, m) => {
          if (from === rank) void ranks[rank]!.send(sends[m]!, to);
          if (to === rank) void ranks[rank]!.recv(recvs[m]!, from);
        });
      }),
    ),
  );
  wires.forEach(({ from, to, bytes }, m) => {
    const wrong = recvs[m]!.findIndex((byte, i) => byte !== byteOf(from, to, m, i));
    expect({ m, from, to, bytes, wrong }).toEqual({ m, from, to, bytes, wrong: -1 });
  });
  freeAll();
}

describe(`groups of messages arrive whole and in order (TUTTI_SEED=${SEED})`, () => {
  const { slotBytes } = messageLayout(4);
  const sizes = fc.oneof(
    fc.constantFrom(0, 1, 16, 255, 256, 257, slotBytes - 1, slotBytes, slotBytes + 1, 3 * slotBytes),
    fc.integer({ min: 0, max: 70_000 }),
  );
  const wires = (ranks: number) =>
    fc.array(
      fc.record({
        from: fc.nat(ranks - 1),
        to: fc.nat(ranks - 1),
        bytes: sizes,
        fromWindow: fc.boolean(),
        toWindow: fc.boolean(),
      }),
      { maxLength: 30 },
    );
  for (const ranks of effort([1, 2, 4], [1, 2, 3, 4, 7])) {
    it(`${ranks} ${ranks === 1 ? 'rank' : 'ranks'}, whatever pairs, sizes and memory`, async () => {
      const all = await open(ranks);
      const order = fc.shuffledSubarray(
        all.map(({ rank }) => rank),
        { minLength: ranks },
      );
      await fc.assert(
        fc.asyncProperty(wires(ranks), order, (list, turns) => deliver(all, list, turns)),
        { seed: SEED + ranks, numRuns: effort(15, 60), endOnFailure: true },
      );
    });
  }

  it('many ranks, everybody to everybody', async () => {
    const all = await open(effort(12, 40));
    const list = all.flatMap(({ rank: from }) =>
      all.map(({ rank: to }) => ({ from, to, bytes: 1 + 97 * to, fromWindow: true, toWindow: false })),
    );
    await deliver(all, list, [...all.keys()]);
  });
});

describe('messages', () => {
  it('of a pair are matched in the order of the calls, in whatever groups they are made', async () => {
    const [a, b] = await open(2);
    const values = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8];
    const got = values.map(() => new Int32Array(1));
    await Promise.all([
      ...values.map((value) => a!.send(Int32Array.of(value), 1)),
      group(() => {
        for (const one of got.slice(0, 5)) void b!.recv(one, 0);
      }),
      group(() => {
        for (const one of got.slice(5)) void b!.recv(one, 0);
      }),
    ]);
    expect(got.map(([value]) => value)).toEqual(values);
  });

  it('larger than everything that is under way pass each other in a group', async () => {
    const [a, b] = await open(2);
    const n = 3_000_000;
    const [x, y] = [new Float64Array(n).fill(1), new Float64Array(n).fill(2)];
    const [fromY, fromX] = [new Float64Array(n), new Float64Array(n)];
    await Promise.all([
      group(() => {
        void a!.send(x, 1);
        void a!.recv(fromY, 1);
      }),
      group(() => {
        void b!.send(y, 0);
        void b!.recv(fromX, 0);
      }),
    ]);
    expect([fromY.every((v) => v === 2), fromX.every((v) => v === 1)]).toEqual([true, true]);
  });

  it.each(ELEMENT_TYPE_NAMES)('carry %s as it is', async (type: ElementType) => {
    const [a, b] = await open(2);
    const ArrayType = arrayFor(type) as unknown as new (length: number) => Buffer;
    const [sent, got] = [new ArrayType(33), new ArrayType(33)];
    new Uint8Array(sent.buffer).forEach((_, i, bytes) => {
      bytes[i] = (i * 73 + 5) & 255;
    });
    await Promise.all([a!.send(sent, 1), b!.recv(got, 0)]);
    expect(new Uint8Array(got.buffer)).toEqual(new Uint8Array(sent.buffer));
  });

  it('go from one array into a view of another', async () => {
    const [a, b] = await open(2);
    const target = b!.alloc(Uint8Array, 20);
    await Promise.all([
      a!.send(Uint8Array.of(1, 2, 3, 4).subarray(1, 3), 1),
      b!.recv(target.subarray(7, 9), 0),
    ]);
    expect([...target]).toEqual([0, 0, 0, 0, 0, 0, 0, 2, 3, ...new Array(11).fill(0)]);
  });

  it('and collectives may be called in one group, and by several communicators', async () => {
    const first = await open(3);
    const second = await createLocalCommunicators(3, { timeoutMs: 20_000 });
    const sums = first.map(() => new Int32Array(4));
    const got = first.map(() => [new Int32Array(2), new Int32Array(2)]);
    await Promise.all(
      first.map((comm, rank) =>
        group(() => {
          void comm.send(Int32Array.of(rank, 1), (rank + 1) % 3);
          void second[rank]!.recv(got[rank]![1]!, (rank + 1) % 3);
          void comm.allReduce(new Int32Array(4).fill(rank + 1), sums[rank]!);
          void second[rank]!.send(Int32Array.of(rank, 2), (rank + 2) % 3);
          void comm.recv(got[rank]![0]!, (rank + 2) % 3);
        }),
      ),
    );
    await Promise.all(second.map((comm) => comm.close()));
    expect(sums).toEqual(first.map(() => new Int32Array(4).fill(6)));
    expect(got).toEqual(
      first.map((_, rank) => [Int32Array.of((rank + 2) % 3, 1), Int32Array.of((rank + 1) % 3, 2)]),
    );
  });

  it('come back from prepared operations as often as they run', async () => {
    const ranks = await open(3);
    const sent = ranks.map((comm) => comm.alloc(Int32Array, 3000));
    const got = ranks.map((comm) => comm.alloc(Int32Array, 3000));
    const steps = ranks.map((comm, rank) =>
      comm.prepare.group(() => {
        void comm.send(sent[rank]!, (rank + 1) % 3);
        void comm.recv(got[rank]!, (rank + 2) % 3);
      }),
    );
    expect(steps[0]!.explanation).toBe('2 messages from buffer to buffer');
    for (let i = 1; i <= 5; i++) {
      for (const [rank, array] of sent.entries()) array.fill(10 * i + rank);
      await Promise.all(steps.map((step) => step.start()));
      expect(got.map((array) => [array[0], array[2999]])).toEqual(
        ranks.map((_, rank) => [10 * i + ((rank + 2) % 3), 10 * i + ((rank + 2) % 3)]),
      );
    }
    for (const step of steps) step.release();
    const [one] = await rejections([steps[0]!.start()]);
    expectError(one, { code: 'invalidUsage', words: [/group: the prepared operation was released/] });
  });
});

describe('gather and scatter', () => {
  for (const collective of ['gather', 'scatter'] as const) {
    it(`${collective} agrees with the plain reference for every root, in place and not`, async () => {
      const ranks = await open(3);
      await fc.assert(
        fc.asyncProperty(
          fc.nat(2),
          fc.constantFrom(0, 1, 5, 1000, 9000),
          fc.boolean(),
          fc.boolean(),
          async (root, count, isWindow, inPlace) => {
            const make = (comm: Communicator, n: number) => {
              if (!isWindow) return new Uint32Array(n);
              const array = comm.alloc(Uint32Array, n);
              made.push([comm, array]);
              return array;
            };
            const blocks = ranks.map((comm, rank) =>
              make(comm, count).map((_, i) => (collective === 'gather' || rank < 0 ? rank * 100_000 + i : 0)),
            );
            const whole = make(ranks[root]!, 3 * count);
            if (collective === 'scatter') whole.set(whole.map((_, i) => i * 3 + 1));
            const own = whole.subarray(root * count, (root + 1) * count);
            if (inPlace) {
              own.set(collective === 'gather' ? blocks[root]! : own);
              blocks[root] = own;
            }
            const before = whole.slice();
            await Promise.all(
              ranks.map((comm, rank) =>
                collective === 'gather'
                  ? comm.gather(blocks[rank]!, rank === root ? whole : null, { root })
                  : comm.scatter(rank === root ? whole : null, blocks[rank]!, { root }),
              ),
            );
            if (collective === 'gather') {
              const due = ranks.flatMap((_, rank) =>
                Array.from({ length: count }, (_, i) => rank * 100_000 + i),
              );
              expect([...whole]).toEqual(due);
            } else {
              expect(blocks.flatMap((block) => [...block])).toEqual([...before]);
              expect(whole).toEqual(before);
            }
            freeAll();
          },
        ),
        { seed: SEED, numRuns: effort(12, 60) },
      );
    });
  }

  it('of ranks that name different roots fail on all of them', async () => {
    const ranks = await open(2);
    const own = () => new Int32Array(8);
    const errors = await rejections([
      ranks[0]!.gather(own(), new Int32Array(16), { root: 0 }),
      ranks[1]!.gather(own(), new Int32Array(16), { root: 1 }),
    ]);
    // Whoever comes first sends, and is done.
    errors.push(...(await rejections(ranks.map((comm) => comm.allReduce(own(), own())))));
    const messages = errors.map((error) => (error as Error).message).join();
    expect(messages).toMatch(/gather of 8 int32, root 0/);
    expect(messages).toMatch(/gather of 8 int32, root 1/);
  });
});

describe('wrong calls', () => {
  it('of messages are refused before anything is sent', async () => {
    const [a] = await open(2);
    const array = new Float32Array(4);
    const errors = await rejections([
      a!.send(array, 2),
      a!.recv(array, -1),
      a!.send([1, 2] as unknown as Buffer, 1),
      a!.gather(array, new Float32Array(5), { root: 0 }),
      a!.scatter(new Float32Array(9), array, { root: 0 }),
      a!.send(array, 0),
    ]);
    const words = [
      /send: invalid peer 2; it must be a rank from 0 to 1/,
      /recv: invalid peer -1/,
      /send: the buffer must be a typed array/,
      /gather: recv holds 5 elements, 8 are due/,
      /scatter: send holds 9 elements, 8 are due/,
      /rank 0 sends itself 16 bytes and does not receive them; put a send and a recv/,
    ];
    errors.forEach((error, i) => {
      expect((error as Error).message).toMatch(words[i]!);
    });
    expectError(
      thrownBy(() => a!.sendSync(array, 1)),
      {
        code: 'invalidUsage',
        words: [/sendSync would block the thread that all 2 local ranks share/],
      },
    );
  });

  it('in a group keep all of it from being submitted, and the next group works [C07-09] [C07-13] [C22-04]', async () => {
    const [a, b] = await open(2);
    const [x, y] = [Int32Array.of(7), new Int32Array(1)];
    const bad = group(() => {
      void a!.send(Int32Array.of(1), 1);
      void b!.recv(y, 5);
    });
    expectError((await rejections([bad]))[0], { code: 'invalidArgument', words: [/invalid peer 5/] });
    const thrown = group(() => {
      void a!.send(Int32Array.of(2), 1);
      throw new Error('mine');
    });
    await expect(thrown).rejects.toThrow('mine');
    const late = group(() => {
      void a!.send(Int32Array.of(3), 1);
      void a!.send(Int32Array.of(4), 0);
    });
    expectError((await rejections([late]))[0], { code: 'invalidUsage', words: [/does not receive/] });
    await group(() => {
      void a!.send(x, 1);
      void b!.recv(y, 0);
    });
    expect(y[0]).toBe(7);
  });

  it('that are done at once are refused in a group', async () => {
    const [a] = await createLocalCommunicators(1);
    const errors = await rejections([
      group(() => a!.sendSync(new Int8Array(1), 0)),
      group(() => a!.groupSync(() => {})),
    ]);
    expectError(errors[0], {
      code: 'invalidUsage',
      words: [/sendSync does not belong into a group; call send there/],
    });
    expectError(errors[1], { code: 'invalidUsage', words: [/groupSync does not belong into a group/] });
    const [x, y] = [Int8Array.of(4), new Int8Array(1)];
    a!.groupSync(() => {
      void a!.recv(y, 0);
      void a!.send(x, 0);
    });
    expect(y).toEqual(x);
    await a!.close();
  });

  it('in an inner group count for the outer one, which alone submits [C07-02] [C22-01]', async () => {
    const [a, b] = await open(2);
    const got = [new Int32Array(1), new Int32Array(1)];
    let inner: Promise<void> | undefined;
    await group(() => {
      inner = group(() => {
        void a!.send(Int32Array.of(5), 1);
        void a!.recv(got[0]!, 1);
      });
      void b!.send(Int32Array.of(6), 0);
      void b!.recv(got[1]!, 0);
    });
    await inner;
    expect(got.map(([value]) => value)).toEqual([6, 5]);
    const outer = group(() => {
      group(() => {
        void a!.send(Int32Array.of(5), 9);
      }).catch(() => {});
      void b!.send(Int32Array.of(6), 0);
    });
    expectError((await rejections([outer]))[0], { code: 'invalidArgument', words: [/invalid peer 9/] });
  });
});

describe('messages that do not match', () => {
  it.each([
    ['small ones', 5, 6],
    ['large ones', 50_000, 60_000],
    ['a small and a large one', 5, 60_000],
    ['a large and a small one', 60_000, 5],
    ['one without bytes', 0, 5],
  ])('are named with both sizes by whoever waits: %s', async (_, sent, received) => {
    const [a, b] = await open(2);
    const results = await Promise.allSettled([
      a!.send(new Uint8Array(sent), 1),
      b!.recv(new Uint8Array(received), 0),
    ]);
    const words = [`rank 0 sends ${sent} bytes to rank 1`, `rank 1 expects ${received} bytes from rank 0`];
    expect(results[1]!.status).toBe('rejected');
    for (const [rank, result] of results.entries()) {
      if (result.status === 'rejected')
        expectError(result.reason, { code: 'invalidUsage', rank: 1 - rank, words });
    }
    // The sender of a small message was done: it learns of it with its next call.
    for (const error of await rejections([a!.send(new Uint8Array(1), 1), b!.recv(new Uint8Array(1), 0)])) {
      expectError(error, { code: 'invalidUsage', words: [/rank/] });
    }
  });

  it('because one is part of a gather are told from others', async () => {
    const [a, b] = await open(2);
    const [error] = await rejections([
      a!.gather(new Uint8Array(8), new Uint8Array(16)),
      b!.send(new Uint8Array(8), 0),
    ]);
    expectError(error, {
      code: 'invalidUsage',
      words: [/rank 1 sends 8 bytes to rank 0, rank 0 expects 8 bytes from rank 1 as part of a gather/],
    });
  });
});

describe('a message that nobody', () => {
  it('receives ends with the time limit and names who has not called', async () => {
    const [a] = await open(3, { timeoutMs: 200 });
    const [error] = await rejections([a!.send(new Uint8Array(1_000_000), 2)]);
    expectError(error, {
      code: 'timeout',
      rank: 2,
      words: [/send: not done after 200 ms; rank 2 has not called the recv of rank 0's message/],
    });
  });

  it('sends ends with the time limit and names who has not called', async () => {
    const [a, b] = await open(3, { timeoutMs: 1500 });
    const early = b!.send(new Uint8Array(10), 0);
    const errors = await rejections([
      group(() => {
        void a!.recv(new Uint8Array(10), 1);
        void a!.recv(new Uint8Array(10), 2);
      }),
    ]);
    await early;
    expectError(errors[0], {
      code: 'timeout',
      rank: 2,
      words: [/group: not done after 1500 ms; rank 2 has not called the send to rank 0/],
    });
  });

  it('can receive, since both ranks send first without a group, is explained', async () => {
    const [a, b] = await open(2, { timeoutMs: 200 });
    const large = () => new Uint8Array(1_000_000);
    const errors = await rejections([a!.send(large(), 1), b!.send(large(), 0)]);
    expect(errors.map((error) => (error as { code?: string }).code).sort()).toEqual([
      'remoteError',
      'timeout',
    ]);
    for (const error of errors) {
      expectError(error, {
        code: (error as { code: 'timeout' }).code,
        words: [/put sends and receives that depend on each other into one group/],
      });
    }
  });

  it.each([
    ['begun', 30],
    ['not begun yet', 0],
  ])('takes since its rank closes ends at once, %s', async (_, ms) => {
    for (const call of ['send', 'recv'] as const) {
      const [a, b] = await createLocalCommunicators(2, { timeoutMs: 15_000 });
      const waiting = rejections([a![call](new Uint8Array(1_000_000), 1)]);
      if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
      await b!.close();
      expectError((await waiting)[0], { code: 'remoteError', rank: 1, words: [/rank 1 has closed/] });
      await a!.close();
    }
  });

  it('needs any more since the communicator is aborted ends with the reason', async () => {
    const [a, b] = await open(2);
    const waiting = rejections([a!.recv(new Uint8Array(9), 1)]);
    await new Promise((resolve) => setTimeout(resolve, 20));
    b!.abort('the loss is NaN');
    expectError((await waiting)[0], { code: 'remoteError', rank: 1, words: [/rank 1 has aborted/] });
  });
});
