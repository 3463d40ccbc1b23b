/**
 * Which symmetric kernels a task may run on, and why not on the others.
 *
 * (NCCL 2.30.7, sym_kernels.cc.)
 */

import { ELEMENT_TYPES, type ElementType } from '../../kernel/element-types.js';
import { countText } from '../../topology/report/quantities.js';
import type { DeviceReduction } from '../call.js';
import type { SymmetricFacts } from './facts.js';
import {
  type Registration,
  SYMMETRIC_KERNELS,
  type SymmetricFunction,
  type SymmetricKernel,
  type SymmetricKernelName,
} from './kernels.js';

export interface SymmetricTask {
  readonly function: SymmetricFunction;
  /** The user's type; NCCL treats an all-gather's data as bytes. */
  readonly type: ElementType;
  readonly operator: 'sum' | 'avg' | 'prod' | 'min' | 'max' | 'custom';
  /** Elements of the buffer of an all-reduce, per rank otherwise. */
  readonly count: number;
  readonly registration: Registration;
}

export type SymmetricRule =
  | 'not-chosen'
  | 'no-multicast'
  | 'multicast-type'
  | 'll-size'
  | 'size'
  | 'tma'
  | 'gin-off'
  | 'lsa-team'
  | 'll-batch'
  | 'registration';

export interface SymmetricExclusion {
  readonly kernel: SymmetricKernelName;
  readonly rule: SymmetricRule;
  readonly reason: string;
  readonly variable?: string;
}

export interface SymmetricCandidates {
  readonly kernels: readonly SymmetricKernel[];
  /** Other kernels of the function, each with the first rule that excludes it. */
  readonly excluded: readonly SymmetricExclusion[];
}

/** LL packets carry sequence numbers that bound a message; beyond the second bound counters do not fit. */
const LL_BYTES = 2 ** 31;
const MAX_BYTES = 2 ** 36;

/** Types whose reductions have symmetric kernels. */
const REDUCED_TYPES: readonly ElementType[] = ['float16', 'float32', 'bfloat16', 'float8e4m3', 'float8e5m2'];

/**
 * Why no symmetric kernel is considered for a task; undefined if some may be. Averages of an all-reduce are refused
 * although NCCL admits them: no such kernel was built.
 */
export function symmetricRefusal(
  facts: SymmetricFacts,
  { function: fn, type, operator }: Pick<SymmetricTask, 'function' | 'type' | 'operator'>,
): string | undefined {
  if (!facts.supported) return 'the communicator has no symmetric memory';
  if (facts.crossCliqueP2p) return 'peer-to-peer crosses NVLink cliques';
  if (!facts.allDirectNvlink) return 'some GPUs of the node are not joined by NVLink directly';
  if (fn === 'AllGather') return undefined;
  if (operator === 'avg' && fn === 'AllReduce')
    return 'there is no symmetric kernel for an average of all ranks';
  if (operator !== 'sum' && operator !== 'avg') return `there is no symmetric kernel for ${operator}`;
  return REDUCED_TYPES.includes(type) ? undefined : `there is no symmetric kernel for ${type}`;
}

/**
 * Whether a task is taken out of the ordinary list: some symmetric kernel could do it if its buffers were registered.
 */
export const isSymmetricCandidate = (
  facts: SymmetricFacts,
  task: Omit<SymmetricTask, 'registration'>,
): boolean =>
  symmetricRefusal(facts, task) === undefined &&
  symmetricCandidates(facts, { ...task, registration: 'both' }).kernels.length > 0;

/**
 * Kernels for tasks of one kind whose largest has `count` elements.
 *
 * @param works tasks that run together
 */
export function symmetricCandidates(
  facts: SymmetricFacts,
  task: SymmetricTask,
  works = 1,
): SymmetricCandidates {
  const kernels: SymmetricKernel[] = [];
  const excluded: SymmetricExclusion[] = [];
  for (const kernel of SYMMETRIC_KERNELS) {
    if (kernel.function !== task.function) continue;
    const why = exclusionOf(facts, task, works, kernel);
    if (why === undefined) kernels.push(kernel);
    else excluded.push({ kernel: kernel.name, ...why });
  }
  return { kernels, excluded };
}

