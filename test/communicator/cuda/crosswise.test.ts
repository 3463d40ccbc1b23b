/** Two communicators of the same GPUs, used in different orders: the errors say so. */
import { describe, expect, it, vi } from 'vitest';
import type { CudaCommunicator } from '#src/communicator/cuda/cuda-communicator.js';
import { PeerMessages } from '#src/communicator/cuda/peer-messages.js';
import type { TuttiError } from '#src/errors/tutti-error.js';
import { type FakeGpus, fakeGpus, fakeProcesses } from './fake-gpus.js';

const REMEDY =
  'all ranks must make the calls of the communicators that they share in one order, or await each before the next';

const KINDS = [
  ['one process', fakeGpus],
  ['processes', fakeProcesses],
] as const;

/** Two communicators on two GPUs whose kernels fill them. */
async function openTwo(make: typeof fakeGpus | typeof fakeProcesses, timeoutMs: number) {
  const first = await make([0, 1], { timeoutMs, exclusive: true });
  const second = await make([0, 1], { timeoutMs, beside: first });
  // Peers have mapped memory, and kernels are loaded: what is called from here on is launched at once.
  for (const one of [first, second]) {
    await Promise.all(one.comms.map((_, rank) => callOf(one, rank, 5)()));
  }
  return [first, second] as const;
}

/** What a call of each rank of a communicator ends with. */
function callOf({ comms }: FakeGpus, rank: number, length: number): () => Promise<void> {
  const comm: CudaCommunicator = comms[rank]!;
  const buffer = comm.alloc(Float32Array, length);
  return () => comm.allReduce(buffer, buffer);
}

async function messagesOf(calls: readonly Promise<void>[]): Promise<string[]> {
  const ends = await Promise.allSettled(calls);
  return ends.map((end) => (end.status === 'fulfilled' ? 'done' : (end.reason as TuttiError).message));
}

describe.each(KINDS)('ranks of %s that use two communicators crosswise', (_, make) => {
  it('are told where the other one waits', async () => {
    const [a, b] = await openTwo(make, 300);
    const calls = [callOf(a, 0, 10), callOf(b, 1, 20)];
    const [atA, atB] = await messagesOf(calls.map((call) => call()));
    expect([atA, atB]).toContainEqual(
      expect.stringMatching(
        new RegExp(
          `^allReduce: not done after 300 ms; rank ([01]) did not call it; rank \\1 waits in allReduce of [12]0 float32, op sum, of communicator \\d+ of its process \\(in the order of opening\\), which rank [01] has not called there; ${REMEDY}$`,
        ),
      ),
    );
  });

  it('are told so when all have called everything, and the GPUs are full', async () => {
    const [a, b] = await openTwo(make, 300);
    const calls = [callOf(a, 0, 10), callOf(b, 0, 20), callOf(b, 1, 20), callOf(a, 1, 10)];
    const texts = await messagesOf(calls.map((call) => call()));
    expect(texts.join('\n')).toMatch(
      new RegExp(
        `allReduce: not done after 300 ms; rank [01] calls allReduce of [12]0 float32, op sum of communicator \\d+ of its process \\(in the order of opening\\) before it, rank [01] after it, and GPUs may be full with the first; ${REMEDY}`,
      ),
    );
  });

  it('are not suspected where the order is the same', async () => {
    const [a, b] = await openTwo(make, 300);
    const calls = [callOf(a, 0, 10), callOf(b, 0, 20), callOf(a, 1, 10), callOf(b, 1, 20)];
    expect(await messagesOf(calls.map((call) => call()))).toEqual(['done', 'done', 'done', 'done']);
    const [late] = await messagesOf([callOf(a, 0, 30)()]);
    expect(late).toBe('allReduce: not done after 300 ms; rank 1 did not call it');
  });
});

it.each([20_000, 5])(
  'calls that wait until peers have mapped buffers are not overtaken by those of another communicator, of %i elements',
  async (length) => {
    const first = await fakeProcesses([0, 1], { timeoutMs: 1000, exclusive: true });
    const second = await fakeProcesses([0, 1], { timeoutMs: 1000, beside: first });
    const [a1, b1] = [callOf(first, 1, 20_000), callOf(second, 1, length)];
    // Rank 1 has nothing to wait for.
    for (const one of [first, second]) {
      await Promise.all(one.comms.map((_, rank) => callOf(one, rank, 5)()));
    }
    const { send } = PeerMessages.prototype;
    let late: PeerMessages | undefined;
    const spy = vi.spyOn(PeerMessages.prototype, 'send').mockImplementation(function (
      this: PeerMessages,
      peer,
      message,
    ) {
      // Rank 0 hears later of the first communicator than of the second one that its buffers are there.
      if (message.type !== 'mapped') send.call(this, peer, message);
      else {
        late ??= this;
        setTimeout(() => send.call(this, peer, message), this === late ? 50 : 0);
      }
    });
    try {
      const a0 = callOf(first, 0, 20_000);
      await vi.waitFor(() => expect(late).toBeDefined(), { interval: 1 });
      const b0 = callOf(second, 0, length);
      expect(await messagesOf([a0(), b0(), a1(), b1()])).toEqual(['done', 'done', 'done', 'done']);
    } finally {
      spy.mockRestore();
    }
  },
);
