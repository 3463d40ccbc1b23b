/** How the collectives of a group are ordered, decided together, packed and stored. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { aggregateTasks, orderByKind, pipelinedOperations } from '#src/planning/aggregate.js';
import { fifoBytes, fitsBudget, planBudget, WorkFifo, workStorage } from '#src/planning/plan-budget.js';
import { sortBin, sortTasks } from '#src/planning/task-sorter.js';
import {
  ChannelBatches,
  orderBatches,
  type PlacedWork,
  WORK_BYTES,
  WorkType,
} from '#src/planning/work-batches.js';

const named = (name: string, traffic: number, type = 'float32') => ({
  name,
  function: 'AllReduce',
  deviceOp: 'Sum',
  type,
  traffic,
});

describe('the sorter', () => {
  it('has bins of a quarter of a power of two, larger sizes first [C06-19]', () => {
    expect([0, 1023, 1024, 65536, 81920, 2 ** 20, 2 ** 30, 2 ** 35].map(sortBin)).toEqual([
      80, 80, 79, 60, 59, 44, 4, 4,
    ]);
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 30 }), fc.integer({ min: 0, max: 2 ** 30 }), (a, b) => {
        if (a <= b) expect(sortBin(a)).toBeGreaterThanOrEqual(sortBin(b));
        if (a >= 4096 && b >= a * 1.26) expect(sortBin(b)).toBeLessThan(sortBin(a));
      }),
    );
  });

  it('turns the order inside a bin around', () => {
    const tasks = [
      named('a', 100000),
      named('b', 1000000),
      named('c', 30000),
      named('d', 30000),
      named('e', 500000),
    ];
    expect(
      sortTasks(tasks, ({ traffic }) => traffic)
        .map(({ name }) => name)
        .join(''),
    ).toBe('beadc');
  });
});

describe('aggregates', () => {
  const names = (tasks: readonly ReturnType<typeof named>[]) =>
    aggregateTasks(tasks).map((one) => one.tasks.map(({ name }) => name).join(''));

  it('join what is below four times the smallest, in ascending order [C06-22]', () => {
    const tasks = [
      named('a', 100000),
      named('b', 1000000),
      named('c', 30000),
      named('d', 30000),
      named('e', 500000),
    ];
    expect(names(tasks)).toEqual(['cda', 'eb']);
    expect(names([named('x', 10240), named('y', 30720), named('z', 51200)])).toEqual(['xy', 'z']);
  });

  it('never mix functions, operators or types, and hold every task once [C06-21]', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            function: fc.constantFrom('AllReduce', 'AllGather'),
            deviceOp: fc.constantFrom('Sum', 'Prod'),
            type: fc.constantFrom('float32', 'int8'),
            traffic: fc.integer({ min: 1, max: 2 ** 31 }),
          }),
        ),
        (tasks) => {
          const aggregates = aggregateTasks(tasks);
          expect(aggregates.flatMap((one) => one.tasks).length).toBe(tasks.length);
          expect(new Set(aggregates.flatMap((one) => one.tasks)).size).toBe(new Set(tasks).size);
          for (const { tasks: members, traffic } of aggregates) {
            const [first] = members;
            for (const member of members) {
              expect([member.function, member.deviceOp, member.type]).toEqual([
                first!.function,
                first!.deviceOp,
                first!.type,
              ]);
              expect(member.traffic).toBeLessThan(Math.max(first!.traffic * 4, first!.traffic + 1));
            }
            expect(traffic).toBe(members.reduce((sum, member) => sum + member.traffic, 0));
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it('are ordered plain, NVLS, CollNet, both [C06-23]', () => {
    const kind = (collnet: boolean, nvls: boolean, name: string) => ({ collnet, nvls, name });
    const order = orderByKind(
      [
        kind(true, true, 'd'),
        kind(true, false, 'c'),
        kind(false, false, 'a'),
        kind(false, true, 'b'),
        kind(false, false, 'A'),
      ],
      (one) => one,
    );
    expect(order.map(({ name }) => name).join('')).toBe('aAbcd');
    expect([3, 24, 25, 100].map((tasks) => pipelinedOperations(tasks, 24))).toEqual([1, 1, 2, 5]);
  });
});

describe('work batches', () => {
  const collective = (offset: number, fn = 1): PlacedWork => ({
    type: WorkType.COLLECTIVE,
    function: fn,
    offset,
  });
  const p2p = (offset: number, round: number, epoch = 0): PlacedWork => ({
    type: WorkType.P2P,
    function: 0,
    offset,
    round,
    epoch,
  });
  const pack = (works: readonly PlacedWork[]) => {
    const batches = new ChannelBatches();
    for (const work of works) batches.add(work);
    return batches;
  };

  it('hold 1024 bytes of collectives', () => {
    const works = Array.from({ length: 9 }, (_, i) => collective(i * 128));
    expect(pack(works).batches.map(({ workSet }) => workSet)).toEqual([0xffn, 1n]);
    expect(pack([collective(0), collective(128, 2)]).batches).toHaveLength(2);
  });

  it('hold 8 send/receive works of one group of rounds and one pass', () => {
    const eight = Array.from({ length: 8 }, (_, round) => p2p(round * 48, round));
    expect(pack(eight).batches).toHaveLength(1);
    expect(pack([...eight, p2p(8 * 48, 8)]).batches).toHaveLength(2);
    expect(pack([p2p(0, 1), p2p(48, 1)]).batches).toHaveLength(2);
    expect(pack([p2p(0, 7), p2p(48, 8)]).batches).toHaveLength(2);
    expect(pack([p2p(0, 1), p2p(48, 2, 1)]).batches).toHaveLength(2);
    expect(pack([p2p(0, 1), p2p(48, 2, 1)]).p2pBatches).toBe(2);
  });

  it('go on in an extension where a work lies too far or between the steps', () => {
    const far = pack([collective(0), collective(64 * 128)]).batches;
    expect(far.map(({ nextExtends, baseOffset }) => [nextExtends, baseOffset])).toEqual([
      [true, 0],
      [false, 8192],
    ]);
    expect(pack([p2p(0, 0), p2p(50, 1)]).batches[0]!.nextExtends).toBe(true);
    expect(pack([p2p(0, 0), p2p(50, 1)]).p2pBatches).toBe(1);
  });

  it('name every work once, at its place', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 200 }), { maxLength: 60 }), (steps) => {
        let offset = 0;
        const works = steps.map((step) => {
          offset += step * 128;
          const work = collective(offset);
          offset += 128;
          return work;
        });
        const got: number[] = [];
        for (const { baseOffset, workSet } of pack(works).batches) {
          for (let bit = 0; bit < 64; bit++) {
            if ((workSet >> BigInt(bit)) & 1n) got.push(baseOffset + bit * WORK_BYTES[WorkType.COLLECTIVE]);
          }
        }
        expect(got).toEqual(works.map((work) => work.offset));
      }),
      { numRuns: 200 },
    );
  });

  it('hold no more than 64 works each, and no more bytes with their extensions than the device has room for [C08-08]', () => {
    // Batched broadcasts are bounded by the shared memory of the device instead of by bytes.
    const anyWork = fc.record({
      type: fc.constantFrom(
        WorkType.P2P,
        WorkType.COLLECTIVE,
        WorkType.REGISTERED_COLLECTIVE,
        WorkType.BROADCAST,
      ),
      gap: fc.integer({ min: 0, max: 80 }),
      repeats: fc.integer({ min: 1, max: 200 }),
      apart: fc.constantFrom(0, 1, 2, 31, 63),
    });
    fc.assert(
      fc.property(fc.array(anyWork, { minLength: 1, maxLength: 6 }), (runs) => {
        let offset = 0;
        const works = runs.flatMap(({ type, gap, repeats, apart }) =>
          Array.from({ length: repeats }, (_, round): PlacedWork => {
            const work = { type, function: 0, offset, round: round % 11 };
            offset += WORK_BYTES[type] * (1 + apart) + 16 * gap;
            return work;
          }),
        );
        let bytes = 0;
        let extends_ = false;
        let named = 0;
        for (const { type, workSet, nextExtends } of pack(works).batches) {
          const count = workSet.toString(2).replaceAll('0', '').length;
          expect(workSet >> 64n).toBe(0n);
          bytes = (extends_ ? bytes : 0) + count * WORK_BYTES[type];
          if (type !== WorkType.BROADCAST) expect(bytes).toBeLessThanOrEqual(1024);
          extends_ = nextExtends;
          named += count;
        }
        expect(named).toBe(works.length);
      }),
      { numRuns: 40 },
    );
  });

  it('lie in rounds over the channels, the k-th active one from record k, each with the distance to the next of its channel [C06-35] [C08-04]', () => {
    const channels = new Map([
      [5, pack([collective(0), collective(0, 2), collective(0, 3)])],
      [2, pack([collective(0), collective(0, 2)])],
      [3, pack([])],
      [9, pack([collective(0)])],
    ]);
    const order = orderBatches(channels);
    expect(order.map(({ channel, nextJump }) => [channel, nextJump])).toEqual([
      [2, 3],
      [5, 3],
      [9, 0],
      [2, 0],
      [5, 1],
      [5, 0],
    ]);
  });
});

describe('the budget of a plan', () => {
  it('lets batches and work travel in the arguments, or the work elsewhere', () => {
    const budget = planBudget();
    expect(budget).toEqual({ inside: 4064, outside: 524288, captured: false });
    expect(fitsBudget(budget, 10, 4064 - 160)).toBe(true);
    expect(fitsBudget(budget, 254, 524288)).toBe(true);
    expect(fitsBudget(budget, 255, 16)).toBe(false);
    expect(fitsBudget(budget, 10, 524289)).toBe(false);
    expect(fitsBudget(planBudget({ captured: true }), 10, 524289)).toBe(true);
    expect(fitsBudget(planBudget({ workFifoBytes: 0 }), 1, 4064)).toBe(false);
  });

  it('decides where the work is kept, in multiples of 16 bytes [C06-34] [C06-36]', () => {
    expect(workStorage(planBudget(), 2, 128)).toEqual({ storage: 'args', argumentBytes: 192 });
    expect(workStorage(planBudget(), 2, 5000)).toEqual({ storage: 'fifo', argumentBytes: 64 });
    expect(workStorage(planBudget({ captured: true }), 3, 5000)).toEqual({
      storage: 'persistent',
      argumentBytes: 80,
    });
    expect(workStorage(planBudget(), 1, 48).argumentBytes % 16).toBe(0);
  });

  it('has a ring that never overtakes the device, also when its counters wrap [C02-05]', () => {
    expect([fifoBytes(1000), fifoBytes(4096), fifoBytes(2 ** 31)]).toEqual([2 ** 20, 4096, 2 ** 30]);
    const fifo = new WorkFifo(4096);
    let produced = 0;
    let consumed = 0;
    let overtaken = 0;
    for (let i = 0; i < 3_300_000; i++) {
      const at = fifo.reserve(2048);
      if (produced - consumed + 2048 > 4096) {
        if (at !== undefined) overtaken += 1;
        consumed = produced;
        fifo.consume(consumed % 2 ** 32);
      } else {
        if (at !== produced % 4096) overtaken += 1;
        produced += 2048;
      }
    }
    expect(overtaken).toBe(0);
    expect(produced).toBeGreaterThan(2 ** 32);
    expect(new WorkFifo(4096).shouldReport()).toBeUndefined();
    const reporting = new WorkFifo(4096);
    reporting.reserve(1024);
    expect(reporting.shouldReport()).toBe(1024);
    expect(reporting.shouldReport()).toBeUndefined();
  });
});
