/**
 * All programs on one thread that stands for every rank and every channel: a wait that cannot be satisfied yet lets
 * the others go on, in whatever order they get their turns.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RingCollective } from '#src/collectives/ring.js';
import { ELEMENT_TYPE_NAMES, ELEMENT_TYPES, REDUCE_OP_NAMES } from '#src/kernel/element-types.js';
import { WASM_TRAITS } from '#src/kernel/ir.js';
import { effort } from '../effort.js';
import { inputsFor, pick, random } from './random-call.js';
import { type SimulatedCall, SimulatedTeam, type TeamOptions } from './simulated-team.js';
import { WasmMachine, type WasmMachineOptions } from './wasm-machine.js';

const COLLECTIVES: readonly RingCollective[] = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'broadcast',
  'reduce',
  'allToAll',
];

type Shape = Pick<SimulatedCall, 'algorithm' | 'protocol'>;

const SHAPES: readonly [string, Shape][] = [
  ['one-shot', { algorithm: 'OneShot' }],
  ['two-shot', { algorithm: 'TwoShot' }],
  ['ring LL', { algorithm: 'Ring', protocol: 'LL' }],
  ['ring Simple', { algorithm: 'Ring', protocol: 'Simple' }],
];

/** Runs calls one behind the other on every rank and compares all results; gives the machine. */
function runCalls(
  machineOptions: WasmMachineOptions,
  options: TeamOptions,
  calls: readonly SimulatedCall[],
  seed: number,
): WasmMachine {
  const next = random(seed);
  const direct = calls[0]!.algorithm !== 'Ring';
  const machine = new WasmMachine(machineOptions);
  const team = new SimulatedTeam(machine, { traits: WASM_TRAITS, direct, ...options });
  const streams = Array.from({ length: options.ranks }, (_, rank) => machine.stream(rank));
  const checks = calls.map((call) => team.launch(call, inputsFor(call, options.ranks, next), streams));
  machine.run();
  for (const check of checks) check();
  return machine;
}

/** A turn for anybody, some ranks and blocks being left out for long times. */
function unfair(seed: number): (activities: number) => number {
  const next = random(seed);
  let victim = 0;
  let turns = 0;
  return (activities) => {
    if (turns-- === 0) {
      victim = next();
      turns = Math.floor(next() * 60);
    }
    const chosen = Math.floor(next() * activities);
    const avoided = Math.floor(victim * activities);
    return chosen === avoided ? (chosen + 1) % activities : chosen;
  };
}

describe.each(SHAPES)('%s', (_, shape) => {
  const calls = (seed: number, ranks: number): SimulatedCall[] => {
    const next = random(seed);
    return Array.from({ length: 3 }, () => {
      const type = pick(['float32', 'int8', 'float16', 'uint64'] as const, next);
      const most = 1200 / ELEMENT_TYPES[type].size;
      const collective = pick(COLLECTIVES, next);
      return {
        ...shape,
        collective,
        type,
        op: pick(REDUCE_OP_NAMES, next),
        root: Math.floor(next() * ranks),
        count: pick([0, 1, Math.floor(next() * most), most], next),
        inPlace: next() < 0.3 && collective !== 'allToAll',
        unalign: pick([0, 0, 1, 3], next),
      };
    });
  };
  // Blocks of direct programs share a rendezvous, so these have one; channels are blocks of rings.
  const channels = shape.algorithm === 'Ring' ? 3 : 1;

  it('4 ranks, 3 channels where it has channels, finish on one thread in turn', () => {
    let blocked = 0;
    for (let seed = 1; seed <= 8; seed++) {
      blocked += runCalls({}, { ranks: 4, channels, bufferBytes: 65536 }, calls(seed, 4), seed).blocked;
    }
    // Every rank and channel waited, so others had to go on meanwhile.
    expect(blocked).toBeGreaterThan(8 * 4 * channels);
  });

  it('finishes whoever gets the turns', () => {
    fc.assert(
      fc.property(fc.nat(), fc.integer({ min: 2, max: 5 }), (seed, ranks) => {
        const options = { ranks, channels, bufferBytes: 65536 };
        runCalls({ choose: unfair(seed) }, options, calls(seed, ranks), seed);
      }),
      { numRuns: effort(6, 15) },
    );
  });

  for (const collective of COLLECTIVES) {
    it(`${collective} is right for every element type and operator [C10-33]`, () => {
      const ops = ['allGather', 'broadcast', 'allToAll'].includes(collective)
        ? (['sum'] as const)
        : REDUCE_OP_NAMES;
      for (const type of ELEMENT_TYPE_NAMES) {
        for (const [i, op] of ops.entries()) {
          const count = Math.floor(300 / ELEMENT_TYPES[type].size) + i;
          const call = { ...shape, collective, type, op, root: i % 3, count, unalign: i % 2 };
          runCalls({}, { ranks: 3, channels: Math.min(2, channels) }, [call], i + count);
        }
      }
    });
  }
});

describe('a peer that never comes', () => {
  it('leaves the others blocked, which the machine notices', () => {
    const machine = new WasmMachine();
    const team = new SimulatedTeam(machine, { traits: WASM_TRAITS, ranks: 3, channels: 2 });
    const call: SimulatedCall = {
      algorithm: 'Ring',
      protocol: 'LL',
      collective: 'allReduce',
      type: 'int32',
      op: 'sum',
      root: 0,
      count: 40,
    };
    const absent = { launch: () => ({ program: '', rank: 2, statuses: [] }) };
    team.launch(
      call,
      inputsFor(call, 3, random(1)),
      [0, 1, 2].map((rank) => (rank === 2 ? absent : machine.stream(rank))),
    );
    expect(() => machine.run()).toThrow('nobody can go on');
  });
});
