/** Time-outs that watchdogs of frameworks report. */
import type { FrameworkEvent } from '../../model/framework.js';
import type { Job } from '../../model/job.js';

type Watchdog = Extract<FrameworkEvent, { kind: 'watchdog' }>;

export const watchdogs = (job: Pick<Job, 'events'>): Watchdog[] =>
  job.events.flatMap((event) => (event.kind === 'watchdog' ? [event] : []));

/** Operations between two ranks, as watchdogs name them: their numbers are their own. */
export const isMessage = (operation: string | undefined): boolean =>
  /^(?:SEND|RECV|RECVANYSOURCE|COALESCED|BATCH\w*)$/i.test(operation ?? '');
