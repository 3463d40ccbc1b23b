import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { DEFAULT_RETRY_RULE } from '#src/bootstrap/dial.js';
import { FrameReader } from '#src/transport/net/frame-reader.js';
import { encodeLinkFrame, type LinkFrame } from '#src/transport/net/link-frame.js';
import type { LinkSocket } from '#src/transport/net/link-socket.js';
import { connectToPredecessor, ProxyListener } from '#src/transport/net/proxy-links.js';
import { type RingChannelAddresses, type RingLayout, RingMemory } from '#src/transport/net/ring-memory.js';
import { RingProxy } from '#src/transport/net/ring-proxy.js';
import type { Suspicion } from '#src/transport/net/roll-call.js';
import { eventually } from '../bootstrap/rank-processes.js';

/** Eight slots of 64 bytes; structures of 1 KiB. */
const LAYOUT: RingLayout = { head: 0, tail: 0, sizes: 64, slots: 256, steps: 8, slotBytes: 64 };
const STRUCTURE = 1024;
/** The same with slots of 8 KiB: slices in them count as large. */
const WIDE: RingLayout = { ...LAYOUT, slotBytes: 8192 };
const WIDE_STRUCTURE = 128 * 1024;

const WORDS = {
  lost: { next: 11, prev: 12 },
  corrupt: { next: 21, prev: 22 },
  closed: { next: 31, prev: 32 },
} as const;

/** Printed in the title; TUTTI_TEST_SEED repeats it. */
const SEED = Number(process.env.TUTTI_TEST_SEED ?? Date.now() % 1_000_000);

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** The memory and proxy of one rank, with what a program would do. */
class TestRank {
  readonly buffer: SharedArrayBuffer;
  readonly bytes: Uint8Array;
  readonly i64: BigInt64Array;
  readonly layout: RingLayout;
  readonly channels: RingChannelAddresses[];
  readonly troubles: [number, string][] = [];
  trouble = 0;
  wakes = 0;
  proxy!: RingProxy;

  waiting = false;
  calls = 0;
  suspicion: Suspicion | undefined;
  readonly rank: number;
  readonly size: number;

  constructor(rank: number, size: number, channels: number, wide = false) {
    this.rank = rank;
    this.size = size;
    this.layout = wide ? WIDE : LAYOUT;
    const structure = wide ? WIDE_STRUCTURE : STRUCTURE;
    this.buffer = new SharedArrayBuffer((2 + 4 * channels) * structure);
    this.bytes = new Uint8Array(this.buffer);
    this.i64 = new BigInt64Array(this.buffer);
    this.channels = Array.from({ length: channels }, (_, channel) => {
      const at = (1 + 4 * channel) * structure;
      return {
        sender: at,
        receiver: at + structure,
        outgoing: at + 2 * structure,
        credits: at + 3 * structure,
      };
    });
    this.bytes.fill(0xee, (1 + 4 * channels) * structure);
  }

  stop: () => void = () => {};

  run(links: { next: LinkSocket; prev: LinkSocket }): void {
    this.stop = () => {
      for (const { socket } of Object.values(links)) socket.pause();
    };
    this.proxy = new RingProxy(
      {
        memory: new RingMemory(this.buffer, this.layout),
        channels: this.channels,
        wake: () => {
          this.wakes += 1;
        },
        trouble: {
          read: () => this.trouble,
          raise: (word) => {
            const isNew = this.trouble === 0;
            if (isNew) this.trouble = word;
            return isNew;
          },
          isValid: (word) => word > 0 && word < 100,
        },
        words: WORDS,
        rollCall: {
          size: this.size,
          ranks: { next: (this.rank + 1) % this.size, prev: (this.rank + this.size - 1) % this.size },
          isWaiting: () => this.waiting,
          calls: () => this.calls,
          report: (suspicion) => {
            this.suspicion = suspicion;
          },
          patienceMs: 40,
        },
        onTrouble: (word, detail) => this.troubles.push([word, detail]),
      },
      links,
    );
  }

  /** Publishes a slice of `steps` steps as a program does. */
  publish(channel: number, step: number, steps: number, content: Uint8Array): void {
    const { outgoing } = this.channels[channel]!;
    this.bytes.set(content, outgoing + this.layout.slots + (step & 7) * this.layout.slotBytes);
    this.i64[(outgoing + this.layout.sizes) / 8 + (step & 7)] =
      BigInt(content.length) | (BigInt((step + 1) >>> 0) << 32n);
    this.i64[(outgoing + this.layout.tail) / 8] = BigInt(step + steps);
    this.proxy.look();
  }

