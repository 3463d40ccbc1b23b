/** Which demands a search gives up, in which order, when it ends, and how it raises what it found. */
import { describe, expect, it } from 'vitest';
import type { SearchResult } from '#src/topology/search/compute.js';
import { Pattern } from '#src/topology/search/graph.js';
import { channelSpeeds } from '#src/topology/search/speeds.js';
import { PathType } from '#src/topology/system/path-type.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { channelText, cluster, firstDomain, graphText, runText, search, searchSpace } from '../described.js';
import {
  ARM,
  type Attributes,
  cpu,
  gpu,
  link,
  MILAN,
  net,
  nic,
  nicOf,
  nvlinkTo,
  nvswitch,
  pciSwitch,
  SAPPHIRE_RAPIDS,
  system,
} from '../machine-xml.js';

const texts = ({ runs }: SearchResult, pass?: 1 | 2): string[] =>
  runs.filter((run) => pass === undefined || run.pass === pass).map(runText);

const bus = (dev: number): string => `${(dev + 1).toString(16)}1:00.0`;

/** GPUs behind an NVSwitch, each below a fifth generation switch of its own, with a NIC (Mbit/s, 0: none) beside it. */
const switched = (nvlinks: readonly number[], speeds = nvlinks.map(() => 400_000)): XmlElement =>
  system(
    cpu(
      SAPPHIRE_RAPIDS,
      ...nvlinks.map((count, dev) => {
        const k = (dev + 1).toString(16);
        const parts = [gpu(bus(dev), dev, { links: [nvswitch(count)], pci: link(5) })];
        if (speeds[dev]! > 0) parts.push(nic(`${k}2:00.0`, dev, { speed: speeds[dev]! }, link(5)));
        return pciSwitch(`${k}0:00.0`, link(5), ...parts);
      }),
    ),
  );

describe('speeds of a channel', () => {
  it('are those of the oldest GPU generation, inside a node or across', () => {
    expect(channelSpeeds(89, false).join(' ')).toBe('40 30 20 18 15 12 10 9 7 6 5 4 3');
    expect(channelSpeeds(90, false).join(' ')).toBe('60 50 40 30 24 20 15 12 11 6 3');
    expect(channelSpeeds(100, false).join(' ')).toBe('90 80 70 60 50 45 40 30 24 20 19 18');
    const across = (sm: number) =>
      channelSpeeds(sm, true)
        .map((speed) => Number(speed.toFixed(3)))
        .join(' ');
    expect(across(80)).toBe('48 30 28 24 20 18 15 12 10 9 7 6 5 4 3 2.4 1.2 0.24 0.12');
    expect(across(99)).toBe('48 45 42 40 30 24 22 20 17.5 15 12 6 3 2.4 1.2 0.24 0.12');
    expect(across(120)).toBe('96 86 80 48 45.1 42 40 30 24 22 20 17.5 15 12 6 3 2.4 1.2 0.24 0.12');
    for (const speed of channelSpeeds(100, true)) expect(speed).toBe(Math.fround(speed));
  });
});