function exclusionOf(
  facts: SymmetricFacts,
  task: SymmetricTask,
  works: number,
  kernel: SymmetricKernel,
): Omit<SymmetricExclusion, 'kernel'> | undefined {
  const { settings, lsaMulticast, lsaRanks, nRanks, minSm, nNodes } = facts;
  const { function: fn, registration } = task;
  const only = userKernel(settings.symKernel);
  if (only !== undefined && only !== kernel.name) {
    return { rule: 'not-chosen', reason: `NCCL_SYM_KERNEL=${only}`, variable: 'NCCL_SYM_KERNEL' };
  }
  if ((kernel.multicastStore || kernel.multicastLoad) && !lsaMulticast) {
    return { rule: 'no-multicast', reason: 'the team has no multicast memory' };
  }
  if (kernel.multicastLoad && !multicastReduces(facts.sm, task)) {
    return { rule: 'multicast-type', reason: `the NVSwitch cannot reduce ${task.operator} of ${task.type}` };
  }
  const bytes = task.count * ELEMENT_TYPES[task.type].size * (fn === 'AllReduce' ? 1 : nRanks);
  if (bytes >= MAX_BYTES) return { rule: 'size', reason: `${bytes} bytes: symmetric kernels end at 64 GiB` };
  if (kernel.ll && bytes >= LL_BYTES) return { rule: 'll-size', reason: `${bytes} bytes: LL ends at 2 GiB` };
  if (kernel.tma && (minSm < 100 || !settings.symTma)) {
    return minSm < 100
      ? { rule: 'tma', reason: 'TMA kernels need compute capability 10.0' }
      : { rule: 'tma', reason: 'NCCL_SYM_TMA_ENABLE is 0', variable: 'NCCL_SYM_TMA_ENABLE' };
  }
  const overNetwork = lsaRanks < nRanks;
  if (kernel.gin && !settings.symGin) {
    const variable = 'NCCL_SYM_GIN_KERNELS_ENABLE';
    return { rule: 'gin-off', reason: `${variable} is 0`, variable };
  }
  if ((kernel.gin === true) !== overNetwork) {
    const reason = overNetwork
      ? `only ${lsaRanks} of ${countText(nRanks, 'rank')} reach each other's memory`
      : "all ranks reach each other's memory without the network";
    return { rule: 'lsa-team', reason };
  }
  if (works > 1 && kernel.ll) return { rule: 'll-batch', reason: 'an LL kernel does one task at a time' };
  if (!kernel.ll && !isRegistered(fn, registration)) {
    return {
      rule: 'registration',
      reason: `only LL kernels do ${fn} with ${SIDES[registration]} registered`,
    };
  }
  if (kernel.gin && fn === 'AllGather' && registration !== 'both' && nNodes > 1) {
    return { rule: 'registration', reason: 'over the network both buffers must be registered' };
  }
  return undefined;
}

const SIDES: Readonly<Record<Registration, string>> = {
  none: 'no buffer',
  receive: 'the receive buffer',
  send: 'the send buffer',
  both: 'both buffers',
};

/** Buffers that other ranks read or write must be registered: all-gathers write, reduce-scatters read. */
function isRegistered(fn: SymmetricFunction, registration: Registration): boolean {
  if (registration === 'both') return true;
  if (fn === 'AllGather') return registration === 'receive';
  return fn === 'ReduceScatter' && registration === 'send';
}

/** The one kernel that NCCL_SYM_KERNEL allows, exactly as it is written; undefined: all. */
export const userKernel = (text: string | undefined): string | undefined =>
  text === undefined || text === '^' ? undefined : text;

/** Whether the NVSwitch can do a reduction that a kernel loads through it. */
function multicastReduces(sm: number, { type, operator }: SymmetricTask): boolean {
  const kind = REDUCTION_KIND[operator];
  if (type === 'int8' || type === 'uint8' || kind === undefined) return false;
  const sum = kind === 'Sum' || kind === 'SumPostDiv';
  if (type === 'float32' || type === 'float64') return sum;
  if (type === 'float8e4m3' || type === 'float8e5m2') return sm >= 100;
  return true;
}

/** Kinds that the NVSwitch can do. */
const REDUCTION_KIND: Readonly<Partial<Record<SymmetricTask['operator'], DeviceReduction>>> = {
  sum: 'Sum',
  avg: 'SumPostDiv',
  min: 'MinMax',
  max: 'MinMax',
};
