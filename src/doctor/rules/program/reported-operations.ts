/**
 * What ranks say about their operations without a flight recorder: watchdogs name the operation that did not finish and
 * how far the rank had come, and logs of NCCL name each call. Put into the form of dumps, the same rules apply.
 */
import type { DumpedOperation, RankDump } from '../../model/dump.js';
import type { FrameworkEvent } from '../../model/framework.js';
import type { Job } from '../../model/job.js';

type Watchdog = Extract<FrameworkEvent, { kind: 'watchdog' }>;

type Progress = Extract<FrameworkEvent, { kind: 'progress' }>;

/** Dumps of flight recorders, and what takes their place where there are none; each list is one communicator. */
export function reportedGroups(job: Job): RankDump[][] {
  const found = new Map<string, RankDump[]>();
  const all = job.dumps.length > 0 ? job.dumps : [...fromWatchdogs(job), ...fromCalls(job)];
  for (const dump of all) found.set(dump.communicator, [...(found.get(dump.communicator) ?? []), dump]);
  return [...found.values()].filter((list) => list.length > 1);
}

/** More ranks than can be told: such a list is never known to be whole. */
const UNKNOWN_SIZE = Number.MAX_SAFE_INTEGER;

function fromWatchdogs(job: Job): RankDump[] {
  const progress = new Map<number, Progress>();
  const waiting = new Map<number, Watchdog>();
  for (const event of job.events) {
    if (event.rank === undefined) continue;
    if (event.kind === 'progress') progress.set(event.rank, event);
    // The first time-out of a rank; others may be of other groups.
    if (event.kind === 'watchdog' && event.sequence !== undefined && !waiting.has(event.rank))
      waiting.set(event.rank, event);
  }
  const ranks = [...new Set([...waiting.keys(), ...progress.keys()])].sort((a, b) => a - b);
  return ranks.map((rank): RankDump => {
    const [one, far] = [waiting.get(rank), progress.get(rank)];
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
      communicator: far?.group ?? [...progress.values()][0]?.group ?? '',
      size: UNKNOWN_SIZE,
      operations,
      reason: undefined,
    };
  });
}

const operation = (
  sequence: number,
  name: string,
  state: DumpedOperation['state'],
  { at }: FrameworkEvent,
): DumpedOperation => ({ sequence, name, state, at, size: undefined, elements: undefined, type: undefined });

/** The last calls of NCCL's logs: only where something shows that the job hangs, since logs end at any time. */
function fromCalls(job: Job): RankDump[] {
  const isHanging = job.events.some(({ kind }) => kind === 'watchdog' || kind === 'cancelled');
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
  return members.map(({ host, commId, rank, size, lastCall }): RankDump => {
    const top = Math.max(
      ...members.filter((one) => one.commId === commId).map((one) => one.lastCall.opCount),
    );
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
