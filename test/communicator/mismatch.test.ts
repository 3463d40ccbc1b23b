/** Ranks that make different calls: all of them learn who calls what, nobody waits for ever, nobody computes nonsense. */
import { afterEach, describe, expect, it } from 'vitest';
import { type Communicator, createLocalCommunicators } from '#src/communicator/communicator.js';
import type { CommunicatorOptions } from '#src/communicator/settings.js';
import type { TuttiError } from '#src/errors/tutti-error.js';
import { expectError, rejections } from './errors.js';

let comms: Communicator[] = [];
afterEach(async () => {
  await Promise.all(comms.splice(0).map((comm) => comm.close()));
});

type Call = (comm: Communicator) => Promise<void>;

const f32 = (length: number) => new Float32Array(length);
const all: Call = (comm) => comm.allReduce(f32(1000), f32(1000));

/** What rank 1 does while the others do `all`, and how that must be described. */
const DIFFERENT: readonly [string, Call, string][] = [
  ['another count', (comm) => comm.allReduce(f32(999), f32(999)), 'allReduce of 999 float32, op sum'],
  ['no elements', (comm) => comm.allReduce(f32(0), f32(0)), 'allReduce of 0 float32, op sum'],
  ['very few elements', (comm) => comm.allReduce(f32(3), f32(3)), 'allReduce of 3 float32, op sum'],
  [
    'another type of the same size',
    (comm) => comm.allReduce(new Int32Array(1000), new Int32Array(1000)),
    'allReduce of 1000 int32, op sum',
  ],
  [
    'another type',
    (comm) => comm.allReduce(new Float64Array(1000), new Float64Array(1000)),
    'allReduce of 1000 float64, op sum',
  ],
  [
    'another operator',
    (comm) => comm.allReduce(f32(1000), f32(1000), { op: 'max' }),
    'allReduce of 1000 float32, op max',
  ],
  [
    'another collective',
    (comm) => comm.reduce(f32(1000), f32(1000)),
    'reduce of 1000 float32, op sum, root 0',
  ],
  [
    'a collective without operator',
    (comm) => comm.broadcast(f32(1000), { root: 2 }),
    'broadcast of 1000 float32, root 2',
  ],
];

const SETTINGS: readonly [string, CommunicatorOptions][] = [
  ['ranks that meet directly', {}],
  ['one-shot', { algorithm: 'OneShot' }],
  ['two-shot', { algorithm: 'TwoShot' }],
  ['rings', { algorithm: 'Ring', protocol: 'Simple' }],
  ['LL rings', { algorithm: 'Ring', protocol: 'LL' }],
  ['trees and rings', { algorithm: 'Ring;allreduce:Tree' }],
  ['rings that compare first', { algorithm: 'Ring', protocol: 'Simple', check: true }],
  ['LL rings that compare first', { algorithm: 'Ring', protocol: 'LL', check: true }],
];

const OWN = 'allReduce of 1000 float32, op sum';

/** Rank 1 differs; every rank's error names two ranks that differ, or says who is to blame. */
function expectMismatch(errors: readonly unknown[], described: string): void {
  errors.forEach((error, rank) => {
    expectError(error, { code: 'invalidUsage', words: [/rank/] });
    const { message, rank: culprit } = error as TuttiError;
    if (message.startsWith('the ranks do different things')) {
      expect(message).toContain(rank === 1 ? `rank 1 calls ${described}` : `rank ${rank} calls ${OWN}`);
      expect(message).toContain(rank === 1 ? `calls ${OWN}` : `rank 1 calls ${described}`);
      if (rank !== 1) expect(culprit).toBe(1);
    } else expect(message).toMatch(/given up because the ranks made different calls/);
  });
  // Whoever comes first knows both calls.
  expect(errors.some((error) => (error as Error).message.includes(described))).toBe(true);
}

