/** A communicator's life: made by one thread, used in groups, looked at from time to time, finalized, closed or aborted. */
import { afterEach, describe, expect, it } from 'vitest';
import {
  Communicator,
  type CommunicatorOptions,
  createLocalCommunicators,
  createUniqueId,
  group,
  TuttiError,
} from '#src/index.js';
import { effort } from '../effort.js';
import { expectError, rejections, thrownBy } from './errors.js';

let comms: Communicator[] = [];
afterEach(async () => {
  await Promise.all(comms.splice(0).map((comm) => comm.close()));
});

const open = async (size: number, options?: CommunicatorOptions) => {
  comms = await createLocalCommunicators(size, options);
  return comms;
};

const f32 = (length: number) => new Float32Array(length).fill(1);
const all = (comm: Communicator) => comm.allReduce(f32(10), f32(10));
const statuses = () => comms.map(({ status }) => status);

describe('communicators of one thread', () => {
  it('are all of use when they are there [C01-10]', async () => {
    await open(3);
    expect(comms.map(({ rank, size }) => [rank, size])).toEqual([
      [0, 3],
      [1, 3],
      [2, 3],
    ]);
    const got = comms.map(() => new Int32Array(1));
    await Promise.all(comms.map((comm, rank) => comm.allReduce(Int32Array.of(rank + 1), got[rank]!)));
    expect(got).toEqual([Int32Array.of(6), Int32Array.of(6), Int32Array.of(6)]);
  });

  it('show nothing of their insides [C01-07]', async () => {
    const [comm] = await open(2);
    expect(Reflect.ownKeys(comm!)).toEqual(['prepare']);
    expect(JSON.stringify(comm)).toBe('{"prepare":{}}');
    const values = Object.getOwnPropertyNames(Object.getPrototypeOf(comm))
      .filter((name) => name !== 'constructor')
      .map((name) => (comm as unknown as Record<string, unknown>)[name]);
    expect(values.length).toBeGreaterThan(25);
    // Getters give plain values, everything else is a method.
    expect(values.filter((value) => typeof value === 'object')).toEqual([]);
  });

  it('that are called one after the other wait for each other in vain, which is said with the call and the rank [C01-16]', async () => {
    await open(2, { timeoutMs: 200 });
    const loop = async () => {
      for (const comm of comms) await all(comm);
    };
    const [error] = await rejections([loop()]);
    expectError(error, {
      code: 'timeout',
      rank: 1,
      words: [/allReduce: not done after 200 ms; rank 1 did not call it/],
    });
    expect(thrownBy(() => comms[0]!.allReduceSync(f32(1), f32(1)))).toBeInstanceOf(TuttiError);
  });
});

describe('calls in a group', () => {
  it('of 32 Mi floats each add up on every rank [C01-12]', async () => {
    const ranks = effort(2, 4);
    const count = 33_554_432;
    await open(ranks);
    const sends = comms.map(({ rank }) => {
      const send = new Float32Array(count);
      send[0] = rank;
      return send;
    });
    const recvs = comms.map(() => new Float32Array(count).fill(-1));
    await group(() => {
      for (const [rank, comm] of comms.entries()) void comm.allReduce(sends[rank]!, recvs[rank]!);
    });
    for (const recv of recvs) {
      expect(recv[0]).toBe((ranks * (ranks - 1)) / 2);
      recv[0] = 0;
      expect(recv.findIndex((value) => value !== 0)).toBe(-1);
    }
  });

  it('move nothing before its end [C01-13]', async () => {
    await open(2);
    await Promise.all(comms.map(all));
    const arrays = comms.map((comm) => comm.alloc(Int32Array, 4).fill(comm.rank + 1));
    const begun = group(() => {
      for (const [rank, comm] of comms.entries()) void comm.allReduce(arrays[rank]!, arrays[rank]!);
      // Time enough for the ranks' threads, which need this one for nothing.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
      expect(arrays.map(([value]) => value)).toEqual([1, 2]);
      expect(statuses()).toEqual(['success', 'success']);
    });
    expect(statuses()).toEqual(['inProgress', 'inProgress']);
    await begun;
    expect(arrays.map(([value]) => value)).toEqual([3, 3]);
  });

  it('of a communicator that has joined it before are added to those before, and each is done once [C07-04]', async () => {
    await open(2);
    const sums = comms.map(() => Int32Array.of(1));
    const [sent, got] = [Int32Array.of(7, 8), new Int32Array(2)];
    await group(() => {
      for (let round = 0; round < 3; round++) {
        for (const [rank, comm] of comms.entries()) void comm.allReduce(sums[rank]!, sums[rank]!);
        if (round === 2) continue;
        void comms[0]!.send(sent.subarray(round, round + 1), 1);
        void comms[1]!.recv(got.subarray(round, round + 1), 0);
      }
    });
    expect(sums).toEqual([Int32Array.of(8), Int32Array.of(8)]);
    expect(got).toEqual(sent);
  });

  it('return at once; whether they are done can be asked for without waiting [C07-12]', async () => {
    const [a, b] = await open(2);
    let isDone = false;
    const first = group(() => void a!.allReduce(f32(4), f32(4))).then(() => {
      isDone = true;
    });
    expect(a!.status).toBe('inProgress');
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect([isDone, a!.status, b!.status]).toEqual([false, 'inProgress', 'success']);
    await Promise.all([first, b!.allReduce(f32(4), f32(4))]);
    expect(statuses()).toEqual(['success', 'success']);
    const second = rejections([group(() => void a!.allReduce(f32(4), f32(4)))]);
    b!.abort('no more');
    await second;
    expect(statuses()).toEqual(['remoteError', 'remoteError']);
  });

  it('are waited for by a communicator that is closed meanwhile [C07-32]', async () => {
    const made = (await createLocalCommunicators(2)) as Communicator[];
    const arrays = made.map(() => Int32Array.of(1));
    const add = () => made.map((comm, rank) => comm.allReduce(arrays[rank]!, arrays[rank]!));
    const calls = group(() => void [add(), add()]);
    await Promise.all(made.map((comm) => comm.close()));
    expect(arrays).toEqual([Int32Array.of(4), Int32Array.of(4)]);
    await calls;
  });
});

