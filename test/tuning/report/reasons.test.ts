/** What sentences claim about two candidates is what their numbers say. */
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { decide } from '#src/tuning/decide.js';
import { tuningTables } from '#src/tuning/model.js';
import { cellOf } from '#src/tuning/names.js';
import { CallStudies, type Candidate } from '#src/tuning/report/candidate.js';
import {
  bandwidthCell,
  bytesText,
  exactBytesText,
  percentText,
  timeCell,
  timesText,
  timeText,
} from '#src/tuning/report/quantities.js';
import {
  candidatesText,
  changeReason,
  comparison,
  exclusionTexts,
  nextBest,
  timeChange,
} from '#src/tuning/report/reasons.js';
import { FunctionStudy } from '#src/tuning/report/study.js';
import { anyInput } from '../any-input.js';
import { fourNodes, plainInput } from '../plain-input.js';

const KIND = { function: 'AllReduce', type: 'float32', op: 'sum', registered: false } as const;

const studyOf = (input: Parameters<typeof tuningTables>[0]) =>
  new FunctionStudy(KIND, new CallStudies(tuningTables(input)), () => undefined);

/** A candidate with these terms. */
function candidate(
  algorithm: 'Tree' | 'Ring',
  latency: number,
  bytes: number,
  factors: { readonly efficiency?: number; readonly latencyFactor?: number } = {},
): Candidate {
  const time = latency + bytes;
  const terms = { latency, bytes, bandwidth: 1000 / bytes, efficiency: 1, latencyFactor: 1, ...factors };
  const cell = cellOf(algorithm, 'LL');
  return { cell, algorithm, protocol: 'LL', time, algbw: 1, busbw: 1, terms, isModelled: true };
}

describe('a comparison', () => {
  test.each([
    [
      [10, 100],
      [20, 200],
      'Tree/LL has less latency (10 against 20 us) and more bandwidth (10 against 5 GB/s)',
    ],
    [
      [10, 200],
      [120, 100],
      'Tree/LL has 110 us less latency (10 against 120 us), which outweighs that its bytes take 100 us longer (5 against 10 GB/s)',
    ],
    [
      [120, 100],
      [10, 250],
      'the bytes of Tree/LL take 150 us less (10 against 4 GB/s), which outweighs 110 us more latency (120 against 10 us)',
    ],
    [[10, 100], [20, 100], 'Tree/LL has less latency (10 against 20 us) and as much bandwidth'],
    [[10, 100], [10, 200], 'Tree/LL has more bandwidth (10 against 5 GB/s) and as much latency'],
    [[10, 100], [100, 10], 'both take as long; NCCL takes the one that it lists first'],
  ] as const)('of %j with %j: %s', ([latency, bytes], [otherLatency, otherBytes], text) => {
    const [better, other] = [candidate('Tree', latency, bytes), candidate('Ring', otherLatency, otherBytes)];
    expect(comparison(better, other)).toBe(text);
  });

  it('never praises what is worse, for any communicator and size', () => {
    fc.assert(
      fc.property(anyInput, fc.integer({ min: 1, max: 2 ** 33 }), (input, count) => {
        fc.pre(input.nRanks > 1);
        const study = studyOf(input);
        const call = study.at(count);
        const next = call.candidates.find((one) => one !== call.chosen);
        fc.pre(call.chosen?.terms !== undefined && next?.terms !== undefined);
        const text = nextBest(call)!;
        const [own, other] = [call.chosen!.terms!, next!.terms!];
        if (text.includes('less latency')) expect(own.latency).toBeLessThan(other.latency);
        if (text.includes('more latency')) expect(own.latency).toBeGreaterThan(other.latency);
        if (text.includes('more bandwidth')) expect(own.bytes).toBeLessThan(other.bytes);
        if (text.includes('its bytes take')) expect(own.bytes).toBeGreaterThan(other.bytes);
        if (text.includes('longer)')) expect(next!.time).toBeGreaterThan(call.chosen!.time);
        expect(text).not.toMatch(/NaN|undefined|Infinity/);
      }),
      { numRuns: 150 },
    );
  });
});

