/** Symmetric kernels: which may run, their predicted times, the choice, and the way back to the ordinary choice. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tuningSettings } from '#src/tuning/settings.js';
import {
  isSymmetricCandidate,
  symmetricCandidates,
  symmetricRefusal,
} from '#src/tuning/symmetric/candidates.js';
import {
  chooseSymmetricKernel,
  type SymmetricBatch,
  symmetricBatchLimit,
  symmetricFallback,
} from '#src/tuning/symmetric/choose.js';
import { type SymmetricFacts, symmetricFacts } from '#src/tuning/symmetric/facts.js';
import { ginCost, inboxBlocks } from '#src/tuning/symmetric/gin-cost.js';
import {
  type Registration,
  SYMMETRIC_KERNELS,
  type SymmetricKernelName,
  symmetricKernel,
} from '#src/tuning/symmetric/kernels.js';
import { lsaCost } from '#src/tuning/symmetric/lsa-cost.js';
import { plainInput, tablesOf } from '../plain-input.js';

const TEAM = {
  supported: true,
  lsaRanks: 8,
  lsaMulticast: true,
  crossCliqueP2p: false,
  allDirectNvlink: true,
  oneThreadManyGpus: false,
};

/** 8 Hopper GPUs of one node that map each other's memory, with multicast. */
function facts(change: Partial<SymmetricFacts> = {}, env: Record<string, string> = {}): SymmetricFacts {
  return { ...symmetricFacts(tablesOf(plainInput()), TEAM), ...change, settings: tuningSettings(env) };
}

/** 4 nodes of 8 such GPUs. */
const rails = (change: Partial<SymmetricFacts> = {}, env: Record<string, string> = {}) =>
  facts({ nRanks: 32, nNodes: 4, minNetBw: 48, ...change }, env);

const batch = (change: Partial<SymmetricBatch> = {}): SymmetricBatch => ({
  function: 'AllReduce',
  type: 'float32',
  operator: 'sum',
  registration: 'both',
  counts: [1 << 18],
  ...change,
});

const KIB = 1024;
const MIB = KIB * KIB;

describe('the kernels', () => {
  it('have numbers and functions of NCCL [C24-36]', () => {
    const kernelsOf = (fn: string) => SYMMETRIC_KERNELS.filter((kernel) => kernel.function === fn);
    expect(['AllReduce', 'AllGather', 'ReduceScatter'].map((fn) => kernelsOf(fn).length)).toEqual([5, 7, 6]);
    expect(SYMMETRIC_KERNELS).toHaveLength(18);
    expect(symmetricKernel('AllReduce_AGxLL_R').id).toBe(0);
    expect(symmetricKernel('AllGather_RailRing_LsaSTMC')).toMatchObject({
      id: 11,
      function: 'AllGather',
      gin: true,
    });
    expect(symmetricKernel('ReduceScatter_RailA2A_LsaLDMC').id).toBe(17);
    expect(SYMMETRIC_KERNELS.filter(({ ll }) => ll).map(({ id }) => id)).toEqual([0, 1, 5, 6, 12]);
    expect(SYMMETRIC_KERNELS.filter(({ tma }) => tma).map(({ id }) => id)).toEqual([2, 7, 9, 13]);
    expect(SYMMETRIC_KERNELS.filter(({ multicastLoad }) => multicastLoad).map(({ id }) => id)).toEqual([
      4, 15, 17,
    ]);
  });
});

