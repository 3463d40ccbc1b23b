/** Ends that frameworks, launchers and schedulers report and no other rule explains: such a job is never healthy. */

import type { FrameworkEvent } from '../../model/framework.js';
import type { Job } from '../../model/job.js';
import type { Place } from '../../model/place.js';
import { firstOfEach, listed, some } from '../queries.js';
import { example, type Finding, type Rule } from '../rule.js';

/** What an event says of an end; undefined for what is none. */
function endOf(event: FrameworkEvent): string | undefined {
  const who = `${event.rank === undefined ? 'a process' : `rank ${event.rank}`}${event.host === undefined ? '' : ` on ${event.host}`}`;
  if (event.kind === 'exception') return `${who} ended with ${event.type}: ${event.text.slice(0, 120)}`;
  if (event.kind !== 'exit') return undefined;
  if (event.signal !== undefined) return `${who} was ended by signal ${event.signal}`;
  return (event.code ?? 0) === 0 ? undefined : `${who} ended with exit code ${event.code}`;
}

/** An exception of nobody in particular, after which the output goes on, was handled: of an import that is optional, say. */
function goesOn({ kind, rank, at }: FrameworkEvent, job: Job): boolean {
  if (kind !== 'exception' || rank !== undefined) return false;
  const isLater = ({ file, line }: Place): boolean => file === at.file && line > at.line;
  return (
    job.processes.some(({ last }) => isLater(last)) ||
    job.benches.some(({ rows }) => rows.some((row) => isLater(row.at)))
  );
}

export const processFailed: Rule = {
  id: 'process-failed',
  causes: ['blocks', 'kills', 'hangs'],
  isLast: true,
  looksFor:
    'processes that ended with an error, or jobs that the scheduler ended, with nothing that tells why',
  example: [example('slurm.out', 'srun: error: n2: task 1: Exited with exit code 1')],
  references: [],
  find(job, others = []) {
    if (others.some(({ severity }) => severity === 'error')) return [];
    // A failure of NCCL has a rule of its own.
    if (job.events.some(({ kind }) => kind === 'ncclError' || kind === 'lastError')) return [];
    const ends = job.events.flatMap((event) => {
      const text = goesOn(event, job) ? undefined : endOf(event);
      return text === undefined ? [] : [{ event, text }];
    });
    const [first] = ends;
    const cancelled = job.events.find(({ kind }) => kind === 'cancelled');
    if (first === undefined) {
      return cancelled === undefined || cancelled.kind !== 'cancelled'
        ? []
        : [
            {
              severity: 'warning',
              confidence: 'possible',
              text: `the scheduler ended the job: ${cancelled.text.replace(/^slurmstepd: error: \W*|\W*$/g, '').slice(0, 160)}`,
              culprit: {},
              evidence: [cancelled.at],
              repair:
                'See whether somebody cancelled it, it met its time limit, or it hung before: give the logs of all ranks with NCCL_DEBUG=INFO.',
              workaround: null,
            },
          ];
    }
    const ranks = [...new Set(ends.flatMap(({ event }) => event.rank ?? []))];
    return [
      {
        severity: 'error',
        confidence: 'possible',
        text: `${first.text}${ranks.length > 1 ? `; so did rank ${listed(ranks.slice(1))}` : ''}; nothing in the input tells why`,
        culprit: {
          ...(first.event.rank === undefined ? {} : { rank: first.event.rank }),
          ...(first.event.host === undefined ? {} : { host: first.event.host }),
        },
        evidence: some(
          firstOfEach(ends, ({ event }) => event.rank ?? event.at.line).map(({ event }) => event.at),
        ),
        repair: 'Look into the standard error of that process for its first error.',
        workaround: null,
      } satisfies Finding,
    ];
  },
};
