/**
 * Time limits that are fair to a busy event loop.
 *
 * When a process computes for seconds, its timers are late and fire before the sockets are read, although
 * what they wait for may have arrived long ago. So a limit that has passed lets the loop read once more
 * (`setImmediate` runs after the poll phase) before it strikes.
 */

/** Longest delay of a Node timer, ms; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export interface TimerOptions {
  /** The timer keeps the process alive (default true). */
  keepAlive?: boolean;
}

/** Calls `strike` after `ms` and one more turn of the event loop. Returns the cancel function. */
export function startTimer(ms: number, strike: () => void, options: TimerOptions = {}): () => void {
  let immediate: NodeJS.Immediate | undefined;
  const timer = setTimeout(
    () => {
      immediate = setImmediate(strike);
    },
    Math.min(Math.max(ms, 0), MAX_TIMER_MS),
  );
  if (options.keepAlive === false) timer.unref();
  return () => {
    clearTimeout(timer);
    if (immediate !== undefined) clearImmediate(immediate);
  };
}

/** A point in time that several waits of one operation share. */
export class Deadline {
  readonly totalMs: number;
  readonly #end: number;

  constructor(ms: number) {
    this.totalMs = ms;
    this.#end = performance.now() + ms;
  }

  /** Milliseconds left, not below 0. */
  get leftMs(): number {
    return Math.max(0, this.#end - performance.now());
  }
}

/** `1.5 s`, `300 ms`: durations in messages. */
export function formatDuration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${Number((ms / 1000).toFixed(1))} s`;
}
