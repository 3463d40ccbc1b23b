/**
 * The thread of a rank's network proxy. It has an event loop of its own, so that data move while the rank's
 * main thread is blocked in an operation.
 */

import { type MessagePort, workerData } from 'node:worker_threads';
import type { RetryRule } from '../bootstrap/dial.js';
import type { SocketAddress } from '../bootstrap/socket-address.js';
import { DOORBELL, wakeDoorbell } from '../device/host/doorbell.js';
import { DoorbellWatch } from '../device/host/doorbell-watch.js';
import { errorText } from '../errors/error-text.js';
import { type ErrorCode, TuttiError } from '../errors/tutti-error.js';
import { libc } from '../system/libc.js';
import { type CarriedNetwork, carrierStateOf } from '../transport/net/carried-network.js';
import { type CarrierState, FIRST_MESSAGE_LINK, RING_LINKS } from '../transport/net/carrier-state.js';
import { LinkLending } from '../transport/net/link-lending.js';
import type { LinkSocket } from '../transport/net/link-socket.js';
import { writeMessageLayout, writePlaces } from '../transport/net/message-layout-words.js';
import { MessageLink } from '../transport/net/message-link.js';
import {
  type MessageLinkAddresses,
  type MessageLinkLayout,
  MessageMemory,
} from '../transport/net/message-memory.js';
import { connectForMessages, connectToPredecessor, ProxyListener } from '../transport/net/proxy-links.js';
import { RingMemory } from '../transport/net/ring-memory.js';
import { RingProxy } from '../transport/net/ring-proxy.js';
import { encodeSuspicion } from './suspicion.js';
import { decodeTrouble, encodeTrouble, type TroubleKind } from './team.js';

/** Milliseconds between two looks that nobody rang for: at abort words, and in case a wake-up was lost. */
const LOOK_MS = 50;

/** What the worker is started with. */
export interface SocketProxyStart {
  readonly buffer: SharedArrayBuffer;
  /** Address of the memory in the process, 0 where it is not known. */
  readonly baseAddress: number;
  readonly network: CarriedNetwork;
  /** Doorbell (control block) of the rank. */
  readonly control: number;
  /** Address of the word that counts the rank's ring operations, and of the one for a suspicion (see suspicion.ts). */
  readonly calls: number;
  readonly suspicion: number;
  readonly rank: number;
  readonly size: number;
  readonly key: Uint8Array;
  /** Address to listen at. */
  readonly host: string;
  readonly port: MessagePort;
}

export type ToSocketProxy =
  | {
      readonly kind: 'connect';
      readonly address: SocketAddress;
      readonly timeoutMs: number;
      readonly retry: RetryRule;
    }
  | { readonly kind: 'run' }
  /** From now on messages go to and come from a peer. */
  | {
      readonly kind: 'peer';
      readonly peer: number;
      readonly address: SocketAddress;
      readonly timeoutMs: number;
      readonly retry: RetryRule;
      readonly layout: MessageLinkLayout;
      readonly places: MessageLinkAddresses;
    }
  | { readonly kind: 'tell'; readonly word: number }
  | { readonly kind: 'close' };

export interface PlainError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly rank?: number;
}

export type FromSocketProxy =
  | { readonly kind: 'listening'; readonly address: SocketAddress }
  | { readonly kind: 'connected' }
  | { readonly kind: 'running' }
  | { readonly kind: 'trouble'; readonly word: number; readonly detail: string }
  | { readonly kind: 'failed'; readonly error: PlainError };

function plainError(error: unknown): PlainError {
  if (!TuttiError.is(error)) {
    return { code: 'systemError', message: errorText(error) };
  }
  const { code, message, rank } = error;
  return { code, message, ...(rank === undefined ? {} : { rank }) };
}

class SocketProxyWorker {
  readonly #start: SocketProxyStart;
  readonly #i32: Int32Array;
  readonly #abort: number;
  #listener: ProxyListener | undefined;
  #fromPrev: LinkSocket | undefined;
  #proxy: RingProxy | undefined;
  #watch: DoorbellWatch | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #state: CarrierState;
  readonly #lending: LinkLending;
  readonly #messages: MessageLink[] = [];
  #isClosing = false;
  /** Messages are obeyed one after the other. */
  #last: Promise<void>;

