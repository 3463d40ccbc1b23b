/** Random groups of collectives, from a number that names them. */
import type { PlannedFunction } from '#src/planning/nccl-task.js';
import type { GroupCollective } from '#src/planning/plan-group.js';

const FUNCTIONS: readonly PlannedFunction[] = [
  'AllReduce',
  'AllGather',
  'ReduceScatter',
  'Broadcast',
  'Reduce',
];

const TYPES = [
  ['int8', 1],
  ['float16', 2],
  ['bfloat16', 2],
  ['float32', 4],
  ['int64', 8],
  ['float64', 8],
] as const;

const OPERATORS = ['Sum', 'Prod', 'MinMax', 'PreMulSum', 'SumPostDiv'] as const;

/** Elements of a call: mostly few, some more than all channels need at once. */
const MOST_ELEMENTS = [40, 3000, 200_000, 2 ** 26] as const;

/** Whole numbers in [0, n), always the same for a seed (mulberry32). */
export function seeded(seed: number): (n: number) => number {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * n);
  };
}

/** Up to `most` calls. */
export function anyGroup(seed: number, most: number, nRanks: number): GroupCollective[] {
  const draw = seeded(seed);
  const pick = <T>(list: readonly T[]): T => list[draw(list.length)]!;
  // Groups of a program are often alike: then all calls have one function, type and operator.
  const alike = draw(3) === 0;
  const [fn, kind, op] = [pick(FUNCTIONS), pick(TYPES), pick(OPERATORS)];
  return Array.from({ length: 1 + draw(most) }, (): GroupCollective => {
    const [type, elementBytes] = alike ? kind : pick(TYPES);
    const chosen = alike ? fn : pick(FUNCTIONS);
    const reduces = chosen === 'AllReduce' || chosen === 'Reduce' || chosen === 'ReduceScatter';
    return {
      function: chosen,
      deviceOp: reduces ? (alike ? op : pick(OPERATORS)) : 'Sum',
      type,
      elementBytes,
      count: draw(pick(MOST_ELEMENTS)),
      ...(chosen === 'Broadcast' || chosen === 'Reduce' ? { root: draw(draw(4) === 0 ? nRanks : 1) } : {}),
    };
  });
}