describe('the first pass', () => {
  it('gives up equal channels, then the path type inside, then speed, each from the start again', () => {
    // Two GPUs on two ARM sockets: 6 GB/s, type SYS; nothing faster than 6 can be found.
    const xml = system(
      cpu({ ...ARM, numaid: 0 }, gpu('11:00.0', 0), nic('12:00.0', 0, { speed: 1000 })),
      cpu({ ...ARM, numaid: 1 }, gpu('21:00.0', 1)),
    );
    const { ring } = firstDomain(xml, 1).results;
    // 6 is the first speed that is not above the best way; 6 is less than the 24 of a GPU, and 3 more than 0.49 x 6.
    expect(texts(ring!, 1)).toEqual(
      [6, 3].flatMap((speed) => [1, 0].map((same) => `4: ${speed} SYS/PIX cross 0 same ${same}`)),
    );
    // Three GPUs, the first two below one switch: from PIX on every number is tried, also types that do not occur.
    const three = system(
      cpu(
        { ...ARM, numaid: 0 },
        pciSwitch('10:00.0', gpu('11:00.0', 0), gpu('13:00.0', 1)),
        nic('12:00.0', 0, { speed: 1000 }),
      ),
      cpu({ ...ARM, numaid: 1 }, gpu('21:00.0', 2)),
    );
    const { runs } = firstDomain(three, 1).results.ring!;
    const first = runs.filter(({ bwIntra, pass }) => pass === 1 && bwIntra === 24).map(runText);
    const types = ['PIX', 'PXB', 'P2C', 'PXN', 'PHB', 'SYS'];
    expect(first).toEqual(
      types.flatMap((type) => [1, 0].map((same) => `4: 24 ${type}/PIX cross 0 same ${same}`)),
    );
  });

  it('keeps equal channels over the socket link of AMD CPUs', () => {
    const two = (kind: Attributes) =>
      system(
        cpu({ ...kind, numaid: 0 }, gpu('11:00.0', 0), gpu('13:00.0', 1), nic('12:00.0', 0, { speed: 1000 })),
        cpu({ ...kind, numaid: 1 }, gpu('21:00.0', 2), gpu('22:00.0', 3)),
      );
    const unequal = (kind: Attributes) =>
      firstDomain(two(kind), 1).results.ring!.runs.filter(
        ({ sameChannels, typeIntra }) => !sameChannels && typeIntra === 9,
      ).length;
    expect(unequal(MILAN)).toBe(0);
    expect(unequal(SAPPHIRE_RAPIDS)).toBeGreaterThan(0);
  });

  it('tries balanced trees no more once a simple one was found', () => {
    // The second GPU reaches the first one's NIC only through it (PXN), so balanced trees fail at PIX.
    const result = search(searchSpace(switched([18, 18]), 2), Pattern.BALANCED_TREE, [1, 4]);
    const speeds = [48, 45, 42, 40, 30, 24];
    const expected = speeds.flatMap((speed) =>
      ['PIX', 'PXB', 'P2C', 'PXN'].flatMap((type) =>
        [1, 0].map((same) => `3: ${speed} NVL/${type} cross 0 same ${same}`),
      ),
    );
    expect(texts(result, 1)).toEqual([
      '1: 48 NVL/PIX cross 0 same 1',
      '1: 48 NVL/PIX cross 0 same 0',
      ...expected,
    ]);
    expect(result.runs.slice(0, 4).map(({ bestChannels }) => bestChannels)).toEqual([0, 0, 1, 2]);
    // Two at 48 become four at 24; inside up to twice that.
    expect(graphText(result.graph)).toBe('3: 4 x 48/24 NVL/PIX cross 0 same 0');
  });

  it('goes on to relays (PXN) although better paths to NICs gave a graph', () => {
    // GPU 0 and 1 share a switch with NIC 0: one ring enters and leaves there. NIC 1 stands beside GPU 2 alone, so a
    // ring that begins there ends at a GPU that reaches it only through GPU 2.
    const xml = system(
      cpu(
        SAPPHIRE_RAPIDS,
        pciSwitch(
          '10:00.0',
          link(5),
          ...[0, 1].map((dev) => gpu(`1${dev + 1}:00.0`, dev, { links: [nvswitch(18)], pci: link(5) })),
          nic('1f:00.0', 0, { speed: 400_000 }, link(5)),
        ),
        pciSwitch(
          '20:00.0',
          link(5),
          gpu('21:00.0', 2, { links: [nvswitch(18)], pci: link(5) }),
          nic('2f:00.0', 1, { speed: 400_000 }, link(5)),
        ),
        gpu('31:00.0', 3, { links: [nvswitch(18)], pci: link(5) }),
        // Reached over the CPU only (PHB), too slow to be preferred: worse types than PXN would be left.
        nic('4f:00.0', 2, { speed: 10_000 }),
      ),
    );
    const { graphs, results } = firstDomain(xml, 2, { env: { NCCL_CROSS_NIC: '0' } });
    const best = results.ring!.runs.slice(0, 8).map((run) => `${run.bestChannels} after ${runText(run)}`);
    expect(best).toEqual([
      ...['PIX', 'PXB', 'P2C'].flatMap((type) =>
        [1, 0].map((same) => `1 after 4: 48 NVL/${type} cross 0 same ${same}`),
      ),
      '1 after 4: 48 NVL/PXN cross 0 same 1',
      '2 after 4: 48 NVL/PXN cross 0 same 0',
    ]);
    expect(graphText(graphs.ring)).toBe('4: 4 x 24/24 NVL/PXN cross 0 same 0');
    // Beyond PXN only a graph that needs it would lead.
    const all = results.ring!.runs;
    expect(Math.max(...all.map(({ typeInter }) => typeInter))).toBe(PathType.PXN);
  });

  it('stops when the channels carry as much as a GPU has', () => {
    // One NVLink of 40 GB/s between two GPUs: a ring of 40 uses it up.
    const pair = system(
      cpu(
        ARM,
        gpu(bus(0), 0, { sm: 80, links: [nvlinkTo(bus(1), 2)] }),
        gpu(bus(1), 1, { sm: 80, links: [nvlinkTo(bus(0), 2)] }),
      ),
    );
    const { ring } = firstDomain(pair, 1).results;
    expect(ring!.runs[0]).toMatchObject({ bestChannels: 1, end: 'all' });
    expect(texts(ring!, 1)).toEqual(['4: 40 NVL/PIX cross 0 same 1']);
  });

  it('for other patterns than rings, too, when they carry what one GPU has, not what trees may have together', () => {
    // Links of 41.2 GB/s; of three NICs of 24 two can do CollNet, so that there are two heads and never three. They carry
    // 48: more than 41.2, but less than 41.2 x 3/2 = 61.8. A head sends and receives 12 to and from each other GPU, which
    // makes 3 x 12 = 36 on its link.
    const branch = (dev: number, coll: 0 | 1) =>
      pciSwitch(
        `${dev + 1}0:00.0`,
        gpu(bus(dev), dev, { links: [nvswitch(2)] }),
        nic(`${dev + 1}2:00.0`, dev, { coll }),
      );
    const xml = system(cpu(ARM, branch(0, 1), branch(1, 1), branch(2, 0)));
    const result = search(searchSpace(xml, 2), Pattern.COLLNET_DIRECT, [1, 64]);
    expect(result.runs[0]).toMatchObject({ bestChannels: 2, end: 'all' });
    expect(texts(result, 1)).toEqual(['6: 24 NVL/PIX cross 0 same 1']);
  });

  it('stops with what it has when its global budget is used up [C04-15]', () => {
    // Eight GPUs in a full mesh of NVLink and a ninth at PCI: no ring without the ninth, but 8! ways to look for one,
    // so every run uses up its budget. A pair of runs (equal channels, then not) costs 256 + 16384 of 524288 steps:
    // after 31 pairs 8448 are left, after 32 none. 40 and 30 find nothing with 8 path types each, 20 finds one ring
    // with the last type (24 pairs), 18 needs 8 more pairs. Two rings of 12, which would be better, are never tried.
    const mesh = Array.from({ length: 8 }, (_, dev) => {
      const peers = Array.from({ length: 8 }, (_, peer) => peer).filter((peer) => peer !== dev);
      return gpu(bus(dev), dev, { sm: 80, links: peers.map((peer) => nvlinkTo(bus(peer), 2)) });
    });
    const { graphs, results } = firstDomain(system(cpu(ARM, ...mesh, gpu(bus(8), 8, { sm: 80 }))), 1);
    const first = results.ring!.runs.filter(({ pass }) => pass === 1);
    expect(first.length).toBe(64);
    expect(first.at(-1)).toMatchObject({ bwIntra: 18, sameChannels: false, end: 'steps', bestChannels: 1 });
    expect(first.map(({ steps }) => steps)).toEqual(Array(32).fill([256, 16384]).flat());
    expect(graphText(graphs.ring)).toBe('4: 1 x 20/20 PHB/PIX cross 0 same 1');
  });

  it('does not stop by budget as long as it has nothing', () => {
    // As before, but the ninth GPU carries 3 GB/s only, the lowest speed: 13 speeds of 8 types.
    const mesh = Array.from({ length: 8 }, (_, dev) => {
      const peers = Array.from({ length: 8 }, (_, peer) => peer).filter((peer) => peer !== dev);
      return gpu(bus(dev), dev, { sm: 80, links: peers.map((peer) => nvlinkTo(bus(peer), 2)) });
    });
    const slow = gpu(bus(8), 8, { sm: 80, pci: link(1) });
    const { graphs, results } = firstDomain(system(cpu(ARM, ...mesh, slow)), 1);
    expect(results.ring!.runs.filter(({ pass }) => pass === 1).length).toBe(2 * 8 * 13);
    expect(graphText(graphs.ring)).toBe('4: 1 x 3/3 PHB/PIX cross 0 same 1');
  });

  it('begins at the first speed that all channels together can have', () => {
    // 4 links of 20.6 are 82.4; for trees of at least 2 channels 82.4 x 2/1 is the ceiling: 60 x 2 is below.
    const starts = (pattern: Pattern, least: number) =>
      search(searchSpace(switched([4, 4], [400_000, 0]), 1), pattern, [least, 8]).runs[0]!.bwIntra;
    expect(starts(Pattern.RING, 1)).toBe(60);
    expect(starts(Pattern.RING, 2)).toBe(40);
    expect(starts(Pattern.BALANCED_TREE, 2)).toBe(60);
    expect(starts(Pattern.BALANCED_TREE, 3)).toBe(50);
  });

  it('asks for two rings where NVLink falls into two groups', () => {
    const pairs = system(
      cpu(
        ARM,
        ...[0, 1, 2, 3].map((dev) => gpu(bus(dev), dev, { sm: 80, links: [nvlinkTo(bus(dev ^ 1), 4)] })),
        nic('0f:00.0', 0, { speed: 1000 }),
      ),
    );
    const { ring } = firstDomain(pairs, 1).graphs;
    expect(ring.minChannels).toBe(2);
    // A ring and its reverse use different directions of the PCI links (24 GB/s), so two of each fit at 12.
    expect(graphText(ring)).toBe('4: 4 x 12/12 PHB/PIX cross 0 same 0');
    expect(firstDomain(switched([18, 18]), 1).graphs.ring.minChannels).toBe(1);
  });
});

