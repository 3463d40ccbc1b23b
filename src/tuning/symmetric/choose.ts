/**
 * Which symmetric kernel runs a batch of tasks, and whether it runs at all or the tasks go back to the ordinary choice.
 *
 * The two models are never compared: what is registered decides, and for LL whether the ordinary model would take LL
 * too. (NCCL 2.30.7, sym_kernels.cc, symmetric_sched.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { ELEMENT_TYPES, type ElementType } from '../../kernel/element-types.js';
import { divideUp, f32 } from '../arithmetic.js';
import {
  type SymmetricExclusion,
  type SymmetricTask,
  symmetricCandidates,
  userKernel,
} from './candidates.js';
import type { SymmetricFacts } from './facts.js';
import { ginCost } from './gin-cost.js';
import type { Registration, SymmetricFunction, SymmetricKernel } from './kernels.js';
import { lsaCost, type SymmetricCost } from './lsa-cost.js';

/** Tasks of one function, operator, type and registration that run in one launch. */
export interface SymmetricBatch {
  readonly function: SymmetricFunction;
  readonly type: ElementType;
  readonly operator: SymmetricTask['operator'];
  readonly registration: Registration;
  /** Elements of each task. */
  readonly counts: readonly number[];
}

export interface SymmetricCandidate extends SymmetricCost {
  readonly kernel: SymmetricKernel;
  /** Time that candidates are compared by: blocks cost a little. */
  readonly penalised: number;
}

export interface SymmetricChoice {
  /** The kernel, its predicted time and its blocks; undefined if none can run. */
  readonly best: SymmetricCandidate | undefined;
  /** In NCCL's order. */
  readonly candidates: readonly SymmetricCandidate[];
  readonly excluded: readonly SymmetricExclusion[];
}

/** Bytes that work is cut into. */
export const SYMMETRIC_CELL = 1024;

/** Warps of a symmetric kernel's block. */
export const SYMMETRIC_WARPS = 16;

/** Time that one more block must save, as a share. */
const BLOCK_PENALTY = f32(0.025);

/** Bytes of kernel arguments: of all works, per channel, per work, at most. */
const ARGUMENT_BYTES = 304 + 64 * 4;
const WORK_ARGUMENT_BYTES = 64;

/** Tasks that fit one launch with so many bytes of kernel arguments. */
export const symmetricBatchLimit = (argumentCapacity: number): number =>
  Math.max(1, Math.floor((argumentCapacity - ARGUMENT_BYTES) / WORK_ARGUMENT_BYTES));

/** Bytes of the kernel arguments of so many tasks. */
export const symmetricArgumentBytes = (tasks: number): number => ARGUMENT_BYTES + WORK_ARGUMENT_BYTES * tasks;

/**
 * Chooses the kernel of a batch.
 *
 * @throws TuttiError invalidArgument for a batch without tasks
 */
export function chooseSymmetricKernel(facts: SymmetricFacts, batch: SymmetricBatch): SymmetricChoice {
  if (batch.counts.length === 0) {
    throw new TuttiError('invalidArgument', 'a batch without tasks needs no kernel; give one count at least');
  }
  const { size } = ELEMENT_TYPES[batch.type];
  const cell = SYMMETRIC_CELL / size;
  const rounded = batch.counts.map((count) => divideUp(count, cell) * cell);
  const bytes = rounded.reduce((sum, count) => sum + count, 0) * size;
  const task = { ...batch, count: Math.max(...rounded) };
  const { kernels, excluded } = symmetricCandidates(facts, task, batch.counts.length);
  const candidates = kernels.map((kernel): SymmetricCandidate => {
    const cost = kernel.gin ? ginCost(facts, kernel, bytes) : lsaCost(facts, kernel, bytes);
    return { kernel, ...cost, penalised: penalise(cost) };
  });
  let best: SymmetricCandidate | undefined;
  for (const one of candidates) {
    if (one.penalised < (best?.penalised ?? NO_TIME)) best = one;
  }
  return { best, candidates, excluded };
}

/** A time that every kernel is below. */
const NO_TIME = 1e30;

const penalise = ({ time, blocks }: SymmetricCost): number =>
  f32(time * f32(1 + f32(BLOCK_PENALTY * blocks)));

export interface FallbackQuestion {
  readonly choice: SymmetricChoice;
  readonly registration: Registration;
  /** A window's memory is on the host. */
  readonly hostMemory: boolean;
  /** Protocol that the ordinary model takes for the first task alone; undefined if it finds nothing. */
  readonly ordinaryProtocol: () => string | undefined;
}

export interface Fallback {
  /** The ordinary choice runs the tasks. */
  readonly ordinary: boolean;
  readonly reason: string;
}

/** Whether tasks go back to the ordinary choice although they could have a symmetric kernel. */
export function symmetricFallback(facts: SymmetricFacts, question: FallbackQuestion): Fallback {
  const { choice, hostMemory } = question;
  const kept = choice.best === undefined ? NO_KERNEL : keeps(facts, question, choice.best.kernel);
  if (!kept.ordinary && hostMemory) {
    return { ordinary: true, reason: 'a buffer is in host memory, which symmetric kernels do not reach' };
  }
  return kept;
}

const NO_KERNEL: Fallback = { ordinary: true, reason: 'no symmetric kernel can run this' };

function keeps(facts: SymmetricFacts, question: FallbackQuestion, kernel: SymmetricKernel): Fallback {
  const { settings, oneThreadManyGpus } = facts;
  const { registration } = question;
  const stay = (reason: string): Fallback => ({ ordinary: false, reason });
  const leave = (reason: string): Fallback => ({ ordinary: true, reason });
  if (registration === 'both') return stay('both buffers are registered');
  if (!kernel.ll) return stay(`${kernel.name} needs no more than is registered`);
  const unregistered = registration === 'none';
  if (unregistered && oneThreadManyGpus && !settings.singleProcessRegister) {
    return leave('one process drives several GPUs, and no buffer is registered');
  }
  if (userKernel(settings.symKernel) !== undefined) return stay('NCCL_SYM_KERNEL asks for it');
  if (unregistered && !settings.symNoWindow) {
    return leave('no buffer is registered, and NCCL_SYM_NOWIN_ENABLE is 0');
  }
  const protocol = question.ordinaryProtocol();
  if (protocol === 'LL') return stay('the message is so small that the ordinary choice is LL too');
  return leave(
    protocol === undefined
      ? 'the ordinary choice finds nothing'
      : `the ordinary choice is ${protocol}, so the message is too large for LL`,
  );
}
