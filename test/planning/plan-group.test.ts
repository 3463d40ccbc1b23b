/** Whole groups: nothing is lost, plans keep their budget, ranks agree on what meets. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import { broadcastSteps, broadcastsPerStep, cutBroadcasts } from '#src/planning/broadcast-batch.js';
import type { PlannedFunction } from '#src/planning/nccl-task.js';
import { p2pSchedule } from '#src/planning/p2p-schedule.js';
import { fitsBudget, planBudget } from '#src/planning/plan-budget.js';
import {
  type GroupCollective,
  type GroupContext,
  type GroupP2p,
  type Plan,
  planGroup,
} from '#src/planning/plan-group.js';
import { proxyOperation, ringConnections } from '#src/planning/proxy-operations.js';
import { WORK_BYTES, WorkType } from '#src/planning/work-batches.js';
import { seeded } from './any-group.js';
import { plainCommunicator } from './plain-communicator.js';

function contextOf(
  rank: number,
  nodes: readonly (readonly number[])[],
  change: Partial<GroupContext> = {},
): GroupContext {
  const nRanks = nodes.flat().length;
  const comm = plainCommunicator({ nRanks, nNodes: nodes.length, nChannels: 16 });
  return {
    comm,
    rank,
    decide: ({ bytes }) => ({
      algorithm: 'Ring',
      protocol: bytes < 65536 ? 'LL' : 'Simple',
      maxChannels: Math.max(1, Math.min(16, Math.floor(bytes / 32768))),
      warps: 16,
    }),
    ringIndex: (_, other) => (other - rank + nRanks) % nRanks,
    p2p: {
      nNodes: nodes.length,
      nRanks,
      channels: 16,
      channelsPerPeer: 4,
      stepBytes: 131072,
      llBufferBytes: 524288,
      schedule: p2pSchedule(rank, nodes),
      network: () => nodes.length > 1,
      ll: () => true,
    },
    ...change,
  };
}

const allReduce = (count: number, change: Partial<GroupCollective> = {}): GroupCollective => ({
  function: 'AllReduce',
  deviceOp: 'Sum',
  type: 'float32',
  elementBytes: 4,
  count,
  ...change,
});

const RING_SIMPLE = { algorithm: 'Ring', protocol: 'Simple', warps: 16 } as const;

const ONE_NODE = [[0, 1, 2, 3, 4, 5, 6, 7]];
const NODES = [
  [0, 1, 2, 3],
  [4, 5, 6, 7],
  [8, 9, 10, 11],
];

const anyCollective = fc.record({
  function: fc.constantFrom<PlannedFunction>(
    'AllReduce',
    'AllGather',
    'ReduceScatter',
    'Broadcast',
    'Reduce',
  ),
  deviceOp: fc.constantFrom('Sum', 'Prod'),
  type: fc.constantFrom('float32', 'float64'),
  count: fc.oneof(fc.integer({ min: 0, max: 1000 }), fc.integer({ min: 0, max: 2 ** 24 })),
  root: fc.integer({ min: 0, max: 7 }),
});

function checkPlan(plan: Plan, { channels = 16 } = {}): void {
  const budget = planBudget();
  expect(fitsBudget(budget, plan.batches.length, plan.workBytes)).toBe(true);
  expect(plan.argumentBytes % 16).toBe(0);
  expect(plan.argumentBytes).toBeLessThanOrEqual(4096);
  expect(plan.threads % 32).toBe(0);
  const used = new Set(plan.batches.map(({ channel }) => channel));
  let mask = 0n;
  for (const channel of used) mask |= 1n << BigInt(channel);
  expect(plan.channelMask).toBe(mask);
  expect(Math.max(-1, ...used)).toBeLessThan(channels);
  // Following the jumps from the k-th record finds every batch of the k-th channel.
  const seen = new Set<number>();
  for (const first of [...used].sort((a, b) => a - b).keys()) {
    for (let at = first; ; at += plan.batches[at]!.nextJump) {
      seen.add(at);
      if (plan.batches[at]!.nextJump === 0) break;
    }
  }
  expect(seen.size).toBe(plan.batches.length);
}

describe('a group of collectives', () => {
  it('is planned whole, each call once, within the budget [C06-20]', () => {
    fc.assert(
      fc.property(fc.array(anyCollective, { maxLength: 40 }), (drawn) => {
        const calls = drawn.map((one) => ({ ...one, elementBytes: one.type === 'float64' ? 8 : 4 }));
        const plans = planGroup(calls, [], contextOf(2, ONE_NODE));
        for (const plan of plans) checkPlan(plan);
        const planned = plans.flatMap((plan) => [
          ...plan.collectives.map(({ task }) => task),
          ...(plan.broadcasts?.tasks ?? []),
        ]);
        const wanted = calls.filter(({ count }) => count > 0);
        expect(planned).toHaveLength(wanted.length);
        expect(new Set(planned)).toEqual(new Set(wanted));
        const roots = new Set(wanted.filter((one) => one.function === 'Broadcast').map(({ root }) => root));
        const batched = plans.flatMap((plan) => plan.broadcasts?.tasks ?? []);
        expect(batched.length > 0).toBe(roots.size > 1);
      }),
      { numRuns: 300 },
    );
  });

  it('of a thousand calls fills plan after plan', () => {
    const calls = Array.from({ length: 1000 }, (_, i) => allReduce(1 + (i % 7) * 50_000));
    const budget = { workFifoBytes: 2 ** 16 };
    const plans = planGroup(calls, [], contextOf(0, ONE_NODE, { budget }));
    expect(plans.length).toBeGreaterThan(1);
    for (const plan of plans) checkPlan(plan);
    expect(plans.flatMap((plan) => plan.collectives)).toHaveLength(1000);
    // No plan ends while any next call would still have fitted.
    for (const plan of plans.slice(0, -1)) {
      expect(fitsBudget(planBudget(budget), plan.batches.length + 16, plan.workBytes + 128)).toBe(false);
    }
  });

  it('names the threads of its largest call and is empty for calls without elements [C06-11] [C06-38]', () => {
    const plans = planGroup([allReduce(0)], [], contextOf(0, ONE_NODE));
    expect(plans).toEqual([]);
    const context = contextOf(0, ONE_NODE, {
      decide: ({ bytes }) => ({
        algorithm: 'Ring',
        protocol: 'LL',
        maxChannels: 1,
        warps: bytes > 1000 ? 12 : 3,
      }),
    });
    expect(planGroup([allReduce(4), allReduce(100_000)], [], context)[0]!.threads).toBe(384);
    expect(planGroup([allReduce(4)], [], context)[0]!.threads).toBe(128);
  });

  it('of a single rank has nothing to launch: data are only copied', () => {
    expect(planGroup([allReduce(1000), allReduce(10)], [], contextOf(0, [[0]]))).toEqual([]);
  });

  it('has a mask of the channels of its placements, up to the last of 64 [C06-31]', () => {
    const comm = plainCommunicator({ nRanks: 8, nNodes: 1, nChannels: 64 });
    const seen = new Set<string>();
    const draw = seeded(31);
    for (let round = 0; round < 400; round++) {
      // Small calls first: what follows begins at some channel behind the first.
      const calls = Array.from({ length: 1 + draw(6) }, () => allReduce(1 + draw(2 ** (10 + draw(14)))));
      const decide = () => ({ ...RING_SIMPLE, maxChannels: 1 + draw(64) });
      for (const plan of planGroup(calls, [], contextOf(0, ONE_NODE, { comm, decide }))) {
        let mask = 0n;
        for (const { placement } of plan.collectives) {
          const { channelLo: lo, channelHi: hi } = placement;
          seen.add(`lo ${lo}`).add(`hi ${hi}`);
          mask |= (2n << BigInt(hi)) - (1n << BigInt(lo));
        }
        expect(plan.channelMask).toBe(mask);
        expect(plan.channelMask >> 64n).toBe(0n);
      }
    }
    expect(seen).toContain('hi 63');
    expect(seen).toContain('lo 0');
    expect([...seen].filter((text) => text.startsWith('lo')).length).toBeGreaterThan(30);
  });

  it('says which setting leaves no room', () => {
    const context = contextOf(0, ONE_NODE, { budget: { workArgsBytes: 64, workFifoBytes: 16 } });
    const broadcast = (root: number) => allReduce(10, { function: 'Broadcast', root });
    for (const [collectives, messages] of [
      [[allReduce(10)], []],
      [[broadcast(0), broadcast(1)], []],
      [[], [{ kind: 'send', peer: 1, bytes: 8 }]],
    ] as [GroupCollective[], GroupP2p[]][]) {
      expect(() => planGroup(collectives, messages, context)).toThrow(/NCCL_WORK_ARGS_BYTES/);
    }
  });
});

describe('calls that cannot be', () => {
  const impossible: readonly (readonly [Partial<Record<keyof GroupCollective, unknown>>, string])[] = [
    ...[Number.NaN, -1, 1.5, 2 ** 53, Number.POSITIVE_INFINITY, '7'].map(
      (count) => [{ count }, `AllReduce: a count of ${count} is none`] as const,
    ),
    ...[0, 3, 16].map((bytes) => [{ elementBytes: bytes }, `no elements have ${bytes} bytes`] as const),
    ...[-1, 8, 0.5].map((root) => [{ root }, `root ${root} is no rank; ranks are 0 to 7`] as const),
    [{ function: 'AllReduec' }, 'there is no function AllReduec'],
  ];

  it.each(impossible)('%j are refused, and the group with them', (change, message) => {
    const calls = [allReduce(4), allReduce(4, change as Partial<GroupCollective>)];
    const plan = () => planGroup(calls, [], contextOf(0, ONE_NODE));
    expect(plan).toThrow(TuttiError);
    expect(plan).toThrow(`collective 1 of the group`);
    expect(plan).toThrow(message);
  });

  it.each([
    ...[8, -1, 1.5, Number.NaN].map((peer) => [{ peer }, `peer ${peer} is no rank`] as const),
    ...[-4, Number.NaN, 2 ** 53].map((bytes) => [{ bytes }, `${bytes} bytes cannot be moved`] as const),
    [{ kind: 'sned' }, 'sned is neither send nor recv'] as const,
  ])('messages %j are refused', (change, message) => {
    const call = { kind: 'send', peer: 1, bytes: 4, ...change } as GroupP2p;
    expect(() => planGroup([], [call], contextOf(0, ONE_NODE))).toThrow(`message 0 of the group: ${message}`);
  });
});

describe('broadcasts from several roots', () => {
  it('run in steps of one per root, cut at 256 bytes, nearest root first', () => {
    expect([700, 800, 900].map(broadcastsPerStep)).toEqual([20, 169, 340]);
    const works = cutBroadcasts(
      [
        { root: 3, bytes: 10_000 },
        { root: 2, bytes: 300 },
      ],
      4,
      8,
      (_, root) => (root - 2 + 8) % 8,
    );
    expect(
      works.map((own) => own.map(({ root, depth, offset, bytes }) => [root, depth, offset, bytes])),
    ).toEqual([
      [
        [2, 0, 0, 256],
        [3, 7, 0, 2560],
      ],
      // 75 bytes a channel, rounded up to 256: the second to fourth part share what is left.
      [[3, 7, 2560, 2560]],
      [[3, 7, 5120, 2560]],
      [
        [2, 0, 256, 44],
        [3, 7, 7680, 2320],
      ],
    ]);
    expect(broadcastSteps(works[0]!, 1000, 8)).toEqual({ recv: 3, send: 1 });
  });

  it('cover every byte once', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 100_000 }), { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 1, max: 64 }),
        (sizes, channels) => {
          const works = cutBroadcasts(
            sizes.map((bytes, root) => ({ root, bytes })),
            channels,
            8,
            (_, root) => root,
          ).flat();
          for (const [root, bytes] of sizes.entries()) {
            const own = works.filter((work) => work.root === root).sort((a, b) => a.offset - b.offset);
            let at = 0;
            for (const work of own) {
              expect(work.offset).toBe(at);
              at += work.bytes;
            }
            expect(at).toBe(bytes);
          }
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('send and receive', () => {
  const allToAll = (nRanks: number, bytes: number): GroupP2p[] =>
    Array.from({ length: nRanks }, (_, peer) => [
      { kind: 'send' as const, peer, bytes },
      { kind: 'recv' as const, peer, bytes },
    ]).flat();

  it('of all ranks meet in the same round, on the same channels, in parts of the same size', () => {
    const byRank = NODES.flat().map((rank) =>
      planGroup([], allToAll(12, 300_000), contextOf(rank, NODES)).flatMap((plan) => plan.p2p),
    );
    for (const [rank, own] of byRank.entries()) {
      expect(own).toHaveLength(12);
      for (const { send, round, epoch, baseChannel } of own) {
        const other = byRank[send!.peer]!.find((one) => one.round === round && one.epoch === epoch)!;
        expect(other.recv!.peer).toBe(rank);
        expect(other.baseChannel).toBe(baseChannel);
        expect(other.recv!.cut).toEqual(send!.cut);
      }
    }
  });

  it('keep program order per peer, one per peer and pass', () => {
    const messages: GroupP2p[] = [10, 20, 30].flatMap((bytes) => [
      { kind: 'send', peer: 1, bytes },
      { kind: 'recv', peer: 3, bytes: bytes + 1 },
    ]);
    const done = planGroup([], messages, contextOf(0, [[0, 1, 2, 3]])).flatMap((plan) => plan.p2p);
    expect(done.flatMap(({ send }) => send?.bytes ?? [])).toEqual([10, 20, 30]);
    expect(done.flatMap(({ recv }) => recv?.bytes ?? [])).toEqual([11, 21, 31]);
    expect(done.map(({ epoch }) => epoch)).toEqual([0, 1, 2]);
  });

  it('to oneself need each other; with equal buffers nothing is to be done', () => {
    const context = contextOf(0, [[0, 1]]);
    expect(() => planGroup([], [{ kind: 'send', peer: 0, bytes: 4 }], context)).toThrow(
      /Trying to send to self without a matching recv/,
    );
    expect(() => planGroup([], [{ kind: 'recv', peer: 0, bytes: 4 }], context)).toThrow(TuttiError);
    const both: GroupP2p[] = [
      { kind: 'send', peer: 0, bytes: 4, inPlace: true },
      { kind: 'recv', peer: 0, bytes: 4, inPlace: true },
    ];
    expect(planGroup([], both, context)).toEqual([]);
  });

  it('fill plans within the budget, whatever their number', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({ peer: fc.integer({ min: 1, max: 11 }), bytes: fc.integer({ min: 0, max: 2 ** 22 }) }),
          { maxLength: 300 },
        ),
        (drawn) => {
          const messages = drawn.map((one): GroupP2p => ({ kind: 'send', ...one }));
          const plans = planGroup([], messages, contextOf(0, NODES));
          for (const plan of plans) {
            checkPlan(plan);
            expect(plan.workBytes).toBe(plan.p2p.length * WORK_BYTES[WorkType.P2P]);
          }
          expect(plans.flatMap((plan) => plan.p2p)).toHaveLength(messages.length);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('may share a plan with collectives', () => {
    const [plan, ...rest] = planGroup([allReduce(100)], allToAll(8, 10), contextOf(0, ONE_NODE));
    expect(rest).toEqual([]);
    expect([plan!.collectives.length, plan!.p2p.length, plan!.threads]).toEqual([1, 8, 640]);
    checkPlan(plan!);
  });
});

describe('proxy operations', () => {
  const comm = plainCommunicator();
  const task = (fn: PlannedFunction, protocol: 'LL' | 'Simple' = 'Simple') => ({
    function: fn,
    algorithm: 'Ring' as const,
    protocol,
    count: 32768,
    elementBytes: 4,
    maxChannels: 1,
    warps: 16,
  });

  it('count steps from the largest chunks', () => {
    expect(proxyOperation(task('AllReduce'), comm, 32768, 2097152)).toEqual({
      loopBytes: 16777216,
      steps: 56,
      slotsPerChunk: 4,
      slotsPerSlice: 2,
      chunkBytes: 2097152,
      sliceBytes: 1048576,
      transferBytes: 1048576,
    });
    expect(proxyOperation(task('Broadcast'), comm, 32768, 524288).steps).toBe(1);
    expect(proxyOperation(task('AllGather'), comm, 32768, 2097152).steps).toBe(28);
  });

  it('leave out the ends of a pipeline', () => {
    const at = (rank: number) => ({ rank, prev: (rank + 3) % 4, next: (rank + 1) % 4, root: 2 });
    expect([0, 1, 2, 3].map((rank) => ringConnections('Broadcast', at(rank)))).toEqual([
      { recv: true, send: true },
      { recv: true, send: false },
      { recv: false, send: true },
      { recv: true, send: true },
    ]);
    expect([0, 1, 2, 3].map((rank) => ringConnections('Reduce', at(rank)))).toEqual([
      { recv: true, send: true },
      { recv: true, send: true },
      { recv: true, send: false },
      { recv: false, send: true },
    ]);
    expect(ringConnections('AllReduce', at(2))).toEqual({ recv: true, send: true });
  });
});
