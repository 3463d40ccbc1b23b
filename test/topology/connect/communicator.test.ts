import { describe, expect, it } from 'vitest';
import { connectCommunicator } from '#src/topology/connect/communicator.js';
import type { DomainInfo } from '#src/topology/connect/domain.js';
import { GraphId, Pattern, type TopoGraph } from '#src/topology/search/graph.js';
import { type Environment, topologySettings } from '#src/topology/settings.js';
import { CpuArch, CpuVendor } from '#src/topology/system/node.js';
import { PathType } from '#src/topology/system/path-type.js';
import { madeDomain, madeGraph, madeGraphs, madeSystem, ONE_NIC, upTo } from './machines.js';

const connect = (domains: readonly DomainInfo[], env: Environment = {}, log?: (text: string) => void) =>
  connectCommunicator({
    domains,
    settings: topologySettings(env),
    log: (_level, _subsystem, text) => log?.(text),
  });

/** Domains one after the other with these numbers of GPUs. */
function domainsOf(sizes: readonly number[], make = madeDomain): DomainInfo[] {
  let first = 0;
  return sizes.map((size) => {
    const domain = make(first, size);
    first += size;
    return domain;
  });
}

describe('alignment of what the ranks found', () => {
  const found: Partial<TopoGraph> = {
    bwIntra: 40,
    bwInter: 20,
    typeIntra: PathType.NVL,
    typeInter: PathType.PIX,
    crossNic: 0,
    sameChannels: true,
    nHops: 7,
    latencyInter: 1,
    minChannels: 1,
    maxChannels: 8,
  };
  const other: Partial<TopoGraph> = {
    bwIntra: 30,
    bwInter: 24,
    typeIntra: PathType.PXB,
    typeInter: PathType.LOC,
    crossNic: 2,
    sameChannels: false,
    nHops: 9,
    latencyInter: 2,
    minChannels: 3,
    maxChannels: 4,
  };
  const orders = (count: number) => upTo(count).map(() => [0, 1]);
  const graphs = (count: number, pattern: Pattern, values: Partial<TopoGraph>) => ({
    ring: madeGraph(GraphId.RING, Pattern.RING, orders(count), values),
    tree: madeGraph(GraphId.TREE, pattern, orders(count + 1), values),
    collnetChain: madeGraph(GraphId.COLLNET_CHAIN, Pattern.TREE, orders(count), values),
    collnetDirect: madeGraph(GraphId.COLLNET_DIRECT, Pattern.COLLNET_DIRECT, orders(count), values),
    nvls: madeGraph(GraphId.NVLS, Pattern.NVLS, orders(count), values),
  });
  const domains = [
    madeDomain(0, 2, graphs(5, Pattern.BALANCED_TREE, found)),
    madeDomain(2, 2, graphs(3, Pattern.TREE, other)),
  ];

  it('takes minima of channels, sameness and bandwidths, maxima of types and crossNic [C03-26]', () => {
    const common = {
      bwIntra: 30,
      bwInter: 20,
      typeIntra: PathType.PXB,
      typeInter: PathType.PIX,
      crossNic: 2,
      sameChannels: false,
      nChannels: 3,
    };
    const { aligned } = connect(domains);
    for (const graph of Object.values(aligned)) expect(graph).toMatchObject(common);
    for (const graph of Object.values(connect([...domains].reverse()).aligned))
      expect(graph).toMatchObject(common);
  });

  it('leaves pattern, limits, hops, latency and orders as rank 0 has them', () => {
    const own = { nHops: 7, latencyInter: 1, minChannels: 1, maxChannels: 8 };
    const { aligned, maxTreePattern } = connect(domains);
    for (const graph of Object.values(aligned)) expect(graph).toMatchObject(own);
    expect(aligned.tree.pattern).toBe(Pattern.BALANCED_TREE);
    expect(maxTreePattern).toBe(Pattern.TREE);
    expect(aligned.ring.channels).toEqual(upTo(3).map(() => ({ intra: [0, 1], inter: null })));
  });

  it('gives ring and tree the channels that both have everywhere, and twice as many to the communicator', () => {
    // Equal bandwidths: CollNet chains ask for no further channels.
    const even = { ...found, bwInter: 40 };
    const uneven = [
      madeDomain(0, 2, graphs(2, Pattern.TREE, even)),
      madeDomain(2, 2, graphs(7, Pattern.TREE, even)),
    ];
    const { aligned, searchChannels, nChannels } = connect(uneven);
    expect([aligned.ring.nChannels, aligned.tree.nChannels, searchChannels, nChannels]).toEqual([2, 2, 2, 4]);
    expect([aligned.ring.channels.length, aligned.tree.channels.length]).toEqual([2, 2]);
  });

  it('does not change the graphs it was given', () => {
    const before = structuredClone(domains.map((domain) => domain.graphs));
    connect(domains);
    expect(domains.map((domain) => domain.graphs)).toEqual(before);
  });
});

