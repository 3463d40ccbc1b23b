/** Recursive doubling: right under adversarial schedules for any number of ranks, and in exactly the rounds it promises. */
import { describe, expect, it } from 'vitest';
import { parseRecursiveRole, recursive, recursiveRoleName } from '#src/collectives/recursive.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';
import { explore } from '#src/kernel/interpreter/explore.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import { type Program, WASM_TRAITS } from '#src/kernel/ir.js';
import type { ConnectedSetting } from '#src/planning/connected-plan.js';
import { RECURSIVE, recursivePlace } from '#src/planning/recursive-plan.js';
import { ConnectedTeam, type ConnectedTestCall, interpretedTeam } from './connected-team.js';
import { inputsFor, pick, random } from './random-call.js';
import { recursiveExpected } from './recursive-model.js';
import { recordsOf, TRACE_BYTES, TRACED_BLOCKS, traced } from './traced-connected.js';
import { WasmMachine } from './wasm-machine.js';

const REDUCTIONS: readonly (readonly [ElementType, ReduceOp])[] = [
  ['float32', 'sum'],
  ['float16', 'avg'],
  ['int8', 'prod'],
  ['int32', 'avg'],
];

const FROM = Number(process.env.TUTTI_SEED ?? 0);

const programs = new Map<string, Program>();

function scenario(setting: ConnectedSetting, threads = 1) {
  const traits = interpreterTraits({ threads: threads > 1 ? 'many' : 'one' });
  const { protocol } = setting;
  return (machine: { seed: number; memory: 'strong' | 'weak'; traceLength?: number }) => {
    const next = random(machine.seed + 1);
    const team = interpretedTeam(machine, {
      algorithm: RECURSIVE,
      setting,
      build: ({ type, op }, roles) => {
        const key = [protocol, threads > 1, type, op, ...roles].join();
        const made = programs.get(key) ?? recursive(traits, { protocol, reduction: { type, op }, roles });
        programs.set(key, made);
        return made;
      },
      threads,
    });
    const streams = Array.from({ length: setting.ranks }, (_, rank) => team.machine.stream(rank));
    const checks = [0, 1].map(() => {
      const [type, op] = pick(REDUCTIONS, next);
      // More than eight slots on some calls: credits are needed.
      const most = Math.floor((setting.slotBytes * 12) / ELEMENT_TYPES[type].size);
      const call: ConnectedTestCall = {
        collective: 'allReduce',
        type,
        op,
        count: pick([0, 1, 3, Math.floor(next() * most), most], next),
        inPlace: next() < 0.4,
        unalign: pick([0, 0, 1, 3], next),
      };
      const inputs = inputsFor(call, setting.ranks, next);
      return team.launch(call, inputs, recursiveExpected(call, inputs), streams);
    });
    team.machine.run();
    for (const check of checks) check();
  };
}

const settingOf = (ranks: number, protocol: 'LL' | 'Simple', more: Partial<ConnectedSetting> = {}) => ({
  ...{ ranks, perNode: 1, channels: 1, protocol, slotBytes: protocol === 'LL' ? 64 : 32 },
  ...more,
});

describe.each(['LL', 'Simple'] as const)('recursive doubling with %s', (protocol) => {
  it('is right under every schedule, powers of two or not', () => {
    for (const [ranks, seeds] of [
      [2, 6],
      [3, 5],
      [4, 4],
      [5, 3],
      [7, 2],
    ] as const) {
      expect(explore(scenario(settingOf(ranks, protocol)), { seeds, from: FROM })).toBe(2 * seeds);
    }
  });

  it('is right with several channels and with blocks of several threads', () => {
    explore(scenario(settingOf(3, protocol, { channels: 2 })), { seeds: 3, from: FROM });
    explore(scenario(settingOf(3, protocol), 4), { seeds: 3, from: FROM });
  });
});

describe('the exchanges of recursive doubling', () => {
  it('join partners who know each other, log2 n rounds, for any n', () => {
    for (let ranks = 2; ranks <= 64; ranks++) {
      for (let rank = 0; rank < ranks; rank++) {
        const { partners, folded } = recursivePlace(ranks, rank);
        partners.forEach((partner, round) => {
          expect(recursivePlace(ranks, partner).partners[round]).toBe(rank);
        });
        if (folded !== -1) expect(recursivePlace(ranks, folded).folded).toBe(rank);
        expect(partners.length > 0 || folded !== -1).toBe(true);
        if (partners.length > 0) expect(partners).toHaveLength(Math.floor(Math.log2(ranks)));
      }
    }
  });

  it.each([
    [4, 2, ['>3', '3>0', '0>']],
    [6, 1, ['5>0', '0>3', '3>5']],
    [6, 5, ['>1', '1>']],
  ] as const)('of %i ranks at rank %i are %j', (ranks, rank, expected) => {
    const setting = settingOf(ranks, 'Simple', { slotBytes: 512 });
    const call: ConnectedTestCall = { collective: 'allReduce', type: 'int32', op: 'avg', count: 100 };
    const team = new ConnectedTeam(new WasmMachine(), {
      algorithm: RECURSIVE,
      setting,
      traceBytes: TRACED_BLOCKS * TRACE_BYTES,
      build: ({ type, op }, roles) =>
        traced(() => recursive(WASM_TRAITS, { protocol: 'Simple', reduction: { type, op }, roles })),
    });
    const streams = Array.from({ length: ranks }, (_, at) => team.machine.stream(at));
    const inputs = inputsFor(call, ranks, random(3));
    const check = team.launch(call, inputs, recursiveExpected(call, inputs), streams);
    team.machine.run();
    check();
    const calls = recordsOf(team, rank, 0);
    expect(calls.map(({ from, to }) => `${from}>${to}`)).toEqual(expected);
    // The average divides once, where the sum is complete; who gets it finished does not.
    expect(calls.filter(({ after }) => after)).toHaveLength(rank === 5 ? 0 : 1);
  });
});

describe('names of roles', () => {
  it('say all about a role, and others are refused', () => {
    for (const name of ['rank', 'exchange/0', 'exchange+/0110']) {
      expect(recursiveRoleName(parseRecursiveRole(name))).toBe(name);
    }
    expect(() => parseRecursiveRole('exchange/2')).toThrow('there is no recursive role exchange/2');
  });
});
