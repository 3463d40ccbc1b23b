/**
 * Which collectives of a group are decided together.
 *
 * Tasks of one function, operator and type whose sizes are alike get one decision for their sum; each still runs as
 * its own work. (NCCL 2.30.7, enqueue.cc.)
 */
import { sortTasks } from './task-sorter.js';

/** What grouping needs of a task. */
export interface GroupableTask {
  readonly function: string;
  /** Kind of reduction on the device, and type. */
  readonly deviceOp: string;
  readonly type: string;
  /** Bytes times the traffic factor of the function. */
  readonly traffic: number;
}

/** Tasks that share a decision. */
export interface Aggregate<T> {
  readonly tasks: readonly T[];
  /** Sum over the tasks. */
  readonly traffic: number;
}

/** A following task joins while its traffic is below this many times that of the first. */
const AGGREGATE_FACTOR = 4;

/** Groups tasks, given in program order, for decisions; aggregates come in the order of their works. */
export function aggregateTasks<T extends GroupableTask>(tasks: readonly T[]): Aggregate<T>[] {
  return aggregateSorted(sortTasks(tasks, ({ traffic }) => traffic));
}

/** The same for tasks in the order in which the sorter hands them out, and others that joined them afterwards. */
export function aggregateSorted<T extends GroupableTask>(tasks: readonly T[]): Aggregate<T>[] {
  const bins = new Map<string, T[]>();
  for (const task of tasks) {
    const key = `${task.function}/${task.deviceOp}/${task.type}`;
    const bin = bins.get(key);
    if (bin === undefined) bins.set(key, [task]);
    else bin.push(task);
  }
  const aggregates: Aggregate<T>[] = [];
  for (const bin of bins.values()) {
    // Each bin takes new tasks at its front: sorted ones end up ascending in size, in program order among equals.
    bin.reverse();
    let at = 0;
    while (at < bin.length) {
      const limit = bin[at]!.traffic * AGGREGATE_FACTOR;
      let end = at + 1;
      while (end < bin.length && bin[end]!.traffic < limit) end += 1;
      const members = bin.slice(at, end);
      aggregates.push({ tasks: members, traffic: members.reduce((sum, { traffic }) => sum + traffic, 0) });
      at = end;
    }
  }
  return aggregates;
}

/** Collectives that follow each other in one channel, as the latency model counts them. */
export function pipelinedOperations(collectives: number, channels: number): number {
  return Math.max(1, Math.ceil(collectives / Math.max(1, channels)));
}

/** Order of tasks in the plan: plain, NVLS, CollNet, both; within each as they came. */
export function orderByKind<T>(
  tasks: readonly T[],
  kindOf: (task: T) => { readonly collnet: boolean; readonly nvls: boolean },
): T[] {
  const queues: T[][] = [[], [], [], []];
  for (const task of tasks) {
    const { collnet, nvls } = kindOf(task);
    queues[(collnet ? 2 : 0) + (nvls ? 1 : 0)]!.push(task);
  }
  return queues.flat();
}
