/** Where collectives are placed: the published examples, and what must hold for any list. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chunkBytes, messageBytes } from '#src/planning/chunk-size.js';
import type {
  PlannedAlgorithm,
  PlannedCommunicator,
  PlannedFunction,
  PlannedProtocol,
  PlannedTask,
} from '#src/planning/nccl-task.js';
import { PROTOCOL_GRAIN, usesCollnet, usesNvls } from '#src/planning/nccl-task.js';
import {
  COLLECTIVE_WORK_BYTES,
  MIN_CHANNEL_TRAFFIC,
  type Placement,
  partitionCollectives,
  taskTraffic,
} from '#src/planning/partition.js';
import { fitsBudget, planBudget } from '#src/planning/plan-budget.js';
import { plainCommunicator } from './plain-communicator.js';

const task = (
  fn: PlannedFunction,
  algorithm: PlannedAlgorithm,
  protocol: PlannedProtocol,
  count: number,
  elementBytes: number,
  maxChannels: number,
): PlannedTask => ({ function: fn, algorithm, protocol, count, elementBytes, maxChannels, warps: 16 });

/** `first..last: first count, n x middle count, last count` */
function show({ channelLo, channelHi, segments }: Placement): string {
  const middle = Math.max(0, channelHi - channelLo - 1);
  const { lo, mid, hi } = segments!;
  const counts = [`${lo.count}`];
  if (middle > 0) counts.push(`${middle} x ${mid.count}`);
  if (channelHi > channelLo) counts.push(`${hi.count}`);
  return `${channelLo}..${channelHi}: ${counts.join(', ')}`;
}

describe('the partition', () => {
  const comm = (change: Partial<PlannedCommunicator> = {}) => plainCommunicator(change);

  it.each([
    ['AllReduce', 'Simple', 262144, 4, 24, {}, '0..21: 12288, 20 x 12288, 4096'],
    ['AllReduce', 'Simple', 262144, 4, 8, {}, '0..7: 32768, 6 x 32768, 32768'],
    ['AllReduce', 'Simple', 262147, 4, 3, {}, '0..2: 90112, 1 x 90112, 81923'],
    ['AllReduce', 'LL', 16384, 4, 8, {}, '0..7: 2048, 6 x 2048, 2048'],
    ['AllReduce', 'Simple', 2 ** 28, 4, 24, {}, '0..23: 11186176, 22 x 11186176, 11153408'],
    ['AllGather', 'Simple', 2 ** 20, 1, 24, {}, '0..23: 45056, 22 x 45056, 12288'],
    ['ReduceScatter', 'Simple', 100000, 4, 5, { nRanks: 3, nChannels: 5 }, '0..4: 21856, 3 x 21856, 12576'],
    ['Broadcast', 'Simple', 2 ** 20, 1, 4, { nChannels: 4 }, '0..3: 262144, 2 x 262144, 262144'],
    ['AllReduce', 'LL', 100, 4, 1, {}, '0..0: 100'],
  ] as const)(
    'places %s %s of %i elements as NCCL does',
    (fn, protocol, count, size, bound, change, wanted) => {
      const [placed] = partitionCollectives([task(fn, 'Ring', protocol, count, size, bound)], comm(change));
      expect(show(placed!)).toBe(wanted);
    },
  );

  it('lets a second collective begin where the first one ends', () => {
    const placements = partitionCollectives(
      [task('AllReduce', 'Ring', 'LL128', 40000, 4, 4), task('AllReduce', 'Ring', 'LL128', 100000, 4, 4)],
      comm({ nChannels: 8 }),
    );
    expect(placements.map(show)).toEqual(['0..1: 20480, 19520', '2..6: 20480, 3 x 20480, 18080']);
  });
});

const FUNCTIONS: readonly PlannedFunction[] = [
  'AllReduce',
  'AllGather',
  'ReduceScatter',
  'Broadcast',
  'Reduce',
];

