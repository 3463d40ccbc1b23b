/**
 * What holds for the graphs of every machine: random ones, as single hosts and as two, with CollNet and NVLS.
 *
 * A failing test names the machine by its seed.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { type Cluster, type Domain, describeCluster } from '#src/topology/cluster.js';
import { computePaths } from '#src/topology/paths/compute.js';
import { measureSystem, trimSystem } from '#src/topology/paths/trim.js';
import type { SearchRun } from '#src/topology/search/compute.js';
import { Pattern, type TopoGraph, type TopoGraphs } from '#src/topology/search/graph.js';
import { type GraphName, searchGraphs } from '#src/topology/search/search-all.js';
import { buildSystem } from '#src/topology/system/build.js';
import { CpuArch, CpuVendor, NODE_TYPES, type TopoSystem } from '#src/topology/system/node.js';
import { PathType } from '#src/topology/system/path-type.js';
import { cloneElement, type XmlElement } from '#src/topology/xml/element.js';
import { effort, sample } from '../../effort.js';
import { type RandomMachine, randomMachine } from '../random-machine.js';
import { ROUNDING, usesOf, waysOf } from './accounting.js';

const MACHINES: readonly RandomMachine[] = Array.from({ length: effort(24, 40) }, (_, seed) =>
  randomMachine(seed, ['no NIC']),
);

interface Described {
  readonly text: string;
  readonly machine: RandomMachine;
  readonly hosts: number;
  readonly cluster: Cluster;
}

const describeMachine = (xml: XmlElement, hosts: number): Cluster =>
  describeCluster({ nodes: Array.from({ length: hosts }, () => ({ xml })), collnet: true });

const all: Described[] = [];
beforeAll(() => {
  for (const machine of MACHINES) {
    for (const hosts of [1, 2]) {
      all.push({
        text: `${hosts} x ${machine.text}`,
        machine,
        hosts,
        cluster: describeMachine(machine.xml, hosts),
      });
    }
  }
});

/** Domains of the first host; the second is equal. */
function* domains(): Generator<{ text: string; domain: Domain }> {
  for (const { text, cluster } of all) {
    for (const domain of cluster.domains) if (domain.node === 0) yield { text, domain };
  }
}

/** Graphs that were found, not made up for want of any. */
function* graphs(): Generator<{ text: string; domain: Domain; name: GraphName; graph: TopoGraph }> {
  for (const { text, domain } of domains()) {
    for (const [name, result] of Object.entries(domain.results)) {
      const { graph, fallback } = result!;
      if (graph.nChannels > 0 && !fallback)
        yield { text: `${name} of ${text}`, domain, name: name as GraphName, graph };
    }
  }
}

const sorted = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b);