describe('published times of an all-reduce on 8 Hopper GPUs', () => {
  const names = [
    'AllReduce_AGxLL_R',
    'AllReduce_AGxLLMC_R',
    'AllReduce_RSxLD_AGxST',
    'AllReduce_RSxLDMC_AGxSTMC',
  ] as const;
  it.each([
    [KIB, ['4.990/2', '4.971/2', '8.120/1', '8.114/1']],
    [16 * KIB, ['7.095/7', '7.131/6', '8.243/1', '8.124/1']],
    [64 * KIB, ['17.568/7', '17.402/7', '8.417/2', '8.156/1']],
    [MIB, ['228.587/7', '225.935/7', '12.282/7', '9.445/1']],
  ])('%i bytes', (bytes, wanted) => {
    const got = names.map((name) => {
      const { time, blocks } = lsaCost(facts(), symmetricKernel(name), bytes);
      return `${time.toFixed(3)}/${blocks}`;
    });
    expect(got).toEqual(wanted);
  });

  it('256 MiB', () => {
    const of = (name: SymmetricKernelName) => lsaCost(facts(), symmetricKernel(name), 256 * MIB);
    expect(of('AllReduce_RSxLD_AGxST')).toMatchObject({ blocks: 7 });
    expect(of('AllReduce_RSxLD_AGxST').time).toBeCloseTo(1407.34, 2);
    expect(of('AllReduce_RSxLDMC_AGxSTMC')).toMatchObject({ blocks: 2 });
    expect(of('AllReduce_RSxLDMC_AGxSTMC').time).toBeCloseTo(592.75, 2);
  });

  it.each([
    [KIB, 'AllReduce_AGxLLMC_R', 5.22],
    [16 * KIB, 'AllReduce_AGxLLMC_R', 8.201],
    [64 * KIB, 'AllReduce_RSxLDMC_AGxSTMC', 8.36],
    [MIB, 'AllReduce_RSxLDMC_AGxSTMC', undefined],
    [256 * MIB, 'AllReduce_RSxLDMC_AGxSTMC', undefined],
  ])('%i bytes run on %s', (bytes, name, penalised) => {
    const { best } = chooseSymmetricKernel(facts(), batch({ counts: [bytes / 4] }));
    expect(best?.kernel.name).toBe(name);
    if (penalised !== undefined) expect(best?.penalised).toBeCloseTo(penalised, 2);
  });
});

describe('other published times', () => {
  it('all-reduce on Blackwell', () => {
    const blackwell = facts({ sm: 100, minSm: 100 });
    const of = (name: SymmetricKernelName, bytes: number) => {
      const { time, blocks } = lsaCost(blackwell, symmetricKernel(name), bytes);
      return `${time.toFixed(3)}/${blocks}`;
    };
    expect(of('AllReduce_AGxLLMC_R', KIB)).toBe('11.500/2');
    expect(of('AllReduce_AGxLLMC_R', 64 * KIB)).toBe('17.508/11');
    expect(of('AllReduce_RSxLDMC_AGxSTMC', 64 * KIB)).toBe('19.858/1');
    const { best, candidates } = chooseSymmetricKernel(blackwell, batch({ counts: [16 * KIB] }));
    expect(best?.kernel.name).toBe('AllReduce_RSxLDMC_AGxSTMC');
    expect(best?.penalised).toBeCloseTo(20.35, 2);
    expect(candidates.find(({ kernel }) => kernel.id === 1)?.penalised).toBeCloseTo(22.32, 2);
    const large = lsaCost(blackwell, symmetricKernel('AllReduce_RSxLDMC_AGxSTMC'), 256 * MIB);
    expect(large.time).toBeCloseTo(299.8, 1);
    expect(large.blocks).toBe(3);
  });

  it('all-gather on Hopper', () => {
    const of = (name: SymmetricKernelName, bytes: number) => {
      const { time, blocks } = lsaCost(facts(), symmetricKernel(name), bytes);
      return `${time.toFixed(3)}/${blocks}`;
    };
    expect(of('AllGather_STMC', 64 * KIB)).toBe('8.696/2');
    expect(of('AllGather_LLMC', KIB)).toBe('4.965/3');
  });
});