describe('the second pass', () => {
  it('raises NVLS to the network up to twice the speed inside', () => {
    // 12 links are 247.2 GB/s: nine parts of 24 (216) fit, nine of 30 do not. 24 rises to 30, 40 and 50; that is more
    // than twice 24, so 60 is not tried for the network, but once for the inside, where it fails.
    const { graphs, results } = firstDomain(switched(Array(8).fill(12)), 1);
    expect(texts(results.nvls!)).toEqual([
      '5: 30 NVL/PIX cross 0 same 0',
      '5: 24 NVL/PIX cross 0 same 0',
      '5: 24/30 NVL/PIX cross 0 same 0',
      '5: 24/40 NVL/PIX cross 0 same 0',
      '5: 24/50 NVL/PIX cross 0 same 0',
      '5: 60/50 NVL/PIX cross 0 same 0',
    ]);
    expect(graphText(graphs.nvls)).toBe('5: 8 x 24/50 NVL/PIX cross 0 same 0');
  });

  it('raises trees inside up to twice the speed to the network', () => {
    // NICs of 20 GB/s: simple trees of 20 rise to 22, 24, 30 and 40 inside; 42 and more would fit too.
    const { graphs, results } = firstDomain(switched([18, 18], [160_000, 160_000]), 2);
    expect(texts(results.tree!, 2)).toEqual(
      [22, 24, 30, 40].map((speed) => `3: ${speed}/20 NVL/PIX cross 0 same 0`),
    );
    expect(graphText(graphs.tree)).toBe('3: 2 x 40/20 NVL/PIX cross 0 same 0');
  });

  it('of a ring ends with the first run that uses up its budget', () => {
    // 12 channels of 30 are raised to 40, whose 256 steps do not suffice.
    const { runs } = firstDomain(switched(Array(8).fill(18)), 1).results.ring!;
    const second = runs.filter(({ pass }) => pass === 2);
    expect(second.map(({ bwIntra, end }) => `${bwIntra} ${end}`)).toEqual(['40 steps']);
  });

  it('of a ring goes on over runs that saw everything', () => {
    const pair = system(
      cpu(
        ARM,
        gpu(bus(0), 0, { links: [nvlinkTo(bus(1), 2)] }),
        gpu(bus(1), 1, { links: [nvlinkTo(bus(0), 2)] }),
      ),
    );
    // 41.2 GB/s: one of 40, doubled to two of 20; 24, 30, 40, 50 and 60 with two channels all fail, seen through.
    const { ring } = firstDomain(pair, 1).results;
    expect(
      ring!.runs.filter(({ pass }) => pass === 2).map(({ bwIntra, end }) => `${bwIntra} ${end}`),
    ).toEqual([24, 30, 40, 50, 60].map((speed) => `${speed} all`));
    expect(graphText(ring!.graph)).toBe('4: 2 x 20/20 NVL/PIX cross 0 same 1');
  });
});

