/** Exceptions that a program handled: its output goes on behind them, and nothing reports that a process ended. */
import type { FrameworkEvent } from '../../model/framework.js';
import type { Job } from '../../model/job.js';
import type { Place } from '../../model/place.js';

/** Lines of progress behind an exception from which on it was handled: others print one or two before they wait. */
const PROGRESS = 3;

/** Whether the program went on after an exception, as after one of an optional import or of a logging service. */
export function isHandled(job: Job, event: FrameworkEvent): boolean {
  if (event.kind !== 'exception') return false;
  const isLater = ({ file, line }: Place): boolean => file === event.at.file && line > event.at.line;
  const isMissed = job.events.some(
    (one) =>
      one.kind === 'watchdog' ||
      one.kind === 'ncclError' ||
      one.kind === 'nodeFailure' ||
      (one.kind === 'exit' && ((one.code ?? 0) !== 0 || one.signal !== undefined)),
  );
  const { isSuccess, progress } = event.after;
  if (!isMissed && (isSuccess || progress >= PROGRESS)) return true;
  return (
    event.rank === undefined &&
    (job.processes.some(({ last }) => isLater(last)) ||
      job.benches.some(({ rows }) => rows.some((row) => isLater(row.at))))
  );
}