  constructor(start: SocketProxyStart) {
    this.#start = start;
    this.#i32 = new Int32Array(start.buffer);
    this.#abort = (start.control + DOORBELL.abort) >>> 2;
    this.#state = carrierStateOf(start.network, start.buffer);
    this.#lending = new LinkLending({
      state: this.#state,
      isWaiting: () => this.#isWaiting,
      onProgress: () => this.#proxy?.progressed(),
      onTakenBack: () => {
        this.#carry();
        this.#wake();
      },
    });
    // The C library is opened now and not in the middle of the first operation.
    libc();
    this.#last = this.#attempt(() => this.#listen());
    start.port.on('message', (message: ToSocketProxy) => {
      if (message.kind === 'tell') {
        this.#lending.takeBack(true);
        this.#proxy?.tell(message.word);
      } else this.#last = this.#last.then(() => this.#attempt(() => this.#obey(message)));
    });
    process.on('uncaughtException', (error) => this.#give(error));
  }

  /** A program of this rank sleeps. */
  get #isWaiting(): boolean {
    return Atomics.load(this.#i32, (this.#start.control + DOORBELL.sleepers) >>> 2) !== 0;
  }

  get #prev(): number {
    return (this.#start.rank + this.#start.size - 1) % this.#start.size;
  }

  get #next(): number {
    return (this.#start.rank + 1) % this.#start.size;
  }

  #say(message: FromSocketProxy): void {
    this.#start.port.postMessage(message);
  }

  async #attempt(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.#say({ kind: 'failed', error: plainError(error) });
    }
  }

  /** A defect of ours: nothing moves any more, so whoever waits must not wait for ever. */
  #give(error: unknown): void {
    this.#raise(encodeTrouble({ kind: 'aborted', culprit: this.#start.rank }));
    this.#wake();
    this.#say({ kind: 'failed', error: plainError(error) });
  }

  async #listen(): Promise<void> {
    const { key, rank, host } = this.#start;
    this.#listener = await ProxyListener.open({ key, rank, next: this.#next, host });
    this.#say({ kind: 'listening', address: this.#listener.address });
  }

  async #obey(message: ToSocketProxy): Promise<void> {
    switch (message.kind) {
      case 'connect': {
        const { address, timeoutMs, retry } = message;
        const { key, rank } = this.#start;
        const place = { key, rank, peer: this.#prev, address, timeoutMs, retry };
        const arrived = this.#listener!.arrived(timeoutMs);
        const [link] = await Promise.all([connectToPredecessor(place), arrived]);
        this.#fromPrev = link;
        this.#say({ kind: 'connected' });
        return;
      }
      case 'run':
        this.#run();
        this.#say({ kind: 'running' });
        return;
      case 'peer':
        await this.#openMessages(message);
        return;
      case 'close':
        await this.#close();
        return;
    }
  }

  #run(): void {
    const { buffer, network, rank, size, calls, suspicion } = this.#start;
    const { layout, channels, doorbell } = network;
    const next = this.#next;
    const prev = this.#prev;
    const words = (kind: TroubleKind) => ({
      next: encodeTrouble({ kind, culprit: next }),
      prev: encodeTrouble({ kind, culprit: prev }),
    });
    const links = { next: this.#listener!.take(), prev: this.#fromPrev! };
    this.#proxy = new RingProxy(
      {
        memory: new RingMemory(buffer, layout),
        channels,
        state: this.#state,
        wake: () => this.#wake(),
        trouble: {
          read: () => Atomics.load(this.#i32, this.#abort),
          raise: (word) => this.#raise(word),
          isValid: (word) => (decodeTrouble(word)?.culprit ?? this.#start.size) < this.#start.size,
        },
        words: { lost: words('peerDied'), corrupt: words('corrupt'), closed: words('aborted') },
        rollCall: {
          size,
          ranks: { next, prev },
          isWaiting: () => this.#isWaiting,
          calls: () => Atomics.load(this.#i32, calls >>> 2),
          report: (found) => Atomics.store(this.#i32, suspicion >>> 2, encodeSuspicion(found)),
        },
        onTrouble: (word, detail) => {
          if (decodeTrouble(word)?.culprit !== rank) this.#say({ kind: 'trouble', word, detail });
        },
      },
      links,
    );
    const proxy = this.#proxy;
    for (const side of ['prev', 'next'] as const) {
      this.#lending.add({
        index: RING_LINKS[side],
        socket: links[side],
        isReady: () => true,
        receiveNote: (frame) => proxy.receiveNote(side, frame),
      });
    }
    this.#watch = new DoorbellWatch({ i32: this.#i32 }, doorbell, () => {
      this.#endLendingAtTrouble();
      if (this.#lending.look()) this.#carry();
      this.#lending.lendIfWanted();
    });
    this.#timer = setInterval(() => {
      this.#endLendingAtTrouble();
      if (!this.#lending.tick()) return;
      for (const link of this.#messages) link.look();
      proxy.tick();
    }, LOOK_MS);
  }

  #carry(): void {
    for (const link of this.#messages) link.look();
    this.#proxy?.look();
  }

  /** The others are to hear of it, and programs give up by themselves. */
  #endLendingAtTrouble(): void {
    if (this.#lending.isLent && Atomics.load(this.#i32, this.#abort) !== 0) this.#lending.takeBack(true);
  }

  /** The rank with the higher number opens the connection, when both have something to send or to receive. */
  async #openMessages(message: Extract<ToSocketProxy, { kind: 'peer' }>): Promise<void> {
    const { peer, address, timeoutMs, retry, layout, places } = message;
    const { buffer, key, rank } = this.#start;
    const index = FIRST_MESSAGE_LINK + peer;
    const state = this.#state.link(index);
    writeMessageLayout(this.#state, layout);
    writePlaces(state, places);
    const attach = (socket: LinkSocket) => {
      const link = new MessageLink(
        {
          memory: new MessageMemory(buffer, layout),
          addresses: places,
          state,
          hasOpened: rank > peer,
          wake: () => this.#wake(),
          // Programs get all connections or none, so that they find this one among them.
          onOpen: () => this.#lending.takeBack(),
          onTrouble: (kind, reason) => this.#meetTrouble(peer, kind, reason),
        },
        socket,
      );
      this.#messages.push(link);
      this.#lending.add({
        index,
        socket,
        isReady: () => link.isOpen,
        receiveNote: (frame) => link.receiveNote(frame),
      });
    };
    if (rank < peer) this.#listener!.awaitMessages(peer, attach);
    else attach(await connectForMessages({ key, rank, peer, address, timeoutMs, retry }));
  }

  #meetTrouble(peer: number, kind: 'lost' | 'corrupt', reason: string): void {
    if (this.#isClosing) return;
    this.#lending.takeBack(true);
    const word = encodeTrouble({ kind: kind === 'lost' ? 'peerDied' : 'corrupt', culprit: peer });
    this.#proxy?.tell(Atomics.load(this.#i32, this.#abort) || word);
    const isNew = this.#raise(word);
    this.#wake();
    if (isNew) this.#say({ kind: 'trouble', word, detail: reason });
  }

  #wake(): void {
    wakeDoorbell({ i32: this.#i32, baseAddress: this.#start.baseAddress }, this.#start.control);
  }

  #raise(word: number): boolean {
    return Atomics.compareExchange(this.#i32, this.#abort, 0, word) === 0;
  }

  async #close(): Promise<void> {
    this.#lending.takeBack(true);
    this.#isClosing = true;
    clearInterval(this.#timer);
    this.#watch?.stop();
    this.#listener?.close();
    for (const link of this.#messages) link.close();
    if (this.#proxy === undefined) this.#fromPrev?.socket.destroy();
    await this.#proxy?.close();
    for (const link of this.#messages) link.destroy();
    this.#start.port.close();
  }
}

new SocketProxyWorker(workerData as SocketProxyStart);
