/**
 * What a rank waits for on its GPU: marks in streams with the promises that settle when they are passed, in order.
 *
 * It is also what enforces the time limit, for launches without a promise too: those are looked at now and then.
 */
import type { CudaDevice } from '../../device/cuda/cuda-device.js';
import { Event, type Stream } from '../../device/cuda/stream.js';
import type { TuttiError } from '../../errors/tutti-error.js';
import type { CallBoards } from './call-boards.js';
import { type Polled, pollSoon, stayEager } from './poller.js';

interface Pending {
  readonly event: Event;
  readonly call: string;
  /** Operations that the rank had begun. */
  readonly operations: number;
  /** When it became the first that is waited for, or was asked for. */
  since: number;
  resolve(): void;
  reject(error: unknown): void;
}

/** How often launches without a promise are looked at, ms. */
const LOOK_MS = 50;

/** Events that are kept for later calls. */
const SPARE_EVENTS = 64;

export interface CompletionListener {
  /** Work on the GPU failed. */
  broken(cause: unknown): TuttiError;
  /** The time limit of a call has passed, when the rank had begun so many operations. */
  timeout(call: string, timeoutMs: number, operations: number): TuttiError;
  /** Why kernels were ended before they were done, if they were. */
  ended(): TuttiError | undefined;
}

export class Completions implements Polled {
  readonly #device: CudaDevice;
  readonly #timeoutMs: number;
  readonly #listener: CompletionListener;
  readonly #calls: CallBoards;
  readonly #spare: Event[] = [];
  #pending: Pending[] = [];
  #look: NodeJS.Timeout | undefined;
  /** Since when the streams of launches without a promise were not seen idle. */
  #busySince = 0;
  readonly #busy = new Set<Stream>();
  #failure: TuttiError | undefined;

  /** `timeoutMs` 0: no limit. `calls` are shown what this thread looks after. */
  constructor(device: CudaDevice, timeoutMs: number, listener: CompletionListener, calls: CallBoards) {
    this.#device = device;
    this.#timeoutMs = timeoutMs;
    this.#listener = listener;
    this.#calls = calls;
  }

  /** Resolves when everything that is in the stream now is done; `call` is for errors. */
  after(stream: number, call: string): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const event = this.#spare.pop() ?? new Event(this.#device);
    try {
      event.record(stream);
    } catch (error) {
      this.#spare.push(event);
      return Promise.reject(error);
    }
    const operations = this.#calls.begun;
    this.#calls.beat(true);
    const done = new Promise<void>((resolve, reject) => {
      this.#pending.push({ event, call, operations, since: performance.now(), resolve, reject });
    });
    pollSoon(this);
    return done;
  }

  /** A launch without a promise was put into the stream. */
  launched(stream: Stream): void {
    this.#calls.beat(true);
    if (this.#look !== undefined) {
      if (this.#busy.has(stream)) return;
      this.#busy.add(stream);
      return;
    }
    this.#busy.add(stream);
    this.#busySince = performance.now();
    this.#look = setInterval(() => this.#lookAtStreams(), LOOK_MS);
    this.#look.unref();
  }

  #isWaiting(): boolean {
    return this.#pending.length > 0 || this.#look !== undefined;
  }

  #lookAtStreams(): void {
    this.#calls.beat(true);
    try {
      for (const stream of this.#busy) if (stream.isIdle) this.#busy.delete(stream);
      if (this.#listener.ended() !== undefined) return;
    } catch (error) {
      this.#listener.broken(error);
      return;
    }
    if (this.#busy.size === 0) this.#stopLooking();
    else if (this.#timeoutMs > 0 && performance.now() - this.#busySince > this.#timeoutMs) {
      this.#listener.timeout('a launch', this.#timeoutMs, this.#calls.begun);
    }
  }

  #stopLooking(): void {
    clearInterval(this.#look);
    this.#look = undefined;
    this.#busy.clear();
    this.#calls.beat(this.#isWaiting());
  }

  poll(now: number): boolean {
    const goesOn = this.#pollPending(now);
    this.#calls.beat(this.#isWaiting());
    return goesOn;
  }

  #pollPending(now: number): boolean {
    try {
      while (this.#pending.length > 0 && this.#pending[0]!.event.isDone) {
        // What was ended is not done; this fails all that wait.
        if (this.#listener.ended() !== undefined) return false;
        const { event, resolve } = this.#pending.shift()!;
        if (this.#spare.length < SPARE_EVENTS) this.#spare.push(event);
        else event.destroy();
        const next = this.#pending[0];
        if (next !== undefined) next.since = now;
        resolve();
        stayEager(now);
      }
    } catch (error) {
      this.#listener.broken(error);
      return false;
    }
    const first = this.#pending[0];
    if (first === undefined) return false;
    if (this.#timeoutMs > 0 && now - first.since > this.#timeoutMs) {
      this.#listener.timeout(first.call, this.#timeoutMs, first.operations);
      return false;
    }
    return true;
  }

  /** Ends all that waits with an error. */
  fail(error: TuttiError): void {
    this.#failure ??= error;
    this.#stopLooking();
    for (const { event, reject } of this.#pending.splice(0)) {
      this.#spare.push(event);
      reject(error);
    }
  }

  /** Gives events back; nothing may wait any more. */
  close(): void {
    this.#stopLooking();
    for (const event of this.#spare.splice(0)) event.destroy();
  }
}