describe('the reason of a change', () => {
  it('is the higher bandwidth where two lines cross', () => {
    const [was, is] = [candidate('Tree', 10, 200), candidate('Ring', 100, 109.9)];
    expect(changeReason({ before: { old: was, new: is }, after: { old: was, new: is } })).toBe(
      'its higher bandwidth (9.099 against 5 GB/s) has made up for 90 us more latency (100 against 10 us)',
    );
  });

  it('is a correction of the model where one begins at the size', () => {
    const before = { old: candidate('Tree', 10, 80, { efficiency: 0.8 }), new: candidate('Ring', 20, 75) };
    const after = { old: candidate('Tree', 10, 100, { efficiency: 0.6 }), new: candidate('Ring', 20, 75) };
    expect(changeReason({ before, after })).toBe(
      'from this size on NCCL counts Tree/LL with 60 % of its bandwidth, below it with 80 %; Ring/LL takes 95 against 110 us',
    );
    const plateau = {
      old: candidate('Ring', 14, 90, { latencyFactor: 1.4 }),
      new: candidate('Tree', 12, 90),
    };
    expect(
      changeReason({ before: { old: candidate('Ring', 10, 90), new: plateau.new }, after: plateau }),
    ).toBe(
      'from this size on NCCL multiplies the latency of Ring/LL by 1.4, below it by 1; Tree/LL takes 102 against 104 us',
    );
  });

  it('is true of every change, for any communicator', () => {
    fc.assert(
      fc.property(anyInput, (input) => {
        fc.pre(input.nRanks > 1);
        const study = studyOf(input);
        for (const change of study.changes(1, 2 ** 30)) {
          const text = changeReason(change);
          const { before, after } = change;
          expect(after.new!.time).toBeLessThanOrEqual(after.old!.time);
          expect(before.old!.time).toBeLessThanOrEqual(before.new!.time);
          const corrected = [
            [before.old!, after.old!],
            [before.new!, after.new!],
          ].some(
            ([low, high]) =>
              low!.terms!.efficiency !== high!.terms!.efficiency ||
              low!.terms!.latencyFactor !== high!.terms!.latencyFactor,
          );
          expect(text.includes('from this size on')).toBe(corrected);
          if (text.includes('higher bandwidth')) {
            expect(after.new!.terms!.bandwidth).toBeGreaterThan(after.old!.terms!.bandwidth);
            expect(after.new!.terms!.latency).toBeGreaterThan(after.old!.terms!.latency);
          }
          expect(text).not.toMatch(/NaN|undefined|Infinity/);
        }
      }),
      { numRuns: 100 },
    );
  });
});

describe('exclusions', () => {
  const excludedOf = (input: Parameters<typeof tuningTables>[0]) =>
    decide(tuningTables(input), { function: 'AllReduce', bytes: 8, type: 'float32' }).excluded;

  it('name candidates by reason, with the variable, and what has no kernels last', () => {
    expect(exclusionTexts(excludedOf(fourNodes()))).toEqual([
      'CollNetDirect, CollNetChain: CollNet is not in use (NCCL_COLLNET_ENABLE)',
      'NVLS, NVLSTree: the NVLS graph has 0 channels, NVLS needs 2',
      'PAT: no kernels for this function',
    ]);
  });

  it('of a list are one sentence', () => {
    const texts = exclusionTexts(excludedOf(plainInput({ env: { NCCL_ALGO: 'ring', NCCL_PROTO: '^LL' } })));
    expect(texts).toContain(
      'Tree, CollNetDirect, CollNetChain, NVLS, NVLSTree: NCCL_ALGO=ring leaves them out',
    );
    expect(texts).toContain('Tree/LL, Ring/LL: NCCL_PROTO=^LL leaves them out');
  });

  it('shorten all protocols of an algorithm to its name', () => {
    expect(candidatesText(['Ring/LL', 'Ring/LL128', 'Ring/Simple', 'NVLS/Simple', 'Tree/LL'])).toBe(
      'Tree/LL, Ring, NVLS',
    );
  });
});

describe('numbers', () => {
  it('are written for people', () => {
    expect([8, 1023, 1024, 1536, 2 ** 20, 138.4 * 1024, 4 * 2 ** 30, 2 ** 44].map(bytesText)).toEqual([
      '8 B',
      '1023 B',
      '1 KB',
      '1.5 KB',
      '1 MB',
      '138.4 KB',
      '4 GB',
      '16 TB',
    ]);
    expect([65536, 17280, 576000, 2 ** 21, 7].map(exactBytesText)).toEqual([
      '64 KB',
      '17280 B',
      '562.5 KB',
      '2 MB',
      '7 B',
    ]);
    expect([0, 0.6, 83.224411, 999.94, 1234.5, 3.5e6].map(timeText)).toEqual([
      '0 us',
      '0.6 us',
      '83.22 us',
      '999.9 us',
      '1.234 ms',
      '3.5 s',
    ]);
    expect(timesText(65.5, 1027)).toBe('0.0655 against 1.027 ms');
    expect([5.556, 55.56, 12345.6].map(timeCell)).toEqual(['5.56', '55.6', '12346']);
    expect([0.001, 9.996, 123.45].map(bandwidthCell)).toEqual(['0.00', '10.00', '123.5']);
    expect([0, 0.002, 0.126, 1].map(percentText)).toEqual(['0 %', '0.2 %', '13 %', '100 %']);
  });

  it('of two times say how they differ', () => {
    const [a, b, c] = [candidate('Tree', 10, 90), candidate('Ring', 10, 102), candidate('Ring', 50, 250)];
    expect([timeChange(a, a), timeChange(a, b), timeChange(b, a), timeChange(a, c)]).toEqual([
      'the same time',
      '12 % longer',
      '11 % shorter',
      '3 times as long',
    ]);
  });
});