describe('channels are doubled with half the speed', () => {
  const ringOf = (nvlinks: number, sm: number, gpus = 2) => {
    const links = Array.from({ length: gpus }, (_, dev) => dev);
    const xml = system(
      cpu(ARM, ...links.map((dev) => gpu(bus(dev), dev, { sm, links: [nvswitch(nvlinks)] }))),
    );
    return graphText(firstDomain(xml, 1).graphs.ring).replace(/ NVL.*/, '');
  };

  it('if one has at least 25 GB/s', () => {
    expect(ringOf(2, 80)).toBe('4: 2 x 20/20');
    // 20 GB/s stay.
    expect(ringOf(1, 80)).toBe('4: 1 x 20/20');
  });

  it('but not beyond four channels of less than 50 GB/s after Ampere', () => {
    // 8 x 20.6 = 164.8: 4 x 40 = 160 become 8 x 20.
    expect(ringOf(8, 90)).toBe('4: 8 x 20/20');
    // 10 x 20.6 = 206: 5 x 40 = 200 would be the most below 50; 4 x 50 is as good and stands first.
    expect(ringOf(10, 90)).toBe('4: 8 x 25/25');
    // 6 x 30 = 180 of 185.4 (9 links), more than 3 x 60.
    expect(ringOf(9, 90)).toBe('4: 6 x 30/30');
    // 6 x 40 = 240 (12 links of 20).
    expect(ringOf(12, 80)).toBe('4: 12 x 20/20');
  });
});

