/**
 * Ranks that die, hang, leave or fail: every other rank gets an error that names the culprit, soon, and ends by
 * itself; nothing is left behind.
 */
import { describe, expect, it } from 'vitest';
import { effort } from '../effort.js';
import { type FaultRank, faultRanksOfTests, sleep } from './fault-ranks.js';

const ranks = faultRanksOfTests();

/** All of them end by themselves, with an error about the culprit. */
async function expectErrors(
  survivors: readonly FaultRank[],
  culprit: number,
  code: RegExp,
  words: RegExp,
  since: number,
  withinMs: number,
): Promise<void> {
  for (const rank of survivors) {
    const { error, at } = await rank.said('end');
    expect(error, JSON.stringify(error)).toMatchObject({ rank: culprit });
    expect(error!.code).toMatch(code);
    expect(error!.message).toMatch(words);
    expect(at - since).toBeLessThan(withinMs);
    expect(await rank.said('closed')).toBeLessThan(1500);
    expect(await rank.exited).toEqual({ code: 3, signal: null });
    expect(rank.unhandled).toBeUndefined();
  }
}

const ALGORITHMS = [
  ['direct', {}],
  ['one-shot', { algorithm: 'OneShot' }],
  ['ring LL', { algorithm: 'Ring', protocol: 'LL' }],
  ['ring Simple', { algorithm: 'Ring', protocol: 'Simple' }],
  ['tree LL', { algorithm: 'Tree', protocol: 'LL' }],
  ['tree Simple', { algorithm: 'Tree', protocol: 'Simple' }],
] as const;

/** Over which a rank that is stopped is looked for too. */
const OVER_SWITCHES = [['NVLS', { algorithm: 'NVLS' }]] as const;

describe('a rank that is killed', () => {
  const FORMS = ['async', 'sync', 'run', 'start', 'burst', 'async array', 'sync array'];
  for (const [i, form] of FORMS.entries()) {
    const [name, options] = ALGORITHMS[i % ALGORITHMS.length]!;
    it(`in a loop of operations (${form}, ${name}) is named by all others within a second`, async () => {
      const started = await ranks.start(3, 'loop', { form, options });
      await Promise.all(started.map((rank) => rank.said('looping')));
      await sleep(100);
      const since = Date.now();
      started[1]!.child.kill('SIGKILL');
      await expectErrors([started[0]!, started[2]!], 1, /remoteError/, /rank 1 has died/, since, 1500);
    });
  }

  type Connected = readonly [algorithm: string, collective: string, form: string, options: object];
  const CONNECTED: readonly Connected[] = [
    ['Hierarchical', 'allReduce', 'async', { ranksPerNode: 2 }],
    ['PAT', 'reduceScatter', 'run', {}],
    ['NVLS', 'allReduce', 'sync array', { ranksPerNode: 2 }],
    ['CollNetDirect', 'allGather', 'burst', { ranksPerNode: 1 }],
  ];
  const MORE_CONNECTED: readonly Connected[] = [
    ['PAT', 'allGather', 'async', {}],
    ['NVLS', 'reduceScatter', 'run', {}],
    ['NVLSTree', 'allReduce', 'start', { ranksPerNode: 2 }],
    ['CollNetDirect', 'allReduce', 'sync', { ranksPerNode: 2 }],
    ['CollNetChain', 'allReduce', 'run', { ranksPerNode: 2 }],
  ];
  for (const [algorithm, collective, form, more] of effort(CONNECTED, [...CONNECTED, ...MORE_CONNECTED])) {
    it(`in a loop of ${collective} over ${algorithm} (${form}) is named by all others`, async () => {
      const started = await ranks.start(4, 'loop', { form, collective, options: { algorithm, ...more } });
      await Promise.all(started.map((rank) => rank.said('looping')));
      await sleep(50);
      const since = Date.now();
      started[2]!.child.kill('SIGKILL');
      const survivors = started.filter((_, rank) => rank !== 2);
      // Four ranks on two cores have little time to notice.
      await expectErrors(survivors, 2, /remoteError/, /rank 2 has died/, since, 5000);
    });
  }

  it('before it has come is missed after the time limit of the start, by name', async () => {
    const since = Date.now();
    const started = await ranks.start(
      3,
      'loop',
      { form: 'async', options: { initTimeoutMs: 1500 } },
      {},
      [0, 2],
    );
    await expectMissing(started, since);
  });

  it('while the others wait for more ranks is named at once', async () => {
    const started = await ranks.start(4, 'loop', { form: 'async' }, {}, [0, 1, 2]);
    // However long a process takes to start; then there is time to tell who it is.
    await Promise.all(started.map((rank) => rank.connected()));
    await sleep(1200);
    const since = Date.now();
    started[1]!.child.kill('SIGKILL');
    for (const rank of [started[0]!, started[2]!]) {
      const { error, at } = await rank.said('end');
      expect(error).toMatchObject({ code: 'remoteError', rank: 1 });
      expect(at - since).toBeLessThan(1500);
      expect(await rank.exited).toEqual({ code: 3, signal: null });
    }
  });

  it('at any moment of the start leaves no rank waiting', async () => {
    for (const ms of effort([220], [150, 220, 300])) {
      const started = await ranks.start(3, 'loop', { form: 'async', options: { initTimeoutMs: 3000 } });
      await sleep(ms);
      started[0]!.child.kill('SIGKILL');
      for (const rank of started.slice(1)) {
        const { error } = await rank.said('end');
        expect(error, JSON.stringify(error)).toMatchObject({ rank: 0 });
        expect(error!.code).toMatch(/remoteError|timeout/);
        expect((await rank.exited).code).toBe(3);
      }
      await ranks.end();
    }
  });

  async function expectMissing(started: readonly FaultRank[], since: number): Promise<void> {
    for (const rank of started) {
      const { error, at } = await rank.said('end');
      expect(error).toMatchObject({ code: 'timeout', rank: 1 });
      expect(error!.message).toMatch(/rank 1/i);
      expect(at - since).toBeLessThan(4000);
      expect(await rank.exited).toEqual({ code: 3, signal: null });
    }
  }
});

