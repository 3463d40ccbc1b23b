/** Thread limits and thresholds, and the channels and warps that follow from them. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { channelBound } from '#src/tuning/channel-bound.js';
import { maxThreads } from '#src/tuning/max-threads.js';
import { CELLS, cellOf, type NcclAlgorithm, type NcclProtocol } from '#src/tuning/names.js';
import { tuningSettings } from '#src/tuning/settings.js';
import { threadThresholds } from '#src/tuning/thread-thresholds.js';
import { anyInput } from './any-input.js';
import { collnetNodes, plainInput, singleGpuNodes, tablesOf } from './plain-input.js';

const threadsWith = (
  env: Record<string, string>,
  algorithm: NcclAlgorithm,
  protocol: NcclProtocol,
  bandwidth = 30,
) => maxThreads(tuningSettings(env), { bwIntra: bandwidth, nChannels: 1 })[cellOf(algorithm, protocol)];

describe('threads at most', () => {
  it.each([
    [undefined, 512],
    ['64', 64],
    ['128', 128],
    ['32', 64],
    ['544', 512],
    ['1024', 512],
    ['100', 512],
    ['33', 512],
    ['0', 512],
    ['-1', 512],
    ['0x100', 256],
  ])('NCCL_NTHREADS=%s gives %i for LL and Simple', (text, threads) => {
    const env = text === undefined ? {} : { NCCL_NTHREADS: text };
    for (const protocol of ['LL', 'Simple'] as const) {
      expect(threadsWith(env, 'Tree', protocol)).toBe(threads);
      expect(threadsWith(env, 'Ring', protocol)).toBe(threads);
    }
    expect(threadsWith(env, 'Ring', 'LL128')).toBe(640);
    expect(threadsWith(env, 'NVLS', 'Simple')).toBe(640);
  });

  it.each([
    ['160', 160],
    ['64', 160],
    ['320', 320],
    ['800', 640],
    ['200', 640],
    ['-2', 640],
  ])('NCCL_LL128_NTHREADS=%s gives %i for LL128', (text, threads) => {
    const env = { NCCL_LL128_NTHREADS: text };
    expect(threadsWith(env, 'Ring', 'LL128')).toBe(threads);
    expect(threadsWith(env, 'Tree', 'LL128')).toBe(threads);
    expect(threadsWith(env, 'Ring', 'LL')).toBe(512);
  });

  it('a ring no faster than PCI takes half of them for Simple, unless a number is asked for', () => {
    expect(threadsWith({}, 'Ring', 'Simple', 12)).toBe(256);
    expect(threadsWith({}, 'Ring', 'Simple', 12.1)).toBe(512);
    expect(threadsWith({}, 'Tree', 'Simple', 12)).toBe(512);
    // Single precision: 120 times 0.1 is 12 there, and more in double precision.
    const slow = maxThreads(tuningSettings(), { bwIntra: Math.fround(0.1), nChannels: 120 });
    expect(slow[cellOf('Ring', 'Simple')]).toBe(256);
    expect(threadsWith({ NCCL_NTHREADS: '512' }, 'Ring', 'Simple', 12)).toBe(512);
  });

  it('corrections are logged', () => {
    const lines: string[] = [];
    maxThreads(tuningSettings({ NCCL_NTHREADS: '100' }), { bwIntra: 30, nChannels: 1 }, (...line) =>
      lines.push(line.join(' ')),
    );
    expect(lines).toContain('INFO GRAPH NCCL_NTHREADS 100 must be a multiple of 32, using 512');
  });
});

describe('bytes per thread', () => {
  const six = (text: string | undefined) => {
    const table = threadThresholds(16, text);
    return ['Tree', 'Ring'].flatMap((algorithm) =>
      ['LL', 'LL128', 'Simple'].map(
        (protocol) => table[cellOf(algorithm as NcclAlgorithm, protocol as NcclProtocol)],
      ),
    );
  };

  it.each([
    [undefined, [8, 8, 64, 128, 8, 64]],
    ['1 2 3 4 5 6', [1, 2, 3, 4, 5, 6]],
    ['1 -2 3', [1, 8, 3, 128, 8, 64]],
    ['  10\t20\n30', [10, 20, 30, 128, 8, 64]],
    ['0 0 0 0 0 0', [0, 0, 0, 0, 0, 0]],
    ['1 2 3 4 5 6 7', [1, 2, 3, 4, 5, 6]],
    ['1 2 x 4', [1, 2, 64, 128, 8, 64]],
    ['', [8, 8, 64, 128, 8, 64]],
    ['1,2', [1, 8, 64, 128, 8, 64]],
  ])('NCCL_THREAD_THRESHOLDS=%j', (text, wanted) => {
    expect(six(text)).toEqual(wanted);
  });

  it('CollNet has its own', () => {
    const table = threadThresholds(16, '1 2 3 4 5 6');
    expect(table[cellOf('CollNetDirect', 'Simple')]).toBe(512);
    expect(table[cellOf('CollNetChain', 'Simple')]).toBe(512);
    expect(table[cellOf('NVLS', 'Simple')]).toBe(64);
  });
});

describe('channels and warps', () => {
  const tables = tablesOf(plainInput());
  it.each([
    ['Ring', 'LL', 1024, 1, 3],
    ['Ring', 'LL', 20000, 1, 8],
    ['Ring', 'LL', 100000, 3, 16],
    ['Ring', 'LL128', 4000, 1, 10],
    ['Ring', 'LL128', 100000, 19, 20],
    ['Ring', 'Simple', 20000, 1, 9],
    ['Ring', 'Simple', 1048576, 24, 17],
    ['Tree', 'LL', 65536, 16, 20],
  ] as const)(
    '%s %s of %i bytes: %i channels, %i warps [C21-18]',
    (algorithm, protocol, bytes, channels, warps) => {
      expect(channelBound(tables, cellOf(algorithm, protocol), bytes)).toEqual({ channels, warps });
    },
  );

  it.each([
    [1 << 20, 3],
    [1 << 24, 12],
    [1 << 27, 24],
  ])('CollNet direct of %i bytes with 8 heads: %i channels', (bytes, channels) => {
    const collnet = tablesOf(collnetNodes({ nChannels: 24 }));
    expect(channelBound(collnet, cellOf('CollNetDirect', 'Simple'), bytes)).toEqual({ channels, warps: 20 });
  });

  it('NVLS has its own channels, but over nodes no more than others have', () => {
    const one = tablesOf(plainInput({ nChannels: 4 }));
    expect(channelBound(one, cellOf('NVLS', 'Simple'), 8)).toEqual({ channels: 16, warps: 20 });
    const two = tablesOf(collnetNodes({ nChannels: 4 }));
    expect(channelBound(two, cellOf('NVLS', 'Simple'), 8)).toEqual({ channels: 4, warps: 20 });
    expect(channelBound(two, cellOf('NVLSTree', 'Simple'), 8)).toEqual({ channels: 16, warps: 20 });
  });

  it('PAT always has all of them', () => {
    expect(channelBound(tablesOf(singleGpuNodes()), cellOf('PAT', 'Simple'), 4)).toEqual({
      channels: 4,
      warps: 20,
    });
  });

  it('thresholds that overflow 32 bits count as larger than any message', () => {
    const huge = tablesOf(plainInput({ env: { NCCL_THREAD_THRESHOLDS: '8 8 200000' } }));
    // 24 * 512 * 200000 is negative as a 32-bit integer, so channels go down until it is not.
    const bound = channelBound(huge, cellOf('Tree', 'Simple'), 2 ** 40);
    expect(bound.channels).toBe(20);
  });

  it('never leave 1..64 channels and 3..20 warps, and grow with the message', () => {
    fc.assert(
      fc.property(
        anyInput.map(tablesOf),
        fc.integer({ min: 0, max: CELLS - 1 }),
        fc.integer({ min: 1, max: 2 ** 33 }),
        fc.integer({ min: 1, max: 2 ** 33 }),
        (any, cell, a, b) => {
          const [small, large] = [
            channelBound(any, cell, Math.min(a, b)),
            channelBound(any, cell, Math.max(a, b)),
          ];
          for (const { channels, warps } of [small, large]) {
            expect(channels).toBeGreaterThanOrEqual(any.input.nvls.nChannels === 0 ? 0 : 1);
            expect(channels).toBeLessThanOrEqual(64);
            expect(warps).toBeGreaterThanOrEqual(3);
            expect(warps).toBeLessThanOrEqual(20);
          }
          expect(small.channels).toBeLessThanOrEqual(large.channels);
          expect(small.warps).toBeLessThanOrEqual(large.warps);
        },
      ),
      { numRuns: 300 },
    );
  });
});
