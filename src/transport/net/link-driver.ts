/**
 * Lets a program that waits carry its rank's connections itself: it reads and writes the sockets by system calls, so
 * that what it waits for comes without waking the proxy's thread, nor the proxy waking it.
 *
 * One driver for each thread that runs programs. A thread drives for as long as it holds the lock, which is for a few
 * microseconds. Everything out of the ordinary is left to the proxy: control frames, ends of connections, nonsense, and
 * what is still to be sent when the program ends.
 */
import { constants } from 'node:os';
import { type Libc, libc } from '../../system/libc.js';
import {
  type CarrierState,
  FIRST_MESSAGE_LINK,
  LINK,
  type LinkState,
  OWNER,
  RING_LINKS,
} from './carrier-state.js';
import { FrameReader } from './frame-reader.js';
import type { LinkFrame } from './link-frame.js';
import { MessageCarrier } from './message-carrier.js';
import { readMessageLayout, readPlaces } from './message-layout-words.js';
import { MessageMemory } from './message-memory.js';
import { NativeBuffers, NativeLink } from './native-link.js';
import { RingCarrier } from './ring-carrier.js';
import { type RingChannelAddresses, type RingLayout, RingMemory } from './ring-memory.js';

/** Events of poll(2). */
const POLLIN = 1;
const POLLOUT = 4;

/** Turns of a thread that cannot get the lock when its program ends: the other holds it for microseconds. */
const LAST_TURNS = 50;

/** Publications of small slices that wait for each other, at most. */
const MOST_PUBLISHED = 16;

/**
 * Turns from one look at the connection that credits come on to the next: they are rarely waited for, and those of a pair
 * come with the slices.
 */
const CREDIT_TURNS = { ring: 4, pair: 32 } as const;

export interface LinkDriverParts {
  readonly buffer: SharedArrayBuffer;
  /** Address of the memory in the process. */
  readonly baseAddress: number;
  readonly state: CarrierState;
  readonly layout: RingLayout;
  readonly channels: readonly RingChannelAddresses[];
  /** Both neighbours are one rank, whose credits come with its slices. */
  readonly pair: boolean;
  /** Wakes the proxy. */
  readonly ring: () => void;
}

/** What a turn of driving came to. */
export const TURN = {
  /** The proxy has the connections. */
  notOurs: -1,
  nothing: 0,
  /** Something has come. */
  progress: 1,
} as const;

class Line {
  readonly index: number;
  readonly state: LinkState;
  readonly link: NativeLink;
  readonly carrier: MessageCarrier | undefined;

  constructor(
    index: number,
    state: LinkState,
    link: NativeLink,
    carrier: MessageCarrier | undefined = undefined,
  ) {
    this.index = index;
    this.state = state;
    this.link = link;
    this.carrier = carrier;
  }
}

export class LinkDriver {
  readonly #parts: LinkDriverParts;
  readonly #state: CarrierState;
  readonly #c: Libc;
  readonly #buffers: NativeBuffers;
  readonly #ring: RingCarrier;
  readonly #lines: (Line | undefined)[] = [];
  /** The same lines where programs may use them, and the words that say so. */
  readonly #open: (Line | undefined)[] = [];
  readonly #fdWords: readonly number[];
  readonly #creditTurns: number;
  /** Structs pollfd, one for each line. */
  readonly #polled: Int32Array;
  readonly #polledAddress: number;
  #messageMemory: MessageMemory | undefined;
  /** There may be something to send, which could wait for more. */
  #unsent = false;
  /** Another thread had the lock. */
  #missed = false;
  /** Publications since the last turn. */
  #published = 0;
  #turns = 0;
  #came = false;

