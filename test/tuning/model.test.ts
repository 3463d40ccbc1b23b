/** The tables of the cost model: the published examples, and rules that no golden machine shows. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MIXED_CPUS } from '#src/topology/connect/cpu.js';
import { Pattern } from '#src/topology/search/graph.js';
import { CpuArch, CpuVendor } from '#src/topology/system/node.js';
import { PathType } from '#src/topology/system/path-type.js';
import type { TuningInput } from '#src/tuning/input.js';
import { modelOf, tuningTables } from '#src/tuning/model.js';
import {
  FunctionId,
  NCCL_ALGORITHMS,
  NCCL_FUNCTIONS,
  NCCL_PROTOCOLS,
  type NcclAlgorithm,
} from '#src/tuning/names.js';
import { anyInput } from './any-input.js';
import {
  collnetNodes,
  fourNodes,
  graph,
  NO_GRAPH,
  plainInput,
  row,
  rulesOf,
  singleGpuNodes,
  tablesOf,
} from './plain-input.js';

const close = (values: readonly number[], wanted: readonly number[]) => {
  expect(values.length).toBe(wanted.length);
  for (const [i, value] of values.entries()) expect(value).toBeCloseTo(wanted[i]!, 3);
};

describe('published examples', () => {
  it('one node of 8 Hopper GPUs', () => {
    const { latencies, bandwidths } = tablesOf(plainInput());
    close(row(latencies, 'AllReduce', 'Tree'), [15.2, 31.5, 64.4]);
    close(row(bandwidths, 'AllReduce', 'Tree'), [43.5789, 128.8, 165.6]);
    close(row(latencies, 'AllReduce', 'Ring'), [15.0, 40.6, 56.0]);
    close(row(bandwidths, 'AllReduce', 'Ring'), [80.5714, 189.2572, 205.7143]);
    close(row(latencies, 'AllGather', 'Ring'), [10.8, 27.3, 32.2]);
    close(row(bandwidths, 'AllGather', 'Ring'), [161.1429, 378.5143, 411.4286]);
    close(row(latencies, 'Broadcast', 'Ring'), [7.2, 15.9, 11.8]);
    close(row(bandwidths, 'Broadcast', 'Ring'), [141, 331.2, 360]);
  });

  it('its NVLS: the switch reduces at 0.85 of the links, less one channel [C05-25]', () => {
    const { latencies, bandwidths } = tablesOf(plainInput());
    close(row(latencies, 'AllReduce', 'NVLS'), [0, 0, 25]);
    close(row(bandwidths, 'AllReduce', 'NVLS'), [0, 0, 182.8571]);
    close(row(bandwidths, 'AllGather', 'NVLS'), [0, 0, 208.25]);
    const blackwell = tablesOf(plainInput({ sm: 100, minSm: 100, maxSm: 100 }));
    close(row(blackwell.bandwidths, 'AllGather', 'NVLS'), [0, 0, 8 * 40 * 0.74 * (7 / 8) * (7 / 8)]);
  });

  it('four nodes of 8, capped by the CPU for LL', () => {
    const { latencies, bandwidths } = tablesOf(fourNodes());
    close(row(latencies, 'AllReduce', 'Tree'), [45.2, 75.5, 140.4]);
    close(row(bandwidths, 'AllReduce', 'Tree'), [10.2, 82.8, 88.32]);
    close(row(latencies, 'AllReduce', 'Ring'), [93.8, 159.4, 312.8]);
    close(row(bandwidths, 'AllReduce', 'Ring'), [10.529, 91.169, 99.0968]);
  });

  it('four nodes of one GPU, with PAT', () => {
    const { latencies, bandwidths } = tablesOf(singleGpuNodes());
    close(row(latencies, 'AllGather', 'Ring'), [36.6, 54.5, 80.4]);
    close(row(bandwidths, 'AllGather', 'Ring'), [16, 29.44, 32]);
    close(row(latencies, 'AllGather', 'PAT'), [0, 0, 32.9143]);
    close(row(bandwidths, 'AllGather', 'PAT'), [0, 0, 18]);
  });
});

describe('bandwidth', () => {
  it.each([
    ['Intel', CpuVendor.INTEL, 39.0, 20.4],
    ['AMD', CpuVendor.AMD, 22.5, 19.0],
    ['mixed', MIXED_CPUS, 22.5, 19.0],
    ['Zhaoxin', CpuVendor.ZHAOXIN, 39.0, 20.4],
    ['unknown', CpuVendor.UNDEFINED, 39.0, 20.4],
  ])('LL over nodes is capped by the vendor of the CPUs: %s', (_, cpuVendor, two, more) => {
    const broadcast = (input: TuningInput) => row(tablesOf(input).bandwidths, 'Broadcast', 'Ring')[0]!;
    expect(broadcast(fourNodes({ cpuVendor }))).toBeCloseTo(more, 4);
    expect(broadcast(fourNodes({ cpuVendor, nNodes: 2, nRanks: 16 }))).toBeCloseTo(two, 4);
  });

  it('trees of the plain pattern lose 15 %', () => {
    const plain = tablesOf(plainInput({ maxTreePattern: Pattern.TREE })).bandwidths;
    const other = tablesOf(plainInput({ maxTreePattern: Pattern.SPLIT_TREE })).bandwidths;
    for (const protocol of [0, 1, 2]) {
      const expected = Math.fround(row(other, 'AllReduce', 'Tree')[protocol]! * 2 * 0.85) / 2;
      expect(row(plain, 'AllReduce', 'Tree')[protocol]).toBeCloseTo(expected, 4);
    }
    expect(row(plain, 'AllReduce', 'Ring')).toEqual(row(other, 'AllReduce', 'Ring'));
  });

  it('nodes of different size count by their mean, a fraction', () => {
    const uneven = collnetNodes({ nRanks: 12, minLocalRanks: 4 });
    const { bandwidths, latencies } = tablesOf(uneven);
    // 6 ranks per node: gathering takes 6 * min(48, 48 * 0.9).
    expect(row(bandwidths, 'AllGather', 'CollNetDirect')[2]).toBeCloseTo(6 * 48 * 0.9, 3);
    const thirds = tablesOf(collnetNodes({ nRanks: 11, minLocalRanks: 3 }));
    expect(row(thirds.bandwidths, 'AllGather', 'CollNetDirect')[2]).toBeCloseTo(5.5 * 48 * 0.9, 3);
    // Whole ranks per node in latencies: 2 * ((5 - 1) * intra) instead of 4.5.
    expect(row(thirds.latencies, 'AllReduce', 'CollNetChain')[2]).toBeCloseTo(2 * 4 * 2.8 + 30, 3);
    expect(row(latencies, 'AllReduce', 'CollNetChain')[2]).toBeCloseTo(2 * 5 * 2.8 + 30, 3);
  });

  it('an uneven mean of one rank per node is not one rank per node', () => {
    const single = singleGpuNodes();
    const uneven = singleGpuNodes({ nRanks: 5, maxLocalRanks: 2, localRanks: 2 });
    const net = (input: TuningInput) => row(tablesOf(input).latencies, 'AllGather', 'Ring')[0]!;
    // Trees' 5.0 us per network step against rings' 2.7, each with 5 us of the NIC.
    expect(net(single)).toBeCloseTo(6.6 + 3 * (5.0 + 5), 3);
    expect(net(uneven)).toBeCloseTo(6.6 + 2 + 3 * (2.7 + 5), 3);
  });

  it('CollNet direct is spread over the ranks of a node, from Hopper on at 0.85', () => {
    const of = (minSm: number) =>
      row(tablesOf(collnetNodes({ minSm })).bandwidths, 'AllReduce', 'CollNetDirect')[2]!;
    // 8 ranks on 8 channels: factor 1; half of the algorithm's bandwidth.
    expect(of(80)).toBeCloseTo((8 * 48) / 2, 3);
    expect(of(90)).toBeCloseTo((8 * 48 * 0.85) / 2, 3);
    const four = collnetNodes({ graphs: { collnetDirect: graph(4, 48, 48) }, minSm: 80 });
    // 8 ranks on 4 channels: factor 2 - 0.5.
    expect(row(tablesOf(four).bandwidths, 'AllReduce', 'CollNetDirect')[2]).toBeCloseTo(
      (4 * 48) / 1.5 / 2,
      3,
    );
  });
});

describe('latency', () => {
  it.each([
    ['Intel', CpuArch.X86, CpuVendor.INTEL, undefined, 3.4],
    ['AMD', CpuArch.X86, CpuVendor.AMD, undefined, 6],
    ['AMD on another architecture', CpuArch.ARM, CpuVendor.AMD, undefined, 3.4],
    ['NCCL_NET_OVERHEAD 3000', CpuArch.X86, CpuVendor.INTEL, '3000', 9],
    ['NCCL_NET_OVERHEAD 0', CpuArch.X86, CpuVendor.AMD, '0', 3.4],
    ['NCCL_NET_OVERHEAD -2', CpuArch.X86, CpuVendor.AMD, '-2', 6],
  ])(
    'steps of rings over nodes take what posting takes, three times for Simple: %s',
    (_, arch, vendor, ns, step) => {
      const env = ns === undefined ? {} : { NCCL_NET_OVERHEAD: ns };
      const { latencies } = tablesOf(fourNodes({ cpuArch: arch, cpuVendor: vendor, env }));
      expect(row(latencies, 'AllReduce', 'Ring')[2]).toBeCloseTo(8.4 + 56 * step + 6 * 19, 2);
    },
  );

  it('on POWER trees cross PCI as slowly as rings do', () => {
    const pci = graph(2, 12, 12, { typeIntra: PathType.PHB });
    const of = (cpuArch: number) =>
      row(tablesOf(plainInput({ cpuArch, graphs: { tree: pci } })).latencies, 'AllReduce', 'Tree')[2]!;
    expect(of(CpuArch.X86)).toBeCloseTo(8.4 + 14 * 4.0, 3);
    expect(of(CpuArch.POWER)).toBeCloseTo(8.4 + 14 * 5.7, 3);
  });

  it.each([
    ['NVL', PathType.NVL, 0.6],
    ['NVB', PathType.NVB, 1.0],
    ['C2C', PathType.C2C, 1.0],
    ['LOC', PathType.LOC, 1.0],
  ])('only direct NVLink is as fast as NVLink: %s', (_, typeIntra, step) => {
    const input = plainInput({ graphs: { ring: graph(12, 30, 30, { typeIntra }) } });
    expect(row(tablesOf(input).latencies, 'AllReduce', 'Ring')[0]).toBeCloseTo(6.6 + 14 * step, 3);
  });

  it('broadcasts pay one step if all channels are alike, else one per rank', () => {
    const input = plainInput({ graphs: { ring: graph(12, 30, 30, { sameChannels: false }) } });
    close(row(tablesOf(input).latencies, 'Broadcast', 'Ring'), [6.6 + 8 * 0.6, 14 + 8 * 1.9, 8.4 + 8 * 4.0]);
  });

  it('the NIC is counted twice for Simple', () => {
    const slow = graph(8, 48, 24, { latencyInter: 10 });
    const { latencies } = tablesOf(fourNodes({ graphs: { tree: slow } }));
    close(row(latencies, 'AllReduce', 'Tree'), [
      6.8 + 2 * (7 * 0.6 + 2 * 15),
      14 + 2 * (7 * 1.25 + 2 * 18.5),
      8.4 + 2 * (7 * 4 + 2 * 34),
    ]);
  });
});

describe('what is excluded', () => {
  it('trees do all-reduce only, rings everything [C05-11, C21-02]', () => {
    const tables = tablesOf(plainInput());
    for (const fn of NCCL_FUNCTIONS) {
      const tree = fn === 'AllReduce' ? [] : ['function'];
      for (const protocol of NCCL_PROTOCOLS) {
        expect(rulesOf(tables, fn, 'Tree', protocol)).toEqual(tree);
        expect(rulesOf(tables, fn, 'Ring', protocol)).toEqual([]);
      }
    }
  });

  it('CollNet has Simple only; its LL keeps a latency and has no bandwidth [C05-12]', () => {
    const tables = tablesOf(collnetNodes());
    const { latency, bandwidth } = modelOf(tables, 'AllReduce', 'CollNetDirect', 'LL');
    expect(latency).toBeCloseTo(2 * 7 * 0.4, 4);
    expect(bandwidth).toBe(0);
    expect(rulesOf(tables, 'AllReduce', 'CollNetDirect', 'LL')).toContain('protocol');
    expect(rulesOf(tables, 'AllReduce', 'CollNetDirect')).toEqual([]);
  });

  const cases: [string, TuningInput, NcclAlgorithm, string[]][] = [
    ['NVLS with one channel', plainInput({ graphs: { nvls: graph(1, 40, 40) } }), 'NVLS', ['nvls-channels']],
    ['NVLS with two channels', plainInput({ graphs: { nvls: graph(2, 40, 40) } }), 'NVLS', []],
    ['an NVLS tree on one node', plainInput(), 'NVLSTree', ['one-node']],
    ['an NVLS tree on two', collnetNodes(), 'NVLSTree', []],
    [
      'NVLS over nodes without CollNet',
      collnetNodes({ collnet: { enabled: false } }),
      'NVLS',
      ['collnet-off'],
    ],
    ['an NVLS tree without CollNet', collnetNodes({ collnet: { enabled: false } }), 'NVLSTree', []],
    [
      'chains without CollNet',
      collnetNodes({ collnet: { enabled: false } }),
      'CollNetChain',
      ['collnet-off'],
    ],
    [
      'chains that begin elsewhere',
      collnetNodes({ collnet: { chainSupported: false } }),
      'CollNetChain',
      ['collnet-chain-heads'],
    ],
    [
      'CollNet direct without a switch',
      collnetNodes({ hasNvswitch: false }),
      'CollNetDirect',
      ['no-nvswitch'],
    ],
    ['chains without a switch', collnetNodes({ hasNvswitch: false }), 'CollNetChain', []],
    ['PAT for all-reduce', singleGpuNodes(), 'PAT', ['function']],
    ['a graph without channels', plainInput({ graphs: { tree: NO_GRAPH } }), 'Tree', ['no-bandwidth']],
  ];
  it.each(cases)('%s [C05-24]', (_, input, algorithm, rules) => {
    const tables = tablesOf(input);
    expect(rulesOf(tables, 'AllReduce', algorithm)).toEqual(rules);
    expect(modelOf(tables, 'AllReduce', algorithm, 'Simple').bandwidth > 0).toBe(rules.length === 0);
  });

  it.each([
    ['the plugin has no all-gather', { allGather: false }, 8, ['collnet-scattered'], []],
    ['the plugin has no reduce-scatter', { reduceScatter: false }, 8, [], ['collnet-scattered']],
    ['a node has more ranks than heads', { setupHeads: 7 }, 8, ['collnet-scattered'], ['collnet-scattered']],
    ['as many heads as ranks', {}, 8, [], []],
  ] as const)(
    'gathering over nodes through the network: %s',
    (_, collnet, maxLocalRanks, gather, scatter) => {
      const tables = tablesOf(collnetNodes({ collnet, maxLocalRanks }));
      for (const algorithm of ['NVLS', 'CollNetDirect'] as const) {
        expect(rulesOf(tables, 'AllGather', algorithm)).toEqual(gather);
        expect(rulesOf(tables, 'ReduceScatter', algorithm)).toEqual(scatter);
        expect(rulesOf(tables, 'AllReduce', algorithm)).toEqual([]);
      }
    },
  );

  it('on one node NVLS gathers without the network', () => {
    const tables = tablesOf(plainInput({ collnet: { enabled: true, allGather: false, setupHeads: 0 } }));
    expect(rulesOf(tables, 'AllGather', 'NVLS')).toEqual([]);
  });

  it.each([
    ['one GPU per node', {}, {}, []],
    ['several GPUs per node', { nRanks: 8, localRanks: 2, maxLocalRanks: 2 }, {}, ['pat-local-ranks']],
    ['a device that unpacks', { plainNetDevice: false }, {}, ['pat-net-device']],
    ['capability 5.2', { minSm: 52 }, {}, ['pat-capability']],
    ['NCCL_PAT_ENABLE=0', {}, { NCCL_PAT_ENABLE: '0' }, ['pat-variable']],
    ['NCCL_PAT_ENABLE=1 on any nodes', { nRanks: 8, plainNetDevice: false }, { NCCL_PAT_ENABLE: '1' }, []],
    ['NCCL_PAT_ENABLE=1 on 5.2', { minSm: 52 }, { NCCL_PAT_ENABLE: '1' }, ['pat-capability']],
    ['NCCL_PAT_ENABLE=3 is on', { nRanks: 8 }, { NCCL_PAT_ENABLE: '3' }, []],
  ])('PAT: %s', (_, change, env, rules) => {
    const tables = tablesOf(singleGpuNodes({ ...change, env }));
    expect(rulesOf(tables, 'AllGather', 'PAT')).toEqual(rules);
    expect(rulesOf(tables, 'ReduceScatter', 'PAT')).toEqual(rules);
    if (rules.length > 0) expect(modelOf(tables, 'AllGather', 'PAT', 'Simple').latency).toBe(0);
  });
});

describe('LL128', () => {
  const rules = (change: Parameters<typeof plainInput>[0], types: { intra?: number; inter?: number } = {}) =>
    rulesOf(
      tablesOf(
        plainInput({
          ...change,
          graphs: {
            ring: graph(12, 30, 30, {
              typeIntra: (types.intra ?? PathType.NVL) as PathType,
              typeInter: (types.inter ?? PathType.PIX) as PathType,
            }),
          },
        }),
      ),
      'AllReduce',
      'Ring',
      'LL128',
    );
  const C2C_OFF = { NCCL_LL128_C2C: '0' };

  it.each([
    ['reaches a NIC over PXN from Hopper on', { minSm: 90 }, { inter: PathType.PXN }, []],
    ['but not over PHB', { minSm: 90 }, { inter: PathType.PHB }, ['ll128-net-path']],
    ['over P2C', { minSm: 90 }, { inter: PathType.P2C }, []],
    [
      'not over P2C without NCCL_LL128_C2C',
      { minSm: 90, env: C2C_OFF },
      { inter: PathType.P2C },
      ['ll128-net-path'],
    ],
    ['over PXB without NCCL_LL128_C2C', { minSm: 90, env: C2C_OFF }, { inter: PathType.PXB }, []],
    ['over PXB before Hopper', { minSm: 80, maxSm: 80 }, { inter: PathType.PXB }, []],
    ['not over P2C before Hopper', { minSm: 80, maxSm: 80 }, { inter: PathType.P2C }, ['ll128-net-path']],
    ['joins GPUs over NVB', {}, { intra: PathType.NVB }, []],
    ['not over C2C', {}, { intra: PathType.C2C }, ['ll128-gpu-path']],
    ['not over PCI', {}, { intra: PathType.PIX }, ['ll128-gpu-path']],
    ['works with Hopper and newer together', { minSm: 90, maxSm: 100 }, {}, []],
    ['not with Ampere and newer together', { minSm: 80, maxSm: 90 }, {}, ['ll128-mixed-gpus']],
    ['works from Volta on', { minSm: 70, maxSm: 70 }, {}, []],
    ['not on Pascal', { minSm: 61, maxSm: 61 }, {}, ['ll128-capability']],
    ['not built by CUDA 11.8 for rings of two', { cuda118: true, nRanks: 2 }, {}, ['ll128-cuda-11.8']],
    ['built by CUDA 11.8 for rings of three', { cuda118: true, nRanks: 3 }, {}, []],
    ['built by CUDA 11.8 on Blackwell', { cuda118: true, nRanks: 2, minSm: 100, maxSm: 100 }, {}, []],
  ] as const)('%s [C05-19, C21-12]', (_, change, types, wanted) => {
    expect(rules(change, types)).toEqual(wanted);
  });

  it.each([
    [90, '0', 1],
    [89, '0', 0],
    [90, '1', 0],
  ])(
    'on capability %i with NCCL_LL128_C2C=%s is said to be off over relays %i times',
    (minSm, text, times) => {
      const lines: string[] = [];
      const input = plainInput({ minSm, env: { NCCL_LL128_C2C: text } });
      tuningTables(input, { log: (_level, subsystem, line) => lines.push(`${subsystem} ${line}`) });
      expect(lines.filter((line) => line.startsWith('GRAPH Disabling LL128 over all PxN'))).toHaveLength(
        times,
      );
    },
  );

  it('built by CUDA 11.8 still does trees and other functions', () => {
    const tables = tablesOf(plainInput({ cuda118: true, nRanks: 2 }));
    expect(rulesOf(tables, 'AllReduce', 'Tree', 'LL128')).toEqual([]);
    expect(rulesOf(tables, 'AllGather', 'Ring', 'LL128')).toEqual([]);
  });

  it('lists every rule that is against it', () => {
    expect(rules({ minSm: 61, maxSm: 80 }, { intra: PathType.SYS, inter: PathType.SYS })).toEqual([
      'll128-net-path',
      'll128-gpu-path',
      'll128-mixed-gpus',
      'll128-capability',
    ]);
  });

  it('is not asked for if a list allows it, also a list of exclusions, before other lists [C05-18, C21-11]', () => {
    const far = { intra: PathType.SYS, inter: PathType.SYS };
    expect(rules({ env: { NCCL_PROTO: 'LL128' } }, far)).toEqual([]);
    expect(rules({ env: { NCCL_PROTO: '^LL' } }, far)).toEqual([]);
    expect(rules({ env: { NCCL_PROTO: 'allgather:LL128' } }, far)).toHaveLength(2);
    expect(rules({ env: { NCCL_PROTO: '^LL128' } }, far)).toEqual(['protocol-list']);
    expect(rules({ env: { NCCL_PROTO: '' } }, far)).toHaveLength(2);
    // A list of algorithms alone forces the call, and the machine is still asked.
    expect(rules({ env: { NCCL_ALGO: 'Ring' } }, far)).toHaveLength(2);
    expect(rules({ env: { NCCL_ALGO: 'Tree' } }, far)).toEqual(
      expect.arrayContaining(['algorithm-list', 'll128-gpu-path']),
    );
  });
});

describe('NCCL_ALGO and NCCL_PROTO', () => {
  it('must both allow a candidate [C05-20]', () => {
    const tables = tablesOf(plainInput({ env: { NCCL_ALGO: 'Ring', NCCL_PROTO: 'LL' } }));
    const available = NCCL_ALGORITHMS.flatMap((algorithm) =>
      NCCL_PROTOCOLS.filter(
        (protocol) => modelOf(tables, 'AllReduce', algorithm, protocol).bandwidth > 0,
      ).map((protocol) => `${algorithm}/${protocol}`),
    );
    expect(available).toEqual(['Ring/LL']);
    expect(rulesOf(tables, 'AllReduce', 'Tree', 'Simple')).toEqual(['algorithm-list', 'protocol-list']);
  });

  it('exclusions name variable and value', () => {
    const tables = tablesOf(plainInput({ env: { NCCL_ALGO: 'allreduce:ring' } }));
    const [tree] = tables.exclusions[FunctionId.AllReduce]!.filter(({ algorithm }) => algorithm === 'Tree');
    expect(tree).toEqual({
      algorithm: 'Tree',
      protocol: 'LL',
      rule: 'algorithm-list',
      reason: 'NCCL_ALGO=allreduce:ring leaves out Tree for AllReduce',
      variable: 'NCCL_ALGO',
    });
  });
});

describe('a single rank', () => {
  it('has thread limits and nothing else', () => {
    const tables = tablesOf(plainInput({ nRanks: 1, localRanks: 1, minLocalRanks: 1, maxLocalRanks: 1 }));
    expect(tables.latencies.every((value) => value === 0)).toBe(true);
    expect(tables.bandwidths.every((value) => value === 0)).toBe(true);
    expect(tables.threadThresholds.every((value) => value === 0)).toBe(true);
    expect(tables.maxThreads.some((value) => value > 0)).toBe(true);
  });
});

describe('any communicator', () => {
  it('has finite latencies and bandwidths that are not negative, and a reason for each that is missing', () => {
    fc.assert(
      fc.property(anyInput, (input) => {
        const tables = tablesOf(input);
        expect(tables.latencies.every((value) => Number.isFinite(value) && value >= 0)).toBe(true);
        expect(tables.bandwidths.every((value) => Number.isFinite(value) && value >= 0)).toBe(true);
        if (input.nRanks === 1) return;
        for (const fn of NCCL_FUNCTIONS) {
          for (const algorithm of NCCL_ALGORITHMS) {
            for (const protocol of NCCL_PROTOCOLS) {
              const { bandwidth } = modelOf(tables, fn, algorithm, protocol);
              expect(rulesOf(tables, fn, algorithm, protocol).length > 0).toBe(bandwidth === 0);
            }
          }
        }
      }),
      { numRuns: 150 },
    );
  });

  it('is no slower with twice the bandwidth on all links', () => {
    fc.assert(
      fc.property(anyInput, (input) => {
        const twice = { ...input, graphs: { ...input.graphs } };
        for (const name of ['ring', 'tree', 'collnetDirect', 'collnetChain', 'nvls'] as const) {
          const { bwIntra, bwInter, ...rest } = input.graphs[name];
          twice.graphs[name] = { ...rest, bwIntra: bwIntra * 2, bwInter: bwInter * 2 };
        }
        const [before, after] = [tablesOf(input).bandwidths, tablesOf(twice).bandwidths];
        expect(after.every((value, i) => value >= before[i]!)).toBe(true);
      }),
      { numRuns: 150 },
    );
  });
});
