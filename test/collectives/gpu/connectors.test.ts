/** Rings, trees and PAT on GPUs in the interpreter: ranks, blocks and threads in all schedules of a seed, weak memory. */
import { describe, expect, it } from 'vitest';
import { areaLayout } from '#src/collectives/gpu/area.js';
import type { GpuCollective } from '#src/collectives/gpu/call.js';
import { SenderControl } from '#src/collectives/ring-connection.js';
import {
  ELEMENT_TYPE_NAMES,
  ELEMENT_TYPES,
  type ElementType,
  REDUCE_OP_NAMES,
  type ReduceOp,
} from '#src/kernel/element-types.js';
import { explore } from '#src/kernel/interpreter/explore.js';
import { encode, isNarrowFloat } from '#src/kernel/numeric.js';
import type { ConnectorChoice } from '#src/planning/gpu-connector-plan.js';
import { effort } from '../../effort.js';
import { pick, random } from '../random-call.js';
import {
  CONNECTED_AREA,
  gpuBufferElements,
  type SimulatedGpuCall,
  SimulatedGpuTeam,
  SMALL_FORM,
} from './gpu-team.js';

/** Seeds for each algorithm, collective and protocol; each runs in two kinds of machine. */
const SEEDS = effort(1, 40);

const WAYS: readonly [GpuCollective, ConnectorChoice][] = [
  ...(['allReduce', 'allGather', 'reduceScatter', 'broadcast', 'reduce', 'allToAll'] as const).flatMap(
    (collective): [GpuCollective, ConnectorChoice][] => [
      [collective, { algorithm: 'Ring', protocol: 'LL' }],
      [collective, { algorithm: 'Ring', protocol: 'LL128' }],
      [collective, { algorithm: 'Ring', protocol: 'Simple' }],
    ],
  ),
  ['allReduce', { algorithm: 'Tree', protocol: 'LL' }],
  ['allReduce', { algorithm: 'Tree', protocol: 'LL128' }],
  ['allReduce', { algorithm: 'Tree', protocol: 'Simple' }],
  ['allGather', { algorithm: 'PAT', protocol: 'Simple' }],
  ['reduceScatter', { algorithm: 'PAT', protocol: 'Simple' }],
];

/** Operators whose result does not depend on the order, with the inputs of `inputsOf`. */
function exactOps(type: ElementType, ranks: number, { algorithm }: ConnectorChoice): readonly ReduceOp[] {
  const averages = algorithm !== 'PAT' && (ELEMENT_TYPES[type].kind !== 'float' || ranks % 2 === 0);
  return REDUCE_OP_NAMES.filter((op) => op !== 'avg' || averages);
}

/** One to three rings through all ranks, as a topology may ask for them. */
function randomOrders(ranks: number, next: () => number): number[][] {
  return Array.from({ length: pick([1, 2, 3], next) }, () =>
    Array.from({ length: ranks }, (_, rank) => ({ rank, key: next() }))
      .sort((a, b) => a.key - b.key)
      .map(({ rank }) => rank),
  );
}

/** Small whole numbers: every sum and product of them is one that the type holds. */
function inputsOf(call: SimulatedGpuCall, ranks: number, next: () => number): bigint[][] {
  const { send } = gpuBufferElements(call.collective, call.count, ranks);
  const most = isNarrowFloat(call.type) && ELEMENT_TYPES[call.type].size === 1 ? 1 : 2;
  const least = ELEMENT_TYPES[call.type].kind === 'unsigned' ? 0 : -most;
  return Array.from({ length: ranks }, () =>
    Array.from({ length: send }, () =>
      encode(call.type, least + Math.floor(next() * (most - least + 1)) || 0),
    ),
  );
}

