/**
 * Whole servers whose graphs can be worked out by hand: eight GPUs on two sockets, a switch and a NIC for each.
 *
 * Numbers come from the arithmetic that stands beside them, not from running the code.
 */
import { describe, expect, it } from 'vitest';
import type { Domain } from '#src/topology/cluster.js';
import type { TopoGraphs } from '#src/topology/search/graph.js';
import { channelText, cluster, firstDomain, graphText, runText } from '../described.js';
import { type BoxOptions, eightGpuBox, H100, MILAN, SAPPHIRE_RAPIDS } from '../machine-xml.js';

const domainOf = (options: BoxOptions, hosts: number): Domain => firstDomain(eightGpuBox(options), hosts);
const graphsOf = (options: BoxOptions, hosts: number): TopoGraphs => domainOf(options, hosts).graphs;
const orders = (domain: Domain, name: keyof TopoGraphs): string[] =>
  domain.graphs[name].channels.map((_, channel) => channelText(domain.graphs[name], channel));
const runs = (domain: Domain, name: keyof TopoGraphs): string[] => domain.results[name]!.runs.map(runText);

describe('one host of eight H100', () => {
  const domain = domainOf(H100, 1);
  const { ring, tree, nvls } = domain.graphs;

  it('has rings 0 1 2 3 4 5 6 7: 6 x 60 fill 360 of 370.8 GB/s, and are split into 12 x 30 [C04-16]', () => {
    expect(graphText(ring)).toBe('4: 12 x 30/30 NVL/PIX cross 0 same 1');
    expect(orders(domain, 'ring')).toEqual(Array(12).fill('0 1 2 3 4 5 6 7'));
  });

  it('needs 17 ring runs: four speeds, equal channels or not, crossing NICs or not, then 40 with 12 channels', () => {
    const all = domain.results.ring!.runs;
    const speeds = [60, 50, 40, 30];
    const expected = speeds.flatMap((speed) =>
      [0, 2].flatMap((cross) => [1, 0].map((same) => `4: ${speed} NVL/PIX cross ${cross} same ${same}`)),
    );
    expect(runs(domain, 'ring')).toEqual([...expected, '4: 40 NVL/PIX cross 0 same 1']);
    expect(all.map(({ pass }) => pass)).toEqual([...Array(16).fill(1), 2]);
    // Six channels from the first run on; the last run ends because its 256 steps are used up.
    expect(new Set(all.slice(0, 16).map((run) => `${run.bestChannels} x ${run.bestBwIntra}`))).toEqual(
      new Set(['6 x 60']),
    );
    expect(all[16]).toMatchObject({ end: 'steps', steps: 256, bestChannels: 12, bestBwIntra: 30 });
  });

  it('has trees of 12 x 30: faster ones exceed 370.8 x 8/7 = 423.8 together, so 30 is tried first and found', () => {
    expect(graphText(tree)).toBe('1: 12 x 30/30 NVL/PIX cross 0 same 1');
    expect(runs(domain, 'tree')).toEqual(['1: 30 NVL/PIX cross 0 same 1', '1: 40/30 NVL/PIX cross 0 same 1']);
    expect(domain.results.tree!.runs[0]!.end).toBe('full');
  });

  it('has NVLS of 8 heads x 40: 9 x 40 fit into a link, 9 x 50 do not; to the network 50 and 60 are as good', () => {
    expect(graphText(nvls)).toBe('5: 8 x 40/60 NVL/PIX cross 0 same 0');
    expect(nvls.channels.map(({ intra }) => intra[0])).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    const found = domain.results.nvls!.runs.filter(({ pass }) => pass === 2);
    expect(found.map(({ bwIntra, bwInter, end }) => [bwIntra, bwInter, end])).toEqual([
      [40, 50, 'full'],
      [40, 60, 'full'],
    ]);
  });

  it('has 24 channels: both trees of 12', () => {
    expect(cluster(eightGpuBox(H100), 1).comm.nChannels).toBe(24);
  });
});

