/** Groups on symmetric memory: what runs there, in which launches, how blocks share it, what comes back in which order. */
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CommunicatorPlanner } from '#src/planning/communicator-planner.js';
import type { GroupCollective } from '#src/planning/plan-group.js';
import { distributeSymmetric, NO_CHANNEL } from '#src/planning/symmetric-work.js';
import { describeCluster } from '#src/topology/cluster.js';
import { readXml } from '#src/topology/xml/read.js';
import { tuningInput } from '#src/tuning/from-topology.js';
import { tuningTables } from '#src/tuning/model.js';
import { tuningSettings } from '#src/tuning/settings.js';
import { readTopology } from '../topology/golden/folder.js';

describe('the blocks of a symmetric launch', () => {
  const cells = (count: number, size: number) => Math.ceil(count / Math.floor(1024 / size));

  it('share all cells in order, none more than its share', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.integer({ min: 1, max: 2000 }), fc.integer({ min: 1, max: 2_000_000 })), {
          minLength: 1,
          maxLength: 55,
        }),
        fc.constantFrom(1, 2, 4),
        fc.integer({ min: 1, max: 64 }),
        (counts, size, blocks) => {
          const { works, channels } = distributeSymmetric(counts, size, blocks);
          expect(works.map(({ count }) => count)).toEqual(counts);
          expect(channels.length).toBeLessThanOrEqual(blocks);
          const all = counts.map((count) => cells(count, size));
          const total = all.reduce((sum, own) => sum + own, 0);
          const before = all.map((_, at) => all.slice(0, at).reduce((sum, own) => sum + own, 0));
          // Where a block ends, as the kernel reads it.
          const ends = channels.map(
            ({ lastWork, endFraction }) =>
              before[lastWork]! + Math.floor(((endFraction + 1) * all[lastWork]!) / 65536),
          );
          expect(ends.at(-1)).toBe(total);
          const share = Math.ceil(total / blocks);
          let from = 0;
          for (const end of ends) {
            expect(end - from).toBeGreaterThan(0);
            expect(end - from).toBeLessThanOrEqual(share);
            from = end;
          }
          for (const [index, { startChannel, channels: own }] of works.entries()) {
            if (startChannel === NO_CHANNEL) {
              expect(own).toBe(0);
              continue;
            }
            // Its first own channel holds cells of it, and its last one too.
            const touches = (channel: number) => {
              const [low, high] = [ends[channel - 1] ?? 0, ends[channel]!];
              return high > before[index]! && low < before[index]! + all[index]!;
            };
            expect(touches(startChannel)).toBe(true);
            expect(touches(startChannel + own - 1)).toBe(true);
          }
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('are laid out by hand: one task over all, and a small one in the rest of a block', () => {
    // 5 cells over 2 blocks: 3 and 2.
    expect(distributeSymmetric([5 * 256], 4, 2)).toEqual({
      works: [{ count: 1280, startChannel: 0, channels: 2 }],
      channels: [
        { lastWork: 0, endFraction: Math.ceil((65536 * 3) / 5) - 1 },
        { lastWork: 0, endFraction: 65535 },
      ],
    });
    // 2 and 4 cells over 2 blocks of 3: the second task begins in the first block, whose rest does not hold it.
    expect(distributeSymmetric([512, 1024], 4, 2)).toEqual({
      works: [
        { count: 512, startChannel: 0, channels: 1 },
        { count: 1024, startChannel: 1, channels: 1 },
      ],
      channels: [
        { lastWork: 1, endFraction: 65536 / 4 - 1 },
        { lastWork: 1, endFraction: 65535 },
      ],
    });
  });
});

const SUPPORT = {
  supported: true,
  lsaRanks: 8,
  lsaMulticast: true,
  crossCliqueP2p: false,
  allDirectNvlink: true,
  oneThreadManyGpus: false,
};

function planner(env: Readonly<Record<string, string>> = {}, change: Partial<typeof SUPPORT> = {}) {
  const folder = fileURLToPath(new URL('../golden/azure-ndv5-h100x8-8x400g', import.meta.url));
  const { root: xml } = readXml(readTopology(folder), { root: 'system' });
  const { comm, settings } = describeCluster({ nodes: [{ xml }], env });
  const view = { comm, topology: settings, settings: tuningSettings(env) };
  const tables = tuningTables(tuningInput(view));
  return new CommunicatorPlanner({ comm, tables, symmetric: { ...SUPPORT, ...change } });
}

