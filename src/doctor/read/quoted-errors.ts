/**
 * The last warning of NCCL that exceptions of frameworks quote: often all that is left of a job without NCCL_DEBUG. It
 * is taken as a line of the log of the rank that quotes it, unless that log is there and has it.
 */
import type { Job } from '../model/job.js';
import { newProcess } from '../model/process.js';
import { troubleOf } from './nccl/troubles.js';

/** Adds what is quoted as processes of their own. */
export function addQuotedErrors(job: Job): void {
  const logged = job.processes.flatMap(({ troubles }) => troubles.map(({ text }) => text));
  const version = job.events.flatMap((event) =>
    event.kind === 'ncclError' && event.version !== undefined ? [{ value: event.version, at: event.at }] : [],
  )[0];
  for (const event of job.events) {
    if (event.kind !== 'lastError' || logged.some((text) => text.includes(event.text))) continue;
    const { rank, host, at, text } = event;
    const where = host ?? (rank === undefined ? 'the host' : `the host of rank ${rank}`);
    const process = newProcess(where, -1, at, true);
    process.version = version;
    process.troubles.push({ trouble: troubleOf(text), text, isWarning: true, at, time: undefined, rank });
    job.processes.push(process);
  }
}
