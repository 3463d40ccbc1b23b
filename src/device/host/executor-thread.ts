/**
 * Threads for executors. One whose executor is closed waits for the next for a while: a new thread takes 30 ms to
 * start, and the foreign-function library keeps about 45 KB for every thread that ever used it, so a process that
 * makes and closes communicators all day would grow for ever with a new thread for each.
 */
import { type MessagePort, SHARE_ENV, Worker } from 'node:worker_threads';
import type { ExecutorStart } from './executor-worker.js';

/** Limits of the worker's JavaScript heap in MiB: its loop allocates next to nothing. */
const HEAP_LIMITS = { maxYoungGenerationSizeMb: 2, maxOldGenerationSizeMb: 32, stackSizeMb: 1 };

/** Milliseconds that an idle thread is kept: longer than any pause in a loop that makes communicators. */
const PARKED_MS = 30_000;

/** Most idle threads of one thread, each of which takes a few MB. */
const MOST_PARKED = 64;

/** How a thread's work for an executor came to its end. */
export interface ThreadEnd {
  /** Exit code of a thread that has ended; undefined for one that has only left the executor. */
  readonly exitCode?: number;
  /** What the thread failed with. */
  readonly cause?: Error;
}

const parked: ExecutorThread[] = [];

/** A thread that has nothing to do. */
export function takeThread(): ExecutorThread {
  const idle = parked.pop();
  if (idle === undefined) return new ExecutorThread();
  idle.wake();
  return idle;
}

export class ExecutorThread {
  readonly #worker: Worker;
  #onEnd: ((end: ThreadEnd) => void) | undefined;
  #cause: Error | undefined;
  #terminated = false;
  #timer: NodeJS.Timeout | undefined;

  /** Not for users: see `takeThread`. */
  constructor() {
    this.#worker = new Worker(new URL('./executor-worker.js', import.meta.url), {
      resourceLimits: HEAP_LIMITS,
      env: SHARE_ENV,
      execArgv: [],
      name: 'tutti executor',
    });
    this.#worker.on('error', (cause) => {
      this.#cause = cause;
    });
    this.#worker.on('exit', (exitCode) => {
      this.#forget();
      this.#end({ exitCode, ...(this.#cause === undefined ? {} : { cause: this.#cause }) });
    });
    // The only message: the thread has left its executor.
    this.#worker.on('message', () => {
      this.#park();
      this.#end({});
    });
    this.#worker.unref();
  }

  /** Has the thread run an executor; `onEnd` is called once, when it has left that and will not come back. */
  run(start: ExecutorStart, port: MessagePort, onEnd: (end: ThreadEnd) => void): void {
    this.#onEnd = onEnd;
    this.#worker.postMessage(start, [port]);
  }

  /** Keeps the process running. */
  ref(): void {
    this.#worker.ref();
  }

  unref(): void {
    this.#worker.unref();
  }

  terminate(): void {
    this.#terminated = true;
    void this.#worker.terminate();
  }

  /** Somebody has work for it. */
  wake(): void {
    clearTimeout(this.#timer);
  }

  #end(end: ThreadEnd): void {
    const onEnd = this.#onEnd;
    this.#onEnd = undefined;
    onEnd?.(end);
  }

  #park(): void {
    if (this.#terminated) return;
    this.#worker.unref();
    if (parked.length >= MOST_PARKED) {
      this.terminate();
      return;
    }
    parked.push(this);
    this.#timer = setTimeout(() => {
      this.#forget();
      this.terminate();
    }, PARKED_MS);
    this.#timer.unref();
  }

  #forget(): void {
    const index = parked.indexOf(this);
    if (index >= 0) parked.splice(index, 1);
  }
}