describe('the graphs of random machines', () => {
  it('are there: every kind of them, found in many machines', () => {
    const found = { ring: 0, tree: 0, collnetChain: 0, collnetDirect: 0, nvls: 0 };
    for (const { name } of graphs()) found[name] += 1;
    for (const [name, count] of Object.entries(found)) expect(count, name).toBeGreaterThan(effort(2, 5));
    for (const { text, domain } of domains()) {
      for (const name of ['ring', 'tree'] as const)
        expect(domain.graphs[name].nChannels, text).toBeGreaterThan(0);
    }
  });

  it('visit every GPU of their domain once in every channel, as far as they list GPUs', () => {
    for (const { text, domain } of domains()) {
      const members = sorted(domain.ranks.map((rank) => rank - domain.rankOffset));
      for (const [name, { channels, nChannels }] of Object.entries(domain.graphs)) {
        expect(channels.length, text).toBe(nChannels);
        for (const { intra } of channels) {
          if (name === 'nvls') expect(members, text).toContain(intra[0]);
          else expect(sorted(intra), `${name} of ${text}`).toEqual(members);
        }
      }
      const heads = domain.graphs.nvls.channels.map(({ intra }) => intra[0]!);
      expect(new Set(heads).size, text).toBe(heads.length);
    }
  });

  it('take from no link more than it has, but for rounding', () => {
    let full = 0;
    for (const { text, domain, graph } of graphs()) {
      for (const [link, { bandwidth, times }] of usesOf(graph, domain.system)) {
        const message = `${text}: ${bandwidth} of ${link.bandwidth} to ${link.to.type}${link.to.index}`;
        // One rounding per use, one for each channel that was split in two, and that of 32 bits.
        expect(bandwidth, message).toBeLessThanOrEqual(
          link.bandwidth + ROUNDING * (times + 1) + link.bandwidth * 1e-6,
        );
        if (bandwidth > link.bandwidth * 0.99) full += 1;
      }
    }
    // The check is sharp: some links are used up.
    expect(full).toBeGreaterThan(100);
  });

  it('take from no port more than it has, in whole GB/s', () => {
    for (const { text, domain, graph } of graphs()) {
      const { NET } = domain.system.nodes;
      for (const port of NET) {
        const starts = graph.channels.filter(({ inter }) => {
          const start = inter === null ? undefined : NET.find(({ id }) => id === inter[0]);
          return start !== undefined && start.asic === port.asic && start.port === port.port;
        });
        expect(starts.length * Math.trunc(graph.bwInter), text).toBeLessThanOrEqual(port.bandwidth);
      }
    }
  });

  it('use no path that is worse than they say, trees also in the other direction', () => {
    for (const { text, domain, graph } of graphs()) {
      let [worstInside, worstOutside] = [0, 0];
      for (const { from, to, factor } of waysOf(graph, domain.system)) {
        const path = from.paths[to.type]![to.index]!;
        const back = to.paths[from.type]![from.index]!;
        const inside = from.type !== 'NET' && to.type !== 'NET';
        // Bandwidth in parts is not held to the types.
        if (inside && factor !== 1) continue;
        const both =
          graph.pattern === Pattern.RING || graph.pattern > Pattern.RING
            ? path.type
            : Math.max(path.type, back.type);
        if (inside) worstInside = Math.max(worstInside, both);
        else worstOutside = Math.max(worstOutside, both);
      }
      expect(worstInside, text).toBeLessThanOrEqual(graph.typeIntra);
      expect(worstOutside, text).toBeLessThanOrEqual(graph.typeInter);
    }
  });

  it('begin and end at NICs that may be joined [C04-20]', () => {
    for (const { text, domain, graph } of graphs()) {
      const { NET } = domain.system.nodes;
      for (const { inter } of graph.channels) {
        expect(inter !== null, text).toBe(domain.system.inter);
        if (inter === null) continue;
        const [start, end] = inter.map((id) => NET.find((net) => net.id === id)!);
        if (graph.pattern === Pattern.TREE) expect(end, text).toBe(start);
        if (start!.plane !== -1 && end!.plane !== -1) expect(end!.plane, text).toBe(start!.plane);
        const byRail = start!.rail !== -1 && end!.rail !== -1;
        if (graph.crossNic === 0 && byRail) expect(end!.rail, text).toBe(start!.rail);
        if (graph.crossNic === 0 && !byRail) {
          expect([end!.asic, end!.port], text).toEqual([start!.asic, start!.port]);
        }
        if (graph.collNet) expect(start!.coll, text).toBe(true);
      }
    }
  });
});

/** Steps of a run of equal channels, of any other, of all runs of the first pass. */
const [SAME, OTHER, GLOBAL] = [256, 16_384, 524_288];

/** Steps of each attempt in index order that starts from a NIC; it has a budget of its own. */
const INDEX_ORDER = 1024;

describe('the searches of random machines', () => {
  const searches = function* (): Generator<{ text: string; domain: Domain; runs: readonly SearchRun[] }> {
    for (const { text, domain } of domains()) {
      for (const [name, result] of Object.entries(domain.results)) {
        yield { text: `${name} of ${text}`, domain, runs: result!.runs };
      }
    }
  };

  it('keep the budget of every run, and say when it ended them [C04-15]', () => {
    let ended = 0;
    for (const { text, domain, runs } of searches()) {
      const { inter, nodes } = domain.system;
      const attempts = inter && nodes.NVS.length === 0 ? nodes.NET.length : 0;
      for (const { steps, sameChannels, end } of runs) {
        const budget = sameChannels ? SAME : OTHER;
        const most = budget + attempts * INDEX_ORDER;
        const least = end === 'steps' ? budget : 0;
        if (steps < least || steps > most)
          expect.fail(`${text}: ${steps} steps, ${least} to ${most} allowed`);
        if (end === 'steps') ended += 1;
      }
    }
    expect(ended).toBeGreaterThan(50);
  });

  it('end the first pass once the global budget is used up and something was found [C04-15]', () => {
    let usedUp = 0;
    for (const { text, domain, runs } of searches()) {
      const { inter, nodes } = domain.system;
      // The steps of attempts with a budget of their own cannot be told from the others.
      if (inter && nodes.NVS.length === 0) continue;
      const [cpu] = nodes.CPU;
      const amd = cpu!.arch === CpuArch.X86 && cpu!.vendor === CpuVendor.AMD;
      let left = GLOBAL;
      const first = runs.filter(({ pass }) => pass === 1);
      for (const [at, { sameChannels, typeIntra, steps, bestChannels, end }] of first.entries()) {
        const budget = sameChannels ? SAME : OTHER;
        left -= budget;
        const last = at === first.length - 1;
        if (end === 'full') expect(last, text).toBe(true);
        // A run of equal channels is followed by one of others, without getting back what it left.
        if (sameChannels && !(amd && typeIntra === PathType.SYS)) continue;
        if (end !== 'steps') left += budget - steps;
        if (left < 0 && bestChannels > 0) {
          expect(last, text).toBe(true);
          usedUp += 1;
        }
      }
    }
    expect(usedUp).toBeGreaterThan(0);
  });

  it('never make the same run twice in the first pass, and never lose what was found', () => {
    for (const { text, runs } of searches()) {
      const first = runs.filter(({ pass }) => pass === 1);
      const demands = first.map((run) =>
        [run.pattern, run.sameChannels, run.typeIntra, run.typeInter, run.crossNic, run.bwIntra].join(' '),
      );
      expect(new Set(demands).size, text).toBe(first.length);
      for (let i = 1; i < runs.length; i++) {
        const [before, after] = [runs[i - 1]!, runs[i]!];
        // Between the passes channels are doubled, which may lose some; NVLS takes more heads with less bandwidth.
        if (before.pass !== after.pass || after.pattern === Pattern.NVLS) continue;
        const [had, has] = [before, after].map(({ bestChannels, bestBwIntra }) =>
          Math.fround(bestChannels * bestBwIntra),
        );
        if (has! < had!) expect.fail(`${text}: ${has} GB/s after ${had}`);
      }
    }
  });
});

