/** What ranks on GPUs find out about messages whose ends differ, or of which one end never comes. */
import { describe, expect, it } from 'vitest';
import { group, TuttiError } from '#src/index.js';
import { randomFrom } from '../../gpu/random.mjs';
import { fakeGpus, fakeProcesses } from './fake-gpus.js';

type Comms = Awaited<ReturnType<typeof fakeGpus>>['comms'];

/** What a promise ends with: its code, rank and message. */
async function endOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return 'done';
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    return `${error.code} ${error.rank}: ${error.message}`;
  }
}

/** Sends from rank 0 to rank 1 of so many bytes. */
const send = async ([comm]: Comms, bytes: number) => comm!.send(comm!.alloc(Uint8Array, bytes), 1);
const receive = async ([, comm]: Comms, bytes: number) => comm!.recv(comm!.alloc(Uint8Array, bytes), 0);

/** What others that wait long are to say soon, ms. */
const SHORT = 150;

const settled = () => new Promise((resolve) => setTimeout(resolve, 30));

const AGREE = 'both must agree, and messages of a pair of ranks are matched in the order of the calls';

describe.each([
  ['ranks of one process', fakeGpus],
  ['processes', fakeProcesses],
] as const)('%s', (_, open) => {
  it.each([['send'], ['recv']])('say which sizes differ, the %s first', async (first) => {
    const { comms } = await open([0, 1]);
    await Promise.all([send(comms, 40), receive(comms, 40)]);
    // An empty message needs no other end.
    await send(comms, 0);
    const acts = [() => send(comms, 400), () => receive(comms, 256)];
    if (first === 'recv') acts.reverse();
    const early = endOf(acts[0]!());
    await settled();
    const late = endOf(acts[1]!());
    const text = `rank 0 sends 400 bytes to rank 1, rank 1 expects 256 bytes from rank 0; ${AGREE}`;
    const [sender, receiver] = first === 'send' ? [early, late] : [late, early];
    expect(await sender).toBe(`invalidUsage 1: ${text}`);
    expect(await receiver).toBe(`invalidUsage 0: ${text}`);
    expect(await endOf(send(comms, 1))).toBe(`invalidUsage 1: ${text}`);
  });

  it.each([
    ['send', 'send to rank 1'],
    ['recv', 'recv from rank 1'],
  ] as const)('name who does not come to a %s', async (kind, name) => {
    const { comms } = await open([0, 0, 0], { timeoutMs: SHORT });
    const [comm] = comms;
    // Large enough that no area holds it.
    const buffer = comm!.alloc(Uint8Array, 60_000);
    const missing = kind === 'send' ? "recv of rank 0's message" : 'send to rank 0';
    expect(await endOf(comm![kind](buffer, 1))).toBe(
      `timeout 1: ${name}: not done after ${SHORT} ms; rank 1 has not called the ${missing}`,
    );
  });

  it('do not wait for who has left', async () => {
    const { comms } = await open([0, 1], { timeoutMs: 60_000 });
    const waits = endOf(comms[0]!.recv(comms[0]!.alloc(Uint8Array, 100), 1));
    await settled();
    await comms[1]!.close();
    expect(await waits).toMatch(/^remoteError 1: .*rank 1 has closed the communicator/);
  });

  it('count messages of graphs as often as they run', async () => {
    const { comms } = await open([0, 1]);
    const buffers = comms.map((comm) => comm.alloc(Int32Array, 30));
    await Promise.all(comms.map((comm) => comm.synchronize()));
    const graph = comms[0]!.capture(() => void comms[0]!.send(buffers[0]!, 1));
    for (let round = 0; round < 3; round++) {
      await buffers[0]!.copyFrom(new Int32Array(30).fill(round));
      await Promise.all([graph.start(), comms[1]!.recv(buffers[1]!, 0)]);
      expect(await buffers[1]!.read()).toEqual(new Int32Array(30).fill(round));
    }
    const waits = endOf(comms[1]!.recv(comms[1]!.alloc(Int32Array, 20), 0));
    await settled();
    const text = /rank 0 sends 120 bytes to rank 1, rank 1 expects 80 bytes from rank 0/;
    expect(() => graph.run()).toThrow(text);
    expect(await waits).toMatch(text);
  });

  it('find nothing in messages whose ends agree', async () => {
    const seed = Date.now() % 1_000_000;
    const random = randomFrom(seed);
    const { comms } = await open([0, 0, 1]);
    for (let round = 0; round < 4; round++) {
      // As many as one launch carries of each pair: the driver's kernels begin when each rank has launched one.
      const list = [0, 1, 2].flatMap((from) =>
        [0, 1, 2].flatMap((to) =>
          Array.from({ length: 1 + random.below(10) }, () => ({ from, to, bytes: 1 + random.size(200) })),
        ),
      );
      const data = list.map(({ bytes }) => Uint8Array.from({ length: bytes }, () => random.below(256)));
      const sends = list.map(({ from, bytes }) => comms[from]!.alloc(Uint8Array, bytes));
      const receives = list.map(({ to, bytes }) => comms[to]!.alloc(Uint8Array, bytes));
      await Promise.all(sends.map((buffer, i) => buffer.copyFrom(data[i]!)));
      const ended = await endOf(
        group(() => {
          list.forEach(({ from, to }, i) => {
            void comms[from]!.send(sends[i]!, to);
          });
          list.forEach(({ from, to }, i) => {
            void comms[to]!.recv(receives[i]!, from);
          });
        }),
      );
      expect(ended, `seed ${seed}`).toBe('done');
      for (const [i, buffer] of receives.entries()) {
        expect(await buffer.read(), `seed ${seed}`).toEqual(data[i]);
      }
      for (const buffer of [...sends, ...receives]) buffer.free();
    }
  });
});

it('tell of a wrong message in a graph once, where the graph is made', async () => {
  const { comms } = await fakeGpus([0, 0]);
  const buffer = comms[0]!.alloc(Uint8Array, 8);
  // A rejection of the message that nobody hears would fail this run.
  expect(() => comms[0]!.capture(() => void comms[0]!.send(buffer, 7))).toThrow('7');
  await settled();
});

it('a graph of another library, whose launches are not seen, is not compared', async () => {
  const { comms, driver } = await fakeGpus([0, 0]);
  const buffers = comms.map((comm) => comm.alloc(Uint8Array, 8));
  const stream: [number] = [0];
  driver.cuStreamCreate(stream);
  const [a, b] = comms;
  await Promise.all([a!.send(buffers[0]!, 1), b!.recv(buffers[1]!, 0)]);
  driver.cuStreamBeginCapture(stream[0]);
  await a!.send(buffers[0]!, 1, { stream: stream[0] });
  const recorded: [number] = [0];
  driver.cuStreamEndCapture(stream[0], recorded);
  // It is never launched, and the next message of the same pair has another size.
  await Promise.all([send(comms, 24), receive(comms, 24)]);
  driver.cuGraphDestroy(recorded[0]);
  driver.cuStreamDestroy(stream[0]);
});
