/**
 * Connections that programs carry while they wait, lent by the proxy and taken back by it: over real sockets, with the
 * system's partial reads and writes.
 */
import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { DEFAULT_RETRY_RULE } from '#src/bootstrap/dial.js';
import { libc } from '#src/system/libc.js';
import { CarrierState, LINK, OWNER, RING_LINKS } from '#src/transport/net/carrier-state.js';
import { FrameReader } from '#src/transport/net/frame-reader.js';
import { LinkDriver, TURN } from '#src/transport/net/link-driver.js';
import { encodeLinkFrame } from '#src/transport/net/link-frame.js';
import { LinkLending } from '#src/transport/net/link-lending.js';
import type { LinkSocket } from '#src/transport/net/link-socket.js';
import { NativeBuffers, NativeLink } from '#src/transport/net/native-link.js';
import { connectToPredecessor, ProxyListener } from '#src/transport/net/proxy-links.js';
import { type RingChannelAddresses, type RingLayout, RingMemory } from '#src/transport/net/ring-memory.js';
import { RingProxy } from '#src/transport/net/ring-proxy.js';
import { eventually } from '../bootstrap/rank-processes.js';

const STEPS = 8;
const WORDS = {
  lost: { next: 11, prev: 12 },
  corrupt: { next: 21, prev: 22 },
  closed: { next: 31, prev: 32 },
} as const;
const STATE_AT = 1024;

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

const turnOfEventLoop = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A rank with its proxy, and the driver of a thread that runs its programs. */
class TestRank {
  readonly bytes: Uint8Array;
  readonly i64: BigInt64Array;
  readonly layout: RingLayout;
  readonly channels: RingChannelAddresses[];
  readonly state: CarrierState;
  readonly lending: LinkLending;
  readonly driver: LinkDriver;
  readonly proxy: RingProxy;
  readonly troubles: string[] = [];
  trouble = 0;
  isWaiting = false;

  constructor(
    rank: number,
    size: number,
    channels: number,
    slotBytes: number,
    links: { readonly next: LinkSocket; readonly prev: LinkSocket },
  ) {
    this.layout = { head: 0, tail: 0, sizes: 64, slots: 256, steps: STEPS, slotBytes };
    const structure = Math.ceil((256 + STEPS * slotBytes) / 64) * 64;
    const shape = { channels, links: 2 };
    const first = Math.ceil((STATE_AT + CarrierState.bytes(shape)) / 64) * 64;
    const buffer = new SharedArrayBuffer(first + 4 * channels * structure);
    this.bytes = new Uint8Array(buffer);
    this.i64 = new BigInt64Array(buffer);
    this.channels = Array.from({ length: channels }, (_, channel) => {
      const at = first + 4 * channel * structure;
      return {
        sender: at,
        receiver: at + structure,
        outgoing: at + 2 * structure,
        credits: at + 3 * structure,
      };
    });
    this.state = new CarrierState(buffer, STATE_AT, shape);
    const memory = new RingMemory(buffer, this.layout);
    this.lending = new LinkLending({
      state: this.state,
      isWaiting: () => this.isWaiting,
      onProgress: () => this.proxy.progressed(),
      onTakenBack: () => this.proxy.look(),
    });
    this.proxy = new RingProxy(
      {
        memory,
        channels: this.channels,
        state: this.state,
        wake: () => {},
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
          size,
          ranks: { next: (rank + 1) % size, prev: (rank + size - 1) % size },
          isWaiting: () => this.isWaiting,
          calls: () => 0,
          report: () => {},
        },
        onTrouble: (_, detail) => this.troubles.push(detail),
      },
      links,
    );
    for (const [index, side] of (['prev', 'next'] as const).entries()) {
      this.lending.add({
        index,
        socket: links[side],
        isReady: () => true,
        receiveNote: (frame) => this.proxy.receiveNote(side, frame),
      });
    }
    this.driver = LinkDriver.create({
      buffer,
      baseAddress: libc()!.addressOf(this.bytes),
      state: this.state,
      layout: this.layout,
      channels: this.channels,
      pair: size === 2,
      ring: () => this.ring(),
    })!;
    ends.push(() => {
      this.lending.takeBack(true);
      for (const link of Object.values(links)) link.socket.destroy();
    });
  }

  /** What the proxy does when its doorbell rings. */
  ring(): void {
    if (this.lending.look()) this.proxy.look();
    this.lending.lendIfWanted();
  }

  get isLent(): boolean {
    return this.state.load('owner') === OWNER.programs;
  }

  async lend(): Promise<void> {
    this.driver.want();
    await eventually(() => this.isLent);
  }

  #counter(address: number): number {
    return Number(this.i64[address / 8]);
  }

  head(channel: number): number {
    return this.#counter(this.channels[channel]!.sender);
  }

  tail(channel: number): number {
    return this.#counter(this.channels[channel]!.receiver);
  }

  /** Publishes a slice as a program does. */
  publish(channel: number, step: number, content: Uint8Array): void {
    const { outgoing } = this.channels[channel]!;
    const slot = step & (STEPS - 1);
    this.bytes.set(content, outgoing + this.layout.slots + slot * this.layout.slotBytes);
    this.i64[(outgoing + this.layout.sizes) / 8 + slot] =
      BigInt(content.length) | (BigInt((step + 1) >>> 0) << 32n);
    this.i64[outgoing / 8] = BigInt(step + 1);
    if (this.driver.publish() === TURN.notOurs) this.ring();
  }

  returnCredit(channel: number, step: number): void {
    this.i64[this.channels[channel]!.credits / 8] = BigInt(step);
    if (this.driver.publish() === TURN.notOurs) this.ring();
  }

  slot(channel: number, step: number, bytes: number): Uint8Array {
    const at = this.channels[channel]!.receiver + this.layout.slots;
    const from = at + (step & (STEPS - 1)) * this.layout.slotBytes;
    return this.bytes.slice(from, from + bytes);
  }
}

