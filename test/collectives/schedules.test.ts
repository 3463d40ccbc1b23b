/**
 * Every program under thousands of adversarial schedules, with strong and with weak memory: results equal the
 * reference bit for bit, nothing is read before it is published, nobody waits for ever.
 */
import { describe, expect, it } from 'vitest';
import type { RingCollective } from '#src/collectives/ring.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';
import { explore } from '#src/kernel/interpreter/explore.js';
import { effort } from '../effort.js';
import { inputsFor, pick, random } from './random-call.js';
import { type SimulatedCall, simulatedTeam, type TeamOptions } from './simulated-team.js';

const COLLECTIVES: readonly RingCollective[] = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'broadcast',
  'reduce',
  'allToAll',
];

/**
 * What is reduced: every size, kind and rule of rounding once. All types and operators are covered with real
 * threads and processes; here each pair costs a program to be generated.
 */
const REDUCTIONS: readonly (readonly [ElementType, ReduceOp])[] = [
  ['float32', 'sum'],
  ['float16', 'avg'],
  ['int8', 'prod'],
  ['float8e4m3', 'sum'],
  ['float64', 'max'],
  ['uint64', 'min'],
  ['bfloat16', 'sum'],
  ['int32', 'avg'],
];

/** First seed of all explorations; another one can be given to look further. */
const FROM = Number(process.env.TUTTI_SEED ?? 0);

type Shape = Pick<SimulatedCall, 'algorithm' | 'protocol'>;

/** Two random calls one after the other, so that counters and banks are used again. */
function scenario(shape: Shape, options: TeamOptions, collective: RingCollective) {
  return (machine: { seed: number; memory: 'strong' | 'weak'; traceLength?: number }) => {
    const next = random(machine.seed + 1);
    const team = simulatedTeam(machine, { ...options, direct: shape.algorithm !== 'Ring' });
    const streams = Array.from({ length: options.ranks }, (_, rank) => team.machine.stream(rank));
    const checks: (() => void)[] = [];
    for (let i = 0; i < 2; i++) {
      const [type, op] = pick(REDUCTIONS, next);
      const size = ELEMENT_TYPES[type].size;
      const most = Math.floor((shape.protocol === 'Simple' ? 400 : 160) / size);
      const call: SimulatedCall = {
        ...shape,
        collective,
        type,
        op,
        root: Math.floor(next() * options.ranks),
        count: pick([0, 1, 3, Math.floor(next() * most), most], next),
        inPlace: next() < 0.4 && collective !== 'allToAll',
        unalign: pick([0, 0, 1, 3], next),
        // Some ranks move their data through staging: then all go piece by piece.
        ...(shape.algorithm === 'TwoShot' && {
          staged: Array.from({ length: options.ranks }, (_, rank) => rank).filter(() => next() < 0.25),
          piece: pick([4, 16], next),
        }),
      };
      checks.push(team.launch(call, inputsFor(call, options.ranks, next), streams));
    }
    team.machine.run();
    for (const check of checks) check();
  };
}

const SHAPES: readonly [string, Shape][] = [
  ['one-shot', { algorithm: 'OneShot' }],
  ['two-shot', { algorithm: 'TwoShot' }],
  ['ring LL', { algorithm: 'Ring', protocol: 'LL' }],
  ['ring Simple', { algorithm: 'Ring', protocol: 'Simple' }],
];

describe.each(SHAPES)('%s', (_, shape) => {
  for (const collective of COLLECTIVES) {
    it(`${collective} is right under every schedule on 2 to 5 ranks of one thread`, () => {
      for (const [ranks, seeds] of [
        [2, effort(15, 30)],
        [3, effort(12, 30)],
        [4, effort(4, 12)],
        [5, effort(3, 8)],
      ] as const) {
        expect(explore(scenario(shape, { ranks }, collective), { seeds, from: FROM })).toBe(2 * seeds);
      }
    });
  }
  it('is right with blocks of several threads', () => {
    for (const collective of COLLECTIVES) {
      explore(scenario(shape, { ranks: 3, threads: 4 }, collective), { seeds: effort(4, 8), from: FROM });
    }
  });
});

describe('several channels', () => {
  it('are independent rings that cover the data once', () => {
    for (const protocol of ['LL', 'Simple'] as const) {
      for (const collective of COLLECTIVES) {
        explore(scenario({ algorithm: 'Ring', protocol }, { ranks: 3, channels: 3 }, collective), {
          seeds: effort(4, 10),
          from: FROM,
        });
      }
    }
  });
});
