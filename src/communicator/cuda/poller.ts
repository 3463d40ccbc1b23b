/**
 * Asking the GPU whether something is done, without blocking the event loop: for a moment before anything else happens,
 * which is as long as a small collective takes; then between all other events while it may be soon; then once in a
 * millisecond.
 */

/** Whoever waits for a GPU. */
export interface Polled {
  /** Asks; true while there is something to wait for. */
  poll(now: number): boolean;
}

/** How long the event loop spins after the last progress, ms: longer than almost every collective takes. */
const EAGER_MS = 3;

/** How long everything else of this thread waits for the GPU, ms: a small collective, and little beside an event. */
const MOMENT_MS = 0.05;

const waiting = new Set<Polled>();
let scheduled = false;
let momentPlanned = false;
let eagerUntil = 0;

function pollAll(now: number): void {
  for (const one of waiting) {
    if (!one.poll(now)) waiting.delete(one);
  }
}

/** Runs when the code that made the calls is through, before the event loop goes on. */
function moment(): void {
  momentPlanned = false;
  const end = performance.now() + MOMENT_MS;
  let now: number;
  do {
    now = performance.now();
    pollAll(now);
  } while (waiting.size > 0 && now < end);
  schedule(now);
}

function round(): void {
  scheduled = false;
  const now = performance.now();
  pollAll(now);
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
  waiting.add(one);
  eagerUntil = performance.now() + EAGER_MS;
  if (momentPlanned) return;
  momentPlanned = true;
  queueMicrotask(moment);
}

/** Something was done: more may be soon. */
export function stayEager(now: number): void {
  eagerUntil = now + EAGER_MS;
}