async function connectRing(size: number): Promise<{ next: LinkSocket; prev: LinkSocket }[]> {
  const key = new Uint8Array(randomBytes(32));
  const listeners = await Promise.all(
    Array.from({ length: size }, (_, rank) =>
      ProxyListener.open({ key, rank, next: (rank + 1) % size, host: '127.0.0.1' }),
    ),
  );
  const prev = await Promise.all(
    listeners.map((_, rank) => {
      const peer = (rank + size - 1) % size;
      const { address } = listeners[peer]!;
      return connectToPredecessor({
        key,
        rank,
        peer,
        address,
        timeoutMs: 5000,
        retry: DEFAULT_RETRY_RULE,
      });
    }),
  );
  await Promise.all(listeners.map((listener) => listener.arrived(5000)));
  return listeners.map((listener, rank) => {
    const next = listener.take();
    listener.close();
    return { next, prev: prev[rank]! };
  });
}

async function ring(size: number, channels: number, slotBytes: number): Promise<TestRank[]> {
  const links = await connectRing(size);
  return links.map((own, rank) => new TestRank(rank, size, channels, slotBytes, own));
}

const pattern = (length: number, salt: number) => {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = (i * 7 + salt * 13) & 255;
  return bytes;
};

const isLinux = libc() !== null;

/** A slice for each slot of the channels: together more than the system keeps for a peer that does not read. */
function publishAll(rank: TestRank, channels: readonly number[], bytes: number): void {
  for (let step = 0; step < STEPS; step++) {
    for (const channel of channels) rank.publish(channel, step, pattern(bytes, step + channel));
  }
}

