/**
 * All device programs by name, for whoever builds, shows or verifies them.
 *
 * A request names algorithm, collective, protocol, element type, operator and what else the code depends on: the
 * number of ranks for direct programs, which unroll over them, and the roles of a rank's blocks for programs with
 * connections of their own. Equal requests give equal programs, so the key serves as a cache key.
 */

import { TuttiError } from '../errors/tutti-error.js';
import { ELEMENT_TYPES, type ElementType, REDUCE_OPS, type ReduceOp } from '../kernel/element-types.js';
import type { Program, Traits } from '../kernel/ir.js';
import { COLLECTIVES, type Collective, MAX_DIRECT_RANKS } from './control-block.js';
import { oneShot, twoShot } from './direct.js';
import { hierarchical } from './hierarchical.js';
import { pat } from './pat.js';
import { recursive } from './recursive.js';
import { type RingProtocol, ring } from './ring.js';
import { switched } from './switched.js';
import { tree } from './tree.js';

/** How a program reaches the other ranks. */
type Kind =
  /** Through their posts and buffers. */
  | 'direct'
  /** Through the connections to the ring's neighbours. */
  | 'ring'
  /** Through connections of its own (connected-work.ts). */
  | 'connected';

interface Facts {
  readonly kind: Kind;
  readonly collectives: readonly Collective[];
  readonly protocols: readonly RingProtocol[];
  /** Roles to show where nobody says which. */
  readonly exampleRoles?: readonly string[];
}

const DATA: readonly Collective[] = [
  'broadcast',
  'reduce',
  'allGather',
  'reduceScatter',
  'allReduce',
  'allToAll',
];

const FACTS = {
  OneShot: { kind: 'direct', collectives: ['barrier', ...DATA], protocols: ['Simple'] },
  TwoShot: { kind: 'direct', collectives: ['barrier', ...DATA], protocols: ['Simple'] },
  Ring: { kind: 'ring', collectives: DATA, protocols: ['LL', 'Simple'] },
  Tree: {
    kind: 'connected',
    collectives: ['allReduce'],
    protocols: ['LL', 'Simple'],
    exampleRoles: ['both+2'],
  },
  Hierarchical: {
    kind: 'connected',
    collectives: ['allReduce'],
    protocols: ['LL', 'Simple'],
    exampleRoles: ['both'],
  },
  Recursive: {
    kind: 'connected',
    collectives: ['allReduce'],
    protocols: ['LL', 'Simple'],
    exampleRoles: ['exchange/00'],
  },
  PAT: { kind: 'connected', collectives: ['allGather', 'reduceScatter'], protocols: ['Simple'] },
  NVLS: {
    kind: 'connected',
    collectives: ['allReduce', 'allGather', 'reduceScatter'],
    protocols: ['Simple'],
    exampleRoles: ['head-2-2-0-none-0'],
  },
  NVLSTree: {
    kind: 'connected',
    collectives: ['allReduce'],
    protocols: ['Simple'],
    exampleRoles: ['head-2-2-1-parent-0'],
  },
  CollNetDirect: {
    kind: 'connected',
    collectives: ['allReduce', 'allGather', 'reduceScatter'],
    protocols: ['Simple'],
    exampleRoles: ['head-1-1-0-net-2'],
  },
  CollNetChain: {
    kind: 'connected',
    collectives: ['allReduce'],
    protocols: ['Simple'],
    exampleRoles: ['head-0-0-1-net-2'],
  },
} as const satisfies Readonly<Record<string, Facts>>;

export type Algorithm = keyof typeof FACTS;

export const ALGORITHMS = Object.keys(FACTS) as readonly Algorithm[];

const factsOf = (algorithm: Algorithm): Facts => FACTS[algorithm];

/** True for programs in which all ranks meet, and compare what they call. */
export function isDirect(algorithm: Algorithm): boolean {
  return factsOf(algorithm).kind === 'direct';
}

/** True for programs with connections of their own. */
export function isConnected(algorithm: Algorithm): algorithm is ConnectedName {
  return factsOf(algorithm).kind === 'connected';
}

/** Algorithms with connections of their own. */
export type ConnectedName = {
  [A in Algorithm]: (typeof FACTS)[A]['kind'] extends 'connected' ? A : never;
}[Algorithm];

export const CONNECTED_NAMES: readonly ConnectedName[] = ALGORITHMS.filter(isConnected);

/** Whether there is a program of the algorithm for the collective. */
export function supports(algorithm: Algorithm, collective: Collective): boolean {
  return factsOf(algorithm).collectives.includes(collective);
}

