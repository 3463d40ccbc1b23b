/** Questions that several rules ask of a job. */

import { type BenchRun, hostsOfRun } from '../model/bench.js';
import { largest } from '../model/extremes.js';
import { communicatorGroups } from '../model/groups.js';
import type { Job } from '../model/job.js';
import type { Place } from '../model/place.js';
import { type Connection, type LoggedTrouble, type NcclProcess, nodesOf } from '../model/process.js';
import type { Trouble } from '../model/trouble.js';
import { remembered } from './remembered.js';

/** What rules ask of the processes of a job, they may ask of some of them. */
export interface Processes {
  readonly processes: readonly NcclProcess[];
}

export interface Told<K extends Trouble['kind']> {
  readonly process: NcclProcess;
  readonly trouble: Extract<Trouble, { readonly kind: K }>;
  readonly logged: LoggedTrouble;
  readonly at: Place;
}

/** Troubles of one kind, of all processes. */
export function troubles<K extends Trouble['kind']>(job: Job, kind: K): Told<K>[] {
  const found: Told<K>[] = [];
  for (const process of job.processes) {
    for (const logged of process.troubles) {
      if (logged.trouble.kind === kind)
        found.push({ process, trouble: logged.trouble as Told<K>['trouble'], logged, at: logged.at });
    }
  }
  return found;
}

/** Nodes of the largest communicator that any log or table shows. */
export const nodeCount = remembered((job: Job): number => {
  const told = job.processes.flatMap((process) => nodesOf(process) ?? []);
  const ran = job.benches.map((run) => hostsOfRun(run).length);
  const count = hosts(job).length;
  return Math.max(1, count > 1 && told.length === 0 ? count : 1, largest(told), largest(ran));
});

/** Hosts that write NCCL's logs. */
export const hosts = remembered((job: Job): readonly string[] => [
  ...new Set(job.processes.flatMap(({ host, isQuoted }) => (isQuoted ? [] : [host]))),
]);

/** A variable as a process has it. */
export const variable = (process: NcclProcess, name: string): string | undefined =>
  process.environment.get(name)?.value;

/** Every process that has a variable, with value and line. */
export function settings(
  job: Processes,
  name: string,
): { readonly process: NcclProcess; readonly value: string; readonly at: Place }[] {
  return job.processes.flatMap((process) => {
    const found = process.environment.get(name);
    return found === undefined ? [] : [{ process, ...found }];
  });
}

/** Edges of a process to other ranks. */
export const edges = (process: NcclProcess): Connection[] => [...process.connections.values()];

/** The first `limit` of a list: evidence is to be looked at, not to fill pages. */
export const some = <T>(list: readonly T[], limit = 16): readonly T[] => list.slice(0, limit);

/** The first entry of each group. */
export function firstOfEach<T>(list: readonly T[], key: (one: T) => unknown): T[] {
  const seen = new Map<unknown, T>();
  for (const one of list) if (!seen.has(key(one))) seen.set(key(one), one);
  return [...seen.values()];
}

/** `a, b and c`. */
export function listed(names: readonly (string | number)[], limit = 6): string {
  const shown = names.slice(0, limit).map(String);
  if (names.length > limit) return `${shown.join(', ')} and ${names.length - limit} more`;
  return shown.length < 2 ? shown.join('') : `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
}

/** Ranks of a run that share no host with others: the run spans several hosts. */
export const spansHosts = (run: BenchRun): boolean => hostsOfRun(run).length > 1;

/** Lines that tell that a process failed after a place in its log: warnings that are no news, and failing returns. */
export function failuresAfter(process: NcclProcess, start: Place | undefined): Place[] {
  const isAfter = (at: Place): boolean =>
    start === undefined || at.file !== start.file || at.line > start.line;
  return [
    ...process.troubles.filter(({ isWarning, trouble }) => isWarning && !NEWS.has(trouble.kind)),
    ...process.failedReturns,
  ].flatMap(({ at }) => (isAfter(at) ? [at] : []));
}

/** Warnings after which a process goes on. */
const NEWS: ReadonlySet<Trouble['kind']> = new Set(['portEvent', 'retry']);

/** Groups that are compared: more than that are no jobs. */
const MAX_GROUPS = 500;

/**
 * Processes whose settings and devices are to be compared: those of one job. Groups that completed communicators and
 * share none have nothing to do with each other; of others nothing is known.
 */
export const comparable = remembered((job: Processes): readonly NcclProcess[][] => {
  const groups = communicatorGroups(job.processes);
  const isDone = (group: readonly NcclProcess[]): boolean =>
    group.every(({ members }) => members.some(({ completed }) => completed !== undefined)) &&
    waitingMembers({ processes: group }).length === 0;
  const apart = groups.filter(isDone);
  const own = new Set(apart.flat());
  const rest = job.processes.filter((process) => !own.has(process));
  if (apart.length > MAX_GROUPS) return [];
  return apart.length === 0 ? [rest] : apart.map((group) => [...group, ...rest]);
});

/** A line that a process wrote after its communicators were gone: what fails then fails in nobody's way. */
export const isAfterEnd = ({ members }: NcclProcess, at: Place): boolean =>
  members.length > 0 &&
  members.every(({ destroyed, abortCompleted }) => {
    const end = destroyed ?? abortCompleted;
    return end !== undefined && end.file === at.file && end.line < at.line;
  });

/** The log of a process ends in the middle of a line of its file. */
export const breaksOff = (job: Pick<Job, 'files'>, { last }: NcclProcess): boolean =>
  job.files.some(({ name, endsInLine }) => endsInLine && name === last.file);

/**
 * Communicators that a process waits for: started, and nothing that comes after all ranks have met, such as the number
 * of nodes, a call, or the end.
 */
export function waitingMembers(job: Processes) {
  return job.processes.flatMap((process) =>
    process.members
      .filter(
        ({ started, completed, nodes, lastCall, abortStarted, destroyed }) =>
          started !== undefined &&
          !completed &&
          nodes === undefined &&
          !lastCall &&
          !abortStarted &&
          !destroyed,
      )
      .map((member) => ({ process, member })),
  );
}
