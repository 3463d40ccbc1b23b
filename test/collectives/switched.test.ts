/** Programs over emulated switches, under adversarial schedules: right, whatever becomes visible when. */
import { describe, expect, it } from 'vitest';
import { type SwitchedName, switched } from '#src/collectives/switched.js';
import { parseSwitchRole, switchRoleName } from '#src/collectives/switched-role.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';
import { explore, findFailure } from '#src/kernel/interpreter/explore.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import type { Program } from '#src/kernel/ir.js';
import type { ConnectedSetting } from '#src/planning/connected-plan.js';
import { switchedAlgorithm } from '#src/planning/switched-plan.js';
import { effort } from '../effort.js';
import { type ConnectedTestCall, interpretedTeam } from './connected-team.js';
import { mutated, withoutWait } from './mutate.js';
import { inputsFor, pick, random } from './random-call.js';
import { switchedExpected } from './switched-model.js';

const REDUCTIONS: readonly (readonly [ElementType, ReduceOp])[] = [
  ['float32', 'sum'],
  ['bfloat16', 'sum'],
  ['float16', 'avg'],
  ['int8', 'prod'],
  ['int32', 'avg'],
  ['int64', 'max'],
];

const FROM = Number(process.env.TUTTI_SEED ?? 0);

const programs = new Map<string, Program>();

function scenario(
  name: SwitchedName,
  collective: ConnectedTestCall['collective'],
  setting: ConnectedSetting,
  threads = 1,
  change: (program: Program) => Program = (program) => program,
) {
  const traits = interpreterTraits({ threads: threads > 1 ? 'many' : 'one' });
  return (machine: { seed: number; memory: 'strong' | 'weak'; traceLength?: number }) => {
    const next = random(machine.seed + 1);
    const team = interpretedTeam(machine, {
      algorithm: switchedAlgorithm(name),
      setting,
      bufferBytes: 131072,
      build: ({ type, op }, roles) => {
        const key = [name, collective, threads > 1, type, op, ...roles].join();
        const program =
          programs.get(key) ??
          switched(traits, { algorithm: name, collective, reduction: { type, op }, roles });
        programs.set(key, program);
        return change(program);
      },
      threads,
    });
    const streams = Array.from({ length: setting.ranks }, (_, rank) => team.machine.stream(rank));
    const checks = [0, 1].map(() => {
      const [type, op] = pick(REDUCTIONS, next);
      const blocks = collective === 'allReduce' ? setting.ranks : 1;
      const unit = (setting.slotBytes * blocks) / ELEMENT_TYPES[type].size;
      const most = Math.floor(2.5 * unit);
      const call: ConnectedTestCall = {
        collective,
        type,
        op,
        // Now and then more units than a connection has slots.
        count: pick([0, 1, 3, Math.floor(next() * most), most, Math.floor(9.5 * unit)], next),
        inPlace: next() < 0.4,
        unalign: pick([0, 0, 1, 3], next),
      };
      const inputs = inputsFor(call, setting.ranks, next);
      return team.launch(call, inputs, switchedExpected(name, setting, call, inputs), streams);
    });
    team.machine.run();
    for (const check of checks) check();
  };
}

const settingOf = (ranks: number, perNode: number, channels = 1): ConnectedSetting => ({
  ranks,
  perNode,
  channels,
  protocol: 'Simple',
  slotBytes: 64,
});

/** Ranks and ranks of a node. Where nodes differ, some ranks are no heads. */
const EQUAL = [
  [4, 2],
  [3, 1],
] as const;
const UNEQUAL = [[5, 3]] as const;

const CASES = [
  ['NVLS', 'allReduce', [[3, 3], [4, 2], ...UNEQUAL]],
  [
    'NVLS',
    'allGather',
    [
      [3, 3],
      [4, 2],
    ],
  ],
  [
    'NVLS',
    'reduceScatter',
    [
      [3, 3],
      [4, 2],
    ],
  ],
  ['CollNetDirect', 'allReduce', [...EQUAL, ...UNEQUAL]],
  ['CollNetDirect', 'allGather', EQUAL],
  ['CollNetDirect', 'reduceScatter', EQUAL],
] as const;

type Shapes = readonly (readonly [ranks: number, perNode: number])[];

function everySchedule(
  name: SwitchedName,
  collective: ConnectedTestCall['collective'],
  shapes: Shapes,
): void {
  const seeds = effort(2, 20);
  for (const [ranks, perNode] of shapes) {
    const run = scenario(name, collective, settingOf(ranks, perNode));
    expect(explore(run, { seeds, from: FROM })).toBe(2 * seeds);
  }
}

describe('programs over switches are right under every schedule, with strong and weak memory', () => {
  it.each(CASES)('%s %s', everySchedule);

  it('a chain whose head meets the network, of nodes of all sizes [C10-24]', () => {
    everySchedule('CollNetChain', 'allReduce', [...EQUAL, ...UNEQUAL]);
  });

  it('NVLS inside the nodes, a tree between them [C10-26]', () => {
    everySchedule('NVLSTree', 'allReduce', [...EQUAL, [5, 2]]);
  });

  it.each(CASES)('%s %s with several channels, and with blocks of several threads', (name, collective) => {
    const seeds = effort(1, 10);
    explore(scenario(name, collective, settingOf(4, 2, 3)), { seeds, from: FROM });
    explore(scenario(name, collective, settingOf(4, 2), 4), { seeds, from: FROM });
  });
});

describe('a wait for data that is left out', () => {
  // The last waits of the program: of the heads for each port (12 to 14), of everybody for the results (15).
  it.each(effort([13, 15], [12, 13, 14, 15]))('is found within a few seeds (wait %i)', (which) => {
    const changed = new Map<Program, Program>();
    const leaveOut = (program: Program) => {
      const made = changed.get(program) ?? mutated(program, withoutWait, which);
      changed.set(program, made);
      return made;
    };
    const failure = findFailure(scenario('NVLS', 'allReduce', settingOf(3, 3), 1, leaveOut), { seeds: 25 });
    expect(failure).toBeDefined();
  });
});

describe('a head of CollNet without a network', () => {
  it('has no program: it fails before anything runs [C10-27]', () => {
    const reduction = { type: 'float32', op: 'sum' } as const;
    for (const algorithm of ['CollNetDirect', 'CollNetChain'] as const) {
      const build = (role: string) =>
        switched(interpreterTraits({ threads: 'one' }), {
          algorithm,
          collective: 'allReduce',
          reduction,
          roles: [role],
        });
      expect(() => build('head-0-0-1-none-0')).toThrow('works without a network');
      expect(build('head-0-0-1-net-2').name).toBe(`${algorithm}_allReduce`);
    }
  });
});

describe('names of roles', () => {
  it('are read back, and others are refused', () => {
    for (const name of ['head-4-4-2-parent-0', 'head-3-3-0-net-8', 'member-2-0-0-none-0']) {
      expect(switchRoleName(parseSwitchRole(name))).toBe(name);
    }
    expect(() => parseSwitchRole('head-4-4-2-sideways-0')).toThrow('there is no switch role');
  });
});
