/**
 * What registering buffers as symmetric windows would make of a call: a kernel that works on all ranks' memory at once,
 * copy engines, or the ordinary choice after all.
 *
 * NCCL never compares the two models: what is registered decides. Copy engines are asked first, then symmetric kernels.
 */
import { ELEMENT_TYPES } from '../../kernel/element-types.js';
import { type CopyEngineChoice, type CopyEngineFacts, copyEngineChoice } from '../copy-engine.js';
import { symmetricRefusal } from '../symmetric/candidates.js';
import {
  chooseSymmetricKernel,
  type SymmetricBatch,
  type SymmetricChoice,
  symmetricFallback,
} from '../symmetric/choose.js';
import type { SymmetricFacts } from '../symmetric/facts.js';
import type { Registration, SymmetricFunction } from '../symmetric/kernels.js';
import type { CallStudy } from './candidate.js';
import type { MessageKind } from './message.js';
import { algorithmBandwidth, busFactor } from './quantities.js';

/** What runs a call. */
export type SymmetricRunner =
  | { readonly kind: 'kernel'; readonly kernel: string; readonly blocks: number; readonly time: number }
  | { readonly kind: 'copy engines'; readonly method: CopyEngineChoice['method'] }
  | { readonly kind: 'ordinary' };

export interface SymmetricStudy {
  readonly registration: Registration;
  readonly runner: SymmetricRunner;
  /** Why it is that one. */
  readonly reason: string;
  /** GB/s of a kernel. */
  readonly algbw: number | undefined;
  readonly busbw: number | undefined;
  /** What was compared; undefined if symmetric kernels were not looked at. */
  readonly choice: SymmetricChoice | undefined;
}

/** What symmetric memory can do on a communicator. */
export interface SymmetricMemory {
  readonly facts: SymmetricFacts;
  readonly copyEngines: CopyEngineFacts;
}

const FUNCTIONS: readonly string[] = [
  'AllReduce',
  'AllGather',
  'ReduceScatter',
] satisfies SymmetricFunction[];

/** Studies one call of `count` elements per rank, alone in its group. */
export function symmetricStudy(
  { facts, copyEngines }: SymmetricMemory,
  kind: MessageKind,
  count: number,
  registration: Registration,
  { call, decision }: CallStudy,
): SymmetricStudy {
  const ordinary = (reason: string, choice?: SymmetricChoice): SymmetricStudy => ({
    registration,
    runner: { kind: 'ordinary' },
    reason,
    algbw: undefined,
    busbw: undefined,
    choice,
  });
  const asked = { function: kind.function, count, registration, hostMemory: false };
  const copies = copyEngineChoice(copyEngines, asked);
  if (copies !== undefined) {
    const runner = { kind: 'copy engines', method: copies.method } as const;
    return { ...ordinary(copies.reason), runner };
  }
  if (!FUNCTIONS.includes(kind.function))
    return ordinary(`there are no symmetric kernels for ${kind.function}`);
  const batch = batchOf(kind, count, registration);
  const refusal = symmetricRefusal(facts, batch);
  if (refusal !== undefined) return ordinary(refusal);
  const choice = inMicroseconds(chooseSymmetricKernel(facts, batch));
  const ordinaryProtocol = () => decision?.protocol;
  const fallback = symmetricFallback(facts, { choice, registration, hostMemory: false, ordinaryProtocol });
  if (fallback.ordinary || choice.best === undefined) return ordinary(fallback.reason, choice);
  const { kernel, time, blocks } = choice.best;
  const algbw = algorithmBandwidth(call.bytes, time);
  return {
    registration,
    runner: { kind: 'kernel', kernel: kernel.name, blocks, time },
    reason: fallback.reason,
    algbw,
    busbw: algbw * busFactor(kind.function, facts.nRanks),
    choice,
  };
}

/** All times in microseconds: that of the all-gather over the network is in seconds, as NCCL compares it with no other. */
function inMicroseconds({ candidates, best, excluded }: SymmetricChoice): SymmetricChoice {
  const converted = candidates.map((one) => {
    const isSeconds = one.kernel.gin === true && one.kernel.function === 'AllGather';
    return isSeconds ? { ...one, time: one.time * 1e6, penalised: one.penalised * 1e6 } : one;
  });
  return { candidates: converted, best: converted.find(({ kernel }) => kernel === best?.kernel), excluded };
}

/** The call as symmetric kernels see it: what is gathered are bytes. */
function batchOf(
  { function: fn, type, op }: MessageKind,
  count: number,
  registration: Registration,
): SymmetricBatch {
  const gathers = fn === 'AllGather';
  return {
    function: fn as SymmetricFunction,
    type: gathers ? 'int8' : type,
    operator: gathers ? 'sum' : op,
    registration,
    counts: [gathers ? count * ELEMENT_TYPES[type].size : count],
  };
}
