/** Checks files on several threads. */
import { Worker } from 'node:worker_threads';
import type { FileResult, Job } from './check.js';

const WORKER = new URL('../../../scripts/golden-worker.js', import.meta.url);

/** Runs the jobs in order, `threads` at a time; `done` hears of each result as it comes. */
export async function checkAll(
  jobs: readonly Job[],
  aspects: readonly string[],
  threads: number,
  done: (result: FileResult) => void,
): Promise<FileResult[]> {
  const waiting = [...jobs];
  const results: FileResult[] = [];
  const runWorker = async () => {
    let worker: Worker | undefined;
    for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
      worker ??= new Worker(WORKER);
      const result = await answerOf(worker, { job, aspects }).catch((error: Error): FileResult => {
        worker = undefined;
        return { ...job!, error: `the thread failed: ${error.message}`, aspects: [], seconds: 0 };
      });
      results.push(result);
      done(result);
    }
    await worker?.terminate();
  };
  await Promise.all(Array.from({ length: Math.min(threads, jobs.length) }, runWorker));
  return results;
}

function answerOf(worker: Worker, message: object): Promise<FileResult> {
  return new Promise((resolve, reject) => {
    const settle = (action: () => void) => {
      worker.off('message', answered);
      worker.off('error', failed);
      worker.off('exit', exited);
      action();
    };
    const answered = (result: FileResult) => settle(() => resolve(result));
    const failed = (error: Error) => settle(() => reject(error));
    const exited = (code: number) => settle(() => reject(new Error(`it ended with status ${code}`)));
    worker.on('message', answered);
    worker.on('error', failed);
    worker.on('exit', exited);
    worker.postMessage(message);
  });
}
