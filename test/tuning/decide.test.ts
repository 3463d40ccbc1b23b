/** Decisions: the published times, ties, what excludes candidates for one call, errors. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TuttiError } from '#src/errors/tutti-error.js';
import { ELEMENT_TYPE_NAMES, type ElementType } from '#src/kernel/element-types.js';
import { DEVICE_REDUCTIONS, nvlsReduces, type TuningCall } from '#src/tuning/call.js';
import { type Decision, decide, evaluate } from '#src/tuning/decide.js';
import { DecisionCache } from '#src/tuning/decision-cache.js';
import { type TuningTables, tuningTables } from '#src/tuning/model.js';
import {
  algorithmOf,
  cellOf,
  NCCL_FUNCTIONS,
  type NcclAlgorithm,
  type NcclFunction,
  type NcclProtocol,
  protocolOf,
} from '#src/tuning/names.js';
import { IGNORE } from '#src/tuning/tuner.js';
import { anyInput } from './any-input.js';
import { collnetNodes, fourNodes, graph, plainInput, singleGpuNodes, tablesOf } from './plain-input.js';

const call = (fn: NcclFunction, bytes: number, change: Partial<TuningCall> = {}): TuningCall => ({
  function: fn,
  bytes,
  type: fn === 'Broadcast' || fn === 'AllGather' ? 'int8' : 'float32',
  ...change,
});

const cost = (tables: TuningTables, one: TuningCall, algorithm: NcclAlgorithm, protocol: NcclProtocol) =>
  evaluate(tables, one).costs[cellOf(algorithm, protocol)]!;

const chosen = ({ algorithm, protocol }: Decision) => `${algorithm}/${protocol}`;

const KIB = 1024;
const MIB = KIB * KIB;

const errorOf = (run: () => unknown): TuttiError => {
  try {
    run();
  } catch (error) {
    return error as TuttiError;
  }
  throw new Error('no error');
};

describe('predicted times', () => {
  const hopper = tablesOf(plainInput());
  it.each([
    [KIB, 'Ring/LL', 15.013],
    [32768, 'Ring/LL', 15.407],
    [MIB, 'Ring/LL', 28.014],
    [4 * MIB, 'NVLS/Simple', 47.938],
    [KIB * MIB, 'Ring/Simple', 5275.578],
  ])('8 Hopper GPUs: all-reduce of %i bytes takes %s, %d us [C05-01]', (bytes, name, time) => {
    const decision = decide(hopper, call('AllReduce', bytes));
    expect(chosen(decision)).toBe(name);
    expect(decision.time).toBeCloseTo(time, 2);
  });

  it.each([
    [KIB, 'Tree', 'LL', 45.312],
    [MIB, 'Tree', 'LL128', 96.607],
    [MIB, 'Ring', 'Simple', 448.501],
    [256 * MIB, 'Ring', 'LL128', 3103.771],
    [256 * MIB, 'Ring', 'Simple', 3146.741],
    [256 * MIB, 'Tree', 'LL128', 3317.474],
  ] as const)('four nodes: %i bytes by %s %s take %d us', (bytes, algorithm, protocol, time) => {
    const four = tablesOf(fourNodes());
    expect(cost(four, call('AllReduce', bytes), algorithm, protocol)).toBeCloseTo(time, 2);
  });

  it('four nodes of one GPU gather by PAT while messages are small', () => {
    const single = tablesOf(singleGpuNodes());
    expect(chosen(decide(single, call('AllGather', KIB)))).toBe('PAT/Simple');
    expect(decide(single, call('AllGather', KIB)).time).toBeCloseTo(32.971, 2);
    expect(chosen(decide(single, call('AllGather', MIB)))).toBe('Ring/LL128');
    expect(decide(single, call('AllGather', MIB)).time).toBeCloseTo(90.117, 2);
    expect(cost(single, call('AllGather', MIB), 'PAT', 'Simple')).toBeCloseTo(91.169, 2);
  });

  it.each([
    [75, 1.9],
    [80, 1.4],
  ])(
    'rings with Simple over nodes wait longer from 64 bytes per channel and rank on: capability %i',
    (minSm, factor) => {
      const tables = tablesOf(fourNodes({ minSm }));
      // 16 channels, 32 ranks
      const below = 64 * 16 * 32 - 1;
      const latency = (bytes: number, fn: NcclFunction = 'AllReduce') => {
        const time = cost(tables, call(fn, bytes), 'Ring', 'Simple');
        const slope = cost(tables, call(fn, 2 * bytes), 'Ring', 'Simple') - time;
        return bytes > below ? time - slope : time;
      };
      expect(latency(below + 1) / 312.8).toBeCloseTo(factor, 2);
      expect(latency(below) / 312.8).toBeCloseTo(1, 2);
      expect(latency(below + 1, 'AllGather')).toBeCloseTo(8.4 + 28 * 3.4 + 3 * 19, 0);
    },
  );

  it('trees are less efficient in the middle, from 64 bytes to half a gigabyte', () => {
    const tables = tablesOf(fourNodes());
    const bandwidth = (bytes: number) => {
      const times = [0.75, 1].map((share) =>
        cost(tables, call('AllReduce', share * bytes), 'Tree', 'Simple'),
      );
      return (0.25 * bytes) / 1000 / (times[1]! - times[0]!) / 88.32;
    };
    // Both sizes lie in the class below `bytes` * 2 and above `bytes` / 2.
    expect(bandwidth(MIB + MIB / 2)).toBeCloseTo(0.5, 2);
    expect(bandwidth(2 ** 28 + 2 ** 27)).toBeCloseTo(0.9, 2);
    expect(bandwidth(2 ** 30)).toBeCloseTo(1, 2);
  });

  it('trees of the NVSwitch too, on Blackwell with x86 only', () => {
    const time = (minSm: number, cpuArch: number) =>
      cost(tablesOf(collnetNodes({ minSm, cpuArch })), call('AllReduce', MIB), 'NVLSTree', 'Simple');
    const full = time(100, 3);
    const latency = 25 + 2 * 20.9;
    expect((full - latency) / (time(100, 1) - latency)).toBeCloseTo(0.5, 2);
    expect(time(90, 1)).toBe(time(90, 3));
  });

  it('pipelined operations cost a ring latency each, other algorithms one per eight', () => {
    const times = (pipelined: number, algorithm: NcclAlgorithm, protocol: NcclProtocol) =>
      cost(hopper, call('AllReduce', 64, { pipelined }), algorithm, protocol);
    expect(times(5, 'Ring', 'LL')).toBeCloseTo(5 * 15, 1);
    expect(times(8, 'Tree', 'LL')).toBeCloseTo(15.2, 1);
    expect(times(9, 'Tree', 'LL')).toBeCloseTo(2 * 15.2, 1);
  });
});

describe('choice', () => {
  it('of equals takes the lowest algorithm, then the lowest protocol', () => {
    const tables = tuningTables(plainInput(), {
      tuner: { name: 'equal', init: () => ({ getCollInfo: (_, costs) => 0 * costs.fill(7).length }) },
    });
    expect(chosen(decide(tables, call('AllReduce', 64)))).toBe('Tree/LL');
  });

  it('a single rank copies: Ring with Simple at no cost, without a model', () => {
    const one = tablesOf(plainInput({ nRanks: 1 }));
    const decision = decide(one, call('AllReduce', 64));
    expect(chosen(decision)).toBe('Ring/Simple');
    expect(decision.time).toBe(0);
    expect(decision.excluded.map(({ rule }) => rule)).toEqual(new Array(20).fill('one-rank'));
  });

  it.each([0, -1, 1.5, Number.NaN, 2 ** 53])('a call of %d bytes is refused', (bytes) => {
    expect(errorOf(() => decide(tablesOf(plainInput()), call('AllReduce', bytes))).code).toBe(
      'invalidArgument',
    );
  });

  it.each([0, -3, 0.5])('%d pipelined operations are refused', (pipelined) => {
    const error = errorOf(() => decide(tablesOf(plainInput()), call('AllReduce', 8, { pipelined })));
    expect(error.code).toBe('invalidArgument');
  });

  it('without a candidate is an error that names function, type and variables [C05-30, C05-31, C21-09]', () => {
    const tree = errorOf(() =>
      decide(tablesOf(plainInput({ env: { NCCL_ALGO: 'Tree' } })), call('Broadcast', 8)),
    );
    expect(tree.code).toBe('invalidUsage');
    expect(tree.message).toMatch(
      /^No algorithm\/protocol available for function Broadcast with datatype int8 \(as bytes\)\. NCCL_ALGO was set to Tree\. Tree does not do Broadcast\.$/,
    );
    expect(tree.message).not.toContain('NCCL_PROTO');
    const both = { NCCL_ALGO: 'NVLS', NCCL_PROTO: 'LL' };
    const none = errorOf(() => decide(tablesOf(plainInput({ env: both })), call('AllReduce', 8)));
    expect(none.message).toContain('NCCL_ALGO was set to NVLS. NCCL_PROTO was set to LL.');
    // What is told is what is in the way of the algorithm that was asked for.
    expect(none.message).toContain('Nearest: NVLS with Simple, but NCCL_PROTO=LL leaves out Simple');
    const empty = plainInput({ graphs: { ring: graph(0, 0, 0) } });
    const broken = errorOf(() => decide(tablesOf(empty), call('Reduce', 8)));
    expect(broken.code).toBe('internalError');
    expect(broken.message).toContain(
      'Nearest: Ring with LL, but Ring has a graph without channels or bandwidth',
    );
  });

  it('a variable that is set to nothing counts as set when nothing is left', () => {
    const empty = plainInput({ graphs: { ring: graph(0, 0, 0) }, env: { NCCL_PROTO: '' } });
    expect(errorOf(() => decide(tablesOf(empty), call('Reduce', 8))).code).toBe('invalidUsage');
  });
});

describe('8-bit floats', () => {
  it.each([
    ['float8e4m3', 9, 1024],
    ['float8e5m2', 9, 1024],
    ['float8e4m3', 8, 1],
    ['float16', 9, 1],
    ['int8', 9, 1],
  ] as const)('%s on %i ranks make rings cost %i times as much', (type, nRanks, factor) => {
    const tables = tablesOf(fourNodes({ nRanks, maxLocalRanks: 8 }));
    const ring = cost(tables, call('AllReduce', MIB), 'Ring', 'Simple');
    const tree = cost(tables, call('AllReduce', MIB), 'Tree', 'Simple');
    const eight = call('AllReduce', MIB, { type });
    expect(cost(tables, eight, 'Ring', 'Simple')).toBe(Math.fround(ring * factor));
    expect(cost(tables, eight, 'Tree', 'Simple')).toBe(tree);
  });

  it('an unavailable ring stays unavailable, though its mark is multiplied', () => {
    const tables = tablesOf(fourNodes({ env: { NCCL_PROTO: 'Simple' } }));
    const eight = call('AllReduce', MIB, { type: 'float8e4m3' });
    expect(cost(tables, eight, 'Ring', 'LL')).toBe(-1024);
    expect(decide(tables, eight).protocol).toBe('Simple');
  });
});

describe('hardware that reduces', () => {
  const both: ElementType[] = ['int32', 'uint32', 'int64', 'uint64', 'float16', 'bfloat16'];
  it.each(ELEMENT_TYPE_NAMES)('the NVSwitch and %s', (type) => {
    const wanted = both.includes(type)
      ? ['Sum', 'MinMax']
      : ['float32', 'float64'].includes(type)
        ? ['Sum']
        : [];
    const able = DEVICE_REDUCTIONS.filter((reduction) =>
      nvlsReduces(call('AllReduce', 8, { type, reduction })),
    );
    expect(able).toEqual(wanted);
    expect(nvlsReduces(call('AllGather', 8, { type }))).toBe(true);
  });

  const rulesFor = (tables: TuningTables, one: TuningCall, algorithm: NcclAlgorithm) =>
    evaluate(tables, one)
      .excluded.filter((why) => why.algorithm === algorithm && why.protocol === 'Simple')
      .map(({ rule }) => rule);

  it('NVLS is left out where the NVSwitch cannot reduce', () => {
    const tables = tablesOf(plainInput());
    const product = call('AllReduce', 64 * MIB, { reduction: 'Prod' });
    expect(cost(tables, product, 'NVLS', 'Simple')).toBe(IGNORE);
    expect(rulesFor(tables, product, 'NVLS')).toEqual(['nvls-operation']);
    expect(rulesFor(tables, call('AllReduce', 64 * MIB), 'NVLS')).toEqual([]);
  });

  it('NVLS is left out where it is not in use', () => {
    const tables = tablesOf(plainInput({ nvls: { enabled: false } }));
    expect(rulesFor(tables, call('AllReduce', MIB), 'NVLS')).toEqual(['nvls-off']);
  });

  it('NVLS gathers among 32 ranks of a node at most; all-reduce has no such bound', () => {
    for (const [localRanks, rules] of [
      [32, []],
      [33, ['nvls-local-ranks']],
    ] as const) {
      const tables = tablesOf(plainInput({ nRanks: localRanks, localRanks, maxLocalRanks: localRanks }));
      expect(rulesFor(tables, call('AllGather', MIB), 'NVLS')).toEqual(rules);
      expect(rulesFor(tables, call('ReduceScatter', MIB), 'NVLS')).toEqual(rules);
      expect(rulesFor(tables, call('AllReduce', MIB), 'NVLS')).toEqual([]);
    }
  });

  it('CollNet is asked for each operator and type, averages as sums', () => {
    const asked: string[] = [];
    const supports = (operator: string, type: string) => {
      asked.push(`${operator} ${type}`);
      return operator === 'sum';
    };
    const tables = tablesOf(collnetNodes({ collnet: { supports } }));
    const rules = (change: Partial<TuningCall>) =>
      rulesFor(tables, call('AllReduce', MIB, change), 'CollNetChain');
    expect(rules({ reduction: 'PreMulSum' })).toEqual([]);
    expect(rules({ reduction: 'SumPostDiv', type: 'int32' })).toEqual([]);
    expect(rules({ reduction: 'MinMax', operator: 'min' })).toEqual(['collnet-operation']);
    expect(rules({ reduction: 'MinMax' })).toEqual(['collnet-operation']);
    expect(rules({ reduction: 'Prod' })).toEqual(['collnet-operation']);
    expect(asked).toEqual(['sum float32', 'sum int32', 'min float32', 'max float32', 'prod float32']);
    expect(rulesFor(tables, call('AllGather', MIB), 'CollNetDirect')).toEqual([]);
    expect(asked).toHaveLength(5);
  });

  it('NVLS over nodes goes with CollNet', () => {
    const tables = tablesOf(collnetNodes({ collnet: { supports: () => false } }));
    expect(rulesFor(tables, call('AllReduce', MIB), 'NVLS')).toEqual(['nvls-collnet']);
    expect(rulesFor(tables, call('AllReduce', MIB), 'NVLSTree')).toEqual([]);
  });

  it('CollNet serves 8 ranks per node at most', () => {
    for (const [maxLocalRanks, rules] of [
      [8, []],
      [9, ['collnet-local-ranks']],
    ] as const) {
      const tables = tablesOf(collnetNodes({ maxLocalRanks }));
      expect(rulesFor(tables, call('AllReduce', MIB), 'CollNetChain')).toEqual(rules);
      expect(rulesFor(tables, call('AllReduce', MIB), 'CollNetDirect')).toEqual(rules);
    }
  });

  it('PAT does not scale', () => {
    const tables = tablesOf(singleGpuNodes());
    for (const [reduction, rules] of [
      ['Sum', []],
      ['MinMax', []],
      ['PreMulSum', ['pat-scaling']],
      ['SumPostDiv', ['pat-scaling']],
    ] as const) {
      expect(rulesFor(tables, call('ReduceScatter', KIB, { reduction }), 'PAT')).toEqual(rules);
      expect(rulesFor(tables, call('AllGather', KIB, { reduction }), 'PAT')).toEqual([]);
    }
  });
});

describe('any decision', () => {
  const anyCall = fc.record({
    function: fc.constantFrom(...NCCL_FUNCTIONS),
    bytes: fc.oneof(fc.integer({ min: 1, max: 1 << 20 }), fc.integer({ min: 1, max: 2 ** 40 })),
    type: fc.constantFrom(...ELEMENT_TYPE_NAMES),
    reduction: fc.constantFrom(...DEVICE_REDUCTIONS),
    pipelined: fc.integer({ min: 1, max: 100 }),
    registered: fc.boolean(),
  });

  it('is the least of the available times, finite and positive, with a reason for each cell that is missing [C05-32]', () => {
    fc.assert(
      fc.property(
        anyInput.filter(({ nRanks }) => nRanks > 1),
        anyCall,
        (input, one) => {
          const tables = tablesOf(input);
          const { costs, excluded, best } = evaluate(tables, one);
          const available = costs.filter((time) => time >= 0);
          if (best === undefined) {
            expect(available.length).toBe(0);
            expect(errorOf(() => decide(tables, one)).code).toBe('internalError');
          } else {
            const decision = decide(tables, one);
            expect(decision.time).toBe(Math.min(...available));
            expect(Number.isFinite(decision.time) && decision.time > 0).toBe(true);
            expect(cellOf(decision.algorithm, decision.protocol)).toBe(best);
            expect(decide(tablesOf(input), one)).toEqual(decision);
          }
          for (const [cell, time] of costs.entries()) {
            const [algorithm, protocol] = [algorithmOf(cell), protocolOf(cell)];
            const why = excluded.filter(
              (reason) => reason.algorithm === algorithm && reason.protocol === protocol,
            );
            expect(why.length > 0).toBe(time < 0);
            expect(why.every(({ reason }) => reason !== '')).toBe(true);
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it('leaves times of all candidates but trees and plateaus growing with the message', () => {
    fc.assert(
      fc.property(
        anyInput.filter(({ nRanks }) => nRanks > 1),
        anyCall,
        fc.integer({ min: 1, max: 2 ** 40 }),
        (input, one, more) => {
          const tables = tablesOf(input);
          const small = evaluate(tables, one).costs;
          const large = evaluate(tables, { ...one, bytes: one.bytes + more }).costs;
          for (const [cell, time] of small.entries()) {
            if (['Tree', 'NVLSTree'].includes(algorithmOf(cell))) continue;
            if (time >= 0) expect(large[cell]).toBeGreaterThanOrEqual(time);
          }
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('remembered decisions', () => {
  it('are those that would be made', () => {
    const tables = tablesOf(collnetNodes());
    const cache = new DecisionCache(tables);
    const anyCall = fc.record({
      function: fc.constantFrom(...NCCL_FUNCTIONS),
      bytes: fc.integer({ min: 1, max: 3 }).map((k) => 1000 ** k),
      type: fc.constantFrom('float32' as const, 'float16' as const),
      reduction: fc.constantFrom('Sum' as const, 'Prod' as const),
      operator: fc.constantFrom(undefined, 'min' as const),
      pipelined: fc.constantFrom(undefined, 2),
      registered: fc.constantFrom(undefined, true),
    });
    fc.assert(
      fc.property(anyCall, (one) => {
        expect(cache.decide(one)).toEqual(decide(tables, one));
        expect(cache.decide({ ...one })).toBe(cache.decide(one));
      }),
      { numRuns: 200 },
    );
  });

  it('do not grow without bound', () => {
    const cache = new DecisionCache(tablesOf(plainInput()));
    const first = cache.decide(call('AllReduce', 1));
    for (let bytes = 2; bytes < 10000; bytes++) cache.decide(call('AllReduce', bytes));
    expect(cache.decide(call('AllReduce', 1))).not.toBe(first);
    expect(cache.decide(call('AllReduce', 1))).toEqual(first);
  });

  it('are made again for kinds of calls that are too many', () => {
    const cache = new DecisionCache(tablesOf(plainInput()));
    const first = cache.decide(call('AllReduce', 1));
    for (let pipelined = 1; pipelined <= 31; pipelined++) cache.decide(call('AllReduce', 1, { pipelined }));
    expect(cache.decide(call('AllReduce', 1))).toBe(first);
    cache.decide(call('AllReduce', 1, { pipelined: 32 }));
    expect(cache.decide(call('AllReduce', 1))).not.toBe(first);
    expect(cache.decide(call('AllReduce', 1))).toEqual(first);
  });

  it('are kept of a tuner only if it always answers alike', () => {
    for (const [repeatable, calls] of [
      [undefined, 3],
      [true, 1],
    ] as const) {
      let asked = 0;
      const tuner = {
        ...(repeatable === undefined ? {} : { repeatable }),
        getCollInfo: () => {
          asked++;
          return 0;
        },
      };
      const cache = new DecisionCache(
        tuningTables(plainInput(), { tuner: { name: 'count', init: () => tuner } }),
      );
      for (let i = 0; i < 3; i++) cache.decide(call('AllReduce', 64));
      expect(asked).toBe(calls);
    }
  });
});
