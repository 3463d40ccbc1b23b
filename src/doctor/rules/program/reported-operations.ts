/**
 * What ranks say about their operations without a flight recorder: watchdogs name the operation that did not finish and
 * how far the rank had come, and logs of NCCL name each call. Put into the form of dumps, the same rules apply.
 */

import type { DumpedOperation, RankDump } from '../../model/dump.js';
import type { FrameworkEvent } from '../../model/framework.js';
import { grouped } from '../../model/grouped.js';
import type { Job } from '../../model/job.js';
import { remembered } from '../remembered.js';
import { isMessage } from './watchdogs.js';

type Watchdog = Extract<FrameworkEvent, { kind: 'watchdog' }>;

type Progress = Extract<FrameworkEvent, { kind: 'progress' }>;

/**
 * Collectives in dumps of flight recorders, and what takes their place where there are none; each list is one
 * communicator. Sends and receives are not among them: only two ranks call them.
 */
export const reportedGroups = remembered((job: Job): RankDump[][] =>
  (job.dumps.length > 0
    ? dumpedGroups(job)
    : byCommunicator([...fromWatchdogs(job), ...fromCalls(job)].flatMap(collectivesOf))
  ).filter((list) => list.length > 1),
);

const dumpedGroups = remembered((job: Job): RankDump[][] => byCommunicator(job.dumps.flatMap(collectivesOf)));

/** Collectives of single dumps: what they wait in, though nothing can be compared. */
export const lonelyDumps = (job: Job): RankDump[] =>
  dumpedGroups(job).flatMap((list) => (list.length === 1 ? list : []));

/** Groups of the same name with other ranks, as libraries make them, are others. */
export const byCommunicator = (all: readonly RankDump[]): RankDump[][] => [
  ...grouped(all, ({ communicator, members }) =>
    members === undefined ? communicator : `${communicator}\0${members.join()}`,
  ).values(),
];

function collectivesOf(dump: RankDump): RankDump[] {
  const operations = dump.operations.filter(({ message }) => message === undefined);
  if (operations.length === dump.operations.length) return [dump];
  return operations.length === 0 ? [] : [{ ...dump, operations }];
}

/** More ranks than can be told: such a list is never known to be whole. */
const UNKNOWN_SIZE = Number.MAX_SAFE_INTEGER;

/** What watchdogs say of one rank in one group. */
interface Reported {
  readonly rank: number;
  progress: Progress | undefined;
  waiting: Watchdog | undefined;
}

function fromWatchdogs(job: Job): RankDump[] {
  const reports = job.events.filter(
    (event) =>
      event.rank !== undefined &&
      (event.kind === 'progress' ||
        (event.kind === 'watchdog' && event.sequence !== undefined && !isMessage(event.operation))),
  );
  const own = new Map<string, Reported>();
  /** The groups that lines of a rank name. */
  const groups = new Map<number, Set<string>>();
  for (const event of reports) {
    if ((event.kind === 'progress' || event.kind === 'watchdog') && event.group !== undefined)
      groups.set(event.rank!, (groups.get(event.rank!) ?? new Set()).add(event.group));
  }
  // Where lines name no group, or a rank has several, a time-out without a name is of any.
  const all = new Set([...groups.values()].flatMap((names) => [...names]));
  const onlyOne = all.size === 1 ? [...all][0] : undefined;
  let isUnknown = false;
  for (const event of reports) {
    if (event.kind !== 'progress' && event.kind !== 'watchdog') continue;
    const rank = event.rank!;
    const known = groups.get(rank);
    const group =
      event.group ?? (known?.size === 1 ? [...known][0] : known === undefined ? onlyOne : undefined);
    if (group === undefined && all.size > 0) continue;
    isUnknown ||= group === undefined;
    const key = `${rank}\0${group ?? ''}`;
    const report = own.get(key) ?? { rank, progress: undefined, waiting: undefined };
    own.set(key, report);
    if (event.kind === 'progress') report.progress = event;
    // The first time-out of a rank; others may be of other groups.
    else report.waiting ??= event;
  }
  // Ranks with other numbers inside than outside are in groups of a part of the ranks, which nothing tells apart.
  const isPart = reports.some(
    (event) => event.kind === 'watchdog' && event.groupRank !== undefined && event.groupRank !== event.rank,
  );
  if (isUnknown && isPart) return [];
  const found = [...own].map(([key, { rank, progress: far, waiting: one }]): RankDump => {
    const operations: DumpedOperation[] = [];
    if (far !== undefined && (one === undefined || far.enqueued < one.sequence!)) {
      operations.push(
        operation(far.enqueued, 'work', far.completed >= far.enqueued ? 'completed' : 'started', far),
      );
    }
    if (one !== undefined) {
      operations.push({
        ...operation(one.sequence!, one.operation ?? 'work', 'started', one),
        size: one.elements === undefined ? undefined : String(one.elements),
        elements: one.elements,
      });
    }
    return {
      rank,
      host: one?.host ?? far?.host,
      communicator: key.slice(key.indexOf('\0') + 1),
      size: UNKNOWN_SIZE,
      isGroupUnknown: isUnknown,
      operations,
      reason: undefined,
    };
  });
  return found.sort((a, b) => a.rank - b.rank);
}

const operation = (
  sequence: number,
  name: string,
  state: DumpedOperation['state'],
  { at }: FrameworkEvent,
): DumpedOperation => ({ sequence, name, state, at, size: undefined, elements: undefined, type: undefined });

/** The last calls of NCCL's logs: only where something shows that the job hangs, since logs end at any time. */
function fromCalls(job: Job): RankDump[] {
  // Who ends a job by hand, or needs its place, says nothing of it.
  const isHanging = job.events.some(
    (event) =>
      event.kind === 'watchdog' || (event.kind === 'cancelled' && event.text.includes('CANCELLED AT')),
  );
  if (!isHanging) return [];
  const members = job.processes.flatMap(({ host, members: all }) =>
    all.flatMap((member) => {
      const { commId, rank, lastCall } = member;
      const isGone = member.destroyed !== undefined || member.abortStarted !== undefined;
      return commId === undefined || rank === undefined || lastCall === undefined || isGone
        ? []
        : [{ host, commId, rank, size: member.size, lastCall }];
    }),
  );
  const tops = new Map<string, number>();
  for (const { commId, lastCall } of members)
    tops.set(commId, Math.max(tops.get(commId) ?? 0, lastCall.opCount));
  return members.map(({ host, commId, rank, size, lastCall }): RankDump => {
    const top = tops.get(commId)!;
    return {
      rank,
      host,
      communicator: commId,
      size: size ?? UNKNOWN_SIZE,
      reason: undefined,
      operations: [
        {
          sequence: lastCall.opCount,
          name: lastCall.name,
          size: String(lastCall.count),
          elements: lastCall.count,
          type: String(lastCall.type),
          state: lastCall.opCount < top ? 'completed' : 'started',
          at: lastCall.at,
        },
      ],
    };
  });
}
