/**
 * The primitive calls of the tree programs, as the programs record them, against the schedule written down again here;
 * bytes per link; and the same programs as resumable WebAssembly, all ranks and blocks on one thread.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tree } from '#src/collectives/tree.js';
import { ELEMENT_TYPES, type ElementType } from '#src/kernel/element-types.js';
import { WASM_TRAITS } from '#src/kernel/ir.js';
import { type ConnectedSetting, slotElements } from '#src/planning/connected-plan.js';
import { treeAlgorithm, treeNeighbours, treeShares } from '#src/planning/tree-plan.js';
import { ConnectedTeam, type ConnectedTestCall } from './connected-team.js';
import { inputsFor, random } from './random-call.js';
import {
  type ConnectedCallRecord,
  recordsOf,
  TRACE_BYTES,
  TRACED_BLOCKS,
  traced,
} from './traced-connected.js';
import { treeExpected } from './tree-model.js';
import { WasmMachine } from './wasm-machine.js';

type Form = 'unsplit' | 'split';

const programs = new Map<string, ReturnType<typeof tree>>();

function run(form: Form, setting: ConnectedSetting, call: ConnectedTestCall, seed = 1) {
  const team = new ConnectedTeam(new WasmMachine(), {
    algorithm: treeAlgorithm(form),
    setting,
    traceBytes: TRACED_BLOCKS * TRACE_BYTES,
    build: ({ type, op }, roles) => {
      const key = [setting.protocol, type, op, ...roles].join();
      let program = programs.get(key);
      if (program === undefined) {
        const { protocol } = setting;
        program = traced(() => tree(WASM_TRAITS, { protocol, reduction: { type, op }, roles }));
        programs.set(key, program);
      }
      return program;
    },
  });
  const streams = Array.from({ length: setting.ranks }, (_, rank) => team.machine.stream(rank));
  const inputs = inputsFor({ ...call, collective: 'allReduce' }, setting.ranks, random(seed));
  const check = team.launch(call, inputs, treeExpected(setting, call, inputs), streams);
  team.machine.run();
  check();
  return team.plans.map((plan, rank) => plan.map((block, b) => ({ block, calls: recordsOf(team, rank, b) })));
}

interface Chunk {
  readonly at: number;
  readonly elements: number;
}

/** Chunks of a channel in order, elements. */
function chunksOf(setting: ConnectedSetting, size: number, count: number, channel: number): Chunk[] {
  const share = treeShares(setting, size, count)[channel]!;
  const chunk = slotElements(setting, size);
  const chunks: Chunk[] = [];
  for (let e = 0; e < share.count; e += chunk) {
    chunks.push({ at: share.offset + e, elements: Math.min(chunk, share.count - e) });
  }
  return chunks;
}

type Expected = Omit<ConnectedCallRecord, 'after' | 'channel'> & { after?: boolean };

/** What a rank does with one chunk upwards, and downwards, from the published branches. */
function upCall(parent: number, children: readonly number[], at: number, elements: number): Expected {
  if (parent === -1) return { from: children, to: [], input: at, output: at, elements, after: true };
  return { from: children, to: [parent], input: at, elements };
}

function downCall(parent: number, children: readonly number[], at: number, elements: number): Expected {
  if (parent === -1) return { from: [], to: children, result: at, elements };
  return { from: [parent], to: children, output: at, elements };
}

const settings = fc.integer({ min: 2, max: 9 }).chain((ranks) =>
  fc.record({
    ranks: fc.constant(ranks),
    perNode: fc.integer({ min: 1, max: 4 }),
    channels: fc.constantFrom(1, 1, 2),
    protocol: fc.constantFrom('LL' as const, 'Simple' as const),
    slotBytes: fc.constant(64),
  }),
);

const types = fc.constantFrom<ElementType>('int32', 'uint8', 'float16', 'float64');

describe.each(['unsplit', 'split'] as const)('%s tree all-reduce', (form) => {
  it('makes the calls of the published schedule in every block, for any ranks, nodes and counts [C10-08] [C10-10] [C10-11]', () => {
    fc.assert(
      fc.property(settings, types, fc.nat(500), fc.nat(1000), (setting, type, most, seed) => {
        const { size } = ELEMENT_TYPES[type];
        const count = Math.floor(most / size) * (seed % 7 === 0 ? 5 : 1);
        const ranks = run(form, setting, { collective: 'allReduce', type, op: 'sum', count }, seed);
        ranks.forEach((blocks, rank) => {
          for (const { block, calls } of blocks) {
            const { channel } = block;
            const { parent, children } = treeNeighbours(setting, rank, channel < setting.channels ? 0 : 1);
            const chunks = chunksOf(setting, size, count, channel);
            const up = (c: Chunk) => upCall(parent, children, c.at * size, c.elements);
            const down = (c: Chunk) => downCall(parent, children, c.at * size, c.elements);
            let expected: Expected[];
            const part = block.role.replace(/[+-]\d$/, '');
            if (part === 'up') expected = chunks.map(up);
            else if (part === 'down') expected = chunks.map(down);
            else if (part === 'root') {
              expected = chunks.map((c) => ({ ...up(c), to: children }));
            } else {
              expected = [];
              // Eight chunks up, the same eight down.
              for (let w = 0; w < chunks.length; w += 8) {
                expected.push(...chunks.slice(w, w + 8).map(up), ...chunks.slice(w, w + 8).map(down));
              }
            }
            expect(calls).toEqual(expected.map((call) => ({ after: false, channel, ...call })));
          }
        });
      }),
      { numRuns: 40 },
    );
  });

  it('sends every chunk once over each edge in each direction, and all results are alike', () => {
    const setting: ConnectedSetting = {
      ranks: 7,
      perNode: 1,
      channels: 1,
      protocol: 'Simple',
      slotBytes: 512,
    };
    const count = 2400;
    const ranks = run(form, setting, { collective: 'allReduce', type: 'float32', op: 'sum', count });
    const bytes = new Map<string, number>();
    ranks.forEach((blocks, rank) => {
      for (const { calls } of blocks) {
        for (const { to, elements } of calls) {
          for (const peer of to) {
            const link = `${rank}>${peer}`;
            bytes.set(link, (bytes.get(link) ?? 0) + elements * 4);
          }
        }
      }
    });
    const total = [...bytes.values()].reduce((a, b) => a + b, 0);
    // Two trees, each with half of the data over six edges, up and down.
    expect(total).toBe(2 * 6 * count * 4);
    // Nobody but the two roots' neighbours sends much more than the ring's 2 (n - 1) / n.
    for (let rank = 0; rank < 7; rank++) {
      const sent = [...bytes].filter(([link]) => link.startsWith(`${rank}>`)).reduce((a, [, b]) => a + b, 0);
      expect(sent).toBeLessThanOrEqual(2 * count * 4 + 4 * 512);
    }
  });
});

describe('hops', () => {
  it('are at most twice the depth of the tree, about 2 log2 n [C10-22]', () => {
    for (let ranks = 2; ranks <= 64; ranks++) {
      for (const which of [0, 1] as const) {
        const place = (rank: number) => treeNeighbours({ ranks, perNode: 1 }, rank, which);
        const depth = (rank: number): number =>
          place(rank).parent === -1 ? 0 : 1 + depth(place(rank).parent);
        const deepest = Math.max(...Array.from({ length: ranks }, (_, rank) => depth(rank)));
        expect(2 * deepest).toBeLessThanOrEqual(2 * Math.ceil(Math.log2(ranks)) + 2);
      }
    }
  });
});
