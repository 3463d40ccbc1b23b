/** What the orderly end of a job writes into logs: sockets that close, and helper threads that see it. */
import type { Job } from '../model/job.js';
import type { NcclProcess } from '../model/process.js';
import type { Trouble } from '../model/trouble.js';
import { isHandled } from './program/handled-exceptions.js';

/** All communicators of a process were set up, and ended. */
export const isEnded = ({ members }: NcclProcess): boolean =>
  members.length > 0 &&
  members.every(
    ({ completed, abortCompleted, destroyed }) =>
      completed !== undefined && (abortCompleted ?? destroyed) !== undefined,
  );

/** Nothing beside NCCL's logs tells of a failure. */
export const isCalm = (job: Job): boolean =>
  job.events.every(
    (event) =>
      event.kind === 'progress' ||
      (event.kind === 'exit' && (event.code ?? 0) === 0 && event.signal === undefined) ||
      isHandled(job, event),
  );

/** Warnings that closing connections makes. */
const OF_CLOSING: ReadonlySet<Trouble['kind']> = new Set(['closing', 'peerClosed', 'proxy']);

/**
 * The process ended in order, and warns of nothing but connections that were closed. An abort may follow from a peer
 * that is gone, so there the peers must have ended in order, too.
 */
export function isTeardown(job: Job, process: NcclProcess): boolean {
  const warnings = process.troubles.filter(({ isWarning, trouble }) => isWarning && !isNews(trouble));
  if (!isEnded(process) || !warnings.every(({ trouble }) => OF_CLOSING.has(trouble.kind))) return false;
  if (process.members.every(({ destroyed }) => destroyed !== undefined)) return isCalm(job);
  const isClosed = warnings.some(({ trouble }) => trouble.kind === 'peerClosed');
  return isCalm(job) && (!isClosed || job.processes.every(isEnded));
}

/** Events of adapters after which all goes on: a subnet manager came back, tables of addresses changed. */
const HARMLESS =
  /^(?:gid table change|client reregist\w+|port active|lid change|p_?key change|sm change|subnet manager change)/;

/** A warning that is news, and no failure. */
export const isNews = (trouble: Trouble): boolean =>
  trouble.kind === 'portEvent' && HARMLESS.test(trouble.event);
