/** Tree all-reduce on one element at a time: the oracle of tree tests. */
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';
import { averageArgument, divideBits, reduceBits } from '#src/kernel/numeric.js';
import type { ConnectedSetting } from '#src/planning/connected-plan.js';
import { treeNeighbours, treeShares } from '#src/planning/tree-plan.js';
import type { Pattern } from '#src/topology/search/graph.js';
import type { Bits } from './reference.js';

/** Sum of a subtree: the own contribution, then the children's sums in order; every step rounds. */
export function treeReduce(
  type: ElementType,
  op: ReduceOp,
  contributions: Bits,
  children: (rank: number) => readonly number[],
  root: number,
): bigint {
  const n = contributions.length;
  const step = op === 'avg' ? 'sum' : op;
  const isFloat = ELEMENT_TYPES[type].kind === 'float';
  const own = (rank: number) =>
    op === 'avg' && isFloat
      ? reduceBits(type, 'prod', contributions[rank]!, averageArgument(type, n))
      : contributions[rank]!;
  const sum = (rank: number): bigint =>
    children(rank).reduce((total, child) => reduceBits(type, step, total, sum(child)), own(rank));
  const total = sum(root);
  return op === 'avg' && !isFloat ? divideBits(type, total, n) : total;
}

/** What every rank receives from an all-reduce over both trees. */
export function treeExpected(
  setting: ConnectedSetting,
  { type, op, count }: { type: ElementType; op: ReduceOp; count: number },
  inputs: readonly Bits[],
  pattern?: Pattern,
): Bits[] {
  const { ranks, perNode, channels } = setting;
  const shares = treeShares(setting, ELEMENT_TYPES[type].size, count);
  const result = Array.from({ length: count }, (_, i) => {
    const channel = shares.findIndex(({ offset, count: own }) => i >= offset && i < offset + own);
    const place = (rank: number) =>
      treeNeighbours({ ranks, perNode }, rank, channel < channels ? 0 : 1, pattern);
    const root = inputs.findIndex((_, rank) => place(rank).parent === -1);
    const column = inputs.map((input) => input[i]!);
    return treeReduce(type, op, column, (rank) => place(rank).children, root);
  });
  return inputs.map(() => result);
}