describe('ranks of a communicator', () => {
  it('adds the offset of each domain to its ranks', () => {
    const graphs = madeGraphs({ ring: [[1, 0]] });
    const comm = connect([madeDomain(0, 2, graphs), madeDomain(2, 2, graphs), madeDomain(4, 2, graphs)]);
    expect([...comm.ringOf(0)]).toEqual([0, 3, 2, 5, 4, 1]);
    expect(comm.nodes.map(({ firstRank }) => firstRank)).toEqual([1, 3, 5]);
  });

  it('refuses a rank in two domains, a gap, no rank at all', () => {
    const refused = (text: string) =>
      expect.objectContaining({ code: 'invalidArgument', message: expect.stringContaining(text) });
    expect(() => connect([madeDomain(0, 2), madeDomain(1, 2)])).toThrow(refused('rank 1 is in two domains'));
    expect(() => connect([madeDomain(0, 2), madeDomain(3, 2)])).toThrow(refused('rank 4 is not in 0..3'));
    expect(() => connect([])).toThrow(refused('at least one rank'));
  });

  it('refuses graphs that make no ring or tree, as a graph file can', () => {
    const refused = (text: string) =>
      expect.objectContaining({ code: 'internalError', message: expect.stringContaining(text) });
    const ring = [[0, 1, 2]];
    const of = (orders: Parameters<typeof madeGraphs>[0]) => connect([madeDomain(0, 3, madeGraphs(orders))]);
    expect(() => of({ ring: [[0, 1, 1]], tree: ring })).toThrow(refused('ring 0 does not'));
    expect(() => of({ ring: [[0, 1]], tree: ring })).toThrow(refused('lists 2 GPUs, the node has 3'));
    expect(() => of({ ring, tree: [[0, 2, 0]] })).toThrow(refused('lists a GPU twice'));
    expect(() => of({ ring: [] })).toThrow(refused('found no ring'));
  });

  it('takes one rank', () => {
    const comm = connect([madeDomain(0, 1)]);
    expect([...comm.ringOf(1)]).toEqual([0]);
    expect([...comm.ringPrev, ...comm.ringNext]).toEqual([0, 0, 0, 0]);
    expect([...comm.treeUp]).toEqual([-1, -1]);
    expect([comm.treeDepth, comm.p2pnChannelsPerPeer]).toEqual([0, 2]);
  });
});

