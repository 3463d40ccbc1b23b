/** Real processes, real sockets: what ranks see when all goes well, and when something does not. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { eventually, type RankProcess, RankProcesses } from './rank-processes.js';

type Events = { lost: { rank: number; reason: string }[]; aborted: { rank: number; reason: string }[] };

/** Connects the ranks in the given order, with the root in the first process of the list. */
async function connectAll(ranks: RankProcess[], options: object = {}): Promise<string> {
  const id = await ranks[0]!.call<string>('createId');
  await Promise.all(
    ranks.map((process, rank) => process.call('connect', { id, rank, size: ranks.length, ...options })),
  );
  return id;
}

describe('when every rank plays along', () => {
  const processes = new RankProcesses();
  let ranks: RankProcess[] = [];
  beforeAll(() => {
    ranks = processes.start(9);
  });
  afterAll(() => processes.end());

  test.each([1, 2, 3, 4, 5, 6, 7, 8, 9])(
    '%i processes that share a unique id meet, in any order, and all-gather gives everybody every part [C03-01]',
    async (size) => {
      const id = await ranks[0]!.call<string>('createId');
      const joined = [];
      for (let rank = size - 1; rank >= 0; rank--) {
        joined.push(ranks[rank]!.call('connect', { id, rank, size, timeoutMs: 10_000 }));
        // The first two come one after the other for certain.
        if (rank === size - 1) await new Promise((resolve) => setTimeout(resolve, 20));
      }
      const seen = await Promise.all(joined);
      const processIds = ranks.slice(0, size).map((rank) => rank.pid);
      expect(seen).toEqual(Array.from({ length: size }, () => ({ rootRank: 0, processIds })));

      const expected = Array.from({ length: size }, (_, rank) => 'x'.repeat(rank * 7));
      const present = ranks.slice(0, size);
      for (const label of ['first', 'second']) {
        const gathered = await Promise.all(
          present.map((process, rank) => process.call('allGather', { data: expected[rank], label })),
        );
        for (const parts of gathered) expect(parts).toEqual(expected);
      }
      await Promise.all(present.map((process) => process.call('barrier', { label: 'end' })));
      await Promise.all(present.map((process) => process.call('close')));
      for (const process of present) {
        expect(await process.call('events')).toEqual({ lost: [], aborted: [] });
      }
    },
  );

  test('broadcast gives the bytes of its root to all', async () => {
    const three = ranks.slice(0, 3);
    await connectAll(three);
    const seen = await Promise.all(
      three.map((process, rank) => process.call('broadcast', { data: `from ${rank}`, root: 2, label: 'b' })),
    );
    expect(seen).toEqual(['from 2', 'from 2', 'from 2']);
    await Promise.all(three.map((process) => process.call('close')));
  });

  test('an all-gather among some ranks leaves the others out and counts on its own', async () => {
    const four = ranks.slice(0, 4);
    await connectAll(four);
    const odd = [1, 3].map((rank) =>
      four[rank]!.call('allGather', { data: `${rank}`, label: 'odd', among: [3, 1] }),
    );
    expect(await Promise.all(odd)).toEqual([
      ['1', '3'],
      ['1', '3'],
    ]);
    const all = four.map((process, rank) => process.call('allGather', { data: `${rank}`, label: 'all' }));
    for (const parts of await Promise.all(all)) expect(parts).toEqual(['0', '1', '2', '3']);
    await Promise.all(four.map((process) => process.call('close')));
  });

  test('two ranks get a direct connection whoever asks first, and several purposes stay apart [C03-14]', async () => {
    const [zero, one, two] = ranks as [RankProcess, RankProcess, RankProcess];
    await connectAll([zero, one, two]);
    // Rank 2 connects to rank 1 long before rank 1 asks: the connection waits there.
    await two.call('peer', { rank: 1, purpose: 'late' });
    await two.call('write', { rank: 1, purpose: 'late', data: 'hello from 2' });
    const early = one.call('peer', { rank: 2, purpose: 'early' });
    await two.call('peer', { rank: 1, purpose: 'early' });
    await early;
    await one.call('peer', { rank: 2, purpose: 'late' });
    expect(await one.call('read', { rank: 2, purpose: 'late', count: 12 })).toBe('hello from 2');
    await one.call('write', { rank: 2, purpose: 'early', data: 'hello from 1' });
    expect(await two.call('read', { rank: 1, purpose: 'early', count: 12 })).toBe('hello from 1');
    await Promise.all([zero, one, two].map((process) => process.call('close')));
  });

  test('a used unique id is refused at once with the remedy', async () => {
    const [zero, one, two] = ranks as [RankProcess, RankProcess, RankProcess];
    const id = await connectAll([zero, one]);
    const late = await two.failure('connect', { id, rank: 1, size: 2, timeoutMs: 5000 });
    expect(late.code).toBe('invalidUsage');
    expect(late.message).toContain('already serves a communicator of 2 ranks');
    expect(late.message).toContain('make a new one');
    // The running communicator did not notice.
    await Promise.all([zero, one].map((process) => process.call('barrier', { label: 'still here' })));
    await Promise.all([zero, one].map((process) => process.call('close')));
  });
});