  returnCredit(channel: number, step: number): void {
    this.i64[(this.channels[channel]!.credits + this.layout.head) / 8] = BigInt(step);
    this.proxy.look();
  }

  tail(channel: number): number {
    return Number(this.i64[(this.channels[channel]!.receiver + this.layout.tail) / 8]);
  }

  head(channel: number): number {
    return Number(this.i64[(this.channels[channel]!.sender + this.layout.head) / 8]);
  }

  /** Whether a program may fill slots up to the step. */
  mayPublish(channel: number, tail: number): boolean {
    return this.head(channel) + 8 >= tail;
  }

  slot(channel: number, step: number, bytes: number): Uint8Array {
    const at = this.channels[channel]!.receiver + this.layout.slots + (step & 7) * this.layout.slotBytes;
    return this.bytes.slice(at, at + bytes);
  }
}

/** Connects the proxies of `size` ranks in a ring. */
async function ring(size: number, channels = 1, wide = false): Promise<TestRank[]> {
  const key = new Uint8Array(randomBytes(32));
  const listeners = await Promise.all(
    Array.from({ length: size }, (_, rank) =>
      ProxyListener.open({ key, rank, next: (rank + 1) % size, host: '127.0.0.1' }),
    ),
  );
  const incoming = await Promise.all(
    listeners.map((_, rank) => {
      const prev = (rank + size - 1) % size;
      const address = listeners[prev]!.address;
      return connectToPredecessor({
        key,
        rank,
        peer: prev,
        address,
        timeoutMs: 5000,
        retry: DEFAULT_RETRY_RULE,
      });
    }),
  );
  await Promise.all(listeners.map((listener) => listener.arrived(5000)));
  return listeners.map((listener, rank) => {
    const made = new TestRank(rank, size, channels, wide);
    const next = listener.take();
    listener.close();
    const prev = incoming[rank]!;
    made.run({ next, prev });
    ends.push(() => {
      next.socket.destroy();
      prev.socket.destroy();
    });
    return made;
  });
}

/** A rank whose neighbours are raw sockets of the test. */
async function besieged(): Promise<{
  rank: TestRank;
  next: Socket;
  prev: Socket;
  /** What the successor gets. */
  nextFrames: LinkFrame[];
}> {
  const key = new Uint8Array(randomBytes(32));
  const dialling = { key, timeoutMs: 5000, retry: DEFAULT_RETRY_RULE };
  const below = await ProxyListener.open({ key, rank: 0, next: 1, host: '127.0.0.1' });
  const own = await ProxyListener.open({ key, rank: 1, next: 2, host: '127.0.0.1' });
  const [prev, next] = await Promise.all([
    connectToPredecessor({ ...dialling, rank: 1, peer: 0, address: below.address }),
    connectToPredecessor({ ...dialling, rank: 2, peer: 1, address: own.address }),
    below.arrived(5000),
    own.arrived(5000),
  ]);
  const rank = new TestRank(1, 3, 2);
  const fromBelow = below.take().socket;
  rank.run({ next: own.take(), prev });
  below.close();
  own.close();
  ends.push(() => {
    for (const socket of [fromBelow, next.socket, prev.socket]) socket.destroy();
  });
  const nextFrames: LinkFrame[] = [];
  const sink = {
    accept: () => undefined,
    complete: (frame: LinkFrame) => void nextFrames.push(frame),
    settle: () => {},
  };
  next.start(new FrameReader(sink), () => {});
  return { rank, next: next.socket, prev: fromBelow, nextFrames };
}