describe('two hosts of eight H100', () => {
  const domain = domainOf(H100, 2);
  const { ring, tree, nvls } = domain.graphs;

  it('has eight rings in pairs that swap NICs, downward in index and back [C04-20]', () => {
    expect(graphText(ring)).toBe('4: 8 x 48/48 NVL/PIX cross 2 same 0');
    const down = (first: number) => Array.from({ length: 8 }, (_, i) => (first - i + 8) % 8);
    const expected = [0, 2, 4, 6].flatMap((first) => {
      const there = down(first);
      const [from, to] = [`NET${first}`, `NET${first + 1}`];
      return [[from, ...there, to].join(' '), [to, ...there.toReversed(), from].join(' ')];
    });
    expect(orders(domain, 'ring')).toEqual(expected);
    expect(expected[0]).toBe('NET0 0 7 6 5 4 3 2 1 NET1');
  });

  it('needs 34 runs: crossing is tried after every path to a NIC; one channel by PXN, then 7, then 8 x 48 >= 370.8', () => {
    const all = domain.results.ring!.runs;
    expect(all.length).toBe(34);
    expect(all.every(({ bwIntra, bwInter }) => bwIntra === 48 && bwInter === 48)).toBe(true);
    const growth = all.filter((run, at) => run.bestChannels !== (all[at - 1]?.bestChannels ?? 0));
    expect(growth.map((run) => `${run.bestChannels}: ${runText(run)}`)).toEqual([
      '1: 4: 48 NVL/PXN cross 0 same 1',
      '7: 4: 48 NVL/PXN cross 0 same 0',
      '8: 4: 48 NVL/PIX cross 2 same 0',
    ]);
    // 7 x 48 = 336 is less than the 370.8 of a GPU, 8 x 48 = 384 is not.
    expect(all.at(-1)).toMatchObject({ pass: 1, bestChannels: 8 });
  });

  it('has eight trees of the simple shape: the second GPU of a balanced one reaches the NIC only by PXN', () => {
    expect(graphText(tree)).toBe('3: 8 x 48/48 NVL/PIX cross 0 same 0');
    const expected = Array.from({ length: 8 }, (_, c) => {
      const ranks = Array.from({ length: 8 }, (_, i) => (c + i) % 8);
      return `NET${c} ${ranks.join(' ')} NET${c}`;
    });
    expect(orders(domain, 'tree')).toEqual(expected);
  });

  it('has NVLS of 8 heads at 40, found after 6 at 48 and 7 at 45, and raised to the 48 of a NIC', () => {
    expect(graphText(nvls)).toBe('5: 8 x 40/48 NVL/PIX cross 0 same 0');
    const all = domain.results.nvls!.runs;
    const bestAt = (speed: number) => all.filter((run) => run.pass === 1 && run.bwIntra === speed).at(-1);
    expect([48, 45, 42, 40].map((speed) => bestAt(speed)!.bestChannels)).toEqual([6, 7, 7, 8]);
    expect(all.filter(({ pass }) => pass === 2).map(({ bwInter }) => bwInter)).toEqual([42, 45, 48]);
  });

  it('has 16 channels whose rings meet at the swapped NICs, and trees over both hosts', () => {
    const { comm } = cluster(eightGpuBox(H100), 2);
    expect(comm.nChannels).toBe(16);
    expect([...comm.ringOf(0)]).toEqual([0, 7, 6, 5, 4, 3, 2, 1, 9, 10, 11, 12, 13, 14, 15, 8]);
    const at = (channel: number, rank: number) => channel * 16 + rank;
    const tree = (channel: number, rank: number) => [
      comm.treeUp[at(channel, rank)],
      ...comm.treeDown.subarray(at(channel, rank) * 3, at(channel, rank) * 3 + 3),
    ];
    expect(tree(0, 0)).toEqual([-1, 1, 8, -1]);
    expect(tree(8, 0)).toEqual([8, 1, -1, -1]);
    expect(tree(0, 8)).toEqual([0, 9, -1, -1]);
    expect(tree(8, 8)).toEqual([-1, 9, 0, -1]);
    expect(tree(0, 7)).toEqual([6, -1, -1, -1]);
  });
});