describe('when the ranks do not fit together', () => {
  const processes = new RankProcesses();
  let ranks: RankProcess[] = [];
  beforeAll(() => {
    ranks = processes.start(3);
  });
  afterAll(() => processes.end());

  /** Connects with one (rank, size) per process and returns every failure. */
  async function failures(
    places: [number, number][],
  ): Promise<{ code: string; message: string; rank?: number }[]> {
    const id = await ranks[0]!.call<string>('createId');
    return Promise.all(
      places.map(([rank, size], index) =>
        ranks[index]!.failure('connect', { id, rank, size, timeoutMs: 10_000 }),
      ),
    );
  }

  test('a duplicate rank is reported to all with both processes', async () => {
    const seen = await failures([
      [0, 3],
      [1, 3],
      [1, 3],
    ]);
    for (const { code, message, rank } of seen) {
      expect({ code, rank }).toEqual({ code: 'invalidArgument', rank: 1 });
      expect(message).toContain('Rank 1 checked in twice');
      expect(message).toContain(`process ${ranks[1]!.pid}`);
      expect(message).toContain(`process ${ranks[2]!.pid}`);
    }
  });

  test('different sizes are reported to all with ranks and sizes', async () => {
    const seen = await failures([
      [0, 3],
      [1, 3],
      [2, 4],
    ]);
    for (const { code, message } of seen) {
      expect(code).toBe('invalidArgument');
      expect(message).toMatch(/disagree about the size: rank \d was given [34], rank \d was given [34]/);
    }
    expect(new Set(seen.map(({ message }) => message)).size).toBe(1);
  });

  test('a rank out of range fails everywhere without waiting for the time-out [C03-02]', async () => {
    const start = performance.now();
    const seen = await failures([
      [0, 3],
      [1, 3],
      [3, 3],
    ]);
    expect(performance.now() - start).toBeLessThan(5000);
    for (const { code, message, rank } of seen) {
      expect({ code, rank }).toEqual({ code: 'invalidArgument', rank: 3 });
      expect(message).toContain('Rank 3 is out of range: a communicator of size 3 has ranks 0 to 2');
    }
  });

  test.each([
    [-1, 2, 'rank is -1|Rank -1 is out of range'],
    [0, 0, 'size is 0|was given size 0'],
    [0.5, 2, 'rank is 0.5'],
    [0, Number.NaN, 'size is'],
  ])('rank %d of size %d fails with invalidArgument [C03-02]', async (rank, size, text) => {
    const id = await ranks[0]!.call<string>('createId');
    const { code, message } = await ranks[1]!.failure('connect', { id, rank, size });
    expect(code).toBe('invalidArgument');
    expect(message).toMatch(new RegExp(text));
  });

  test('a rank that never comes: all get its number within the time-out', async () => {
    const id = await ranks[0]!.call<string>('createId');
    const start = performance.now();
    const seen = await Promise.all(
      [0, 3].map((rank, index) => ranks[index]!.failure('connect', { id, rank, size: 6, timeoutMs: 300 })),
    );
    expect(performance.now() - start).toBeLessThan(1300);
    for (const { code, message } of seen) {
      expect(code).toBe('timeout');
      expect(message).toContain('Of 6 ranks ranks 1, 2, 4, 5 did not come');
    }
    // One that comes after that learns the same at once.
    const late = await ranks[2]!.failure('connect', { id, rank: 1, size: 6, timeoutMs: 10_000 });
    expect(late).toEqual(seen[0]);
  });

  test('a wrong secret is refused with the address, and the others are not disturbed [C03-09]', async () => {
    const id = await ranks[0]!.call<string>('createId');
    const forged = Buffer.from(id, 'base64url');
    forged[70]! ^= 1;
    const [zero, one] = ranks as [RankProcess, RankProcess, RankProcess];
    const first = zero.call('connect', { id, rank: 0, size: 2, timeoutMs: 10_000 });
    const refused = await ranks[2]!.failure('connect', {
      id: forged.toString('base64url'),
      rank: 1,
      size: 2,
      timeoutMs: 10_000,
    });
    expect(refused.code).toBe('invalidArgument');
    expect(refused.message).toMatch(/secret of the unique id was refused by the root at 127\.0\.0\.1<\d+>/);
    await one.call('connect', { id, rank: 1, size: 2, timeoutMs: 10_000 });
    await first;
    await Promise.all([zero, one].map((process) => process.call('barrier', { label: 'b' })));
    await Promise.all([zero, one].map((process) => process.call('close')));
  });

  test('different labels are reported to all with both labels', async () => {
    await connectAll(ranks, { timeoutMs: 10_000 });
    const seen = await Promise.all(
      ['topology', 'topology', 'graphs'].map((label, rank) =>
        ranks[rank]!.failure('allGather', { data: '', label }),
      ),
    );
    for (const { code, message } of seen) {
      expect(code).toBe('invalidUsage');
      expect(message).toMatch(/rank \d calls '(topology|graphs)', rank \d calls '(topology|graphs)'/);
    }
    // The next operation is none the worse.
    await Promise.all(ranks.map((process) => process.call('barrier', { label: 'again' })));
    await Promise.all(ranks.map((process) => process.call('close')));
  });

  test('a rank that closes while others wait for it is named', async () => {
    await connectAll(ranks, { timeoutMs: 10_000 });
    const waiting = [0, 1].map((rank) => ranks[rank]!.failure('barrier', { label: 'b' }));
    await ranks[2]!.call('close');
    for (const { code, message, rank } of await Promise.all(waiting)) {
      expect({ code, rank }).toEqual({ code: 'remoteError', rank: 2 });
      expect(message).toContain('has closed its communicator');
    }
    expect(await ranks[0]!.call<Events>('events')).toEqual({ lost: [], aborted: [] });
    await Promise.all([0, 1].map((rank) => ranks[rank]!.call('close')));
  });

  test('abort ends what is pending at every rank with the reason [C03-39]', async () => {
    await connectAll(ranks, { timeoutMs: 10_000 });
    const waiting = [
      ranks[0]!.failure('barrier', { label: 'b' }),
      ranks[1]!.failure('peer', { rank: 2, purpose: 'data' }),
    ];
    await ranks[0]!.call('events');
    await ranks[2]!.call('abort', { reason: 'out of memory' });
    for (const { code, message, rank } of await Promise.all(waiting)) {
      expect({ code, rank }).toEqual({ code: 'remoteError', rank: 2 });
      expect(message).toContain('Rank 2 aborted: out of memory');
    }
    const { aborted } = await ranks[1]!.call<Events>('events');
    expect(aborted).toEqual([{ rank: 2, reason: 'out of memory' }]);
    expect((await ranks[2]!.failure('barrier', { label: 'x' })).message).toContain('This rank (2) aborted');
    await Promise.all([0, 1].map((rank) => ranks[rank]!.call('close')));
  });
});

