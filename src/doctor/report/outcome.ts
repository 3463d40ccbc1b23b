/**
 * What comes out of it all. Notes (`info`) are no faults: a job of which nothing else is told is healthy, and a check
 * that runs by itself goes on.
 */
import type { Verdict } from '../diagnose.js';
import type { Job } from '../model/job.js';
import { saysSomething } from './summary.js';

export type Outcome = 'findings' | 'healthy' | 'nothing to judge' | 'unreadable';

export const isFault = ({ severity }: Verdict): boolean => severity !== 'info';

export function outcomeOf(job: Job, verdicts: readonly Verdict[]): Outcome {
  if (verdicts.some(isFault)) return 'findings';
  if (job.files.some(({ problems }) => problems.length > 0)) return 'unreadable';
  // Of a log that breaks off nobody knows how the job went.
  const isWhole = verdicts.every(({ id }) => id !== 'log-breaks-off');
  return saysSomething(job) && isWhole ? 'healthy' : 'nothing to judge';
}