describe('eight A100: 12 NVLinks of 20 are 240 GB/s, NICs of 24', () => {
  const A100: BoxOptions = { cpu: MILAN, sm: 80, nvlinks: 12, generation: 4, speed: 200_000 };

  it('on one host fill their links in the first run, 6 x 40, which becomes 12 x 20; no NVLS', () => {
    const domain = domainOf(A100, 1);
    expect(graphText(domain.graphs.ring)).toBe('4: 12 x 20/20 NVL/PIX cross 0 same 1');
    expect(graphText(domain.graphs.tree)).toBe('1: 12 x 20/20 NVL/PIX cross 0 same 1');
    expect(domain.graphs.nvls.nChannels).toBe(0);
    // Done after one run, although its budget ended before the 32 channels: nothing can exceed the links of a GPU.
    const { runs } = domain.results.ring!;
    expect(runs.filter(({ pass }) => pass === 1).map(({ bestChannels, end }) => [bestChannels, end])).toEqual(
      [[6, 'steps']],
    );
  });

  it('on two hosts use relays in rings, and any NIC in balanced trees', () => {
    const { ring, tree } = graphsOf(A100, 2);
    expect(graphText(ring)).toBe('4: 8 x 24/24 NVL/PXN cross 0 same 0');
    expect(graphText(tree)).toMatch(/^1: 8 x 24\/24 NVL\/PHB /);
  });
});

describe('eight B200: 18 NVLinks of 40.1 are 721.8 GB/s', () => {
  const B200: BoxOptions = { ...H100, sm: 100 };

  it('on one host have rings and trees of 16 x 45, from 8 x 90, and NVLS of 80/90', () => {
    const { ring, tree, nvls } = graphsOf(B200, 1);
    expect(graphText(ring)).toMatch(/^4: 16 x 45\/45 NVL/);
    expect(graphText(tree)).toMatch(/^1: 16 x 45\/45 NVL/);
    expect(graphText(nvls)).toMatch(/^5: 8 x 80\/90 NVL/);
  });

  it('on two hosts have rings by relays, and simple trees whose inner speed rises to twice the outer one', () => {
    const { ring, tree } = graphsOf(B200, 2);
    expect(graphText(ring)).toBe('4: 8 x 48/48 NVL/PXN cross 0 same 0');
    expect(graphText(tree)).toMatch(/^3: 8 x 96\/48 NVL/);
  });
});

describe('eight GPUs without NVLink, each next to a NIC that is faster than the way between the sockets', () => {
  const PCIE: BoxOptions = { cpu: SAPPHIRE_RAPIDS, sm: 89, nvlinks: 0, generation: 4, speed: 200_000 };
  const xml = eightGpuBox(PCIE);

  it('count as two nodes of four, each connected by NICs', () => {
    const { domains, comm } = cluster(xml, 1);
    expect(domains.map(({ ranks }) => ranks)).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
    ]);
    expect(comm.nNodes).toBe(2);
    for (const { system } of domains) {
      expect(system).toMatchObject({ inter: true, totalBw: 24, maxBw: 24 });
      // Devices of the other node stay, and count.
      expect(system.nodes.DEV.length).toBe(8);
    }
  });

  it('have one ring of 20: through an Intel CPU 6/5 of it are taken, exactly the 24 of a PCI link', () => {
    for (const { graphs } of cluster(xml, 1).domains) {
      expect(graphText(graphs.ring)).toMatch(/^4: 1 x 20\/20 PHB\/PHB /);
      expect(graphText(graphs.tree)).toMatch(/^1: 1 x 12\/12 PHB\/PHB /);
    }
  });

  it('stay together with NCCL_NET_DISABLE_INTRA=1', () => {
    const { domains } = cluster(xml, 1, { env: { NCCL_NET_DISABLE_INTRA: '1' } });
    expect(domains.map(({ ranks }) => ranks.length)).toEqual([8]);
    expect(domains[0]!.system.inter).toBe(false);
  });
});