describe('the status', () => {
  it('goes from in progress to success, or to the error that ended it [C02-08]', async () => {
    const [a, b] = await open(2, { timeoutMs: 10_000 });
    expect([statuses(), a!.failure]).toEqual([['success', 'success'], undefined]);
    const first = all(a!);
    expect(statuses()).toEqual(['inProgress', 'success']);
    await Promise.all([first, all(b!)]);
    expect(statuses()).toEqual(['success', 'success']);
    const waiting = rejections([all(a!)]);
    b!.abort('no more');
    // Also of a rank that has not called anything since.
    expect(statuses()).toEqual(['remoteError', 'remoteError']);
    expectError(a!.failure, { code: 'remoteError', rank: 1, words: [/rank 1 has aborted/] });
    expect((await waiting)[0]).toBe(a!.failure);
  });
});

describe('finalize', () => {
  it('is in progress until all ranks have called it [C01-17]', async () => {
    const [a, b] = await open(2);
    const got = new Int32Array(1);
    const [first] = [a!.allReduce(Int32Array.of(1), got), b!.allReduce(Int32Array.of(2), new Int32Array(1))];
    const early = a!.finalize();
    await first;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect([statuses(), got[0]]).toEqual([['inProgress', 'success'], 3]);
    await Promise.all([early, b!.finalize()]);
    expect(statuses()).toEqual(['success', 'success']);
  });

  it('of all ranks in a group comes after the calls in it, and all can be closed [C01-19]', async () => {
    const made = (await createLocalCommunicators(3)) as Communicator[];
    const arrays = made.map(() => new Int32Array(500_000).fill(1));
    const ends = () => arrays.map((array) => array.at(-1));
    let atTheEnd: Promise<unknown> | undefined;
    await group(() => {
      for (const [rank, comm] of made.entries()) void comm.allReduce(arrays[rank]!, arrays[rank]!);
      atTheEnd = Promise.all(made.map((comm) => comm.finalize())).then(ends);
    });
    expect([await atTheEnd, ends(), made.map(({ status }) => status)]).toEqual([
      [3, 3, 3],
      [3, 3, 3],
      ['success', 'success', 'success'],
    ]);
    for (const comm of made) await comm.close();
  });

  it.each([
    [0, {}],
    [1, {}],
    [0, { sockets: true }],
    [1, { sockets: true }],
  ])('lets rank %i close without waiting for the other one, %j [C01-18]', async (first, options) => {
    const root = await createUniqueId();
    const places = [0, 1].map((rank) => ({ ...options, id: root.id, rank, size: 2, timeoutMs: 10_000 }));
    comms = await Promise.all(places.map((place) => Communicator.init(place)));
    const sums = comms.map(() => Int32Array.of(1));
    await Promise.all(comms.map((comm, rank) => comm.allReduce(sums[rank]!, sums[rank]!)));
    await Promise.all(comms.map((comm) => comm.finalize()));
    // The other rank closes only when this has come to its end: waiting for it would take until the time limit.
    const since = performance.now();
    await comms[first]!.close();
    expect(performance.now() - since).toBeLessThan(5000);
    expect([statuses(), sums]).toEqual([
      ['success', 'success'],
      [Int32Array.of(2), Int32Array.of(2)],
    ]);
    await comms[1 - first]!.close();
    root.close();
  });

  it('is not begun by a group that fails', async () => {
    await open(2);
    const bad = group(() => {
      void comms[0]!.finalize();
      void comms[1]!.send(f32(1), 7);
    });
    expectError((await rejections([bad]))[0], { code: 'invalidArgument', words: [/invalid peer 7/] });
    await Promise.all(comms.map(all));
  });

  it('names the rank that does not come, and does not wait for one that closes', async () => {
    const [a] = await open(2, { timeoutMs: 100 });
    expectError((await rejections([a!.finalize()]))[0], {
      code: 'timeout',
      rank: 1,
      words: [/finalize or close: not done after 100 ms; rank 1 did not call it/],
    });
    for (const first of [0, 1]) {
      const made = (await createLocalCommunicators(2)) as Communicator[];
      const ends = [made[first]!.close(), made[1 - first]!.finalize()];
      await Promise.all(first === 0 ? ends : ends.reverse());
      await Promise.all(made.map((comm) => comm.close()));
    }
  });

  it('tells ranks that call what this one will not call any more', async () => {
    const [a, b] = await open(2, { timeoutMs: 10_000 });
    await Promise.all(comms.map(all));
    const errors = await rejections([a!.finalize(), all(b!)]);
    for (const error of errors)
      expectError(error, { code: 'remoteError', rank: 0, words: [/closed the comm/] });
  });
});