/** Link bandwidths of a system in order. */
const bandwidths = ({ nodes }: TopoSystem): number[] =>
  NODE_TYPES.flatMap((type) => nodes[type].flatMap(({ links }) => links.map(({ bandwidth }) => bandwidth)));

/** Machines for tests that search them several times. */
const FEW = MACHINES.slice(0, 12);

describe('random machines', () => {
  it('have the bandwidths of the document after all searches, bit for bit [C04-17]', () => {
    for (const { text, machine, cluster } of all) {
      const built = buildSystem(machine.xml);
      // Trimming takes GPUs out, with their links of 5000; compare what is left.
      for (const { system } of cluster.domains) {
        if (system.nodes.GPU.length !== built.nodes.GPU.length) continue;
        expect(bandwidths(system), text).toEqual(bandwidths(built));
      }
    }
  });

  it('look the same to every rank of a domain [C04-29]', () => {
    let compared = 0;
    for (const machine of FEW) {
      const { cluster } = all.find((one) => one.machine === machine && one.hosts === 1)!;
      const { settings, nRanks } = cluster;
      for (const { ranks, comm, localHost, graphs: expected } of cluster.domains) {
        for (const rank of sample(ranks, 3)) {
          const system = buildSystem(machine.xml, { localHost });
          computePaths(system, comm, settings, localHost);
          trimSystem(system, system.nodes.GPU.find((gpu) => gpu.rank === rank)!, nRanks);
          computePaths(system, comm, settings, localHost);
          measureSystem(system);
          const own = searchGraphs(system, { settings, nvls: true, collnet: true });
          expect(own.graphs, `rank ${rank} of ${machine.text}`).toEqual(expected);
          compared += 1;
        }
      }
    }
    expect(compared).toBeGreaterThan(effort(15, 30));
  });

  it('have the same graphs whatever the order of attributes and the bus numbers', () => {
    for (const { xml, text } of FEW) {
      const expected = describeMachine(xml, 1).domains.map(({ graphs: found }) => found);
      const other = cloneElement(xml);
      const visit = (one: XmlElement): void => {
        one.attributes = new Map([...one.attributes].reverse());
        for (const name of ['busid', 'target']) {
          const bus = one.attributes.get(name);
          if (bus !== undefined)
            one.attributes.set(
              name,
              bus.replace(/^0000:(..)/, (_, digits) => `0007:${digits}`),
            );
        }
        one.children.forEach(visit);
      };
      visit(other);
      expect(
        describeMachine(other, 1).domains.map(({ graphs: found }) => found),
        text,
      ).toEqual(expected);
    }
  });

  it('have the same graphs with other ranks on the same GPUs, but for the ranks', () => {
    for (const { xml, text, nRanks } of FEW) {
      const renamed = (rank: number) => nRanks - 1 - rank;
      const other = cloneElement(xml);
      const visit = (one: XmlElement): void => {
        const rank = one.attributes.get('rank');
        if (rank !== undefined) one.attributes.set('rank', String(renamed(Number(rank))));
        one.children.forEach(visit);
      };
      visit(other);
      const withRanks = (found: TopoGraphs, name: (rank: number) => number) =>
        Object.values(found).map((graph: TopoGraph) => ({
          ...graph,
          channels: graph.channels.map(({ intra, inter }) => ({ intra: intra.map(name), inter })),
        }));
      const byMembers = (cluster: Cluster, name: (rank: number) => number) =>
        new Map(
          cluster.domains.map((domain) => [
            sorted(domain.ranks.map(name)).join(),
            withRanks(domain.graphs, name),
          ]),
        );
      const expected = byMembers(describeMachine(xml, 1), renamed);
      const found = byMembers(describeMachine(other, 1), (rank) => rank);
      expect([...found.keys()].sort(), text).toEqual([...expected.keys()].sort());
      for (const [members, own] of found) expect(own, text).toEqual(expected.get(members));
    }
  });
});
