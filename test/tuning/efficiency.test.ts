/** The EFFICIENCY policy and the variables of policies. */
import { describe, expect, it } from 'vitest';
import { CtaPolicy, parseCtaPolicy, resolveCtaPolicy } from '#src/tuning/cta-policy.js';
import { decide } from '#src/tuning/decide.js';
import { registeredNvlsChannels } from '#src/tuning/efficiency.js';
import type { NcclFunction } from '#src/tuning/names.js';
import { collnetNodes, graph, plainInput, tablesOf } from './plain-input.js';

const gather = { function: 'AllGather', bytes: 1 << 26, type: 'int8', registered: true } as const;
const scatter = { ...gather, function: 'ReduceScatter', type: 'float32' } as const;

describe('the EFFICIENCY policy', () => {
  it('takes NVLS with few channels for registered buffers, and keeps the predicted time', () => {
    const input = plainInput({ ctaPolicy: CtaPolicy.EFFICIENCY });
    const plain = decide(tablesOf(plainInput()), gather);
    expect(plain.algorithm).not.toBe('NVLS');
    const decision = decide(tablesOf(input), gather);
    expect(decision).toMatchObject({
      algorithm: 'NVLS',
      protocol: 'Simple',
      maxChannels: 4,
      warps: 20,
      chosenBy: 'efficiency',
      time: plain.time,
    });
    expect(decide(tablesOf(input), scatter)).toMatchObject({ algorithm: 'NVLS', maxChannels: 5 });
  });

  const EFFICIENCY = { ctaPolicy: CtaPolicy.EFFICIENCY };
  const over = (collnet: object) => collnetNodes({ ...EFFICIENCY, collnet });
  it.each([
    ['no policy', plainInput(), gather],
    ['the ZERO policy', plainInput({ ctaPolicy: CtaPolicy.ZERO }), gather],
    ['NCCL_ALGO is set', plainInput({ ...EFFICIENCY, env: { NCCL_ALGO: '^NVLS' } }), gather],
    ['NCCL_ALGO is set to nothing', plainInput({ ...EFFICIENCY, env: { NCCL_ALGO: '' } }), gather],
    ['NCCL_PROTO is set', plainInput({ ...EFFICIENCY, env: { NCCL_PROTO: 'LL128' } }), gather],
    ['NVLink joins hosts', plainInput({ ...EFFICIENCY, mnnvl: true }), gather],
    ['the buffers are not registered', plainInput(EFFICIENCY), { ...gather, registered: false }],
    ['an all-reduce', plainInput(EFFICIENCY), { ...gather, function: 'AllReduce', type: 'float16' } as const],
    ['a broadcast', plainInput(EFFICIENCY), { ...gather, function: 'Broadcast' } as const],
    ['NVLS is not in use', plainInput({ ...EFFICIENCY, nvls: { enabled: false } }), gather],
    ['the switch cannot reduce', plainInput(EFFICIENCY), { ...scatter, reduction: 'Prod' } as const],
    ['several nodes without CollNet', over({ enabled: false }), gather],
    ['several nodes, CollNet cannot reduce', over({ supports: () => false }), scatter],
    ['the choice has fewer channels', plainInput({ ...EFFICIENCY, nChannels: 3 }), gather],
  ])('has no effect: %s [C21-07]', (_, input, call) => {
    expect(decide(tablesOf(input), call).chosenBy).toBe('model');
  });

  it('works over nodes with CollNet', () => {
    expect(decide(tablesOf(over({})), gather).chosenBy).toBe('efficiency');
  });
});

describe('channels of NVLS with registered buffers', () => {
  const fast = graph(64, 60, 60);
  it.each([
    ['ReduceScatter', plainInput({ nvls: { heads: 1 } }), 40],
    ['ReduceScatter', plainInput({ sm: 100, nvls: { heads: 1 } }), 48],
    ['ReduceScatter', collnetNodes({ nvls: { heads: 1 } }), 48],
    ['ReduceScatter', collnetNodes({ nvls: { heads: 1 }, graphs: { nvls: fast } }), 56],
    ['AllGather', plainInput({ nvls: { heads: 1 } }), 32],
    ['AllGather', collnetNodes({ nvls: { heads: 1 } }), 48],
    ['AllReduce', plainInput({ nvls: { heads: 1 } }), 32],
    ['AllReduce', plainInput({ sm: 100, nvls: { heads: 1 } }), 64],
    ['AllReduce', collnetNodes({ nvls: { heads: 1 } }), 48],
    ['AllReduce', collnetNodes({ sm: 100, nvls: { heads: 1 } }), 56],
    ['AllReduce', collnetNodes({ sm: 100, minNetBw: 96, nvls: { heads: 2 } }), 40],
    ['AllReduce', plainInput({ nvls: { heads: 3 } }), 11],
    ['AllReduce', plainInput({ nvls: { heads: 8 }, minCtas: 6 }), 6],
    ['AllReduce', plainInput({ nvls: { heads: 1 }, maxCtas: 20 }), 20],
  ] as const)('%s %#: %i', (fn, input, channels) => {
    expect(registeredNvlsChannels(tablesOf(input), fn)).toBe(channels);
  });

  it.each(['Broadcast', 'Reduce'] as NcclFunction[])('%s has none', (fn) => {
    expect(() => registeredNvlsChannels(tablesOf(plainInput()), fn)).toThrow(`NVLS does not do ${fn}`);
  });
});

describe('NCCL_CTA_POLICY', () => {
  it.each([
    ['0', 0],
    ['1', 1],
    ['2', 2],
    ['2abc', 2],
    ['12', 1],
    ['3', undefined],
    ['9', undefined],
    ['DEFAULT', 0],
    ['EFFICIENCY', 1],
    ['ZERO', 2],
    ['ZERO|EFFICIENCY', 3],
    ['DEFAULT|EFFICIENCY|unknown', 1],
    ['efficiency', undefined],
    ['toString', undefined],
    ['', undefined],
    [undefined, undefined],
  ])('%j is policy %j', (text, policy) => {
    expect(parseCtaPolicy(text)).toBe(policy);
  });

  it('wins over the configuration, and ZERO over EFFICIENCY', () => {
    const warnings: string[] = [];
    expect(resolveCtaPolicy(undefined, undefined)).toBe(0);
    expect(resolveCtaPolicy(undefined, 1)).toBe(1);
    expect(resolveCtaPolicy(0, 1)).toBe(0);
    expect(resolveCtaPolicy(undefined, 3, (level) => warnings.push(level))).toBe(2);
    expect(resolveCtaPolicy(3, 0, (level) => warnings.push(level))).toBe(2);
    expect(warnings).toEqual(['WARN', 'WARN']);
  });

  it.each([-1, 4, 1.5])('a configured %d is refused', (policy) => {
    expect(() => resolveCtaPolicy(1, policy)).toThrow('CTA policy');
  });
});
