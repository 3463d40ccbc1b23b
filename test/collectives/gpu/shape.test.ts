/** What is chosen for calls on GPUs, over teams and sizes. */
import { describe, expect, it } from 'vitest';
import { areaLayout, LL_BLOCKS, MAX_GPU_BLOCKS } from '#src/collectives/gpu/area.js';
import { GPU_COLLECTIVES, type GpuCall, type GpuTeam } from '#src/collectives/gpu/call.js';
import { gpuLaunch, LL_THREADS } from '#src/collectives/gpu/launch.js';

const pair: GpuTeam = {
  ranks: 2,
  multiprocessors: 132,
  ranksPerDevice: 1,
  addressing: 'plain',
  wholeLines: true,
};
const teams: readonly GpuTeam[] = [
  pair,
  { ...pair, ranks: 8, addressing: 'mapped' },
  { ...pair, ranks: 5, ranksPerDevice: 5, multiprocessors: 16 },
  { ...pair, ranks: 32, multiprocessors: 148 },
  { ...pair, ranks: 1 },
];

function sum(count: number, collective: GpuCall['collective'] = 'allReduce'): GpuCall {
  return { collective, type: 'float32', op: 'sum', count };
}

function integers(count: number, collective: GpuCall['collective'] = 'allReduce'): GpuCall {
  return { ...sum(count, collective), type: 'int32' };
}

describe('gpuLaunch', () => {
  it('never takes more blocks than run at the same time, and cuts data into what they hold', () => {
    for (const team of teams) {
      for (const collective of GPU_COLLECTIVES) {
        for (let count = 1; count < 1 << 29; count = Math.ceil(count * 1.37)) {
          const { shape, blocks, threads, share, compile } = gpuLaunch(team, sum(count, collective));
          const residency = compile.blocksPerMultiprocessor;
          expect(blocks * team.ranksPerDevice).toBeLessThanOrEqual(
            Math.max(team.multiprocessors * residency, team.ranksPerDevice),
          );
          const isLines = shape.program !== 'Exchange' && shape.program !== 'Direct';
          expect(blocks).toBeLessThanOrEqual(isLines ? LL_BLOCKS : MAX_GPU_BLOCKS);
          expect(threads).toBeLessThanOrEqual(compile.threads);
          if (isLines) expect(share * blocks).toBeGreaterThanOrEqual(4 * count);
          if (shape.program === 'Direct') expect(share * team.ranks).toBeGreaterThanOrEqual(4 * count);
          if (shape.program === 'LL128') {
            expect(share).toBeLessThanOrEqual(30 * threads);
            expect(32 * threads).toBeLessThanOrEqual(areaLayout(team.ranks).slot128Bytes);
          }
          if (shape.program === 'Lamport') {
            expect(share).toBeLessThanOrEqual(16 * shape.packets * threads);
            expect(share).toBeLessThanOrEqual(areaLayout(team.ranks).slotLamportBytes);
          }
          if (shape.program === 'LL' && shape.lines !== undefined) {
            expect(share).toBeLessThanOrEqual(8 * shape.lines * threads);
            expect(16 * shape.lines * threads).toBeLessThanOrEqual(areaLayout(team.ranks).slotBytes);
          }
        }
      }
    }
  });

  it('gives equal keys to equal programs: copies differ by the size of elements, reductions by type and operator', () => {
    const key = (call: GpuCall) => gpuLaunch(pair, call).key;
    expect(key({ ...sum(64), type: 'int32' })).not.toBe(key(sum(64)));
    expect(key({ ...sum(64, 'allGather'), type: 'int32', op: 'max' })).toBe(key(sum(64, 'allGather')));
    expect(gpuLaunch(pair, sum(1)).compile.threads).toBe(LL_THREADS);
  });

  it('sends as LL128 lines only where they arrive whole', () => {
    for (const collective of GPU_COLLECTIVES.filter((c) => c !== 'barrier')) {
      expect(gpuLaunch(pair, integers(1 << 18, collective)).shape.program).toBe('LL128');
      for (let count = 1; count < 1 << 29; count = Math.ceil(count * 1.9)) {
        const { shape } = gpuLaunch({ ...pair, wholeLines: false }, integers(count, collective));
        expect(shape.program).not.toBe('LL128');
      }
    }
  });

  it('sends little as lines and much directly, and lets launches overlap where nobody shares a GPU', () => {
    expect(gpuLaunch(pair, sum(2)).shape).toEqual({ program: 'LL', blocks: 1, threads: 32, lines: 1 });
    expect(gpuLaunch(pair, integers(32768)).shape.program).toBe('LL');
    expect(gpuLaunch(pair, integers(32769)).shape.program).toBe('LL128');
    expect(gpuLaunch(pair, integers(1 << 19)).shape.program).toBe('LL128');
    expect(gpuLaunch(pair, sum(511)).shape.program).toBe('LL');
    expect(gpuLaunch(pair, sum(512)).shape).toEqual({
      program: 'Lamport',
      blocks: 1,
      threads: 128,
      packets: 1,
    });
    expect(gpuLaunch(pair, sum(1 << 19)).shape).toEqual({
      program: 'Lamport',
      blocks: 128,
      threads: 1024,
      packets: 1,
    });
    expect(gpuLaunch(pair, sum(1 << 18, 'allGather')).shape.program).toBe('LL128');
    expect(gpuLaunch(pair, sum(1 << 21)).shape.program).toBe('Direct');
    expect(gpuLaunch(pair, sum(1 << 22)).shape.program).toBe('Direct');
    expect(gpuLaunch(pair, sum(1 << 23)).shape.program).toBe('Exchange');
    expect(gpuLaunch({ ...pair, ranks: 3 }, sum(1 << 23)).shape.program).toBe('Direct');
    expect(gpuLaunch(pair, sum(2)).overlap).toBe(true);
    expect(gpuLaunch(pair, sum(1 << 24)).overlap).toBe(true);
    expect(gpuLaunch({ ...pair, ranks: 3 }, sum(1 << 24)).overlap).toBe(false);
    expect(gpuLaunch(pair, sum(1 << 24, 'allGather')).overlap).toBe(false);
    expect(gpuLaunch({ ...pair, ranksPerDevice: 2 }, sum(2)).overlap).toBe(false);
  });

  it('refuses calls that cannot be', () => {
    const call = (changes: object) => () => gpuLaunch(pair, { ...sum(1), ...changes } as GpuCall);
    expect(call({ count: -1 })).toThrow('a count of -1 elements');
    expect(call({ type: 'int4' })).toThrow('there is no element type int4');
    expect(call({ op: 'xor' })).toThrow('there is no operator xor');
    expect(call({ collective: 'scan' })).toThrow('there is no GPU program for scan');
    expect(() => gpuLaunch({ ...pair, ranks: 33 }, sum(1))).toThrow('a team of 33 GPU ranks');
  });

  it('keeps the areas of two ranks below 64 MB together', () => {
    expect(2 * areaLayout(2).bytes).toBeLessThan(64e6);
  });
});