describe.skipIf(!isLinux)('connections that programs carry', () => {
  const action = fc.record({
    rank: fc.nat(1),
    what: fc.constantFrom('publish', 'take', 'drive', 'drive', 'want', 'takeBack', 'end', 'events'),
    channel: fc.nat(1),
    bytes: fc.oneof(fc.constantFrom(0, 1, 8, 1024, 1025, 4096, 4097), fc.nat(30_000)),
  });

  it('bring every slice into its slot and every credit back, whoever carries, at whatever moment that changes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 40, maxLength: 160 }), async (actions) => {
        const ranks = await ring(2, 2, 30_000);
        const places = ranks.map(() => [0, 1].map(() => ({ sent: [] as number[], taken: 0 })));
        const take = (rank: number, channel: number): boolean => {
          const { sent, taken } = places[1 - rank]![channel]!;
          if (taken >= ranks[rank]!.tail(channel)) return false;
          const bytes = sent[taken]!;
          expect(ranks[rank]!.slot(channel, taken, bytes)).toEqual(pattern(bytes, taken + channel));
          places[1 - rank]![channel]!.taken += 1;
          ranks[rank]!.returnCredit(channel, taken + 1);
          return true;
        };
        for (const { rank, what, channel, bytes } of actions) {
          const own = ranks[rank]!;
          const { sent } = places[rank]![channel]!;
          if (what === 'publish' && own.head(channel) + STEPS > sent.length) {
            const content = pattern(bytes, sent.length + channel);
            sent.push(bytes);
            own.publish(channel, sent.length - 1, content);
          } else if (what === 'take') take(rank, channel);
          else if (what === 'drive') own.driver.drive();
          else if (what === 'want') own.driver.want();
          else if (what === 'takeBack') own.lending.takeBack();
          else if (what === 'end') own.driver.end();
          else if (what === 'events') await turnOfEventLoop();
        }
        const isDone = () =>
          places.every((of) => of.every(({ sent, taken }) => taken === sent.length)) ||
          ranks.some(({ trouble }) => trouble !== 0);
        for (const until = performance.now() + 5000; !isDone() && performance.now() < until; ) {
          for (const rank of [0, 1]) {
            ranks[rank]!.driver.drive();
            for (const channel of [0, 1]) while (take(rank, channel));
          }
          await turnOfEventLoop();
        }
        expect(isDone()).toBe(true);
        expect(ranks.flatMap(({ troubles }) => troubles)).toEqual([]);
        for (const end of ends.splice(0)) end();
      }),
      { numRuns: 12 },
    );
  });

  it('go on where the system takes a part of a slice only, from thread to thread and to the proxy', async () => {
    const bytes = 512 * 1024;
    const channels = [0, 1, 2, 3];
    const [a, b] = await ring(2, channels.length, bytes);
    await a!.lend();
    publishAll(a!, channels, bytes);
    const came = () => channels.reduce((sum, channel) => sum + b!.tail(channel), 0);
    const { i32, word } = a!.state.link(RING_LINKS.next);
    const isPending = () => i32[word + LINK.outBytes] !== 0;
    // 16 MiB are more than the system keeps for a peer that does not read.
    expect(isPending()).toBe(true);
    expect(came()).toBe(0);
    await b!.lend();
    b!.driver.drive();
    a!.driver.drive();
    // A program that ends in the middle of a slice leaves the rest to the proxy.
    const isLeft = isPending();
    a!.driver.end();
    expect(a!.isLent).toBe(!isLeft);
    b!.driver.drive();
    b!.lending.takeBack();
    await eventually(() => came() === channels.length * STEPS);
    for (let step = 0; step < STEPS; step++) {
      for (const channel of channels) {
        const slice = b!.slot(channel, step, bytes);
        expect(Buffer.compare(slice, pattern(bytes, step + channel))).toBe(0);
      }
    }
  });

  it('of a program that ends in the middle of a slice are with the proxy, which sends the rest', async () => {
    const bytes = 512 * 1024;
    const channels = [0, 1, 2, 3];
    const [a, b] = await ring(2, channels.length, bytes);
    await a!.lend();
    publishAll(a!, channels, bytes);
    a!.driver.end();
    expect(a!.isLent).toBe(false);
    await eventually(() => channels.every((channel) => b!.tail(channel) === STEPS));
    for (const channel of channels) {
      const last = b!.slot(channel, STEPS - 1, bytes);
      expect(Buffer.compare(last, pattern(bytes, STEPS - 1 + channel))).toBe(0);
    }
  });

  it('send frames that a program had but prepared when they are taken back', async () => {
    const [a, b] = await ring(2, 1, 64);
    await a!.lend();
    const c = libc()!;
    const state = a!.state.link(RING_LINKS.next);
    const sink = { accept: () => undefined, complete: () => {}, settle: () => {} };
    const reader = new FrameReader(sink, state);
    const link = new NativeLink(c, c.addressOf(a!.bytes), new NativeBuffers(c), state, reader);
    link.frame('trouble', 0, 5);
    expect(link.isPending).toBe(true);
    a!.lending.takeBack();
    await eventually(() => b!.trouble === 5);
    expect(link.isPending).toBe(false);
  });

  it('wake a sleeping program when something comes, and let it sleep no longer than it asked', async () => {
    const [a, b] = await ring(2, 1, 64);
    await a!.lend();
    await b!.lend();
    const began = performance.now();
    expect(b!.driver.sleep(20)).toBe(true);
    expect(performance.now() - began).toBeGreaterThan(15);
    a!.publish(0, 0, pattern(8, 1));
    a!.driver.end();
    const slept = performance.now();
    expect(b!.driver.sleep(5000)).toBe(true);
    expect(performance.now() - slept).toBeLessThan(2000);
    expect(b!.driver.drive()).toBe(TURN.progress);
    expect(b!.slot(0, 0, 8)).toEqual(pattern(8, 1));
  });

  it('are taken back when no program drives, and when nothing comes for a while', async () => {
    const [a] = await ring(2, 1, 64);
    await a!.lend();
    a!.driver.drive();
    expect(a!.lending.tick()).toBe(false);
    expect(a!.lending.tick()).toBe(true);
    expect(a!.isLent).toBe(false);
    await a!.lend();
    a!.isWaiting = true;
    await eventually(() => {
      a!.driver.drive();
      return a!.lending.tick();
    });
    expect(a!.driver.drive()).toBe(TURN.notOurs);
  });

  it('are lent only when the system has taken all that the proxy has written', async () => {
    const bytes = 512 * 1024;
    const channels = [0, 1, 2, 3];
    const [a, b] = await ring(2, channels.length, bytes);
    // The peer does not read, so this stays with the proxy.
    await b!.lend();
    for (let step = 0; step < STEPS; step++) {
      for (const channel of channels) a!.publish(channel, step, pattern(bytes, step));
    }
    a!.driver.want();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(a!.isLent).toBe(false);
    await eventually(() => {
      b!.driver.drive();
      return a!.isLent;
    });
    b!.lending.takeBack();
    await eventually(() => channels.every((channel) => b!.tail(channel) === STEPS));
    for (const channel of channels) {
      expect(Buffer.compare(b!.slot(channel, 3, bytes), pattern(bytes, 3))).toBe(0);
    }
  });

  it('are lent only where a slice ends, since the event loop holds the place for its rest', async () => {
    const bytes = 10_000;
    const links = await connectRing(2);
    const rank = new TestRank(0, 2, 1, bytes, links[0]!);
    const peer = links[1]!.next.socket;
    const frame = (step: number) =>
      Buffer.concat([encodeLinkFrame('data', 0, bytes, step, step + 1), pattern(bytes, step)]);
    const pause = () => new Promise((resolve) => setTimeout(resolve, 10));
    peer.write(frame(0).subarray(0, 5000));
    await pause();
    peer.write(frame(0).subarray(5000, 7000));
    await pause();
    rank.driver.want();
    await pause();
    expect(rank.isLent).toBe(false);
    peer.write(frame(0).subarray(7000));
    await eventually(() => rank.isLent);
    peer.write(frame(1));
    await eventually(() => rank.driver.drive() === TURN.progress && rank.tail(0) === 2);
    rank.lending.takeBack();
    peer.write(frame(2));
    await eventually(() => rank.tail(0) === 3);
    for (let step = 0; step < 3; step++) expect(rank.slot(0, step, bytes)).toEqual(pattern(bytes, step));
    expect(rank.troubles).toEqual([]);
  });

  it('leave trouble of the neighbours to the proxy, and are not lent again', async () => {
    const [a, b, c] = await ring(3, 1, 64);
    await b!.lend();
    a!.proxy.tell(7);
    await eventually(() => {
      b!.driver.drive();
      return b!.trouble === 7 && c!.trouble === 7;
    });
    expect(b!.troubles).toHaveLength(1);
  });

  it('whose other end is gone are a loss', async () => {
    const links = await connectRing(2);
    const rank = new TestRank(0, 2, 1, 64, links[0]!);
    await rank.lend();
    for (const { socket } of Object.values(links[1]!)) socket.destroy();
    await eventually(() => {
      rank.driver.drive();
      return rank.trouble !== 0;
    });
    expect(Object.values(WORDS.lost)).toContain(rank.trouble);
    rank.driver.want();
    await turnOfEventLoop();
    expect(rank.isLent).toBe(false);
  });

  const data = (bytes: number, step: number, tail: number) =>
    Buffer.concat([encodeLinkFrame('data', 0, bytes, step, tail), Buffer.alloc(bytes, 0xaa)]);
  it.each([
    ['garbage', Buffer.from('GET / HTTP/1.1\r\nHost: tutti\r\n\r\n'), /no frame begins with/],
    ['more bytes than the steps have', data(65, 0, 1), /65 bytes for step 0; 64 have room/],
    ['more steps than there are credits for', data(1, 0, 9), /0 to 8 were due/],
    ['credit for what was not sent', encodeLinkFrame('credit', 0, 0, 9), /0 to 8 were due/],
    ['an unknown trouble', encodeLinkFrame('trouble', 0, 100), /kind trouble that has no place here/],
  ])('on which %s comes are cut, and the neighbour is named', async (_, bytes, words) => {
    const links = await connectRing(2);
    const rank = new TestRank(0, 2, 1, 64, links[0]!);
    ends.push(() => {
      for (const { socket } of Object.values(links[1]!)) socket.destroy();
    });
    await rank.lend();
    links[1]!.next.socket.write(bytes);
    await eventually(() => {
      rank.driver.drive();
      return rank.trouble !== 0;
    });
    expect(rank.trouble).toBe(WORDS.corrupt.prev);
    expect(rank.troubles[0]).toMatch(words);
    const { receiver } = rank.channels[0]!;
    expect(rank.bytes.subarray(receiver, receiver + 256).every((byte) => byte === 0)).toBe(true);
  });
});
