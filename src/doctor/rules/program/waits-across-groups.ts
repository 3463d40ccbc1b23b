/**
 * Who waits for whom across communicators: a rank that is missing in one group may itself wait in another, and then the
 * fault is there. Ranks that wait in a circle use communicators in different orders.
 */
import type { DumpedOperation, RankDump } from '../../model/dump.js';
import { smallest } from '../../model/extremes.js';
import type { Job } from '../../model/job.js';
import { remembered } from '../remembered.js';
import { waitingIn } from './group-progress.js';
import { mismatchOf } from './mismatch.js';
import { lonelyDumps, reportedGroups } from './reported-operations.js';

export interface OpenOperation {
  readonly dump: RankDump;
  readonly operation: DumpedOperation;
}

/** A group in which ranks wait for others of it. */
export interface Standstill {
  readonly list: readonly RankDump[];
  readonly waiting: readonly OpenOperation[];
  /** The first operation that somebody waits in. */
  readonly missing: number;
  readonly name: string;
  /** Ranks that have not called it. */
  readonly late: readonly RankDump[];
}

/** All groups in which somebody waits, `late` empty where all have called the operation. */
export const standstills = remembered((job: Job): Standstill[] =>
  [...reportedGroups(job), ...lonelyDumps(job).map((one) => [one])].flatMap((list): Standstill[] => {
    const waiting = list.flatMap((dump) => {
      const operation = waitingIn(dump);
      return operation === undefined ? [] : [{ dump, operation }];
    });
    if (waiting.length === 0) return [];
    const missing = smallest(waiting.map(({ operation }) => operation.sequence));
    const { name } = waiting.find(({ operation }) => operation.sequence === missing)!.operation;
    const late = list.filter(({ operations }) => (operations.at(-1)?.sequence ?? 0) < missing);
    return [{ list, waiting, missing, name, late }];
  }),
);

export interface Waits {
  /** Groups with a rank that is missing and waits nowhere else, and only such ranks in `late`. */
  readonly roots: readonly Standstill[];
  /** Groups whose missing ranks all wait in other groups, which lead to a root or to a fault of another kind. */
  readonly held: readonly Standstill[];
  /** Groups whose missing ranks wait for each other in a circle. */
  readonly circle: readonly Standstill[];
}

/** Sorts groups with missing ranks by whether those ranks are themselves held up. */
export const waitsAcross = remembered((all: readonly Standstill[]): Waits => {
  const behind = all.filter(({ late }) => late.length > 0);
  /** Groups that hold a rank up: it waits there for another. */
  const holders = new Map<number, Standstill[]>();
  for (const one of all) {
    if (!isFaulty(one)) continue;
    for (const { dump } of one.waiting) {
      const list = holders.get(dump.rank);
      if (list === undefined) holders.set(dump.rank, [one]);
      else list.push(one);
    }
  }
  const isHeldUp = ({ rank }: RankDump, group: Standstill): boolean =>
    (holders.get(rank) ?? []).some((one) => one !== group);
  const roots: Standstill[] = [];
  const held: Standstill[] = [];
  for (const group of behind) {
    const free = group.late.filter((dump) => !isHeldUp(dump, group));
    if (free.length > 0) roots.push({ ...group, late: free });
    else held.push(group);
  }
  // Who is held up by a root, or by a group in which all have come, waits for that; the rest waits in circles.
  const heldByRank = new Map<number, Standstill[]>();
  for (const group of held) {
    for (const { rank } of group.late) {
      const list = heldByRank.get(rank);
      if (list === undefined) heldByRank.set(rank, [group]);
      else list.push(group);
    }
  }
  const open = new Set(held);
  const reached = all.filter((group) => !open.has(group) && isFaulty(group));
  for (const one of reached) {
    for (const { dump } of one.waiting) {
      for (const group of heldByRank.get(dump.rank) ?? []) if (open.delete(group)) reached.push(group);
    }
  }
  return { roots, held: held.filter((group) => !open.has(group)), circle: [...open] };
});

const isFaulty = (group: Standstill): boolean => group.late.length > 0 || isFault(group);

/** All ranks have come, and yet it does not end: they disagree, or something below the program stands still. */
function isFault({ list, waiting, missing }: Standstill): boolean {
  const isOne = waiting.every(({ operation }) => operation.sequence === missing);
  return (isOne && waiting.length === list.length) || mismatchOf(list) !== undefined;
}