function randomCall(
  ranks: number,
  next: () => number,
  [collective, choice]: (typeof WAYS)[number],
): SimulatedGpuCall {
  const type = pick(ELEMENT_TYPE_NAMES, next);
  const { size } = ELEMENT_TYPES[type];
  // Up to a few rounds of a ring in several channels; a tree that is split takes more.
  const most128 = effort(2000, 8000);
  const bytes =
    choice.protocol === 'LL128'
      ? pick([24, 1000, most128], next)
      : pick([24, 200, choice.algorithm === 'Tree' ? 1400 : 400], next);
  const most = Math.floor(bytes / size);
  return {
    collective,
    choice,
    type,
    op: pick(exactOps(type, ranks, choice), next),
    root: Math.floor(next() * ranks),
    count: Math.ceil((0.5 + next() / 2) * most),
    inPlace: collective !== 'allToAll' && next() < 0.3,
    unalign: Array.from({ length: ranks }, () => (next() < 0.3 ? Math.floor((next() * 16) / size) : 0)),
  };
}

describe.each(WAYS)('%s', (collective, choice) => {
  it(`is right with ${choice.algorithm} and ${choice.protocol} between two and more ranks, call after call`, () => {
    const runs = explore(
      (machine) => {
        const next = random(machine.seed + 17);
        const ranks = pick(choice.protocol === 'LL128' ? effort([2, 3], [2, 3, 4, 5]) : [2, 3, 4, 5], next);
        const orders = next() < 0.5 ? randomOrders(ranks, next) : undefined;
        const team = new SimulatedGpuTeam(
          { ...machine, warpSize: 32 },
          { ranks, sizes: CONNECTED_AREA, ...(orders === undefined ? {} : { orders }) },
        );
        const streams = team.streams();
        const checks = [0, 1].map(() => {
          const call = randomCall(ranks, next, [collective, choice]);
          return team.launch(call, inputsOf(call, ranks, next), streams);
        });
        team.machine.run();
        for (const check of checks) check();
      },
      { seeds: SEEDS },
    );
    expect(runs).toBe(2 * SEEDS);
  });
});

describe('LL128 over connections', () => {
  it('takes one step for every transfer, whatever the number of warps [C09-15]', () => {
    for (const threads of [32, 64, 128]) {
      const connectors = { channels: { Ring: 1 }, llSlot: 0, ll128Slot: 2048, simpleSlot: 0 };
      const sizes = { ...CONNECTED_AREA, connectors };
      const form = { ...SMALL_FORM, threads, leastThreads: threads };
      const team = new SimulatedGpuTeam(
        { seed: threads, memory: 'weak', warpSize: 32 },
        { ranks: 2, sizes, form },
      );
      const streams = team.streams();
      // 1920 bytes fit into a slot: two transfers, then one.
      for (const count of [2500, 100]) {
        const call = {
          collective: 'allGather',
          type: 'uint8',
          op: 'sum',
          root: 0,
          count,
          choice: { algorithm: 'Ring', protocol: 'LL128' },
        } as const;
        const inputs = [1n, 2n].map((value) => new Array<bigint>(count).fill(value));
        const check = team.launch(call, inputs, streams);
        team.machine.run();
        check();
      }
      const { start } = areaLayout(2, sizes).connectors.Ring;
      for (const area of team.areas) {
        const [sent] = team.machine.readArray(
          area + start + SenderControl.fields.step.offset,
          BigUint64Array,
          1,
        );
        expect(sent).toBe(3n);
      }
    }
  });
});

describe('calls that follow each other', () => {
  it('mix algorithms, protocols and programs in which ranks meet, over one area', () => {
    const seeds = effort(2, 60);
    const runs = explore(
      (machine) => {
        const next = random(machine.seed + 5);
        const ranks = pick([2, 3, 5], next);
        const team = new SimulatedGpuTeam({ ...machine, warpSize: 32 }, { ranks, sizes: CONNECTED_AREA });
        const streams = team.streams();
        const checks = Array.from({ length: 4 }, (_, i) => {
          const { choice, ...call } = randomCall(ranks, next, pick(WAYS, next));
          const way =
            i === 2 ? { shape: { program: 'LL', blocks: 2, threads: 4 } as const } : { choice: choice! };
          const one = { ...call, ...way };
          return team.launch(one, inputsOf(one, ranks, next), streams);
        });
        team.machine.run();
        for (const check of checks) check();
      },
      { seeds },
    );
    expect(runs).toBe(2 * seeds);
  });
});