describe('what the nodes have in common', () => {
  const cpu = (arch: CpuArch, vendor: CpuVendor) => (first: number, size: number) =>
    madeDomain(first, size, undefined, madeSystem(size, { arch, vendor }));

  it('says mixed, in numbers and in the log, where CPUs differ', () => {
    const lines: string[] = [];
    const amd = cpu(CpuArch.X86, CpuVendor.AMD)(0, 2);
    const intel = cpu(CpuArch.X86, CpuVendor.INTEL)(2, 2);
    const arm = cpu(CpuArch.ARM, CpuVendor.UNDEFINED)(4, 2);
    expect(connect([amd])).toMatchObject({ cpuArch: CpuArch.X86, cpuVendor: CpuVendor.AMD });
    expect(connect([amd, intel], {}, (text) => lines.push(text))).toMatchObject({
      cpuArch: CpuArch.X86,
      cpuVendor: 4,
    });
    expect(lines).toContain('CPUs with mixed vendors were detected.');
    expect(lines).not.toContain('CPUs with mixed architecture were detected.');
    expect(connect([amd, intel, arm], {}, (text) => lines.push(text))).toMatchObject({
      cpuArch: 4,
      cpuVendor: 4,
    });
    expect(lines).toContain('CPUs with mixed architecture were detected.');
  });

  it('takes the slowest NIC, the fewest NICs, the oldest and the newest GPU over all ranks', () => {
    const [first, second] = domainsOf([2, 2]);
    const old = madeSystem(2, { sm: 80 });
    const nets = [ONE_NIC, { minBandwidth: 12, count: 3, total: 36 }];
    const slow = { minBandwidth: 24, count: 2, total: 48 };
    const comm = connect([
      { ...first!, nets: [slow, slow] },
      { ...second!, system: old, nets },
    ]);
    expect(comm).toMatchObject({ minNetBw: 12, minNetCount: 1, minSm: 80, maxSm: 90 });
  });

  it('is all NVLink if every node is, and directly if rank 0 sees no other kind', () => {
    const via = (type: PathType) => (first: number) =>
      madeDomain(first, 2, undefined, madeSystem(2, { gpuPath: () => ({ type, bandwidth: 20 }) }));
    const flags = (...types: PathType[]) => {
      const { isAllNvlink, isAllDirectNvlink } = connect(types.map((type, m) => via(type)(2 * m)));
      return [isAllNvlink, isAllDirectNvlink];
    };
    expect(flags(PathType.NVL, PathType.NVL)).toEqual([true, true]);
    expect(flags(PathType.NVL, PathType.NVB)).toEqual([true, true]);
    expect(flags(PathType.NVB, PathType.NVL)).toEqual([true, false]);
    expect(flags(PathType.NVL, PathType.PIX)).toEqual([false, true]);
  });

  it('compares the numbers of network devices and stops where they differ, unless told otherwise', () => {
    const [first, second] = domainsOf([2, 2]);
    const domains = [
      { ...first!, devices: { net: 4, collnet: 1 } },
      { ...second!, devices: { net: 3, collnet: 0 } },
    ];
    const refused = (kind: string) =>
      expect.objectContaining({ code: 'systemError', message: expect.stringContaining(kind) });
    const lines: string[] = [];
    const heedNet = { NCCL_IGNORE_NET_MISMATCH: '0' };
    expect(() => connect(domains, heedNet, (text) => lines.push(text))).toThrow(
      refused('numbers of Net devices (3 to 4)'),
    );
    expect(lines[0]).toBe('Local Net device counts across ranks: min 3 max 4');
    expect(() => connect(domains)).toThrow(refused('numbers of CollNet devices (0 to 1)'));
    expect(connect(domains, { NCCL_IGNORE_COLLNET_MISMATCH: '1' }).nNodes).toBe(2);
    expect(connect([domains[0]!, second!]).nNodes).toBe(2);
  });
});

