/**
 * Ends foreign code that does not end by itself: a call on this thread, and the loading of a module.
 *
 * A call runs below a script with a time limit, which Node ends wherever it is (120 us more per call). Loading cannot be
 * ended that way; so a module is first loaded in a thread of its own, which can.
 */
import { Script } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { startTimer } from '../../bootstrap/deadline.js';

/** Where the script finds what it has to call. */
const CALL = Symbol.for('tutti.call-with-time-limit');
const place = globalThis as typeof globalThis & { [CALL]?: (() => unknown) | undefined };

/** Loads a module and says how that went; also where the thread ends because nothing is left to do. */
const LOADER = `
const { parentPort, workerData } = require('node:worker_threads');
process.once('beforeExit', () => parentPort.postMessage({ problem: 'it waits for what never happens' }));
import(workerData).then(
  () => parentPort.postMessage({}),
  (error) => parentPort.postMessage({ problem: String(error?.message ?? error) }),
);`;

let script: Script | undefined;

const secondsText = (limit: number) => `it did not finish within ${limit / 1000} s`;

/**
 * A call's value.
 *
 * @param limit milliseconds
 * @throws what the call throws, or an Error if it takes too long
 */
export function callWithin<T>(call: () => T, limit: number): T {
  script ??= new Script(`globalThis[Symbol.for(${JSON.stringify(CALL.description)})]()`);
  const before = place[CALL];
  place[CALL] = call;
  try {
    return script.runInThisContext({ timeout: limit }) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException | null)?.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    throw new Error(secondsText(limit), { cause: error });
  } finally {
    place[CALL] = before;
  }
}

/**
 * The exports of a module.
 *
 * @param limit milliseconds
 * @throws what loading throws, or an Error if it takes too long or ends the thread
 */
export async function importWithin(url: URL, limit: number): Promise<Record<string, unknown>> {
  await tryToLoad(url, limit);
  const { start, done, late } = timer(limit);
  start();
  try {
    return await Promise.race([import(url.href) as Promise<Record<string, unknown>>, late]);
  } finally {
    done();
  }
}

/** Loads a module in a thread, which is ended at last. What it prints is not shown: it will be loaded again. */
async function tryToLoad(url: URL, limit: number): Promise<void> {
  const worker = new Worker(LOADER, { eval: true, workerData: url.href, stdout: true, stderr: true });
  const { start, done, late } = timer(limit);
  // The module is not to blame for how long a busy machine takes to start a thread.
  worker.once('online', start);
  const loaded = new Promise<void>((resolve, reject) => {
    worker.once('message', ({ problem }: { readonly problem?: string }) =>
      problem === undefined ? resolve() : reject(new Error(problem)),
    );
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error('it ends the process')));
  });
  try {
    await Promise.race([loaded, late]);
  } finally {
    done();
    loaded.catch(() => {});
    await worker.terminate();
  }
}

/** A promise that fails `limit` ms after `start` is called, unless `done` is called before. */
function timer(limit: number): { readonly late: Promise<never>; start(): void; done(): void } {
  let cancel = () => {};
  let fail: (error: Error) => void = () => {};
  const late = new Promise<never>((_, reject) => {
    fail = reject;
  });
  late.catch(() => {});
  return {
    late,
    start: () => {
      cancel = startTimer(limit, () => fail(new Error(secondsText(limit))));
    },
    done: () => cancel(),
  };
}