  private constructor(parts: LinkDriverParts, c: Libc) {
    this.#parts = parts;
    this.#state = parts.state;
    this.#c = c;
    this.#buffers = new NativeBuffers(c);
    const { links } = parts.state.shape;
    this.#fdWords = Array.from({ length: links }, (_, index) => parts.state.link(index).word + LINK.fd);
    this.#creditTurns = parts.pair ? CREDIT_TURNS.pair : CREDIT_TURNS.ring;
    this.#polled = new Int32Array(new SharedArrayBuffer(links * 8));
    this.#polledAddress = c.addressOf(this.#polled);
    const memory = new RingMemory(parts.buffer, parts.layout);
    const prev = this.#openLine(RING_LINKS.prev, {
      accept: (frame) => {
        if (frame.kind === 'data') return this.#ring.acceptData(frame);
        if (frame.kind === 'credit' && parts.pair) this.#ring.acceptCredit(frame);
        return undefined;
      },
      complete: (frame) => {
        if (frame.kind === 'data') this.#ring.completeData(frame);
        else if (frame.kind === 'credit' && parts.pair) this.#ring.completeCredit(frame);
        else this.#leaveNote(RING_LINKS.prev);
      },
    });
    const next = this.#openLine(RING_LINKS.next, {
      accept: (frame) => {
        if (frame.kind === 'credit' && !parts.pair) this.#ring.acceptCredit(frame);
        return undefined;
      },
      complete: (frame) => {
        if (frame.kind === 'credit' && !parts.pair) this.#ring.completeCredit(frame);
        else this.#leaveNote(RING_LINKS.next);
      },
    });
    this.#lines.push(prev, next);
    const outputs = { prev: prev.link, next: next.link };
    this.#ring = new RingCarrier(memory, parts.channels, parts.state, outputs, parts.pair);
  }

  /** Undefined where the C library cannot be reached. */
  static create(parts: LinkDriverParts): LinkDriver | undefined {
    const c = parts.baseAddress === 0 ? null : libc();
    return c === null ? undefined : new LinkDriver(parts, c);
  }

  #openLine(
    index: number,
    sink: {
      accept(frame: LinkFrame): Uint8Array | undefined;
      complete(frame: LinkFrame): void;
    },
    carry?: (link: NativeLink, state: LinkState) => MessageCarrier,
  ): Line {
    const state = this.#state.link(index);
    const reader = new FrameReader(
      {
        accept: (frame) => sink.accept(frame),
        complete: (frame) => {
          this.#came = true;
          sink.complete(frame);
        },
        settle: () => {},
      },
      state,
    );
    const link = new NativeLink(this.#c, this.#parts.baseAddress, this.#buffers, state, reader);
    return new Line(index, state, link, carry?.(link, state));
  }

  #openMessages(index: number): Line {
    this.#messageMemory ??= new MessageMemory(this.#parts.buffer, readMessageLayout(this.#state));
    const memory = this.#messageMemory;
    const made: Line = this.#openLine(
      index,
      {
        accept: (frame) => (isOfMessages(frame) ? made.carrier!.accept(frame) : undefined),
        complete: (frame) => {
          if (isOfMessages(frame)) made.carrier!.complete(frame);
          else this.#leaveNote(index);
        },
      },
      (link, state) => new MessageCarrier(memory, readPlaces(state), state, link),
    );
    return made;
  }

  /** The proxy looks at the frame, whose header still lies in the link's memory. */
  #leaveNote(index: number): void {
    if (!this.#state.leaveNote(index, this.#state.link(index).header)) {
      throw new Error('it sent too many control frames at once');
    }
    this.#state.store('due', 1);
  }

  /** Asks for the connections, if the proxy has them: a program is about to wait. */
  want(): void {
    const state = this.#state;
    if (Atomics.load(state.i32, state.word('owner')) !== OWNER.proxy) return;
    if (Atomics.exchange(state.i32, state.word('wanted'), 1) === 0) this.#parts.ring();
  }

  /**
   * A program has published something. It is sent at once when it is large, otherwise with what else comes until the
   * program waits or ends. One of TURN.
   */
  publish(): number {
    if (this.#state.load('owner') !== OWNER.programs) return TURN.notOurs;
    this.#unsent = true;
    if (++this.#published >= MOST_PUBLISHED || this.#hasLarge()) return this.drive();
    return TURN.nothing;
  }

  #hasLarge(): boolean {
    if (this.#ring.hasLarge()) return true;
    const lines = this.#openLines();
    for (let index = FIRST_MESSAGE_LINK; index < lines.length; index++) {
      if (lines[index]?.carrier?.hasLarge() === true) return true;
    }
    return false;
  }

  /** Sends and receives what there is. One of TURN. */
  drive(): number {
    const state = this.#state;
    if (state.load('owner') !== OWNER.programs) return TURN.notOurs;
    this.#missed = !state.tryLock();
    if (this.#missed) {
      this.#unsent = true;
      return TURN.nothing;
    }
    let ringDue = false;
    try {
      if (state.load('owner') !== OWNER.programs) return TURN.notOurs;
      this.#unsent = false;
      this.#published = 0;
      this.#came = false;
      Atomics.add(state.i32, state.word('drives'), 1);
      this.#turn();
      if (this.#came) Atomics.add(state.i32, state.word('progress'), 1);
      ringDue = state.load('due') !== 0;
    } finally {
      state.unlock();
    }
    if (ringDue) this.#parts.ring();
    return this.#came ? TURN.progress : TURN.nothing;
  }

  #turn(): void {
    this.#turns++;
    const lines = this.#openLines();
    // First what others wait for.
    if (lines[RING_LINKS.next] !== undefined && lines[RING_LINKS.prev] !== undefined) this.#ring.send();
    for (let index = FIRST_MESSAGE_LINK; index < lines.length; index++) lines[index]?.carrier?.send();
    for (let index = 0; index < lines.length; index++) {
      const line = lines[index];
      if (line === undefined) continue;
      if (index === RING_LINKS.next && this.#turns % this.#creditTurns !== 0) continue;
      const { link } = line;
      link.reader.load();
      try {
        link.receive();
      } catch (error) {
        // Nobody reads on from here; the proxy ends the connection.
        this.#state.leaveFault(index, error instanceof Error ? error.message : String(error));
        this.#leave(link);
      }
      link.reader.save();
      if (link.ended) this.#leave(link);
    }
  }

  /** Lines that programs may use; the others are undefined. */
  #openLines(): readonly (Line | undefined)[] {
    const { links } = this.#state.shape;
    const { i32 } = this.#state;
    const open = this.#open;
    for (let index = 0; index < links; index++) {
      if (i32[this.#fdWords[index]!]! < 0) open[index] = undefined;
      else open[index] = this.#lines[index] ??= this.#openMessages(index);
    }
    return open;
  }

  /** The connection is the proxy's, and so are all others. */
  #leave(link: NativeLink): void {
    link.close();
    this.#state.store('broken', 1);
    this.#state.store('due', 1);
  }

  /** Sleeps until something comes, at most so long. False where the proxy has the connections. */
  sleep(milliseconds: number): boolean {
    const state = this.#state;
    if (state.load('owner') !== OWNER.programs) return false;
    const polled = this.#polled;
    let count = 0;
    for (const line of this.#openLines()) {
      if (line === undefined) continue;
      polled[count * 2] = line.link.fd;
      polled[count * 2 + 1] = POLLIN | (line.link.isPending ? POLLOUT : 0);
      count++;
    }
    if (count === 0) return false;
    const result = this.#c.poll(this.#polledAddress, count, Math.max(1, Math.ceil(milliseconds)));
    return result >= 0 || this.#c.errno() === constants.errno.EINTR;
  }

  /** Frames wait to be sent. */
  #isPending(): boolean {
    const lines = this.#openLines();
    for (let index = 0; index < lines.length; index++) if (lines[index]?.link.isPending === true) return true;
    return false;
  }

  /** The program has ended: what could not be sent is the proxy's. */
  end(): void {
    const state = this.#state;
    if (state.load('owner') !== OWNER.programs) return;
    // Credits for what has just come are still here.
    const isDone = !this.#unsent && !this.#isPending();
    for (let turns = 0; !isDone && turns < LAST_TURNS; turns++) {
      if (this.drive() === TURN.notOurs) {
        this.#parts.ring();
        return;
      }
      if (!this.#missed) break;
      this.#c.schedYield();
    }
    if (isDone || (!this.#missed && !this.#isPending())) return;
    Atomics.store(state.i32, state.word('due'), 1);
    this.#parts.ring();
  }
}

function isOfMessages(frame: LinkFrame): boolean {
  return frame.kind === 'data' || frame.kind === 'credit';
}