const anyTask = (nvls: boolean): fc.Arbitrary<PlannedTask> =>
  fc
    .record({
      function: fc.constantFrom(...FUNCTIONS),
      algorithm: fc.constantFrom<PlannedAlgorithm>(
        'Ring',
        'Tree',
        'PAT',
        ...(nvls ? (['NVLS'] as const) : []),
      ),
      protocol: fc.constantFrom<PlannedProtocol>('LL', 'LL128', 'Simple'),
      // From one element to far more than all channels need, mostly small.
      count: fc.oneof(
        fc.integer({ min: 1, max: 300 }),
        fc.integer({ min: 1, max: 200_000 }),
        fc.integer({ min: 1, max: 2 ** 28 }),
      ),
      elementBytes: fc.constantFrom(1, 2, 4, 8),
      maxChannels: fc.integer({ min: 1, max: 64 }),
      warps: fc.constant(16),
    })
    .map((one) => ({ ...one, protocol: one.algorithm === 'NVLS' ? 'Simple' : one.protocol }));

const anyComm = fc.record({
  nRanks: fc.integer({ min: 2, max: 1000 }),
  nNodes: fc.constantFrom(1, 2),
  nChannels: fc.integer({ min: 1, max: 64 }),
  nvlsChannels: fc.integer({ min: 1, max: 32 }),
});

