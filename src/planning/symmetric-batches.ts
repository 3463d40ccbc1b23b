/**
 * Which collectives of a group run on symmetric memory, in which launches, and which go back to the ordinary choice.
 *
 * Tasks of one function, operator, type and registration share a launch, as many as its arguments hold. (NCCL 2.30.7,
 * symmetric_sched.cc.)
 */
import type { ElementType } from '../kernel/element-types.js';
import { isSymmetricCandidate, type SymmetricTask } from '../tuning/symmetric/candidates.js';
import {
  chooseSymmetricKernel,
  SYMMETRIC_WARPS,
  type SymmetricCandidate,
  symmetricBatchLimit,
  symmetricFallback,
} from '../tuning/symmetric/choose.js';
import type { SymmetricFacts } from '../tuning/symmetric/facts.js';
import type { Registration, SymmetricFunction } from '../tuning/symmetric/kernels.js';
import { distributeSymmetric, type SymmetricDistribution } from './symmetric-work.js';

/** What the choice needs of a collective. */
export interface SymmetricCall {
  readonly function: string;
  readonly deviceOp: string;
  readonly type: string;
  readonly elementBytes: number;
  /** Elements per rank. */
  readonly count: number;
  /** The user's operator, where it differs from what the device does: averages, minima. */
  readonly operator?: SymmetricTask['operator'];
  /** Buffers in symmetric windows. */
  readonly windows?: Registration;
  /** A window's memory is on the host. */
  readonly hostMemory?: boolean;
}

export interface SymmetricContext {
  readonly facts: SymmetricFacts;
  /** Bytes of kernel arguments at most. */
  readonly argumentCapacity: number;
}

/** A launch of a symmetric kernel. */
export interface SymmetricPlan<T> {
  readonly tasks: readonly T[];
  readonly kernel: SymmetricCandidate['kernel'];
  /** Microseconds that the model predicts. */
  readonly time: number;
  readonly threads: number;
  readonly distribution: SymmetricDistribution;
}

export interface SymmetricSplit<T> {
  readonly plans: readonly SymmetricPlan<T>[];
  /** What the ordinary choice gets: those that never were candidates, then those that came back. */
  readonly ordinary: readonly T[];
}

const OPERATORS: Readonly<Record<string, SymmetricTask['operator']>> = {
  Sum: 'sum',
  Prod: 'prod',
  MinMax: 'max',
  PreMulSum: 'custom',
  SumPostDiv: 'avg',
};

const FUNCTIONS: readonly string[] = [
  'AllReduce',
  'AllGather',
  'ReduceScatter',
] satisfies SymmetricFunction[];

/** Bytes of an all-gather's element as the choice sees it: it moves bytes. */
function symmetricTask(call: SymmetricCall): SymmetricTask {
  const moves = call.function === 'AllGather';
  return {
    function: call.function as SymmetricFunction,
    type: (moves ? 'int8' : call.type) as ElementType,
    operator: call.operator ?? OPERATORS[call.deviceOp] ?? 'custom',
    count: moves ? call.count * call.elementBytes : call.count,
    registration: call.windows ?? 'none',
  };
}

/**
 * Takes the tasks that symmetric kernels run out of a list that descends in size.
 *
 * @param ordinaryProtocol what the ordinary choice would take for a task alone; undefined if it finds nothing
 */
export function splitSymmetric<T extends SymmetricCall>(
  drained: readonly T[],
  { facts, argumentCapacity }: SymmetricContext,
  ordinaryProtocol: (task: T) => string | undefined,
): SymmetricSplit<T> {
  const ordinary: T[] = [];
  const bins = new Map<string, { readonly call: T; readonly task: SymmetricTask }[]>();
  for (const call of drained) {
    const task = FUNCTIONS.includes(call.function) ? symmetricTask(call) : undefined;
    if (task === undefined || !isSymmetricCandidate(facts, task)) {
      ordinary.push(call);
      continue;
    }
    const key = [task.function, task.operator, task.type, task.registration].join();
    const bin = bins.get(key);
    // A bin takes new tasks at its front: it ends up ascending in size.
    if (bin === undefined) bins.set(key, [{ call, task }]);
    else bin.unshift({ call, task });
  }
  const plans: SymmetricPlan<T>[] = [];
  const limit = symmetricBatchLimit(argumentCapacity);
  for (const bin of bins.values()) {
    for (let at = 0; at < bin.length; at += limit) {
      const batch = bin.slice(at, at + limit);
      const [head] = batch as [(typeof batch)[number]];
      const counts = batch.map(({ task }) => task.count);
      const choice = chooseSymmetricKernel(facts, { ...head.task, counts });
      const { ordinary: goesBack } = symmetricFallback(facts, {
        choice,
        registration: head.task.registration,
        hostMemory: batch.some(({ call }) => call.hostMemory === true),
        ordinaryProtocol: () => ordinaryProtocol(head.call),
      });
      if (goesBack || choice.best === undefined) {
        ordinary.push(...batch.map(({ call }) => call));
        continue;
      }
      const { kernel, time, blocks } = choice.best;
      const elementBytes = head.task.function === 'AllGather' ? 1 : head.call.elementBytes;
      plans.push({
        tasks: batch.map(({ call }) => call),
        kernel,
        time,
        threads: SYMMETRIC_WARPS * 32,
        distribution: distributeSymmetric(counts, elementBytes, blocks),
      });
    }
  }
  return { plans, ordinary };
}
