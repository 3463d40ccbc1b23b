/**
 * Asking the GPU whether something is done, without blocking the event loop: eagerly while that may be soon, then
 * once in a millisecond.
 */

/** Whoever waits for a GPU. */
export interface Polled {
  /** Asks; true while there is something to wait for. */
  poll(now: number): boolean;
}

/** How long the event loop spins after the last progress, ms: longer than almost every collective takes. */
const EAGER_MS = 3;

const waiting = new Set<Polled>();
let scheduled = false;
let eagerUntil = 0;

function round(): void {
  scheduled = false;
  const now = performance.now();
  for (const one of waiting) {
    if (!one.poll(now)) waiting.delete(one);
  }
  schedule(now);
}

function schedule(now: number): void {
  if (scheduled || waiting.size === 0) return;
  scheduled = true;
  if (now < eagerUntil) setImmediate(round);
  else setTimeout(round, 1);
}

/** Polls from now on until there is nothing to wait for; called again it is eager again. */
export function pollSoon(one: Polled): void {
  const now = performance.now();
  waiting.add(one);
  eagerUntil = now + EAGER_MS;
  schedule(now);
}
