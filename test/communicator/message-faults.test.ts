/**
 * Ranks that die, stop, or stay away in the middle of messages: the others get an error that names the culprit, and end
 * by themselves.
 */
import { describe, expect, it } from 'vitest';
import { effort, FULL } from '../effort.js';
import { faultRanksOfTests, sleep } from './fault-ranks.js';

const ranks = faultRanksOfTests();

/** Milliseconds after which a death must have been noticed, on a machine that is busy with other things. */
const NOTICED_MS = 5000;

describe('a rank that is killed in the middle of messages', () => {
  const SHORT = [
    ['group', {}],
    ['sync array', { sockets: true }],
    ['run array', {}],
  ] as const;
  const FULL = [
    ...SHORT,
    ['gather array', {}],
    ['gather', {}],
    ['sync', {}],
    ['run', {}],
    ['group', { sockets: true }],
    ['gather', { sockets: true }],
  ] as const;
  for (const [form, options] of effort<readonly (readonly [string, object])[]>(SHORT, FULL)) {
    const where = 'sockets' in options ? 'over sockets' : 'in shared memory';
    it(`(${form}) is named by all others, ${where}`, async () => {
      const started = await ranks.start(3, 'messages', { form, options });
      await Promise.all(started.map((rank) => rank.said('looping')));
      await sleep(100);
      const since = Date.now();
      started[1]!.child.kill('SIGKILL');
      for (const rank of [started[0]!, started[2]!]) {
        const { error, at } = await rank.said('end');
        expect(error, JSON.stringify(error)).toMatchObject({ code: 'remoteError', rank: 1 });
        expect(error!.message).toMatch(/rank 1 has died/);
        expect(at - since).toBeLessThan(NOTICED_MS);
        expect(await rank.exited).toEqual({ code: 3, signal: null });
        expect(rank.unhandled).toBeUndefined();
      }
    });
  }
});

describe('calls that are compared late', () => {
  // Fewer than are compared together, and more.
  it.each([
    [3, 1],
    [20, 17],
  ])('are found to differ, %i calls behind the start and %i before the end', async (before, more) => {
    const started = await ranks.start(3, 'stray', { before, more, options: { timeoutMs: 10_000 } });
    const ends = await Promise.all(started.map((rank) => rank.said('end')));
    const errors = ends.map(({ error }) => error?.message ?? 'none');
    expect(errors.join()).toMatch(
      /rank (1 calls gather.*rank 2 calls scatter|2 calls scatter.*rank 1 calls gather)/,
    );
    for (const { error, afterMs } of ends) {
      expect(error?.code).toMatch(/invalidUsage|remoteError/);
      expect(afterMs).toBeLessThan(NOTICED_MS);
    }
  });
});

// Between threads the same words are tested in messages.test.ts, at less cost.
describe.runIf(FULL)('a message', () => {
  it.each([
    ['in shared memory', {}, /recv: not done after 700 ms; rank 2 has not called the send to rank 0/],
    ['over sockets', { sockets: true }, /recv: not done after 700 ms; nothing has come from rank 2/],
  ])('that is not sent is missed by name after the time limit, %s', async (_, options, words) => {
    const started = await ranks.start(3, 'unsent', { options: { ...options, timeoutMs: 700 } });
    const { error } = await started[0]!.said('end');
    expect(error).toMatchObject({ code: 'timeout', rank: 2 });
    expect(error!.message).toMatch(words);
  });

  it('that is not received since its rank is stopped is missed by name after the time limit', async () => {
    const started = await ranks.start(3, 'messages', { form: 'run', options: { timeoutMs: 700 } });
    await Promise.all(started.map((rank) => rank.said('looping')));
    await sleep(50);
    started[2]!.child.kill('SIGSTOP');
    const ends = await Promise.all([started[0]!.said('end'), started[1]!.said('end')]);
    started[2]!.child.kill('SIGKILL');
    const messages = ends.map(({ error }) => error!.message).join();
    expect(messages).toMatch(/not done after 700 ms; the process of rank 2 is stopped/);
  });
});