/** The protocols between which one can choose; direct programs have one of their own, called Simple here. */
export function protocolsOf(algorithm: Algorithm): readonly RingProtocol[] {
  return factsOf(algorithm).protocols;
}

export interface ProgramRequest {
  readonly algorithm: Algorithm;
  readonly collective: Collective;
  /** Ignored by direct programs, which have a protocol of their own. */
  readonly protocol: RingProtocol;
  readonly type: ElementType;
  readonly op: ReduceOp;
  readonly ranks: number;
  /** What the rank's blocks do, for programs with connections of their own; else, or to look at one, an example. */
  readonly roles?: readonly string[];
  /** Blocks take turns at their waits (see kernel/wasm/compile.ts). */
  readonly resumable?: boolean;
}

/** True for collectives that combine elements; the others only copy and do not depend on the operator. */
export function reducesElements(collective: Collective): boolean {
  return collective === 'allReduce' || collective === 'reduce' || collective === 'reduceScatter';
}

/**
 * The request that builds the same code: operators do not matter to copies, nor the number of ranks to programs with
 * connections, nor more of an element type than its size to programs that only move bytes.
 */
export function canonicalRequest(request: ProgramRequest): ProgramRequest {
  const { algorithm, roles } = request;
  const { exampleRoles } = factsOf(algorithm);
  const reduces = reducesElements(request.collective);
  const bySize: Record<number, ElementType> = { 1: 'uint8', 2: 'float16', 4: 'uint32', 8: 'uint64' };
  return {
    ...request,
    op: reduces ? request.op : 'sum',
    type: reduces ? request.type : bySize[ELEMENT_TYPES[request.type].size]!,
    protocol: protocolsOf(algorithm).includes(request.protocol) ? request.protocol : 'Simple',
    ranks: isDirect(algorithm) ? request.ranks : 0,
    ...(exampleRoles === undefined ? {} : { roles: roles ?? exampleRoles }),
  };
}

export function programKey(request: ProgramRequest): string {
  const { algorithm, collective, protocol, type, op, ranks, roles = [] } = canonicalRequest(request);
  const form = request.resumable === true ? 'resumable' : 'plain';
  return [algorithm, collective, protocol, type, op, ranks, roles.join(','), form].join('/');
}

/** Builds the program of a request; throws `invalidArgument` for what does not exist. */
export function buildProgram(traits: Traits, request: ProgramRequest): Program {
  const { algorithm, collective, protocol, type, op, ranks, roles = [] } = canonicalRequest(request);
  if (!(collective in COLLECTIVES) || !(type in ELEMENT_TYPES) || !(op in REDUCE_OPS)) {
    throw new TuttiError('invalidArgument', `no program for ${collective} of ${type} with ${op}`);
  }
  if (!supports(algorithm, collective)) {
    const able = ALGORITHMS.filter((other) => supports(other, collective)).join(', ');
    throw new TuttiError('invalidArgument', `${algorithm} has no ${collective} program; use ${able}`);
  }
  const reduction = { type, op };
  if (isDirect(algorithm) && (!Number.isInteger(ranks) || ranks < 1 || ranks > MAX_DIRECT_RANKS)) {
    throw new TuttiError(
      'invalidArgument',
      `direct programs need 1 to ${MAX_DIRECT_RANKS} ranks, not ${ranks}; use the ring for more`,
    );
  }
  switch (algorithm) {
    case 'OneShot':
      return oneShot(traits, { collective, reduction, ranks });
    case 'TwoShot':
      return twoShot(traits, { collective, reduction, ranks });
    case 'Ring':
      if (collective === 'barrier') break;
      return ring(traits, { collective, protocol, reduction });
    case 'Hierarchical':
      return hierarchical(traits, { protocol, reduction, roles });
    case 'PAT':
      if (collective !== 'allGather' && collective !== 'reduceScatter') break;
      return pat(traits, { collective, reduction });
    case 'Recursive':
      return recursive(traits, { protocol, reduction, roles });
    case 'Tree':
      return tree(traits, { protocol, reduction, roles });
    case 'NVLS':
    case 'NVLSTree':
    case 'CollNetDirect':
    case 'CollNetChain':
      if (collective !== 'allGather' && collective !== 'reduceScatter' && collective !== 'allReduce') break;
      return switched(traits, { algorithm, collective, reduction, roles });
  }
  throw new TuttiError('internalError', `${algorithm} has no ${collective} program`);
}