describe.each(SETTINGS)('%s', (_, options) => {
  it.each(DIFFERENT)('find out that a rank has %s', async (_name, call, described) => {
    comms = await createLocalCommunicators(3, { ...options, timeoutMs: 15_000 });
    const since = performance.now();
    const errors = await rejections(comms.map((comm, rank) => (rank === 1 ? call(comm) : all(comm))));
    expect(performance.now() - since).toBeLessThan(5000);
    expectMismatch(errors, described);
    // The first error is final.
    const again = await rejections(comms.map(all));
    expect(again).toEqual(errors);
  });

  it('find out that a rank has another root', async () => {
    comms = await createLocalCommunicators(3, { ...options, timeoutMs: 15_000 });
    const errors = await rejections(
      comms.map((comm, rank) => comm.reduce(f32(1000), f32(1000), { root: rank === 1 ? 2 : 0 })),
    );
    const found = errors.map((error) => (error as Error).message).filter((text) => text.includes('root 2'));
    expect(found.length).toBeGreaterThan(0);
    for (const error of errors) expectError(error, { code: 'invalidUsage', words: [/rank/] });
  });

  it('find out in the middle of calls that agree', async () => {
    comms = await createLocalCommunicators(3, { ...options, timeoutMs: 15_000 });
    const errors = await rejections(
      comms.map(async (comm, rank) => {
        const calls = Array.from({ length: 6 }, (_ignored, i) =>
          rank === 1 && i === 3 ? comm.allReduce(f32(17), f32(17)) : all(comm),
        );
        const settled = await Promise.allSettled(calls);
        // A rank that is late may be interrupted in a call that the others have finished.
        const done = settled.findIndex(({ status }) => status === 'rejected');
        expect(done).toBeLessThanOrEqual(3);
        expect(settled.slice(done).every(({ status }) => status === 'rejected')).toBe(true);
        await Promise.all(calls);
      }),
    );
    expectMismatch(errors, 'allReduce of 17 float32, op sum');
  });
});

describe('the check of rings', () => {
  it('is switched on by TUTTI_CHECK=1', async () => {
    process.env.TUTTI_CHECK = '1';
    try {
      comms = await createLocalCommunicators(2, { algorithm: 'Ring', timeoutMs: 15_000 });
    } finally {
      delete process.env.TUTTI_CHECK;
    }
    const errors = await rejections([all(comms[0]!), comms[1]!.allReduce(f32(5), f32(5))]);
    for (const error of errors) expectError(error, { code: 'invalidUsage', words: [/rank/] });
  });

  it('costs nothing but time: calls that agree have the same results', async () => {
    comms = await createLocalCommunicators(3, { algorithm: 'Ring', check: true });
    const data = comms.map((comm) => Float32Array.from({ length: 1000 }, (_, i) => i * (comm.rank + 1)));
    await Promise.all(comms.map((comm, rank) => comm.allReduce(data[rank]!, data[rank]!)));
    for (const one of data) expect(one).toEqual(Float32Array.from({ length: 1000 }, (_, i) => i * 6));
  });
});

describe('a rank that does not call at all', () => {
  it.each([
    ['directly', { algorithm: 'OneShot' }],
    ['two-shot', { algorithm: 'TwoShot' }],
    ['by ring LL', { algorithm: 'Ring', protocol: 'LL' }],
    ['by ring Simple', { algorithm: 'Ring', protocol: 'Simple' }],
    ['by a ring that compares first', { algorithm: 'Ring', check: true }],
  ] as const)('is named after the time limit, %s', async (_, options) => {
    comms = await createLocalCommunicators(4, { ...options, timeoutMs: 400 });
    await Promise.all(comms.map(all));
    const since = performance.now();
    const errors = await rejections(comms.filter(({ rank }) => rank !== 2).map(all));
    expect(performance.now() - since).toBeLessThan(2000);
    expect(errors.some((error) => (error as TuttiError).code === 'timeout')).toBe(true);
    for (const error of errors) {
      const own = (error as TuttiError).code === 'timeout';
      expectError(error, {
        code: own ? 'timeout' : 'remoteError',
        rank: 2,
        words: [
          own ? /allReduce: not done after 400 ms; rank 2 did not call it/ : /rank 2 did not come in time/,
        ],
      });
    }
    // It learns of it when it comes.
    const [late] = await rejections([all(comms[2]!)]);
    expectError(late, { code: 'remoteError', rank: 2, words: [/this rank did not come in time/] });
  });

  it('is named by a barrier too', async () => {
    comms = await createLocalCommunicators(3, { timeoutMs: 300 });
    const errors = await rejections([comms[0]!.barrier(), comms[2]!.barrier()]);
    for (const error of errors) {
      expectError(error, {
        code: 'timeout',
        rank: 1,
        words: [/barrier: not done after 300 ms; rank 1 did not call it/],
      });
    }
    const [late] = await rejections([comms[1]!.barrier()]);
    expectError(late, { code: 'remoteError', rank: 1, words: [/this rank did not come in time/] });
  });
});