describe('nothing found', () => {
  const slow = (...more: XmlElement[]): XmlElement =>
    system(cpu(ARM, ...[0, 1, 2].map((dev) => gpu(bus(dev), dev, { pci: link(1, 1) })), ...more));

  it('gives one slow channel in index order for ring and tree, with a line of log [C04-24]', () => {
    // 0.1875 GB/s are below the lowest speed inside a node, 3.
    const lines: string[] = [];
    const log = (level: string, subsystem: string, text: string) =>
      lines.push(`${level} ${subsystem} ${text}`);
    const { graphs, results } = firstDomain(slow(nic('0f:00.0', 0)), 1, { log });
    for (const name of ['ring', 'tree'] as const) {
      expect(results[name]!.fallback).toBe(true);
      expect(graphs[name].channels).toEqual([{ intra: [0, 1, 2], inter: null }]);
      expect(graphText(graphs[name])).toMatch(/^\d: 1 x 0\.1\/0\.1 SYS\/SYS /);
    }
    expect(lines).toContain('INFO GRAPH Could not find a path for pattern 4, falling back to simple order');
    expect(lines).toContain('INFO GRAPH Could not find a path for pattern 1, falling back to simple order');
  });

  it('takes the NICs that the first and the last GPU prefer', () => {
    // Across nodes the lowest speed is 0.12: PCI links of 0.1 GB/s do not exist, so a NIC of 0.1 GB/s (800 Mbit/s).
    const xml = system(
      cpu(
        ARM,
        ...[0, 1].map((dev) =>
          pciSwitch(`${dev + 1}0:00.0`, gpu(bus(dev), dev), nic(`${dev + 1}2:00.0`, dev, { speed: 800 })),
        ),
      ),
    );
    const { ring } = firstDomain(xml, 2).graphs;
    expect(graphText(ring)).toBe('4: 1 x 0.1/0.1 SYS/SYS cross 0 same 1');
    expect(channelText(ring, 0)).toBe('NET0 0 1 NET1');
  });

  it('is an error without any NIC, and nothing for CollNet and NVLS', () => {
    expect(() => firstDomain(slow(), 1)).toThrow(/Could not find any local path from gpu .* to net/);
    const { graphs } = firstDomain(slow(nic('0f:00.0', 0)), 2, { collnet: true });
    expect(graphs.collnetChain.nChannels + graphs.collnetDirect.nChannels + graphs.nvls.nChannels).toBe(0);
  });
});