/** Whole numbers below n from a seed. */
function seeded(seed: number): (n: number) => number {
  let state = seed >>> 0;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

const pattern = (length: number, salt: number) => Uint8Array.from({ length }, (_, i) => (i * 7 + salt) & 255);

describe('ring proxies', () => {
  it('bring slices of all sizes into the successor slots, then the tail, and credits back', async () => {
    const [a, b] = await ring(2, 2);
    let step = 0;
    for (let round = 0; round < 40; round++) {
      const bytes = [0, 1, 63, 64, 65, 127, 128][round % 7]!;
      const content = pattern(bytes, round);
      a!.publish(1, step, 2, content);
      await eventually(() => b!.tail(1) === step + 2);
      expect(b!.slot(1, step, bytes)).toEqual(content);
      step += 2;
      b!.returnCredit(1, step);
      await eventually(() => a!.mayPublish(1, step + 2));
    }
    expect(b!.tail(0)).toBe(0);
    expect(b!.wakes).toBeGreaterThanOrEqual(40);
  });

  it('send what was published in one look slice by slice, over skipped steps too', async () => {
    const [a, b] = await ring(2);
    a!.publish(0, 0, 1, pattern(10, 1));
    await eventually(() => b!.tail(0) === 1);
    // The next program rounds its counters up to 4: steps 1 to 3 never existed.
    b!.returnCredit(0, 4);
    const { look } = a!.proxy;
    a!.proxy.look = () => {};
    for (let slice = 0; slice < 2; slice++) a!.publish(0, 4 + 2 * slice, 2, pattern(100 + slice, slice));
    a!.proxy.look = look;
    a!.proxy.look();
    await eventually(() => b!.tail(0) === 8);
    for (let slice = 0; slice < 2; slice++) {
      expect(b!.slot(0, 4 + 2 * slice, 100 + slice)).toEqual(pattern(100 + slice, slice));
    }
  });

  it('carry several channels both ways between two ranks at the same time', async () => {
    const ranks = await ring(2, 3);
    for (let step = 0; step < 24; step++) {
      for (const rank of ranks) {
        for (let channel = 0; channel < 3; channel++)
          rank.publish(channel, step, 1, pattern(64, step + channel));
      }
      for (const rank of ranks) {
        for (let channel = 0; channel < 3; channel++) {
          await eventually(() => rank.tail(channel) === step + 1);
          expect(rank.slot(channel, step, 64)).toEqual(pattern(64, step + channel));
          rank.returnCredit(channel, step + 1);
        }
      }
      for (const rank of ranks) {
        for (let channel = 0; channel < 3; channel++)
          await eventually(() => rank.mayPublish(channel, step + 2));
      }
    }
  });

  it(`go round with skipped steps between, as programs of several shapes make them (seed ${SEED})`, async () => {
    const [a, b] = await ring(2);
    const random = seeded(SEED);
    const slices: { step: number; steps: number; content: Uint8Array }[] = [];
    let sent = 0;
    let taken = 0;
    let received = 0;
    for (let round = 0; round < 120; round++) {
      // A program: its slices have one shape, and it begins at a whole number of calls.
      const [perSlice, perCall] = random(2) === 0 ? [1, 1] : [2, 4];
      const calls = 1 + random(3);
      const start = Math.ceil(sent / perCall) * perCall;
      received = Math.ceil(received / perCall) * perCall;
      b!.returnCredit(0, received);
      sent = start;
      for (let slice = 0; slice < (calls * perCall) / perSlice; slice++) {
        await eventually(() => a!.mayPublish(0, sent + perSlice));
        const content = pattern(random(64 * perSlice + 1), sent);
        a!.publish(0, sent, perSlice, content);
        slices.push({ step: sent, steps: perSlice, content });
        sent += perSlice;
        // The receiver lags behind by as much as it likes and the slots allow, but ends with the program.
        const last = slice === (calls * perCall) / perSlice - 1;
        while (taken < slices.length && (last || sent - received > 6 || random(2) === 0)) {
          const next = slices[taken++]!;
          await eventually(() => b!.tail(0) >= next.step + next.steps);
          expect(b!.slot(0, next.step, next.content.length)).toEqual(next.content);
          received = next.step + next.steps;
          b!.returnCredit(0, received);
        }
      }
    }
    expect(a!.trouble).toBe(0);
  });

  it('return credits of large slices at once, of small ones when the sender may need them', async () => {
    const [a, b] = await ring(2, 1, true);
    a!.publish(0, 0, 1, pattern(8000, 1));
    await eventually(() => b!.tail(0) === 1);
    b!.returnCredit(0, 1);
    await eventually(() => a!.head(0) === 1);
    a!.publish(0, 1, 1, pattern(10, 1));
    await eventually(() => b!.tail(0) === 2);
    b!.returnCredit(0, 2);
    a!.publish(0, 2, 2, pattern(10, 1));
    await eventually(() => b!.tail(0) === 4);
    expect(a!.head(0)).toBe(1);
    a!.publish(0, 4, 1, pattern(10, 1));
    await eventually(() => a!.head(0) === 2);
  });

  it('pass trouble on around the ring, once', async () => {
    const ranks = await ring(5);
    ranks[2]!.proxy.tell(7);
    await eventually(() => ranks.every((rank, at) => at === 2 || rank.trouble === 7));
    for (const [at, rank] of ranks.entries()) expect(rank.troubles.length).toBe(at === 2 ? 0 : 1);
  });

  it('take the end of a connection without a goodbye for a loss', async () => {
    const { rank, nextFrames, prev } = await besieged();
    prev.destroy();
    await eventually(() => rank.trouble === WORDS.lost.prev);
    expect(rank.troubles).toHaveLength(1);
    await eventually(() => nextFrames.length > 0);
    expect(nextFrames).toMatchObject([{ kind: 'trouble', bytes: WORDS.lost.prev }]);
  });

  it('deliver what is under way before they close, and part without trouble', async () => {
    const [a, b, c] = await ring(3);
    a!.publish(0, 0, 8, pattern(512, 3));
    const began = performance.now();
    await Promise.all([a, b, c].map((rank) => rank!.proxy.close()));
    expect(performance.now() - began).toBeLessThan(900);
    expect(b!.tail(0)).toBe(8);
    expect(b!.slot(0, 0, 512)).toEqual(pattern(512, 3));
    expect([a, b, c].map((rank) => rank!.trouble)).toEqual([0, 0, 0]);
  });

  it('end the waits of a rank whose neighbour closes while it works', async () => {
    const [a, b] = await ring(2);
    void a!.proxy.close();
    await eventually(() => b!.trouble !== 0);
    expect(Object.values(WORDS.closed)).toContain(b!.trouble);
  });

  const data = (channel: number, bytes: number, step: number, tail: number) =>
    Buffer.concat([encodeLinkFrame('data', channel, bytes, step, tail), Buffer.alloc(bytes, 0xaa)]);
  for (const [what, frame] of [
    ['garbage', Buffer.from('GET / HTTP/1.1\r\nHost: tutti\r\n\r\n')],
    ['a channel that is not there', data(2, 1, 0, 1)],
    ['more bytes than the steps have', data(0, 65, 0, 1)],
    ['bytes beyond the last slot', data(0, 128, 7, 8 + 1)],
    ['more steps than there are credits for', data(0, 1, 0, 9)],
    ['steps far ahead', data(0, 1, 2 ** 40, 2 ** 40 + 1)],
    ['no steps', data(0, 0, 3, 3)],
    ['steps that go backwards', Buffer.concat([data(0, 1, 0, 4), data(0, 1, 2, 5)])],
    ['a size of 4 GiB', encodeLinkFrame('data', 0, 0xffffffff, 0, 8)],
    ['a credit on the wrong connection', encodeLinkFrame('credit', 0, 0, 1)],
    ['an unknown trouble', encodeLinkFrame('trouble', 0, 100)],
    ['a suspicion of a rank that is not there', encodeLinkFrame('suspect', 0, 3, 1)],
    ['a suspicion of no known kind', encodeLinkFrame('suspect', 0, 2, 3)],
  ] as const) {
    it(`a predecessor that sends ${what} is named, and nothing outside of the slots is written`, async () => {
      const { rank, prev } = await besieged();
      prev.write(frame);
      await eventually(() => rank.trouble === WORDS.corrupt.prev);
      expect(rank.troubles[0]![1]).not.toBe('');
      for (const { sender, outgoing, credits } of rank.channels) {
        for (const at of [sender, outgoing, credits]) {
          expect(rank.bytes.subarray(at, at + STRUCTURE).every((byte) => byte === 0)).toBe(true);
        }
      }
      const { receiver } = rank.channels[1]!;
      expect(rank.bytes.subarray(receiver, receiver + STRUCTURE).every((byte) => byte === 0)).toBe(true);
      const after = (1 + 4 * 2) * STRUCTURE;
      expect(rank.bytes.subarray(after).every((byte) => byte === 0xee)).toBe(true);
    });
  }

  for (const [what, frame] of [
    ['a credit for slots that were not sent', encodeLinkFrame('credit', 0, 0, 9)],
    ['a slice on the wrong connection', data(0, 8, 0, 1)],
    ['a credit of a channel that is not there', encodeLinkFrame('credit', 7, 0, 1)],
    [
      'a credit that goes backwards',
      Buffer.concat([4, 3].map((step) => encodeLinkFrame('credit', 0, 0, step))),
    ],
  ] as const) {
    it(`a successor that sends ${what} is named`, async () => {
      const { rank, next } = await besieged();
      next.write(frame);
      await eventually(() => rank.trouble === WORDS.corrupt.next);
    });
  }
});

describe('who keeps a rank waiting', () => {
  const tickAll = async (ranks: readonly TestRank[], done: () => boolean) => {
    const timer = setInterval(() => {
      for (const rank of ranks) rank.proxy.tick();
    }, 10);
    try {
      await eventually(done);
    } finally {
      clearInterval(timer);
    }
  };

  it('is known all around the ring when a rank has not begun the operation', async () => {
    const ranks = await ring(6);
    for (const [at, rank] of ranks.entries()) {
      rank.calls = at === 4 ? 6 : 7;
      rank.waiting = at !== 4;
    }
    const absent = { rank: 4, kind: 'absent' };
    await tickAll(ranks, () => ranks.every((rank, at) => at === 4 || rank.suspicion !== undefined));
    for (const [at, rank] of ranks.entries()) if (at !== 4) expect(rank.suspicion).toEqual(absent);
  });

  it('is known all around the ring when a rank does not answer, and forgotten with the next progress', async () => {
    const ranks = await ring(5);
    for (const rank of ranks) rank.waiting = true;
    // Rank 2 is stopped: nothing that comes is read.
    ranks[2]!.stop();
    await tickAll(
      ranks.filter((_, at) => at !== 2),
      () => ranks.every((rank, at) => at === 2 || rank.suspicion !== undefined),
    );
    for (const [at, rank] of ranks.entries()) {
      if (at !== 2) expect(rank.suspicion).toEqual({ rank: 2, kind: 'silent' });
    }
    ranks[3]!.publish(0, 0, 1, pattern(5, 1));
    await eventually(() => ranks[4]!.suspicion === undefined);
  });

  it('is nobody while all wait for each other or make progress, and nothing is asked then', async () => {
    const ranks = await ring(3);
    for (const rank of ranks) rank.waiting = true;
    const end = performance.now() + 300;
    await tickAll(ranks, () => performance.now() > end);
    expect(ranks.map((rank) => rank.suspicion)).toEqual([undefined, undefined, undefined]);

    const { rank, nextFrames } = await besieged();
    for (let i = 0; i < 10; i++) {
      rank.proxy.tick();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(nextFrames).toEqual([]);
  });

  it('is not a neighbour that waits in an earlier operation', async () => {
    const ranks = await ring(3);
    for (const [at, rank] of ranks.entries()) {
      rank.waiting = true;
      rank.calls = at;
    }
    const end = performance.now() + 300;
    await tickAll(ranks, () => performance.now() > end);
    expect(ranks.map((rank) => rank.suspicion)).toEqual([undefined, undefined, undefined]);
  });
});

describe('connections between proxies', () => {
  it('admit the successor that knows the key, whatever strangers send to the port before', async () => {
    const key = new Uint8Array(randomBytes(32));
    const listener = await ProxyListener.open({ key, rank: 0, next: 1, host: '127.0.0.1' });
    ends.push(() => listener.close());
    const { address } = listener;
    for (const greeting of [randomBytes(4096), Buffer.from('\x00\x00'), Buffer.alloc(100_000, 255)]) {
      const stranger = connect(address);
      stranger.on('error', () => {});
      stranger.write(greeting);
      ends.push(() => stranger.destroy());
    }
    const place = { rank: 1, peer: 0, address, timeoutMs: 5000, retry: { count: 0, sleepMs: 1 } };
    await expect(connectToPredecessor({ ...place, key: new Uint8Array(32) })).rejects.toMatchObject({
      code: 'invalidArgument',
    });
    const wrongRank = await connectToPredecessor({ ...place, key, rank: 2 });
    await new Promise((resolve) => wrongRank.socket.resume().once('close', resolve));
    const [link] = await Promise.all([connectToPredecessor({ ...place, key }), listener.arrived(5000)]);
    ends.push(() => link.socket.destroy());
    expect(listener.take().socket.destroyed).toBe(false);
  });

  it('name the rank that does not come', async () => {
    const listener = await ProxyListener.open({
      key: new Uint8Array(32),
      rank: 3,
      next: 4,
      host: '127.0.0.1',
    });
    ends.push(() => listener.close());
    await expect(listener.arrived(50)).rejects.toMatchObject({ code: 'timeout', rank: 4 });
  });
});