const allReduce = (bytes: number, change: Partial<GroupCollective> = {}): GroupCollective => ({
  function: 'AllReduce',
  deviceOp: 'Sum',
  type: 'float32',
  elementBytes: 4,
  count: bytes / 4,
  ...change,
});

/** Elements of the ordinary works in the order in which they are placed. */
const order = (plans: ReturnType<CommunicatorPlanner['plan']>) =>
  plans.flatMap(({ collectives }) => collectives.map(({ task }) => task.count * 8));

/** Issued in this order, with this traffic (twice the bytes). */
const TRAFFIC = { a: 100_000, b: 1_000_000, c: 30_000, d: 30_000, e: 500_000 };
const group = (change: Partial<GroupCollective> = {}) =>
  Object.values(TRAFFIC).map((traffic) => allReduce(traffic / 2, change));

describe('a group on one node with NVLink', () => {
  it('comes back from the symmetric test in descending order if nothing is registered, as one aggregate', () => {
    const plans = planner().plan(group());
    const { a, b, c, d, e } = TRAFFIC;
    expect(order(plans)).toEqual([b, e, a, d, c]);
    expect(new Set(plans.flatMap(({ collectives }) => collectives.map((one) => one.decision))).size).toBe(1);
    expect(plans.every(({ symmetric }) => symmetric === undefined)).toBe(true);
  });

  it('is ascending and two aggregates without symmetric memory, or for types that it does not reduce', () => {
    const { a, b, c, d, e } = TRAFFIC;
    const ascending = [c, d, a, e, b];
    const without = planner({}, { supported: false }).plan(group());
    expect(order(without)).toEqual(ascending);
    expect(new Set(without.flatMap(({ collectives }) => collectives.map((one) => one.decision))).size).toBe(
      2,
    );
    expect(order(planner().plan(group({ type: 'int32' })))).toEqual(ascending);
  });

  it('runs on a symmetric kernel if both buffers are registered, each bin by itself', () => {
    const plans = planner().plan([
      ...group({ windows: 'both' }),
      ...group({ windows: 'both', type: 'int32' }),
      allReduce(1 << 20, { windows: 'both', function: 'AllGather', type: 'float32' }),
    ]);
    const symmetric = plans.flatMap((plan) => plan.symmetric ?? []);
    expect(symmetric.map(({ kernel, tasks }) => [kernel.name, tasks.length])).toEqual([
      ['AllGather_STMC', 1],
      ['AllReduce_RSxLDMC_AGxSTMC', 5],
    ]);
    expect(symmetric.map(({ threads }) => threads)).toEqual([512, 512]);
    expect(plans[0]!.argumentBytes).toBe(304 + 256 + 64);
    expect(plans[0]!.channelMask).toBe(2n ** BigInt(symmetric[0]!.distribution.channels.length) - 1n);
    // Integers have no symmetric kernel.
    expect(order(plans).length).toBe(5);
    expect(plans.flatMap(({ collectives }) => collectives).every(({ task }) => task.type === 'int32')).toBe(
      true,
    );
  });

  it('fills launches with as many tasks as their arguments hold', () => {
    const many = Array.from({ length: 120 }, () => allReduce(4096, { windows: 'both' }));
    const sizes = planner()
      .plan(many)
      .map(({ symmetric }) => symmetric!.tasks.length);
    expect(sizes).toEqual([55, 55, 10]);
  });

  it('takes LL with one registered buffer exactly where the ordinary choice is LL, and never from the host [C05-29]', () => {
    const kernelOf = (bytes: number, change: Partial<GroupCollective> = {}, env = {}) =>
      planner(env).plan([allReduce(bytes, { windows: 'receive', ...change })])[0]!.symmetric?.kernel.name;
    expect(kernelOf(1024)).toBe('AllReduce_AGxLLMC_R');
    expect(kernelOf(1 << 26)).toBeUndefined();
    expect(kernelOf(1024, { hostMemory: true })).toBeUndefined();
    expect(kernelOf(1024, { windows: 'none' })).toBeUndefined();
    expect(kernelOf(1024, { windows: 'none' }, { NCCL_SYM_NOWIN_ENABLE: '1' })).toBe('AllReduce_AGxLLMC_R');
  });

  it('leaves averages of all ranks to ordinary kernels', () => {
    const plans = planner().plan([
      allReduce(1024, { windows: 'both', deviceOp: 'PreMulSum', operator: 'avg' }),
    ]);
    expect(plans.map(({ symmetric }) => symmetric)).toEqual([undefined]);
  });
});
