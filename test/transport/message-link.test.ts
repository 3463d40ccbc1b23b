/** Links that carry messages between two ranks, over real connections: order, flow control, and what is not allowed. */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { DEFAULT_RETRY_RULE } from '#src/bootstrap/dial.js';
import { encodeLinkFrame } from '#src/transport/net/link-frame.js';
import type { LinkSocket } from '#src/transport/net/link-socket.js';
import { MessageLink } from '#src/transport/net/message-link.js';
import {
  type MessageLinkAddresses,
  type MessageLinkLayout,
  MessageMemory,
} from '#src/transport/net/message-memory.js';
import { connectForMessages, ProxyListener } from '#src/transport/net/proxy-links.js';
import { eventually } from '../bootstrap/rank-processes.js';

const LAYOUT: MessageLinkLayout = {
  slots: 8,
  slotStride: 256,
  slotBytes: 200,
  number: 0,
  purpose: 4,
  total: 8,
  bytes: 16,
  data: 32,
};
const ADDRESSES: MessageLinkAddresses = {
  sent: 64,
  credit: 128,
  slots: 4096,
  mirrorSlots: 8192,
  mirrorCredit: 192,
};

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** The memory and link of one rank, with what a program would do. */
class TestEnd {
  readonly bytes: Uint8Array;
  readonly troubles: [string, string][] = [];
  readonly link: MessageLink;
  wakes = 0;
  readonly #memory: MessageMemory;

  constructor(socket: LinkSocket, hasOpened: boolean) {
    const buffer = new SharedArrayBuffer(16384);
    this.bytes = new Uint8Array(buffer);
    this.#memory = new MessageMemory(buffer, LAYOUT);
    this.link = new MessageLink(
      {
        memory: this.#memory,
        addresses: ADDRESSES,
        hasOpened,
        wake: () => {
          this.wakes += 1;
        },
        onTrouble: (kind, reason) => this.troubles.push([kind, reason]),
      },
      socket,
    );
    ends.push(() => this.link.destroy());
  }

  /** Publishes a fragment as a program does. */
  send(number: number, content: Uint8Array, total = content.length): void {
    this.#memory.data(ADDRESSES.mirrorSlots, number, content.length).set(content);
    this.#memory.publish(ADDRESSES.mirrorSlots, number, { purpose: 1, total, bytes: content.length });
    this.#memory.setCounter(ADDRESSES.sent, number);
    this.link.look();
  }