describe('abort', () => {
  it('ends what is under way everywhere, with the rank and the reason', async () => {
    comms = await createLocalCommunicators(3, { timeoutMs: 15_000 });
    const waiting = [all(comms[0]!), comms[1]!.barrier()];
    const settled = rejections(waiting);
    await new Promise((resolve) => setTimeout(resolve, 30));
    comms[2]!.abort('the loss is NaN');
    for (const error of await settled) {
      expectError(error, { code: 'remoteError', rank: 2, words: [/rank 2 has aborted the communicator/] });
    }
    const [own] = await rejections([all(comms[2]!)]);
    expectError(own, { code: 'remoteError', rank: 2, words: [/the loss is NaN/] });
  });
});

describe('an error', () => {
  it('that nobody looks at besides the call ends no process', async () => {
    const unhandled: unknown[] = [];
    const listen = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', listen);
    comms = await createLocalCommunicators(3, { timeoutMs: 200 });
    await rejections([all(comms[0]!), all(comms[0]!), comms[1]!.barrier()]);
    await Promise.all(comms.splice(0).map((comm) => comm.close()));
    await new Promise((resolve) => setTimeout(resolve, 20));
    process.off('unhandledRejection', listen);
    expect(unhandled).toEqual([]);
  });
});

describe('a rank that closes', () => {
  it('while others wait for it ends their wait', async () => {
    for (const options of [{}, { algorithm: 'Ring' as const, protocol: 'Simple' as const }]) {
      const own = await createLocalCommunicators(3, { ...options, timeoutMs: 15_000 });
      await Promise.all(own.map(all));
      const waiting = rejections([all(own[0]!), all(own[2]!)]);
      await new Promise((resolve) => setTimeout(resolve, 50));
      await own[1]!.close();
      for (const error of await waiting) {
        expectError(error, {
          code: 'remoteError',
          rank: 1,
          words: [/rank 1 has closed the communicator, but other ranks still call it/],
        });
      }
      await Promise.all(own.map((comm) => comm.close()));
    }
  });

  it('is named by calls that come later', async () => {
    comms = await createLocalCommunicators(3, { timeoutMs: 15_000 });
    await Promise.all(comms.map(all));
    await comms[2]!.close();
    for (const error of await rejections([all(comms[0]!), comms[1]!.barrier()])) {
      expectError(error, { code: 'remoteError', rank: 2, words: [/rank 2 has closed the communicator/] });
    }
  });
});

describe('ranks of which some meet and others are joined by connections', () => {
  // Lists that the ranks of a real program share; here they make one collective meet and the other not.
  const mixed = { algorithm: 'OneShot;reduce:Ring', timeoutMs: 15_000 } as const;

  it.each([0, 1])('find out whoever comes first (rank %i)', async (first) => {
    comms = await createLocalCommunicators(2, mixed);
    await Promise.all(comms.map(all));
    const calls = [() => all(comms[0]!), () => comms[1]!.reduce(f32(8), f32(8))];
    // A rank whose part of a reduction is to send may be done before the difference shows.
    const early = calls[first]!().catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 20));
    const errors = await rejections([calls[1 - first]!()]);
    await early;
    errors.push(...(await rejections(comms.map(all))));
    for (const error of errors) expectError(error, { code: 'invalidUsage', words: [/rank/] });
    const messages = errors.map((error) => (error as Error).message).join();
    expect(messages).toContain(OWN);
    expect(messages).toContain('reduce of 8 float32, op sum, root 0');
  });

  it('are content for many more calls than are remembered', async () => {
    comms = await createLocalCommunicators(3, mixed);
    for (let i = 0; i < 100; i++) {
      await Promise.all(
        comms.map((comm) => (i % 3 === 0 ? comm.allReduce(f32(9), f32(9)) : comm.reduce(f32(i), f32(i)))),
      );
    }
    const [send, recv] = [f32(4).fill(2), f32(4)];
    await Promise.all(comms.map((comm) => comm.reduce(send, comm.rank === 0 ? recv : f32(4))));
    expect(recv).toEqual(f32(4).fill(6));
  });
});