describe('a rank that is stopped', () => {
  for (const [name, options] of [...ALGORITHMS, ...OVER_SWITCHES]) {
    it(`is named when the time limit is over (${name})`, async () => {
      const started = await ranks.start(3, 'loop', {
        form: name.length % 2 ? 'sync' : 'async',
        options: { ...options, timeoutMs: 800 },
      });
      await Promise.all(started.map((rank) => rank.said('looping')));
      await sleep(100);
      const since = Date.now();
      started[2]!.child.kill('SIGSTOP');
      await expectErrors(
        started.slice(0, 2),
        2,
        /timeout|remoteError/,
        /the process of rank 2 is stopped|rank 2 did not come in time/,
        since,
        2500,
      );
      // It goes on, learns that it is over, and ends too.
      started[2]!.child.kill('SIGCONT');
      const { error } = await started[2]!.said('end');
      expect(error!.code).toMatch(/timeout|remoteError/);
      expect((await started[2]!.exited).code).toBe(3);
    });
  }
});

describe('a rank that leaves', () => {
  for (const exitCode of [0, 9]) {
    it(`without closing, with exit code ${exitCode}, is named by the others`, async () => {
      const since = Date.now();
      const started = await ranks.start(3, 'leave', { exitCode });
      expect(await started[1]!.exited).toEqual({ code: exitCode, signal: null });
      await expectErrors([started[0]!, started[2]!], 1, /remoteError/, /rank 1 has died/, since, 10_000);
    });
  }

  for (const form of ['async', 'sync'])
    it(`because its program fails keeps its own error, and the others are told (${form})`, async () => {
      const started = await ranks.start(3, 'fail', { form });
      const { error, at } = await started[1]!.said('end');
      expect(error!.message).toBe('a bug in the program');
      const words = /rank 1 has closed the communicator, but other ranks still call it/;
      await expectErrors([started[0]!, started[2]!], 1, /remoteError/, words, at, 1500);
      expect((await started[1]!.exited).code).toBe(3);
    });

  it('by abort is named by the others at once, whatever they wait for [C22-14]', async () => {
    for (const form of ['async', 'sync', 'barrier']) {
      const started = await ranks.start(3, 'abort', { form });
      const { at } = await started[1]!.said('end');
      await expectErrors(started, 1, /remoteError/, /rank 1 has aborted the communicator/, at, 1000);
    }
  });
});

describe('ranks that disagree', () => {
  for (const [name, options] of [
    ['direct', {}],
    ['ring that compares first', { algorithm: 'Ring', check: true }],
  ] as const) {
    it(`all end with an error that tells both calls (${name})`, async () => {
      for (const form of ['async', 'sync']) {
        const started = await ranks.start(3, 'differ', { form, options });
        const ends = await Promise.all(started.map((rank) => rank.said('end')));
        for (const { error } of ends) expect(error).toMatchObject({ code: 'invalidUsage' });
        expect(ends.map(({ error }) => error!.message).join('\n')).toMatch(
          /rank 1 calls allReduce of 999 float32, op sum/,
        );
        for (const rank of started) expect((await rank.exited).code).toBe(3);
      }
    });
  }
});

describe('a program that forgets to close', () => {
  it('ends by itself all the same', async () => {
    const started = await ranks.start(3, 'forget');
    for (const rank of started) {
      expect((await rank.said('end')).result).toBe(3);
      expect(await rank.exited).toEqual({ code: 0, signal: null });
    }
  });
});

describe('a rank that is late', () => {
  for (const form of ['async', 'sync']) {
    it(`costs those who wait hardly any time of a core (${form})`, async () => {
      const started = await ranks.start(2, 'late', { form, lateMs: 2000 });
      const { result } = await started[0]!.said('end');
      const { waitedMs, cpuMs } = result as { waitedMs: number; cpuMs: number };
      expect(waitedMs).toBeGreaterThan(1500);
      expect(cpuMs).toBeLessThan(0.12 * waitedMs);
    });
  }
});

describe('more ranks than cores', () => {
  it('make progress', async () => {
    const started = await ranks.start(8, 'late', { form: 'sync', lateMs: 1 });
    for (const rank of started) {
      const { error, result } = await rank.said('end');
      expect(error).toBeUndefined();
      expect((result as { waitedMs: number }).waitedMs).toBeLessThan(5000);
    }
  });
});
