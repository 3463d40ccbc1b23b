/**
 * Descriptor of programs over connectors (rings, trees, PAT). It travels by value with the launch, as GpuWork does, and
 * holds all that a kernel must know of its neighbours, so that nothing has to be written to device memory.
 */

import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '../../kernel/element-types.js';
import { array, struct } from '../../kernel/layout.js';
import { averageArgument } from '../../kernel/numeric.js';
import { argumentRule } from '../arithmetic.js';
import { byRanks } from './by-ranks.js';
import { GPU_TREE_CHILDREN } from './connectors.js';
import type { GpuArguments } from './work.js';

/** Steps of a schedule of PAT at most: 32 ranks have 47. */
export const MAX_PAT_STEPS = 64;

/** Rings of different orders. */
export const MAX_GPU_RINGS = 16;

/** Trees over the same ranks. */
export const GPU_TREES = 2;

/** Kinds of blocks in a launch of a tree: upwards and downwards in each tree. */
export const TREE_BLOCKS = 2 * GPU_TREES;

export type ConnectorWork = ReturnType<typeof makeWork>;

function makeWork(ranks: number) {
  return struct('ConnectorWork', {
    send: 'ptr',
    recv: 'ptr',
    /** Bytes from one rank's block to the next in buffers that hold a block per rank. */
    sendStride: 'u64',
    recvStride: 'u64',
    /** Scalar of an average, see ArgumentRule. */
    argument: 'u64',
    /** Elements that the channels share: `grains` grains of `grain` elements each, the first `extra` one more. */
    count: 'u64',
    grain: 'u64',
    grains: 'u64',
    /** Elements of a chunk, and of the window of a tree. */
    chunk: 'u64',
    window: 'u64',
    extra: 'u32',
    self: 'u32',
    root: 'u32',
    /**
     * Rings: how many there are, one after the other for the channels; this rank's position in each, and the ranks around
     * it, itself first.
     */
    rings: 'u32',
    position: array('u32', MAX_GPU_RINGS),
    around: array('u8', MAX_GPU_RINGS * ranks),
    /** Trees: which of the program's roles each block of a channel has. */
    roles: array('u32', TREE_BLOCKS),
    /** By tree: the parent, which of its children this rank is, and its own children. */
    parent: array('u32', GPU_TREES),
    place: array('u32', GPU_TREES),
    children: array('u32', GPU_TREES * GPU_TREE_CHILDREN),
    /** PAT: the schedule, see pat.ts. */
    stepCount: 'u32',
    steps: array('u32', MAX_PAT_STEPS),
    /** As in GpuWork. */
    areas: array('ptr', ranks),
  });
}

/** The descriptor of a team of so many ranks. */
export const connectorWork: (ranks: number) => ConnectorWork = byRanks(makeWork);

/** What a launch says of its blocks. Elements. */
export interface ConnectorShares {
  readonly grain: number;
  readonly grains: number;
  readonly extra: number;
  readonly chunk: number;
  readonly window?: number;
}

/** The place of a rank in the two trees. */
export interface GpuTreePlace {
  readonly parent: number;
  readonly place: number;
  readonly children: readonly number[];
}

/** The place of a rank in a ring. */
export interface GpuRingPlace {
  readonly position: number;
  /** The ranks at the distances 0, 1, 2, ... behind it. */
  readonly around: readonly number[];
}

export interface ConnectorDetails {
  readonly rings?: readonly GpuRingPlace[];
  readonly roles?: readonly number[];
  readonly trees?: readonly GpuTreePlace[];
  readonly steps?: readonly number[];
}

/** Bits of the scalar that an operator needs where every hop rounds; 0 for operators without one. */
export function stepArgument(type: ElementType, op: ReduceOp, ranks: number): bigint {
  switch (argumentRule({ type, op }, 'step')) {
    case 'none':
      return 0n;
    case 'divisor':
      return BigInt(ranks);
    default:
      return averageArgument(type, ranks);
  }
}

/** Writes the descriptor at `base` bytes into a view. */
export function writeConnectorWork(
  view: DataView,
  base: number,
  shares: ConnectorShares,
  { rings = [], roles = [], trees = [], steps = [] }: ConnectorDetails,
  args: GpuArguments,
): void {
  const ranks = args.areas.length;
  const stride = args.count * ELEMENT_TYPES[args.type].size;
  const at = connectorWork(ranks).at(view, base);
  at.set('send', args.send).set('recv', args.recv);
  at.set('sendStride', stride).set('recvStride', stride);
  at.set('argument', args.op === undefined ? 0 : stepArgument(args.type, args.op, ranks));
  at.set('count', args.count).set('grain', shares.grain).set('grains', shares.grains);
  at.set('extra', shares.extra)
    .set('chunk', shares.chunk)
    .set('window', shares.window ?? shares.chunk);
  at.set('self', args.self).set('root', args.root ?? 0);
  at.set('rings', rings.length);
  rings.forEach(({ position, around }, ring) => {
    at.set('position', position, ring);
    around.forEach((rank, distance) => {
      at.set('around', rank, ring * ranks + distance);
    });
  });
  roles.forEach((role, i) => {
    at.set('roles', role, i);
  });
  trees.forEach(({ parent, place, children }, tree) => {
    at.set('parent', Math.max(0, parent), tree).set('place', place, tree);
    children.forEach((child, i) => {
      at.set('children', child, tree * GPU_TREE_CHILDREN + i);
    });
  });
  at.set('stepCount', steps.length);
  steps.forEach((step, i) => {
    at.set('steps', step, i);
  });
  args.areas.forEach((area, rank) => {
    at.set('areas', area, (rank - args.self + ranks) % ranks);
  });
}
