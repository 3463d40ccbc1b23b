/**
 * All device programs by name, for whoever builds, shows or verifies them.
 *
 * A request names algorithm, collective, protocol, element type, operator and (for direct programs, which
 * unroll over them) the number of ranks. Equal requests give equal programs, so the key serves as a cache key.
 */

import { TuttiError } from '../errors/tutti-error.js';
import { ELEMENT_TYPES, type ElementType, REDUCE_OPS, type ReduceOp } from '../kernel/element-types.js';
import type { Program, Traits } from '../kernel/ir.js';
import { COLLECTIVES, type Collective, MAX_DIRECT_RANKS } from './control-block.js';
import { oneShot, twoShot } from './direct.js';
import { type RingProtocol, ring } from './ring.js';

export type Algorithm = 'OneShot' | 'TwoShot' | 'Ring';

export const ALGORITHMS: readonly Algorithm[] = ['OneShot', 'TwoShot', 'Ring'];

export interface ProgramRequest {
  readonly algorithm: Algorithm;
  readonly collective: Collective;
  /** Rings only; direct programs have a protocol of their own. */
  readonly protocol: RingProtocol;
  readonly type: ElementType;
  readonly op: ReduceOp;
  readonly ranks: number;
}

/** True for collectives that combine elements; the others only copy and do not depend on the operator. */
export function reducesElements(collective: Collective): boolean {
  return collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
}

/**
 * The request that builds the same code: operators do not matter to copies, nor the number of ranks to rings,
 * nor more of an element type than its size to programs that only move bytes.
 */
export function canonicalRequest(request: ProgramRequest): ProgramRequest {
  const reduces = reducesElements(request.collective);
  const bySize: Record<number, ElementType> = { 1: 'uint8', 2: 'float16', 4: 'uint32', 8: 'uint64' };
  return {
    ...request,
    op: reduces ? request.op : 'sum',
    type: reduces ? request.type : bySize[ELEMENT_TYPES[request.type].size]!,
    protocol: request.algorithm === 'Ring' ? request.protocol : 'Simple',
    ranks: request.algorithm === 'Ring' ? 0 : request.ranks,
  };
}

export function programKey(request: ProgramRequest): string {
  const { algorithm, collective, protocol, type, op, ranks } = canonicalRequest(request);
  return [algorithm, collective, protocol, type, op, ranks].join('/');
}

/** Builds the program of a request; throws `invalidArgument` for what does not exist. */
export function buildProgram(traits: Traits, request: ProgramRequest): Program {
  const { algorithm, collective, protocol, type, op, ranks } = canonicalRequest(request);
  if (!(collective in COLLECTIVES) || !(type in ELEMENT_TYPES) || !(op in REDUCE_OPS)) {
    throw new TuttiError('invalidArgument', `no program for ${collective} of ${type} with ${op}`);
  }
  const reduction = { type, op };
  if (algorithm === 'Ring') {
    if (collective === 'barrier') {
      throw new TuttiError('invalidArgument', 'the ring has no barrier program; use OneShot');
    }
    return ring(traits, { collective, protocol, reduction });
  }
  if (!Number.isInteger(ranks) || ranks < 1 || ranks > MAX_DIRECT_RANKS) {
    throw new TuttiError(
      'invalidArgument',
      `direct programs need 1 to ${MAX_DIRECT_RANKS} ranks, not ${ranks}; use the ring for more`,
    );
  }
  const build = algorithm === 'OneShot' ? oneShot : twoShot;
  return build(traits, { collective, reduction, ranks });
}