describe('CollNet', () => {
  const make = (first: number, size: number) => {
    const ring = [upTo(size)];
    const heads = size > 2 ? [upTo(size), [2, 1, 0, ...upTo(size).slice(3)], upTo(size)] : [upTo(size)];
    return madeDomain(first, size, madeGraphs({ ring, collnetChain: ring, collnetDirect: heads }));
  };

  it('is off below the node threshold, 2 by default, and without chains [C03-28]', () => {
    const on = (nodes: number, env: Environment = {}, maker = make) =>
      connect(
        domainsOf(
          upTo(nodes).map(() => 2),
          maker,
        ),
        env,
      ).collnetEnabled;
    expect([on(1), on(2), on(3)]).toEqual([false, true, true]);
    expect([
      on(3, { NCCL_COLLNET_NODE_THRESHOLD: '4' }),
      on(4, { NCCL_COLLNET_NODE_THRESHOLD: '4' }),
    ]).toEqual([false, true]);
    expect(on(1, { NCCL_COLLNET_NODE_THRESHOLD: '1' })).toBe(true);
    expect(on(3, {}, madeDomain)).toBe(false);
  });

  it('puts the network at the head of every chain', () => {
    const { collnet } = connect(domainsOf([3, 2], make));
    expect([...collnet!.chainUp.slice(0, 5)]).toEqual([5, 0, 1, 5, 3]);
    expect([...collnet!.chainDown.slice(0, 5)]).toEqual([1, 2, -1, 4, -1]);
    expect(collnet!.chainDepth).toBe(2);
  });

  it('gives every rank its heads, its share of the node and where to begin', () => {
    const { collnet } = connect(domainsOf([4, 4], make));
    const at = (rank: number) => collnet!.direct!(rank);
    expect(at(6)).toEqual({
      depth: 2,
      out: 8,
      nHeads: 2,
      headRank: 1,
      shift: 0,
      heads: [6, 4],
      up: [4],
      down: [5, 4, 7],
    });
    expect(at(5)).toEqual({
      depth: 2,
      out: -1,
      nHeads: 2,
      headRank: -1,
      shift: 1,
      heads: [4, 6],
      up: [4, 6],
      down: [],
    });
  });

  it('has depth 1 where nodes have one GPU, and no direct form where they have more than 8', () => {
    expect(connect(domainsOf([1, 1], make)).collnet!.direct!(1).depth).toBe(1);
    expect(connect(domainsOf([9, 1], make)).collnet!.direct).toBe(undefined);
    expect(connect(domainsOf([8, 1], make)).collnet!.direct!(8).depth).toBe(1);
    expect(connect(domainsOf([2, 2], make)).collnet!.direct!(0)).toMatchObject({
      depth: 2,
      up: [],
      down: [1],
    });
    expect(connect(domainsOf([2, 2], make)).collnet!.direct!(1)).toMatchObject({
      depth: 2,
      up: [0],
      down: [],
    });
  });
});

describe('NVLS', () => {
  const make = (heads: number) => (first: number, size: number) =>
    madeDomain(
      first,
      size,
      madeGraphs({ ring: [upTo(size)], nvls: upTo(heads).map((head) => [size - 1 - head]) }),
    );

  it('uses as many heads as every node has, none if a node has none', () => {
    const [a, b] = [make(3)(0, 4), make(2)(4, 4)];
    expect(connect([a, b]).nvls).toMatchObject({ nHeads: 2, up: [9, 10], nChannels: 16 });
    expect([...connect([a, b]).nvls!.headRank]).toEqual([-1, -1, 1, 0, -1, -1, 1, 0]);
    expect(connect([a, make(0)(4, 4)]).nvls).toBe(undefined);
  });

  it('leaves the trees empty on a single node', () => {
    const { nvls } = connect([make(2)(0, 4)]);
    expect([...nvls!.treeUp, ...nvls!.treeDown].every((rank) => rank === -1)).toBe(true);
    expect([...nvls!.down]).toEqual([4, 4, 6, 5]);
    expect([...nvls!.out]).toEqual([-1, -1, -1, -1]);
  });

  it('goes on to the network from its heads where CollNet is on', () => {
    const both = (first: number) =>
      madeDomain(first, 2, madeGraphs({ ring: [[0, 1]], collnetChain: [[0, 1]], nvls: [[1]] }));
    expect([...connect([both(0), both(2)]).nvls!.out]).toEqual([-1, 4, -1, 4]);
  });
});

describe('speed', () => {
  it('connects 1,024 nodes of 8 GPUs with 32 channels within seconds', () => {
    const rotated = upTo(16).map((c) => upTo(8).map((i) => (i + c) % 8));
    const graphs = madeGraphs({ ring: rotated, nvls: upTo(8).map((head) => [head]), crossNic: 2 });
    const system = madeSystem(8);
    const nets = upTo(8).map(() => ONE_NIC);
    const domains = upTo(1024).map((m): DomainInfo => {
      const rankOffset = 8 * m;
      return { ranks: upTo(8).map((rank) => rank + rankOffset), rankOffset, system, graphs, nets };
    });
    const start = performance.now();
    const comm = connect(domains);
    const seconds = (performance.now() - start) / 1000;
    expect([comm.nRanks, comm.nNodes, comm.nChannels]).toEqual([8192, 1024, 32]);
    // About 0.2 s on a machine with nothing else to do.
    expect(seconds).toBeLessThan(3);
  });
});
