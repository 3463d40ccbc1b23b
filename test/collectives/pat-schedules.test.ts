/** PAT programs under adversarial schedules, and compiled: all ranks on one thread. */
import { describe, expect, it } from 'vitest';
import { pat } from '#src/collectives/pat.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';
import { explore } from '#src/kernel/interpreter/explore.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import { type Program, type Traits, WASM_TRAITS } from '#src/kernel/ir.js';
import type { ConnectedSetting } from '#src/planning/connected-plan.js';
import { PAT } from '#src/planning/pat-plan.js';
import { ConnectedTeam, type ConnectedTestCall, interpretedTeam } from './connected-team.js';
import { patExpected } from './pat-model.js';
import { inputsFor, pick, random } from './random-call.js';
import { WasmMachine } from './wasm-machine.js';

const REDUCTIONS: readonly (readonly [ElementType, ReduceOp])[] = [
  ['float32', 'sum'],
  ['float16', 'sum'],
  ['int8', 'prod'],
  ['float64', 'max'],
];

const FROM = Number(process.env.TUTTI_SEED ?? 0);

type Collective = 'allGather' | 'reduceScatter';

const programs = new Map<string, Program>();

const builder =
  (traits: Traits, threads: number) =>
  ({ collective, type, op }: ConnectedTestCall): Program => {
    const key = [traits.name, threads > 1, collective, type, op].join();
    let program = programs.get(key);
    if (program === undefined) {
      program = pat(traits, { collective: collective as Collective, reduction: { type, op } });
      programs.set(key, program);
    }
    return program;
  };

function drawCall(collective: Collective, slotBytes: number, next: () => number): ConnectedTestCall {
  const [type, op] = pick(REDUCTIONS, next);
  const { size } = ELEMENT_TYPES[type];
  // Several chunks, one that is not full, and parts that share a slot.
  const most = Math.floor((slotBytes * 3) / size);
  return {
    collective,
    type,
    op,
    count: pick([0, 1, Math.floor(slotBytes / size / 4), Math.floor(next() * most), most], next),
    inPlace: next() < 0.4,
    unalign: pick([0, 0, 1, 3], next),
  };
}

const settingOf = (ranks: number, more: Partial<ConnectedSetting> = {}): ConnectedSetting => ({
  ranks,
  perNode: 1,
  channels: 1,
  protocol: 'Simple',
  slotBytes: 64,
  ...more,
});

/** Two random calls one after the other, so that counters and slots are used again. */
function scenario(collective: Collective, setting: ConnectedSetting, threads = 1) {
  return (machine: { seed: number; memory: 'strong' | 'weak'; traceLength?: number }) => {
    const next = random(machine.seed + 1);
    const traits = interpreterTraits({ threads: threads > 1 ? 'many' : 'one' });
    const team = interpretedTeam(machine, {
      algorithm: PAT,
      setting,
      build: builder(traits, threads),
      threads,
    });
    const streams = Array.from({ length: setting.ranks }, (_, rank) => team.machine.stream(rank));
    const checks = [0, 1].map(() => {
      const call = drawCall(collective, setting.slotBytes, next);
      const inputs = inputsFor(call, setting.ranks, next);
      return team.launch(call, inputs, patExpected(setting, call, inputs), streams);
    });
    team.machine.run();
    for (const check of checks) check();
  };
}

describe.each(['reduceScatter', 'allGather'] as const)('PAT %s', (collective) => {
  it('is right under every schedule on 2 to 9 ranks', () => {
    for (const [ranks, seeds] of [
      [2, 8],
      [3, 8],
      [4, 6],
      [5, 4],
      [6, 3],
      [9, 2],
    ] as const) {
      expect(explore(scenario(collective, settingOf(ranks)), { seeds, from: FROM })).toBe(2 * seeds);
    }
  });

  it('is right with several channels and with blocks of several threads', () => {
    explore(scenario(collective, settingOf(3, { channels: 2 })), { seeds: 4, from: FROM });
    explore(scenario(collective, settingOf(4), 4), { seeds: 4, from: FROM });
  });

  it('compiled, finishes with all ranks on one thread in turn, up to 17 ranks', () => {
    for (let ranks = 2; ranks <= 17; ranks++) {
      const setting = settingOf(ranks, { slotBytes: 128 });
      const next = random(ranks);
      const machine = new WasmMachine();
      const team = new ConnectedTeam(machine, {
        algorithm: PAT,
        setting,
        build: builder(WASM_TRAITS, 1),
        bufferBytes: 65536,
      });
      const streams = Array.from({ length: ranks }, (_, rank) => machine.stream(rank));
      const checks = [0, 1, 2].map(() => {
        const call = drawCall(collective, setting.slotBytes, next);
        const inputs = inputsFor(call, ranks, next);
        return team.launch(call, inputs, patExpected(setting, call, inputs), streams);
      });
      machine.run();
      for (const check of checks) check();
    }
  });
});