describe('one GPU per node', () => {
  it('has 32 rings, and simple trees, at the first speed', () => {
    const { ring, tree } = firstDomain(switched([18]), 1).graphs;
    expect(graphText(ring)).toMatch(/^4: 32 x 60\/60 LOC/);
    expect(graphText(tree)).toMatch(/^3: 32 x 60\/60 LOC/);
  });

  it('counts whole GB/s of a card only, whatever its ports', () => {
    // Two entries for one port of 4.5 GB/s: 3 fits once into 4.5, but 2.4 counts as 2 and fits twice.
    const port = { speed: 36_000, guid: '0x5', port: 1 };
    const xml = system(cpu(ARM, gpu('11:00.0', 0), nicOf('12:00.0', {}, net(0, port), net(1, port))));
    const domain = firstDomain(xml, 2, { env: { NCCL_CROSS_NIC: '0' } });
    expect(graphText(domain.graphs.ring)).toMatch(/^4: 2 x 2\.4\/2\.4 LOC\//);
    expect([0, 1].map((channel) => channelText(domain.graphs.ring, channel))).toEqual([
      'NET0 0 NET0',
      'NET1 0 NET1',
    ]);
    // Two ports of one card do not share it: 3 fits into each.
    const ports = system(
      cpu(ARM, gpu('11:00.0', 0), nicOf('12:00.0', {}, net(0, port), net(1, { ...port, port: 2 }))),
    );
    expect(graphText(firstDomain(ports, 2, { env: { NCCL_CROSS_NIC: '0' } }).graphs.ring)).toMatch(
      /^4: 2 x 3\/3 /,
    );
  });
});

describe('fast rings of few channels over nodes of Hopper GPUs', () => {
  it('give a communicator twice the channels below 16', () => {
    const counts = (speed: number) => {
      const xml = switched(Array(5).fill(18), Array(5).fill(speed));
      const { comm, domains } = cluster(xml, 2);
      return { ring: graphText(domains[0]!.graphs.ring).replace(/ NVL.*/, ''), channels: comm.nChannels };
    };
    // Five channels (odd, so no pairs) of 48 are not doubled by the search; 2 x 5 = 10 < 16 become 20.
    expect(counts(400_000)).toEqual({ ring: '4: 5 x 48/48', channels: 20 });
    // 45 is not more than 45.
    expect(counts(360_000)).toEqual({ ring: '4: 5 x 45/45', channels: 10 });
  });
});
