/**
 * Hierarchical all-reduce: right under adversarial schedules, exactly the calls of three rings, and fewer bytes on the
 * links between nodes than a flat ring has there.
 */
import { describe, expect, it } from 'vitest';
import { hierarchical } from '#src/collectives/hierarchical.js';
import { ELEMENT_TYPES, type ElementType, type ReduceOp } from '#src/kernel/element-types.js';
import { explore } from '#src/kernel/interpreter/explore.js';
import { interpreterTraits } from '#src/kernel/interpreter/traits.js';
import { type Program, WASM_TRAITS } from '#src/kernel/ir.js';
import type { ConnectedSetting } from '#src/planning/connected-plan.js';
import { HIERARCHICAL } from '#src/planning/hierarchical-plan.js';
import { ConnectedTeam, type ConnectedTestCall, interpretedTeam } from './connected-team.js';
import { hierarchicalExpected } from './hierarchical-model.js';
import { inputsFor, pick, random } from './random-call.js';
import {
  type ConnectedCallRecord,
  recordsOf,
  TRACE_BYTES,
  TRACED_BLOCKS,
  traced,
} from './traced-connected.js';
import { WasmMachine } from './wasm-machine.js';

const REDUCTIONS: readonly (readonly [ElementType, ReduceOp])[] = [
  ['float32', 'sum'],
  ['float16', 'avg'],
  ['int8', 'prod'],
  ['int32', 'avg'],
];

const FROM = Number(process.env.TUTTI_SEED ?? 0);

const programs = new Map<string, Program>();

function cached(key: string, build: () => Program): Program {
  let program = programs.get(key);
  if (program === undefined) {
    program = build();
    programs.set(key, program);
  }
  return program;
}

function scenario(setting: ConnectedSetting, threads = 1) {
  const traits = interpreterTraits({ threads: threads > 1 ? 'many' : 'one' });
  const { protocol } = setting;
  return (machine: { seed: number; memory: 'strong' | 'weak'; traceLength?: number }) => {
    const next = random(machine.seed + 1);
    const team = interpretedTeam(machine, {
      algorithm: HIERARCHICAL,
      setting,
      build: ({ type, op }, roles) =>
        cached([protocol, threads > 1, type, op, ...roles].join(), () =>
          hierarchical(traits, { protocol, reduction: { type, op }, roles }),
        ),
      threads,
    });
    const streams = Array.from({ length: setting.ranks }, (_, rank) => team.machine.stream(rank));
    const checks = [0, 1].map(() => {
      const [type, op] = pick(REDUCTIONS, next);
      const most = Math.floor((setting.slotBytes * setting.ranks * 1.5) / ELEMENT_TYPES[type].size);
      const call: ConnectedTestCall = {
        collective: 'allReduce',
        type,
        op,
        count: pick([0, 1, 3, Math.floor(next() * most), most], next),
        inPlace: next() < 0.4,
        unalign: pick([0, 0, 1, 3], next),
      };
      const inputs = inputsFor(call, setting.ranks, next);
      return team.launch(call, inputs, hierarchicalExpected(setting, call, inputs), streams);
    });
    team.machine.run();
    for (const check of checks) check();
  };
}

const settingOf = (
  ranks: number,
  perNode: number,
  protocol: 'LL' | 'Simple',
  more: Partial<ConnectedSetting> = {},
): ConnectedSetting => ({ ranks, perNode, channels: 1, protocol, slotBytes: 64, ...more });

describe.each(['LL', 'Simple'] as const)('hierarchical all-reduce with %s', (protocol) => {
  it('is right under every schedule for nodes of any size, one node and nodes of one rank', () => {
    for (const [ranks, perNode, seeds] of [
      [4, 2, 5],
      [6, 3, 3],
      [6, 2, 3],
      [3, 3, 4],
      [3, 1, 4],
      [2, 8, 4],
    ] as const) {
      const setting = settingOf(ranks, perNode, protocol);
      expect(explore(scenario(setting), { seeds, from: FROM })).toBe(2 * seeds);
    }
  });

  it('is right with several channels and with blocks of several threads', () => {
    explore(scenario(settingOf(4, 2, protocol, { channels: 2 })), { seeds: 3, from: FROM });
    explore(scenario(settingOf(4, 2, protocol), 4), { seeds: 3, from: FROM });
  });
});

describe('what a hierarchical all-reduce sends', () => {
  const ranks = 8;
  const perNode = 4;
  const setting = settingOf(ranks, perNode, 'Simple', { slotBytes: 512 });
  const count = 2048;
  const call: ConnectedTestCall = { collective: 'allReduce', type: 'float32', op: 'avg', count };

  function run(): ConnectedCallRecord[][] {
    const team = new ConnectedTeam(new WasmMachine(), {
      algorithm: HIERARCHICAL,
      setting,
      traceBytes: TRACED_BLOCKS * TRACE_BYTES,
      build: ({ type, op }, roles) =>
        traced(() => hierarchical(WASM_TRAITS, { protocol: 'Simple', reduction: { type, op }, roles })),
    });
    const streams = Array.from({ length: ranks }, (_, rank) => team.machine.stream(rank));
    const inputs = inputsFor(call, ranks, random(3));
    const check = team.launch(call, inputs, hierarchicalExpected(setting, call, inputs), streams);
    team.machine.run();
    check();
    return inputs.map((_, rank) => recordsOf(team, rank, 0));
  }

  it('is 2 (m - 1) / m of the data inside a node, 2 (k - 1) / k of a share between nodes, less than a flat ring', () => {
    const calls = run();
    const nodeOf = (rank: number) => Math.floor(rank / perNode);
    let slow = 0;
    calls.forEach((list, rank) => {
      let inside = 0;
      let between = 0;
      for (const { to, elements } of list) {
        for (const peer of to) {
          if (nodeOf(peer) === nodeOf(rank)) inside += elements * 4;
          else between += elements * 4;
        }
      }
      expect(inside).toBe(((2 * (perNode - 1)) / perNode) * count * 4);
      expect(between).toBe((((2 * (2 - 1)) / 2) * count * 4) / perNode);
      slow += between;
    });
    // A flat ring crosses from node to node twice, each time with 2 (n - 1) / n of the data.
    const flat = 2 * ((2 * (ranks - 1)) / ranks) * count * 4;
    expect(slow).toBe(2 * count * 4);
    expect(slow).toBeLessThan(flat);
  });

  it('goes round three rings in the published order: chunk by chunk inside, between, inside', () => {
    const calls = run()[0]!;
    // Two nodes of four: two rounds of 4 inside, 3 between, two rounds of 4 inside; one loop of 8 chunks.
    const loops = count / ((512 / 4) * 8);
    expect(calls).toHaveLength(loops * (8 + 3 + 8));
    const kinds = calls.slice(0, 19).map(({ from, to, input, result, output, after }) => {
      const reads = input !== undefined ? 'input' : result !== undefined ? 'result' : '';
      return `${from}>${to} ${reads}${output !== undefined ? ' out' : ''}${after ? ' after' : ''}`.trim();
    });
    const scatter = ['>1 input', '3>1 input', '3>1 input', '3> input out'];
    const gather = ['>1 result', '3>1  out', '3>1  out', '3>  out'];
    expect(kinds).toEqual([
      ...scatter,
      ...scatter,
      '>4 result',
      '4>4 result out after',
      '4>  out',
      ...gather,
      ...gather,
    ]);
  });
});