describe('the states of a communicator', () => {
  it('allow what is due in them, and nothing else [C01-21] [C01-22]', async () => {
    const made = (await createLocalCommunicators(2)) as Communicator[];
    const refused = async (state: string) => {
      const [a] = made;
      const errors = await rejections([all(a!), a!.send(f32(1), 1), a!.barrier(), a!.finalize()]);
      errors.push(thrownBy(() => a!.prepare.allReduce(f32(1), f32(1))));
      errors.push(thrownBy(() => a!.alloc(Float32Array, 1)));
      for (const error of errors) {
        expectError(error, { code: 'invalidUsage', words: [new RegExp(`: the communicator is ${state}`)] });
      }
    };
    await Promise.all(made.map(all));
    const status = () => made[0]!.status;
    expect(status()).toBe('success');
    const ends = [made[0]!.finalize()];
    await refused('finalized');
    expect(status()).toBe('inProgress');
    ends.push(made[1]!.finalize());
    await Promise.all(ends);
    await refused('finalized');
    expect(status()).toBe('success');
    // Nothing is under way that could be given up.
    made[0]!.abort();
    expect(made.map((comm) => comm.status)).toEqual(['success', 'success']);
    await made[0]!.close();
    await refused('closed');
    expect(status()).toBe('success');
    await made[0]!.close();
    await made[1]!.close();
    const [c, d] = (await createLocalCommunicators(2)) as Communicator[];
    c!.abort('enough');
    for (const comm of [c!, d!]) {
      expect(comm.status).toBe('remoteError');
      for (const error of await rejections([all(comm), comm.finalize()])) {
        expectError(error, { code: 'remoteError', rank: 0, words: [/rank 0 has aborted|enough/] });
      }
      await comm.close();
      expect(comm.status).toBe('remoteError');
    }
  });

  it('end with abort from finalize too, and everything is given back [C01-20]', async () => {
    const bytes = async () => {
      const [one] = (await createLocalCommunicators(1)) as Communicator[];
      const message = thrownBy(() => one!.alloc(Uint8Array, 2 ** 40)) as Error;
      await one!.close();
      return message.message.match(/only (\d+) are free/)![1];
    };
    const before = await bytes();
    const made = (await createLocalCommunicators(3, { timeoutMs: 10_000 })) as Communicator[];
    for (const comm of made) comm.alloc(Float64Array, 1000);
    const waiting = rejections([all(made[0]!), made[1]!.finalize()]);
    await new Promise((resolve) => setTimeout(resolve, 10));
    made[2]!.abort('enough');
    for (const error of await waiting) {
      expectError(error, { code: 'remoteError', rank: 2, words: [/rank 2 has aborted/] });
    }
    await Promise.all(made.map((comm) => comm.close()));
    expect(await bytes()).toBe(before);
  });
});
