/**
 * Which types, operators and roots a run measures, in the order of nccl-tests: types outermost, roots
 * innermost, each combination with its own warm-up and sweep.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { ElementType, ReduceOp } from '../../kernel/element-types.js';
import type { PerfOptions } from './options.js';
import type { CollectiveName } from './sizes.js';
import { TEST_TYPE_NAMES } from './type-names.js';

export interface Combination {
  readonly type: ElementType;
  /** Absent for collectives that only move data. */
  readonly op?: ReduceOp;
  /** Absent for collectives without a root. */
  readonly root?: number;
}

export function isReducing(collective: CollectiveName): boolean {
  return collective === 'all_reduce' || collective === 'reduce_scatter' || collective === 'reduce';
}

export function hasRoot(collective: CollectiveName): boolean {
  switch (collective) {
    case 'broadcast':
    case 'reduce':
    case 'scatter':
    case 'gather':
      return true;
    default:
      return false;
  }
}

/**
 * The combinations of a run on `ranks` ranks.
 *
 * @throws TuttiError `invalidArgument` when the root is not a rank.
 */
export function combinations(
  options: Pick<PerfOptions, 'collective' | 'types' | 'ops' | 'root'>,
  ranks: number,
): Combination[] {
  const { collective, root } = options;
  if (root !== 'all' && root >= ranks && hasRoot(collective)) {
    throw new TuttiError(
      'invalidArgument',
      `root ${root} is not a rank: with ${ranks} ranks it must be between 0 and ${ranks - 1}, or all`,
    );
  }
  const ops = isReducing(collective) ? options.ops : [undefined];
  const roots = !hasRoot(collective)
    ? [undefined]
    : root === 'all'
      ? Array.from({ length: ranks }, (_, rank) => rank)
      : [root];
  const all: Combination[] = [];
  for (const type of options.types) {
    for (const op of ops) {
      for (const own of roots) {
        all.push({ type, ...(op === undefined ? {} : { op }), ...(own === undefined ? {} : { root: own }) });
      }
    }
  }
  return all;
}

/** The type, operator and root columns of a combination's rows. */
export function labels(
  collective: CollectiveName,
  combination: Combination,
): { type: string; op: string; root: number } {
  return {
    type: TEST_TYPE_NAMES[combination.type],
    op: combination.op ?? (collective === 'hypercube' ? '' : 'none'),
    root: combination.root ?? -1,
  };
}