  /** The fragment, if it has come. */
  came(number: number): { total: number; content: number[] } | undefined {
    const at = ADDRESSES.slots + ((number - 1) & 7) * LAYOUT.slotStride;
    if (this.#memory.counter(at) !== number) return undefined;
    const { total, bytes } = this.#memory.fragment(ADDRESSES.slots, number);
    return { total, content: [...this.#memory.data(ADDRESSES.slots, number, bytes)] };
  }

  take(number: number): void {
    this.#memory.setCounter(ADDRESSES.mirrorCredit, number);
    this.link.look();
  }

  get credit(): number {
    return this.#memory.counter(ADDRESSES.credit);
  }
}

/** Sockets of a connection between rank 1, which opens it, and rank 0. */
async function connected(early = false): Promise<{ opened: LinkSocket; accepted: LinkSocket }> {
  const key = new Uint8Array(randomBytes(32));
  const listener = await ProxyListener.open({ key, rank: 0, next: 1, host: '127.0.0.1' });
  const place = {
    key,
    rank: 1,
    peer: 0,
    timeoutMs: 5000,
    retry: DEFAULT_RETRY_RULE,
    address: listener.address,
  };
  const accepting = () => new Promise<LinkSocket>((resolve) => listener.awaitMessages(1, resolve));
  const before = early ? accepting() : undefined;
  const opened = await connectForMessages(place);
  if (!early) await new Promise((resolve) => setTimeout(resolve, 20));
  const accepted = await (before ?? accepting());
  listener.close();
  return { opened, accepted };
}

async function pair(early = false): Promise<[TestEnd, TestEnd]> {
  const { opened, accepted } = await connected(early);
  return [new TestEnd(accepted, false), new TestEnd(opened, true)];
}

/** An end whose peer is a raw socket of the test. */
async function besieged(): Promise<{ end: TestEnd; peer: Socket }> {
  const { opened, accepted } = await connected();
  ends.push(() => opened.socket.destroy());
  opened.socket.write(encodeLinkFrame('probe'));
  return { end: new TestEnd(accepted, false), peer: opened.socket };
}

const pattern = (length: number, salt: number) => Uint8Array.from({ length }, (_, i) => (i * 7 + salt) & 255);

describe('message links', () => {
  it.each([true, false])(
    'carry fragments of all sizes both ways, and credit back (awaited first: %s)',
    async (early) => {
      const [a, b] = await pair(early);
      for (let number = 1; number <= 30; number++) {
        const content = pattern([0, 1, 17, 200][number % 4]!, number);
        a.send(number, content, 1000 + number);
        b.send(number, content);
        await eventually(() => b.came(number) !== undefined && a.came(number) !== undefined);
        expect(b.came(number)).toEqual({ total: 1000 + number, content: [...content] });
        b.take(number);
        a.take(number);
        await eventually(() => a.credit === number && b.credit === number);
      }
      expect(a.wakes).toBeGreaterThan(0);
      expect([a.troubles, b.troubles]).toEqual([[], []]);
    },
  );

  it('carry what was published before the connection was there', async () => {
    const { opened, accepted } = await connected();
    const b = new TestEnd(opened, true);
    for (let number = 1; number <= 8; number++) b.send(number, pattern(100, number));
    const a = new TestEnd(accepted, false);
    await eventually(() => a.came(8) !== undefined);
    for (let number = 1; number <= 8; number++)
      expect(a.came(number)!.content).toEqual([...pattern(100, number)]);
  });

  it('end without trouble after a goodbye, and with trouble without one', async () => {
    const [a, b] = await pair();
    a.send(1, pattern(5, 1));
    await eventually(() => b.came(1) !== undefined);
    a.send(2, pattern(5, 1));
    a.link.close();
    await eventually(() => b.came(2) !== undefined);
    b.link.close();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect([a.troubles, b.troubles]).toEqual([[], []]);
    const { end, peer } = await besieged();
    peer.destroy();
    await eventually(() => end.troubles.length > 0);
    expect(end.troubles).toEqual([['lost', expect.stringMatching(/ended without a goodbye|failed/)]]);
  });

  it('tell of a peer that was gone before anybody asked for it', async () => {
    const { opened, accepted } = await connected();
    opened.socket.destroy();
    accepted.socket.resume();
    await eventually(() => accepted.socket.closed);
    const end = new TestEnd(accepted, false);
    await eventually(() => end.troubles.length > 0);
    expect(end.troubles[0]![0]).toBe('lost');
  });

  const data = (number: number, bytes: number) => encodeLinkFrame('data', 0, bytes, bytes, number);
  it.each([
    ['a fragment out of turn', data(2, 0), /it sent fragment 2, 1 was due/],
    ['a fragment larger than a slot', data(1, 201), /a fragment of 201 bytes; 200 have room/],
    [
      'credit for what was not sent',
      encodeLinkFrame('credit', 0, 0, 1),
      /it returned credit 1; 0 to 0 were due/,
    ],
    ['a frame of rings', encodeLinkFrame('trouble', 0, 5), /kind trouble that has no place here/],
    ['garbage', new Uint8Array(64).fill(0x55), /no frame begins with/],
  ])('refuse %s', async (_, bytes, words) => {
    const { end, peer } = await besieged();
    peer.write(bytes);
    await eventually(() => end.troubles.length > 0);
    expect(end.troubles).toEqual([['corrupt', expect.stringMatching(words)]]);
  });

  it('refuse more fragments than there are slots', async () => {
    const { end, peer } = await besieged();
    for (let number = 1; number <= 9; number++) peer.write(data(number, 0));
    await eventually(() => end.troubles.length > 0);
    expect(end.troubles[0]![0]).toBe('corrupt');
    expect(end.came(8)).toBeDefined();
  });
});