describe('when a process dies or stops', () => {
  const processes = new RankProcesses();
  afterEach(() => processes.end());

  test('killed before it comes: the others name it as missing', async () => {
    const [zero, one, two] = processes.start(3) as [RankProcess, RankProcess, RankProcess];
    const id = await zero.call<string>('createId');
    await two.kill();
    const seen = await Promise.all(
      [zero, one].map((process, rank) => process.failure('connect', { id, rank, size: 3, timeoutMs: 300 })),
    );
    for (const { code, message, rank } of seen) {
      expect({ code, rank }).toEqual({ code: 'timeout', rank: 2 });
      expect(message).toContain('rank 2 did not come');
    }
  });

  test('killed during initialisation: the others name it at once', async () => {
    const [zero, one, two] = processes.start(3) as [RankProcess, RankProcess, RankProcess];
    const id = await zero.call<string>('createId');
    const first = zero.failure('connect', { id, rank: 0, size: 3, timeoutMs: 20_000 });
    const dying = two.failure('connect', { id, rank: 2, size: 3, timeoutMs: 20_000 });
    dying.catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 300));
    const start = performance.now();
    await two.kill();
    for (const seen of [
      await first,
      await one.failure('connect', { id, rank: 1, size: 3, timeoutMs: 20_000 }),
    ]) {
      expect(seen.code).toBe('remoteError');
      expect(seen.rank).toBe(2);
      expect(seen.message).toContain(`rank 2 (process ${two.pid}`);
      expect(seen.message).toContain('was lost during initialisation');
    }
    expect(performance.now() - start).toBeLessThan(2000);
  });

  test('killed after initialisation: pending and later operations fail, survivors go on among themselves', async () => {
    const ranks = processes.start(3);
    await connectAll(ranks, { timeoutMs: 20_000 });
    const waiting = [
      ranks[0]!.failure('barrier', { label: 'b' }),
      ranks[1]!.failure('peer', { rank: 2, purpose: 'data' }),
    ];
    await ranks[1]!.call('events');
    await ranks[2]!.kill();
    for (const { code, message, rank } of await Promise.all(waiting)) {
      expect({ code, rank }).toEqual({ code: 'remoteError', rank: 2 });
      expect(message).toContain('was lost');
    }
    for (const process of [ranks[0]!, ranks[1]!]) {
      const { lost } = await process.call<Events>('events');
      expect(lost.map(({ rank }) => rank)).toEqual([2]);
    }
    expect((await ranks[1]!.failure('barrier', { label: 'b' })).message).toContain('was lost');
    const among = [0, 1];
    const agreed = among.map((rank) =>
      ranks[rank]!.call('allGather', { data: `${rank}`, label: 'shrink', among }),
    );
    expect(await Promise.all(agreed)).toEqual([
      ['0', '1'],
      ['0', '1'],
    ]);
  });

  test('stopped: the others time out with its name, and it learns that when it goes on', async () => {
    const ranks = processes.start(3);
    await connectAll(ranks, { timeoutMs: 20_000 });
    ranks[1]!.child.kill('SIGSTOP');
    const seen = await Promise.all(
      [0, 2].map((rank) => ranks[rank]!.failure('allGather', { data: '', label: 'g', timeoutMs: 300 })),
    );
    for (const { code, message, rank } of seen) {
      expect({ code, rank }).toEqual({ code: 'timeout', rank: 1 });
      expect(message).toContain(`'g': rank 1 (process ${ranks[1]!.pid}`);
    }
    ranks[1]!.child.kill('SIGCONT');
    expect(await ranks[1]!.failure('allGather', { data: '', label: 'g' })).toEqual(seen[0]);
    await Promise.all(ranks.map((process) => process.call('barrier', { label: 'all are well' })));
  });

  test("the root's process is killed: all report it and its rank", async () => {
    const ranks = processes.start(3);
    await connectAll(ranks, { timeoutMs: 20_000 });
    const waiting = [1, 2].map((rank) => ranks[rank]!.failure('barrier', { label: 'b' }));
    await ranks[1]!.call('events');
    await ranks[0]!.kill();
    for (const { code, message, rank } of await Promise.all(waiting)) {
      expect({ code, rank }).toEqual({ code: 'remoteError', rank: 0 });
      expect(message).toMatch(/The root \(rank 0, 127\.0\.0\.1<\d+>\) was lost/);
    }
    const { lost } = await ranks[2]!.call<Events>('events');
    expect(lost.map(({ rank }) => rank)).toEqual([0]);
    // Direct connections do not need the root.
    const direct = ranks[1]!.call('peer', { rank: 2, purpose: 'data', timeoutMs: 5000 });
    await ranks[2]!.call('peer', { rank: 1, purpose: 'data', timeoutMs: 5000 });
    await direct;
  });

  test("the root's process dies during initialisation: the waiting ranks learn it at once", async () => {
    const [home, one] = processes.start(2) as [RankProcess, RankProcess];
    const id = await home.call<string>('createId');
    const waiting = one.failure('connect', { id, rank: 1, size: 2, timeoutMs: 20_000 });
    await new Promise((resolve) => setTimeout(resolve, 200));
    await home.kill();
    const { code, message } = await waiting;
    expect(code).toBe('remoteError');
    expect(message).toContain('was lost during initialisation');
  });

  test("the root's process is stopped: ranks time out and say so", async () => {
    const [home, one] = processes.start(2) as [RankProcess, RankProcess];
    const id = await home.call<string>('createId');
    home.child.kill('SIGSTOP');
    const { code, message } = await one.failure('connect', { id, rank: 1, size: 2, timeoutMs: 300 });
    expect(code).toBe('timeout');
    expect(message).toMatch(/accepted the connection but did not answer within 300 ms/);
  });

  test('the rank of the root closes and its process ends: the others do not take it for a death', async () => {
    const ranks = processes.start(3);
    await connectAll(ranks, { timeoutMs: 5000 });
    await ranks[0]!.call('close');
    ranks[0]!.child.send({ id: -1, method: 'exit', args: {} });
    expect(await ranks[0]!.exited).toEqual({ code: 0, signal: null });
    const refused = await ranks[1]!.failure('barrier', { label: 'b' });
    expect(refused.message).toContain('has closed its communicator');
    expect(await ranks[1]!.call<Events>('events')).toEqual({ lost: [], aborted: [] });
  });

  test('an open and idle bootstrap lets its process end', async () => {
    const ranks = processes.start(2);
    await connectAll(ranks, { timeoutMs: 5000 });
    ranks[1]!.child.send({ id: -1, method: 'exit', args: {} });
    expect(await ranks[1]!.exited).toEqual({ code: 0, signal: null });
    // It left without a goodbye, so rank 0 counts it as lost.
    await eventually(async () => (await ranks[0]!.call<Events>('events')).lost.length === 1);
  });
});