describe('blocks', () => {
  it.each([
    [{}, {}, [1, 64]],
    [{ minCtas: 3, maxCtas: 5 }, {}, [3, 5]],
    [{}, { NCCL_SYM_CTAS: '9' }, [9, 9]],
    [{ minCtas: 3, maxCtas: 5 }, { NCCL_SYM_CTAS: '100' }, [64, 64]],
    [{ minCtas: 3, maxCtas: 5 }, { NCCL_SYM_CTAS: '-1' }, [3, 5]],
  ])('stay within configuration and NCCL_SYM_CTAS: %j %j', (change, env, [min, max]) => {
    for (const bytes of [8, KIB, MIB, 2 ** 33]) {
      const { blocks } = lsaCost(
        facts(change, env as Record<string, string>),
        symmetricKernel('AllReduce_RSxLD_AGxST'),
        bytes,
      );
      expect(blocks).toBeGreaterThanOrEqual(min!);
      expect(blocks).toBeLessThanOrEqual(max!);
    }
  });

  it('through the switch are shared by all ranks', () => {
    const of = (change: Partial<SymmetricFacts>) =>
      lsaCost(facts(change), symmetricKernel('ReduceScatter_LDMC'), 2 ** 34).blocks;
    expect(of({ nRanks: 16 })).toBe(1);
    expect(of({ nRanks: 5 })).toBeLessThanOrEqual(4);
  });

  it('and times are finite, positive and grow with the message', () => {
    const kernels = SYMMETRIC_KERNELS.filter(({ gin }) => !gin);
    fc.assert(
      fc.property(
        fc.constantFrom(...kernels),
        fc.integer({ min: 2, max: 72 }),
        fc.constantFrom(70, 80, 90, 100, 120),
        fc.integer({ min: 1, max: 2 ** 35 }),
        fc.integer({ min: 0, max: 2 ** 35 }),
        (kernel, nRanks, sm, bytes, more) => {
          const here = facts({ nRanks, lsaRanks: nRanks, sm, minSm: sm });
          const [small, large] = [lsaCost(here, kernel, bytes), lsaCost(here, kernel, bytes + more)];
          for (const { time, blocks } of [small, large]) {
            expect(Number.isFinite(time) && time > 0).toBe(true);
            expect(blocks >= 1 && blocks <= 64).toBe(true);
          }
          // Fewer blocks may be taken for 2.5 % of time.
          expect(large.time * 1.026).toBeGreaterThanOrEqual(small.time);
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('which kernels may run', () => {
  const named = (here: SymmetricFacts, one: SymmetricBatch, works = 1) =>
    symmetricCandidates(here, { ...one, count: one.counts[0]! }, works).kernels.map(({ name }) => name);
  const ruleOf = (here: SymmetricFacts, one: SymmetricBatch, kernel: SymmetricKernelName) =>
    symmetricCandidates(here, { ...one, count: one.counts[0]! }).excluded.find((why) => why.kernel === kernel)
      ?.rule;

  it('all of the function that need no TMA and no network', () => {
    expect(named(facts(), batch())).toEqual([
      'AllReduce_AGxLL_R',
      'AllReduce_AGxLLMC_R',
      'AllReduce_RSxLD_AGxST',
      'AllReduce_RSxLDMC_AGxSTMC',
    ]);
    expect(ruleOf(facts(), batch(), 'AllReduce_RSxTmaLD_AGxTmaST')).toBe('tma');
  });

  it('TMA on Blackwell if it is asked for', () => {
    const blackwell = { sm: 100, minSm: 100 };
    const tma = { NCCL_SYM_TMA_ENABLE: '1' };
    const name = 'AllReduce_RSxTmaLD_AGxTmaST';
    expect(named(facts(blackwell, tma), batch())).toContain(name);
    expect(named(facts(blackwell), batch())).not.toContain(name);
    expect(named(facts({}, tma), batch())).not.toContain(name);
  });

  it('without multicast only kernels that need none', () => {
    expect(named(facts({ lsaMulticast: false }), batch())).toEqual([
      'AllReduce_AGxLL_R',
      'AllReduce_RSxLD_AGxST',
    ]);
  });

  it.each([
    ['float32', 'sum', 90, true],
    ['bfloat16', 'sum', 90, true],
    ['float8e4m3', 'sum', 90, false],
    ['float8e4m3', 'sum', 100, true],
    ['int8', 'sum', 100, false],
    ['float32', 'max', 90, false],
    ['float16', 'max', 90, true],
    ['int32', 'prod', 90, false],
    ['float64', 'avg', 90, true],
  ] as const)('the switch reduces %s %s on capability %i: %s [C24-38]', (type, operator, sm, able) => {
    const kernels = named(facts({ sm, minSm: sm }), batch({ function: 'ReduceScatter', type, operator }));
    expect(kernels.includes('ReduceScatter_LDMC')).toBe(able);
    expect(kernels).toContain('ReduceScatter_LD');
  });

  it('LL below 2 GiB, nothing from 64 GiB on, of the whole message [C24-35] [C24-36]', () => {
    const gather = (bytes: number) =>
      batch({ function: 'AllGather', type: 'int8', operator: 'sum', counts: [bytes] });
    expect(named(facts(), gather(2 ** 28 - 1))).toContain('AllGather_LL');
    expect(named(facts(), gather(2 ** 28))).not.toContain('AllGather_LL');
    expect(named(facts(), gather(2 ** 33 - 1))).toContain('AllGather_ST');
    expect(named(facts(), gather(2 ** 33))).toEqual([]);
    expect(ruleOf(facts(), gather(2 ** 33), 'AllGather_ST')).toBe('size');
    expect(named(facts(), batch({ counts: [2 ** 29 - 1] }))).toContain('AllReduce_AGxLL_R');
    expect(named(facts(), batch({ counts: [2 ** 29] }))).not.toContain('AllReduce_AGxLL_R');
  });

  it('LL for one task at a time', () => {
    expect(named(facts(), batch(), 2)).toEqual(['AllReduce_RSxLD_AGxST', 'AllReduce_RSxLDMC_AGxSTMC']);
  });

  const sides: Registration[] = ['none', 'receive', 'send', 'both'];
  it.each([
    ['AllReduce', ['both']],
    ['AllGather', ['receive', 'both']],
    ['ReduceScatter', ['send', 'both']],
  ] as const)('%s beyond LL only with what others touch registered: %j', (fn, enough) => {
    for (const registration of sides) {
      const kernels = symmetricCandidates(facts(), {
        ...batch({ function: fn, registration }),
        count: 8,
      }).kernels;
      expect(kernels.some(({ ll }) => !ll)).toBe((enough as readonly string[]).includes(registration));
      expect(kernels.some(({ ll }) => ll)).toBe(true);
    }
  });

  it('over nodes only kernels that use the network, with both buffers for all-gather, else the others [C24-40]', () => {
    const gather = { function: 'AllGather', type: 'int8' } as const;
    const isOverNetwork = (name: SymmetricKernelName) => symmetricKernel(name).gin === true;
    expect(named(facts(), batch(gather)).length).toBeGreaterThan(1);
    expect(named(facts(), batch(gather)).some(isOverNetwork)).toBe(false);
    expect(named(rails(), batch(gather))).toEqual(['AllGather_RailRing_LsaSTMC']);
    expect(named(rails(), batch({ ...gather, registration: 'receive' }))).toEqual([]);
    expect(named(rails(), batch({ function: 'ReduceScatter', registration: 'send' }))).toEqual([
      'ReduceScatter_RailA2A_LsaLD',
      'ReduceScatter_RailA2A_LsaLDMC',
    ]);
    expect(named(rails(), batch())).toEqual([]);
    expect(named(rails({}, { NCCL_SYM_GIN_KERNELS_ENABLE: '0' }), batch(gather))).toEqual([]);
  });

  it('the one that NCCL_SYM_KERNEL names, exactly', () => {
    const only = (text: string) => named(facts({}, { NCCL_SYM_KERNEL: text }), batch());
    expect(only('AllReduce_RSxLD_AGxST')).toEqual(['AllReduce_RSxLD_AGxST']);
    expect(only('allreduce_rsxld_agxst')).toEqual([]);
    expect(only('AllReduce_RSxLD_AGxST,AllReduce_AGxLL_R')).toEqual([]);
    expect(only('^')).toHaveLength(4);
    expect(only('')).toEqual([]);
  });

  it('are considered only for what was built', () => {
    const refused = (change: Partial<SymmetricBatch>, here = facts()) =>
      symmetricRefusal(here, batch(change)) !== undefined;
    expect(refused({})).toBe(false);
    expect(refused({ operator: 'avg' })).toBe(true);
    expect(refused({ operator: 'avg', function: 'ReduceScatter' })).toBe(false);
    expect(refused({ operator: 'max' })).toBe(true);
    expect(refused({ type: 'int32' })).toBe(true);
    expect(refused({ type: 'float64' })).toBe(true);
    expect(refused({ type: 'float8e5m2' })).toBe(false);
    expect(refused({ type: 'int8', function: 'AllGather' })).toBe(false);
    for (const change of [{ supported: false }, { crossCliqueP2p: true }, { allDirectNvlink: false }]) {
      expect(refused({}, facts(change))).toBe(true);
    }
    const task = { ...batch(), count: 8 };
    expect(isSymmetricCandidate(facts(), task)).toBe(true);
    expect(isSymmetricCandidate(facts(), { ...task, count: 2 ** 34 })).toBe(false);
    expect(isSymmetricCandidate(rails(), task)).toBe(false);
  });
});

describe('a batch', () => {
  it('counts whole cells of all tasks', () => {
    const one = chooseSymmetricKernel(facts(), batch({ counts: [1] })).best!;
    expect(chooseSymmetricKernel(facts(), batch({ counts: [256] })).best).toEqual(one);
    const two = chooseSymmetricKernel(facts(), batch({ counts: [100000, 300000] })).best!;
    const rounded = Math.ceil(100000 / 256) * 256 + Math.ceil(300000 / 256) * 256;
    expect(two.time).toBe(chooseSymmetricKernel(facts(), batch({ counts: [rounded] })).best!.time);
  });

  it('compares times with 2.5 % more per block, in single precision', () => {
    const f32 = Math.fround;
    for (let k = 0; k < 24; k++) {
      for (const { time, blocks, penalised } of chooseSymmetricKernel(facts(), batch({ counts: [3 ** k] }))
        .candidates) {
        const share = f32(1 + f32(f32(0.025) * blocks));
        expect([time, penalised]).toEqual([f32(time), f32(time * share)]);
      }
    }
  });

  it('fits the arguments of a launch', () => {
    expect(symmetricBatchLimit(4096)).toBe(55);
    expect(symmetricBatchLimit(560 + 64)).toBe(1);
    expect(symmetricBatchLimit(560 + 2 * 64 - 1)).toBe(1);
  });

  it('without tasks is refused', () => {
    expect(() => chooseSymmetricKernel(facts(), batch({ counts: [] }))).toThrow('a batch without tasks');
  });

  it('has no kernel if none can run', () => {
    const { best, candidates, excluded } = chooseSymmetricKernel(rails(), batch());
    expect(best).toBeUndefined();
    expect(candidates).toEqual([]);
    expect(excluded.map(({ rule }) => rule)).toEqual(['lsa-team', 'lsa-team', 'tma', 'lsa-team', 'lsa-team']);
  });
});

describe('kernels over the network', () => {
  it('gather along rings of rails', () => {
    const { time, blocks } = ginCost(rails(), symmetricKernel('AllGather_RailRing_LsaSTMC'), 8 * MIB);
    // 8 chunks, 3 steps each of 14 us; 8 MiB * 3 over 48 GB/s are longer than 8 MiB * 32 over 360 GB/s.
    const inside = (8 * MIB * 32) / 360e9;
    const outside = (8 * MIB * 3) / 48e9;
    expect(time).toBeCloseTo(24 * 14e-6 + Math.max(inside, outside), 9);
    expect(blocks).toBe(2);
    expect(
      ginCost(rails({ nvlsHeads: 1 }), symmetricKernel('AllGather_RailRing_LsaSTMC'), 8 * MIB).blocks,
    ).toBe(8);
  });

  it('scatter along rails, as many blocks as network or links can feed', () => {
    const kernel = symmetricKernel('ReduceScatter_RailA2A_LsaLD');
    const small = ginCost(rails(), kernel, KIB);
    expect(small.blocks).toBe(1);
    // lsa: 28 per byte at 360 GB/s; gin: 3 at 48; sm: 8 * 3 + 8 + 3 = 35 at 13.7.
    const block = 13.7e9 / 35;
    const first = 28 / 360e9 + 3 / 48e9;
    expect(small.time).toBeCloseTo(1e6 * (KIB / block + KIB * first + 14e-6), 3);
    const large = ginCost(rails(), kernel, 1024 * MIB);
    expect(large.blocks).toBe(Math.ceil(360e9 / 28 / block));
    expect(large.time).toBeCloseTo(
      1e6 * (1024 * MIB * (28 / 360e9) + 131072 * large.blocks * first + 14e-6),
      -1,
    );
  });

  it('have inboxes for the most blocks that either takes', () => {
    expect(inboxBlocks(rails())).toBe(33);
    expect(inboxBlocks(rails({ maxCtas: 8 }))).toBe(8);
    expect(inboxBlocks(rails({ maxCtas: 8 }, { NCCL_SYM_CTAS: '12' }))).toBe(12);
    expect(inboxBlocks(rails({}, { NCCL_SYM_CTAS: '100' }))).toBe(64);
  });

  it('take chunks of a power of two', () => {
    const kernel = symmetricKernel('ReduceScatter_RailA2A_LsaLD');
    const blocks = (text: string) =>
      ginCost(rails({}, { NCCL_SYM_RS_GIN_CHUNK_SIZE: text }), kernel, 65536).blocks;
    expect(blocks('65536')).toBe(1);
    expect(blocks('65535')).toBe(2);
    expect(blocks('1')).toBe(33);
    expect(blocks('0')).toBe(1);
  });

  it('follow a latency that a tuner changed', () => {
    const slow = rails({ netLatency: 1014 });
    const kernel = symmetricKernel('ReduceScatter_RailA2A_LsaLD');
    expect(ginCost(slow, kernel, KIB).time - ginCost(rails(), kernel, KIB).time).toBeCloseTo(1000, 1);
  });
});

describe('the way back to the ordinary choice [C05-29, C21-08]', () => {
  interface Case {
    readonly kernel: 'LL' | 'other' | 'none';
    readonly registration: Registration;
    readonly forced: boolean;
    readonly oneThread: boolean;
    readonly singleProcess: boolean;
    readonly noWindow: boolean;
    readonly ordinary: 'LL' | 'Simple' | undefined;
    readonly hostMemory: boolean;
  }
  /** The published steps, in words. */
  function goesBack(one: Case): boolean {
    if (one.kernel === 'none') return true;
    if (one.hostMemory) return true;
    if (one.registration === 'both' || one.kernel === 'other') return false;
    const nothing = one.registration === 'none';
    if (one.oneThread && !one.singleProcess && nothing) return true;
    if (one.forced) return false;
    if (!one.noWindow && nothing) return true;
    return one.ordinary !== 'LL';
  }

  it('is taken exactly in the published cases [C05-29, C21-08]', () => {
    const bools = [false, true];
    let asked = 0;
    for (const kernel of ['LL', 'other', 'none'] as const)
      for (const registration of ['none', 'receive', 'send', 'both'] as const)
        for (const forced of bools)
          for (const oneThread of bools)
            for (const singleProcess of bools)
              for (const noWindow of bools)
                for (const ordinary of ['LL', 'Simple', undefined] as const)
                  for (const hostMemory of bools) {
                    const one = {
                      kernel,
                      registration,
                      forced,
                      oneThread,
                      singleProcess,
                      noWindow,
                      ordinary,
                      hostMemory,
                    };
                    const name = kernel === 'LL' ? 'AllReduce_AGxLL_R' : 'AllReduce_RSxLD_AGxST';
                    const env = {
                      ...(forced ? { NCCL_SYM_KERNEL: name } : {}),
                      NCCL_SINGLE_PROC_MEM_REG_ENABLE: singleProcess ? '1' : '0',
                      NCCL_SYM_NOWIN_ENABLE: noWindow ? '1' : '0',
                    };
                    const best =
                      kernel === 'none'
                        ? undefined
                        : { kernel: symmetricKernel(name), time: 1, blocks: 1, penalised: 1 };
                    const { ordinary: back, reason } = symmetricFallback(
                      facts({ oneThreadManyGpus: oneThread }, env),
                      {
                        choice: { best, candidates: [], excluded: [] },
                        registration,
                        hostMemory,
                        ordinaryProtocol: () => {
                          asked++;
                          return ordinary;
                        },
                      },
                    );
                    expect([one, back]).toEqual([one, goesBack(one)]);
                    expect(reason).not.toBe('');
                  }
    expect(asked).toBeGreaterThan(0);
  });
});