describe('any list of collectives', () => {
  it('is cut so that every element stands in one channel, channels stay below the limit [C06-28] [C06-30]', () => {
    fc.assert(
      fc.property(fc.array(anyTask(true), { maxLength: 6 }), anyComm, (tasks, change) => {
        const comm = plainCommunicator(change);
        const placements = partitionCollectives(tasks, comm);
        expect(placements).toHaveLength(tasks.length);
        for (const [at, placed] of placements.entries()) {
          const one = tasks[at]!;
          const { channelLo, channelHi, segments, shared } = placed;
          expect(channelLo).toBeGreaterThanOrEqual(0);
          if (shared !== undefined) {
            expect([channelLo, channelHi, shared.count]).toEqual([0, one.maxChannels - 1, one.count]);
            continue;
          }
          expect(channelHi).toBeLessThan(usesNvls(one) ? comm.nvlsChannels : comm.nChannels);
          const { lo, mid, hi } = segments!;
          const middle = Math.max(0, channelHi - channelLo - 1);
          expect(lo.count + middle * mid.count + (channelHi > channelLo ? hi.count : 0)).toBe(one.count);
          for (const [used, part] of [
            [true, lo],
            [middle > 0, mid],
            [channelHi > channelLo, hi],
          ] as const) {
            if (!used) continue;
            expect(part.count).toBeGreaterThan(0);
            expect(part.chunkBytes % PROTOCOL_GRAIN[one.protocol]).toBe(0);
            expect(part.chunkBytes).toBeGreaterThan(0);
          }
        }
      }),
      { numRuns: 5000 },
    );
  });

  it('loads channels evenly, to a cell per task [C06-29]', () => {
    fc.assert(
      fc.property(fc.array(anyTask(false), { minLength: 1, maxLength: 8 }), anyComm, (tasks, change) => {
        const comm = plainCommunicator(change);
        const placements = partitionCollectives(tasks, comm);
        const load = new Float64Array(64);
        let bound = 0;
        let traffic = 0;
        let cellTraffic = 0;
        for (const [at, { channelLo, channelHi, segments }] of placements.entries()) {
          const one = tasks[at]!;
          const perElement = taskTraffic({ ...one, count: 1 }, comm.nRanks);
          traffic += Math.max(MIN_CHANNEL_TRAFFIC, taskTraffic(one, comm.nRanks));
          bound = Math.min(bound + one.maxChannels, comm.nChannels);
          const factor = perElement / one.elementBytes;
          cellTraffic += Math.max(
            Math.ceil(Math.ceil(MIN_CHANNEL_TRAFFIC / factor) / 16) * 16 * factor,
            perElement,
          );
          for (let channel = channelLo; channel <= channelHi; channel++) {
            const { lo, mid, hi } = segments!;
            const part = channel === channelLo ? lo : channel === channelHi ? hi : mid;
            load[channel]! += part.count * perElement;
          }
        }
        const perChannel = traffic / bound + 16;
        // The last channel takes what is left; rounding up elsewhere leaves it less, never more than its share.
        for (const used of load.subarray(0, comm.nChannels - 1)) {
          expect(used).toBeLessThanOrEqual(perChannel + cellTraffic);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('ends where the plan is full, and no element is lost over all plans [C06-26]', () => {
    fc.assert(
      fc.property(
        fc.array(anyTask(true), { maxLength: 200 }),
        anyComm,
        fc.integer({ min: 32 + 64 * 16 + 128, max: 4096 }),
        (tasks, change, workArgsBytes) => {
          const comm = plainCommunicator(change);
          const budget = planBudget({ workArgsBytes, workFifoBytes: 2 ** 12 });
          let waiting = tasks.map((one) => ({
            ...one,
            maxChannels: Math.min(one.maxChannels, comm.nChannels),
          }));
          while (waiting.length > 0) {
            let batches = 0;
            let workBytes = 0;
            const placements = partitionCollectives(waiting, comm, {
              allows: (b, w) => fitsBudget(budget, b, w),
              fits: (b, w) => fitsBudget(budget, batches + b, workBytes + w),
              placed: (_, { channelLo, channelHi }) => {
                batches += channelHi - channelLo + 1;
                workBytes += COLLECTIVE_WORK_BYTES;
              },
            });
            expect(placements.length).toBeGreaterThan(0);
            expect(fitsBudget(budget, batches, workBytes)).toBe(true);
            waiting = waiting.slice(placements.length);
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe('chunks', () => {
  const comm = plainCommunicator();
  const chunk = (
    fn: PlannedFunction,
    algorithm: PlannedAlgorithm,
    protocol: PlannedProtocol,
    bytes: number,
    change = {},
  ) => chunkBytes(task(fn, algorithm, protocol, 1, 4, 1), { ...comm, ...change }, 1, bytes);

  it('shrink with the data where a pipeline is deep [C06-32]', () => {
    expect(chunk('AllReduce', 'Ring', 'Simple', 8)).toBe(2097152);
    expect(chunk('Reduce', 'Ring', 'Simple', 8)).toBe(524288);
    expect(chunk('AllReduce', 'Ring', 'LL', 8)).toBe(32768);
    expect(chunk('AllReduce', 'Ring', 'LL128', 8)).toBe(576000);
    expect([4096, 2 ** 20, 2 ** 24].map((bytes) => chunk('AllReduce', 'Tree', 'LL128', bytes))).toEqual([
      17280, 71040, 576000,
    ]);
    expect(chunk('AllReduce', 'Tree', 'LL128', 2 ** 24, { nRanks: 32, nNodes: 4 })).toBe(288000);
    expect([2 ** 20, 2 ** 22, 2 ** 24].map((bytes) => chunk('AllGather', 'PAT', 'Simple', bytes))).toEqual([
      65536, 131072, 524288,
    ]);
    expect(
      [2 ** 16, 2 ** 20, 2 ** 22, 2 ** 24, 2 ** 26].map((bytes) =>
        chunk('AllReduce', 'NVLS', 'Simple', bytes),
      ),
    ).toEqual([16384, 32768, 65536, 65536, 131072]);
  });

  it('count the whole message where every rank contributes', () => {
    const sizes = FUNCTIONS.map((fn) => messageBytes(task(fn, 'Ring', 'Simple', 1, 4, 1), 10, 8));
    expect(sizes).toEqual([40, 320, 320, 40, 40]);
    expect(usesCollnet(task('AllReduce', 'NVLS', 'Simple', 1, 4, 1), 2)).toBe(true);
    expect(usesCollnet(task('AllReduce', 'NVLS', 'Simple', 1, 4, 1), 1)).toBe(false);
  });
});
