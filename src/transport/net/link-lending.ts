/**
 * The proxy's side of lending its connections to programs that wait (see link-driver.ts).
 *
 * The proxy lends when a program asks, as soon as all that was written is with the system. It takes the connections back
 * when a program leaves something to it, when no program has driven for a while, and before it does anything itself.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { type CarrierState, LINK, OWNER } from './carrier-state.js';
import { decodeLinkFrame, type LinkFrame } from './link-frame.js';
import type { LinkSocket } from './link-socket.js';

/**
 * Milliseconds until the next try when a connection could not be lent, twice as long each time: mostly the system is about
 * to take what waits, but a peer may be stopped.
 */
const RETRY_MS = { first: 1, longest: 32 } as const;

/**
 * Milliseconds between two looks at the lock, and until it is taken from a thread that must have ended: at the end of a
 * communicator threads may be, before it only where one was ended by others.
 */
const LOCK = { lookMs: 1, mostMs: 10_000, mostAtEndMs: 1000 } as const;

/** Milliseconds without anything coming after which a waiting program's connections are taken back, to ask around. */
const SILENCE_MS = 200;

/** A connection that can be lent. */
export interface LentLine {
  readonly index: number;
  readonly socket: LinkSocket;
  /** Programs may use it. */
  isReady(): boolean;
  /** A control frame that a program has left. Throws when it has no place there. */
  receiveNote(frame: LinkFrame): void;
}

export interface LinkLendingOptions {
  readonly state: CarrierState;
  /** A program sleeps. */
  readonly isWaiting: () => boolean;
  /** Programs have received something since the last call. */
  readonly onProgress: () => void;
  /** The connections are the proxy's again. */
  readonly onTakenBack: () => void;
}

export class LinkLending {
  readonly #options: LinkLendingOptions;
  readonly #state: CarrierState;
  readonly #lines: LentLine[] = [];
  #lent: LentLine[] = [];
  #retry: NodeJS.Timeout | undefined;
  #retryMs: number = RETRY_MS.first;
  #isOver = false;
  #lastDrives = 0;
  #lastProgress = 0;
  #progressAt = 0;
  readonly #nap = new Int32Array(new SharedArrayBuffer(4));

  constructor(options: LinkLendingOptions) {
    this.#options = options;
    this.#state = options.state;
    for (let index = 0; index < this.#state.shape.links; index++) this.#setFd(index, -1);
  }

  #setFd(index: number, fd: number): void {
    const { i32, word } = this.#state.link(index);
    i32[word + LINK.fd] = fd;
  }

  /** One more connection that is to be lent with the others. */
  add(line: LentLine): void {
    this.takeBack();
    this.#lines.push(line);
  }

  get isLent(): boolean {
    return this.#state.load('owner') === OWNER.programs;
  }

  /** To be called when the doorbell has rung. True when the connections are the proxy's. */
  look(): boolean {
    if (this.isLent) {
      if (this.#state.load('due') === 0) return false;
      this.takeBack();
    }
    return true;
  }

  /** To be called after the proxy has done what there is to do: lends where a program has asked. */
  lendIfWanted(): void {
    const state = this.#state;
    if (state.load('owner') !== OWNER.proxy || state.load('wanted') === 0) return;
    if (state.load('broken') !== 0) return;
    const ready = this.#lines.filter((line) => line.isReady());
    if (!ready.every(({ socket }) => socket.canLend)) {
      for (const { socket } of ready) socket.atFrameEnd(() => this.lendIfWanted());
      this.#retry ??= setTimeout(() => {
        this.#retry = undefined;
        this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MS.longest);
        this.lendIfWanted();
      }, this.#retryMs);
      return;
    }
    this.#retryMs = RETRY_MS.first;
    for (const { index, socket } of ready) this.#setFd(index, socket.lend());
    this.#lent = ready;
    this.#lastDrives = state.load('drives');
    this.#lastProgress = state.load('progress');
    this.#progressAt = performance.now();
    state.store('wanted', 0);
    state.store('owner', OWNER.programs);
  }

  /** To be called every now and then. True when the connections are the proxy's. */
  tick(): boolean {
    if (!this.isLent) return true;
    const state = this.#state;
    const drives = state.load('drives');
    const progress = state.load('progress');
    const now = performance.now();
    if (progress !== this.#lastProgress) {
      this.#progressAt = now;
      this.#options.onProgress();
    }
    const isIdle = drives === this.#lastDrives;
    const isStuck = this.#options.isWaiting() && now - this.#progressAt > SILENCE_MS;
    this.#lastDrives = drives;
    this.#lastProgress = progress;
    if (!isIdle && !isStuck && state.load('due') === 0) return false;
    this.takeBack();
    return true;
  }

  /** From now on only the proxy touches the connections; with `forGood` to the end. */
  takeBack(forGood = false): void {
    const state = this.#state;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    const wasLent = this.isLent;
    if (forGood) this.#isOver = true;
    if (wasLent) this.#lock();
    state.store('owner', this.#isOver ? OWNER.proxyForGood : OWNER.proxy);
    state.store('wanted', 0);
    if (!wasLent) return;
    state.unlock();
    state.store('due', 0);
    const lent = this.#lent;
    this.#lent = [];
    for (const { index, socket } of lent) {
      this.#setFd(index, -1);
      socket.takeBack(this.#unsent(index));
    }
    const fault = state.takeFault();
    for (const { link, header } of state.takeNotes()) {
      const line = lent.find(({ index }) => index === link);
      try {
        line?.receiveNote(decodeLinkFrame(header));
      } catch (error) {
        line?.socket.refuse(error);
      }
    }
    if (fault !== undefined) {
      lent
        .find(({ index }) => index === fault.link)
        ?.socket.refuse(new TuttiError('remoteError', fault.text));
    }
    this.#options.onTakenBack();
  }

  #lock(): void {
    const until = performance.now() + (this.#isOver ? LOCK.mostAtEndMs : LOCK.mostMs);
    // Held for microseconds; only a thread that was ended in the middle of a turn never lets go.
    while (!this.#state.tryLock() && performance.now() < until) Atomics.wait(this.#nap, 0, 0, LOCK.lookMs);
  }

  /** What programs have not sent of a connection's frames. */
  #unsent(index: number): Uint8Array[] {
    const { i32, word, outAt, buffer } = this.#state.link(index);
    const start = i32[word + LINK.outStart]!;
    const end = i32[word + LINK.outEnd]!;
    const payload = i32[word + LINK.outBytes]!;
    const parts: Uint8Array[] = [];
    // The place of the frames is used again.
    if (end > start) parts.push(Buffer.from(Buffer.from(buffer, outAt + start, end - start)));
    if (payload > 0) parts.push(Buffer.from(buffer, i32[word + LINK.outPayload]! >>> 0, payload));
    i32[word + LINK.outStart] = 0;
    i32[word + LINK.outEnd] = 0;
    i32[word + LINK.outBytes] = 0;
    return parts;
  }
}
