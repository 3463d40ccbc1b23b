import { existsSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { effort, sample } from '../effort.js';
import { SocketRanks } from './socket-ranks.js';
import { canMakeNamespaces, TwoHosts } from './two-hosts.js';

const ranks = new SocketRanks();
afterEach(() => ranks.end());

/** 32 KiB of slots: a few thousand elements already go round several times. */
const SMALL = { NCCL_BUFFSIZE: '32768' };

/** A seed that a failing run prints; TUTTI_TEST_SEED repeats it. */
const SEED = Number(process.env.TUTTI_TEST_SEED ?? Date.now() % 1_000_000);

async function battery(
  size: number,
  channels: number,
  rounds: number,
  env: NodeJS.ProcessEnv = SMALL,
  more: object = {},
  options: object = {},
): Promise<void> {
  const expected = 'sockets' in options ? 'memory shared' : 'rings over TCP';
  const started = await ranks.start(
    size,
    {
      behaviour: 'battery',
      seed: SEED + size * 10 + channels,
      rounds,
      options: { channels, ...options },
      ...more,
    },
    env,
  );
  for (const rank of started) expect(await rank.message('joined')).toContain(expected);
  const results = await Promise.all(started.map((rank) => rank.message('result')));
  expect(results, `seed ${SEED}`).toEqual(Array(size).fill(rounds));
  for (const rank of started) expect(await rank.exited).toEqual({ code: 0, signal: null });
}

describe(`collectives over sockets (seed ${SEED})`, () => {
  for (const [size, channels] of sample(
    [
      [2, 1],
      [3, 2],
      [2, 3],
      [4, 1],
      [5, 3],
    ] as const,
    2,
  )) {
    it(`${size} ranks, ${channels} channels: random operations agree with the plain reference`, async () => {
      await battery(size, channels, effort(16, 40));
    });
  }

  it('8 ranks agree with the plain reference', async () => {
    await battery(8, 1, effort(8, 25), SMALL, { limits: { count: 10_000, rank8: true } });
  });

  it('slots of full size agree with the plain reference', async () => {
    await battery(3, 1, 12, {}, { limits: { count: 900_000 } });
  });

  it('rings in shared memory agree with the plain reference where some ranks move ordinary arrays', async () => {
    await battery(3, 2, effort(16, 40), SMALL, {}, { sockets: false, algorithm: 'Ring', protocol: 'Simple' });
    await battery(
      3,
      3,
      effort(16, 40),
      { NCCL_LL_BUFFSIZE: '16384' },
      {},
      { sockets: false, algorithm: 'Ring', protocol: 'LL' },
    );
  });

  it('with check on, ranks that disagree learn who calls what', async () => {
    const started = await ranks.start(3, { behaviour: 'disagree', options: { check: true } });
    for (const rank of started) {
      const error = await rank.message('error');
      expect(error.code).toBe('invalidUsage');
      expect(error.message).toMatch(/rank \d calls allReduce of 10\d float32, op sum/);
    }
  });

  it('works without the C library', async () => {
    const hook = new URL('./programs/without-koffi.mjs', import.meta.url).href;
    const started = await ranks.start(
      3,
      { behaviour: 'battery', seed: SEED, rounds: 12, options: {} },
      { ...SMALL, NODE_OPTIONS: `--import=${hook}` },
    );
    for (const rank of started) expect(await rank.message('result')).toBe(12);
  });
});

describe('ranks of different hosts', () => {
  it('choose sockets by themselves and say why', async () => {
    const started = await ranks.start(2, { behaviour: 'describe', options: { sockets: false } }, (rank) => ({
      NCCL_HOSTID: `host${rank}`,
    }));
    for (const rank of started) {
      const result = (await rank.message('result')) as { description: string };
      expect(result.description).toContain('different hosts');
    }
  });
});

describe.skipIf(!canMakeNamespaces())('hosts with a network between them', () => {
  let network: TwoHosts;
  beforeEach(() => {
    network = new TwoHosts();
  });
  afterEach(async () => {
    await ranks.end();
    network.remove();
  });

  const startApart = (settings: { behaviour: string; options?: object; [more: string]: unknown }) =>
    ranks.startApart(
      4,
      settings,
      (rank) => ({
        ...SMALL,
        NCCL_SOCKET_IFNAME: network.interfaceOf(rank % 2),
        NCCL_HOSTID: `host${rank % 2}`,
      }),
      (rank) => network.launchOn(rank % 2),
    );

  it('agree with the plain reference', async () => {
    const started = await startApart({
      behaviour: 'battery',
      seed: SEED,
      rounds: 12,
      options: { sockets: false, channels: 2 },
    });
    for (const rank of started) expect(await rank.message('joined')).toContain('different hosts');
    for (const rank of started) expect(await rank.message('result'), `seed ${SEED}`).toBe(12);
  });

  it('a network that goes silent ends the operation at its time limit', async () => {
    const started = await startApart({
      behaviour: 'loop',
      form: 'sync',
      options: { sockets: false, timeoutMs: 1500 },
    });
    await Promise.all(started.map((rank) => rank.message('looping')));
    await new Promise((resolve) => setTimeout(resolve, 200));
    network.cut();
    for (const rank of started) {
      const error = await rank.message('error');
      expect(['timeout', 'remoteError']).toContain(error.code);
      expect(error.afterMs).toBeLessThan(3500);
    }
  });
});

describe('failures over sockets', () => {
  for (const form of ['async', 'sync'] as const) {
    it(`a rank killed in the middle of an ${form} operation is named by all others within 2 s`, async () => {
      const started = await ranks.start(4, { behaviour: 'loop', form });
      await Promise.all(started.map((rank) => rank.message('looping')));
      await new Promise((resolve) => setTimeout(resolve, 300));
      const killed = Date.now();
      started[2]!.child.kill('SIGKILL');
      for (const rank of [0, 1, 3]) {
        const error = await started[rank]!.message('error');
        expect(error, `rank ${rank}`).toMatchObject({ code: 'remoteError', rank: 2 });
        expect(error.message).toContain('rank 2 has died');
        expect(error.at! - killed).toBeLessThan(2000);
      }
    });

    const absences = [
      ['a rank that stays away', false, 1],
      ['a stopped rank on another host', true, 4],
      ['a stopped rank', true, 1],
      ['a rank that stays away on another host', false, 4],
    ] as const;
    for (const [what, stop, hosts] of effort<readonly (typeof absences)[number][]>(
      form === 'async' ? absences.slice(0, 2) : absences.slice(2),
      absences,
    )) {
      it(`${what} ends an ${form} operation at its time limit and is named by all`, async () => {
        const started = await ranks.start(
          4,
          { behaviour: 'absent', stop, form, options: { timeoutMs: 2500, sockets: hosts === 1 } },
          (rank) => ({ NCCL_HOSTID: `host${rank % hosts}` }),
        );
        await started[3]!.message('looping');
        for (const rank of [0, 1, 2]) {
          const error = await started[rank]!.message('error');
          expect(['timeout', 'remoteError']).toContain(error.code);
          expect(error, `rank ${rank}`).toMatchObject({ rank: 3 });
          expect(error.message).toContain('rank 3');
          expect(error.message).not.toContain('died');
          expect(error.afterMs).toBeLessThan(4500);
        }
      });
    }
  }

  it('a rank killed while the others know each other by sockets only is named around the whole ring', async () => {
    const started = await ranks.start(
      5,
      { behaviour: 'loop', form: 'sync', options: { sockets: false } },
      (rank) => ({ NCCL_HOSTID: `host${rank}` }),
    );
    await Promise.all(started.map((rank) => rank.message('looping')));
    started[1]!.child.kill('SIGKILL');
    for (const rank of [0, 2, 3, 4]) {
      const error = await started[rank]!.message('error');
      expect(error, `rank ${rank}`).toMatchObject({ code: 'remoteError', rank: 1 });
      expect(error.afterMs).toBeLessThan(2000);
    }
  });

  it('closing lets the last data arrive and takes no longer than the farewell', async () => {
    const started = await ranks.start(3, { behaviour: 'leaveEarly' });
    for (const rank of started) expect(await rank.message('result')).toBe(true);
    for (const rank of started) expect(await rank.exited).toEqual({ code: 0, signal: null });
  });

  it.runIf(existsSync('/dev/shm'))('leaves no shared memory behind', async () => {
    const { readdirSync } = await import('node:fs');
    const before = readdirSync('/dev/shm').filter((name) => name.includes('tutti'));
    await battery(2, 1, 2);
    const after = readdirSync('/dev/shm').filter((name) => name.includes('tutti'));
    expect(after.filter((name) => !before.includes(name))).toEqual([]);
  });
});
