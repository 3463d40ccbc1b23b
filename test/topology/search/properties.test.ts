/**
 * What must hold for any machine: rings and trees visit every GPU once, links carry no more than they can, searches
 * end within their budgets, and every rank comes to the same answer.
 */
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import { type Domain, describeCluster } from '#src/topology/cluster.js';
import { describeDomains } from '#src/topology/domains.js';
import { pathBetween } from '#src/topology/paths/path.js';
import { GLOBAL_STEPS, RUN_STEPS, SAME_CHANNELS_STEPS } from '#src/topology/search/compute.js';
import { NO_NIC, Pattern, type TopoGraph } from '#src/topology/search/graph.js';
import { topologySettings } from '#src/topology/settings.js';
import { CpuArch, CpuVendor, NODE_TYPES, type TopoLink, type TopoNode } from '#src/topology/system/node.js';
import { LinkType, PathType } from '#src/topology/system/path-type.js';
import { cloneElement, type XmlElement } from '#src/topology/xml/element.js';
import { randomMachine } from '../random-machine.js';

const MACHINES = 25;
const FIRST_SEED = 7000;

/** Each use of a link is rounded to a thousandth. */
const TOLERANCE = 0.0005;

/** A machine that the communicator can use, over one or two hosts; undefined where NCCL refuses it too. */
function clusterOf(xml: XmlElement, hosts: number) {
  try {
    return describeCluster({ nodes: Array.from({ length: hosts }, () => ({ xml })), nvls: true });
  } catch (error) {
    if (!TuttiError.is(error)) throw error;
    return undefined;
  }
}

/** GB/s that the channels of a graph take of each link, by the rules of the accounting alone. */
function usage(graph: TopoGraph, { system }: Domain): Map<TopoLink, number> {
  const used = new Map<TopoLink, number>();
  const { GPU, NET } = system.nodes;
  const gpu = new Map(GPU.map((node) => [node.rank, node]));
  const add = (link: TopoLink | undefined, bandwidth: number) => {
    if (link !== undefined) used.set(link, (used.get(link) ?? 0) + bandwidth);
  };
  const take = (from: TopoNode, to: TopoNode, bandwidth: number) => {
    const path = pathBetween(from, to)!;
    const nodes = [from, ...path.hops.map((hop) => hop.to)];
    const intel = nodes.some(
      (node) => node.type === 'CPU' && node.arch === CpuArch.X86 && node.vendor === CpuVendor.INTEL,
    );
    const pci = path.type === PathType.PHB && from.type === 'GPU' && intel ? (bandwidth * 6) / 5 : bandwidth;
    for (const [hop, link] of path.hops.entries()) {
      const need = link.type === LinkType.PCI ? pci : bandwidth;
      add(link, need);
      const near = nodes[hop]!;
      const far = link.to;
      const back = far.links.find(({ type, to }) => type === link.type && to === near);
      if (far.type === 'DEV' && far.sm < 80 && from.type !== 'GPU') add(back, need / 8);
      if (link.type === LinkType.NVL && far.type === 'CPU' && far.arch === CpuArch.POWER) add(back, need);
    }
  };
  for (const { intra, inter } of graph.channels) {
    const order = intra.map((rank) => gpu.get(rank)!);
    for (let i = 1; i < order.length; i++) take(order[i - 1]!, order[i]!, graph.bwIntra);
    const first = order[0]!;
    const last = order.at(-1)!;
    if (inter === null) {
      if (graph.pattern === Pattern.RING) take(last, first, graph.bwIntra);
      continue;
    }
    const start = NET.find(({ id }) => id === inter[0])!;
    const end = NET.find(({ id }) => id === inter[1])!;
    take(start, first, graph.bwInter);
    if (graph.pattern === Pattern.RING) take(last, end, graph.bwInter);
    else if (graph.pattern === Pattern.BALANCED_TREE) {
      take(first, end, graph.bwInter / 2);
      take(order[1]!, end, graph.bwInter / 2);
    } else take(first, end, graph.bwInter);
  }
  return used;
}

describe.each([1, 2])('random machines, %i host(s)', (hosts) => {
  it('have rings and orders with every GPU once, within the bandwidth of every link and every budget', () => {
    let described = 0;
    let checked = 0;
    for (let seed = FIRST_SEED; seed < FIRST_SEED + MACHINES; seed++) {
      const cluster = clusterOf(randomMachine(seed).xml, hosts);
      if (cluster === undefined) continue;
      described += 1;
      const { comm, nRanks } = cluster;
      for (let channel = 0; channel < comm.nChannels; channel++) {
        expect(new Set(comm.ringOf(channel)).size, `ring ${channel} of seed ${seed}`).toBe(nRanks);
      }
      for (const domain of cluster.domains) {
        for (const [name, result] of Object.entries(domain.results)) {
          const { graph, runs, fallback } = result!;
          const what = `${name} of seed ${seed}`;
          for (const run of runs) {
            // The attempt in PCI order has a budget of its own for each first NIC.
            const own = 1024 * domain.system.nodes.NET.length;
            const budget = (run.sameChannels ? SAME_CHANNELS_STEPS : RUN_STEPS) + own;
            expect(run.steps, what).toBeLessThanOrEqual(budget);
          }
          const first = runs.filter(({ pass }) => pass === 1);
          const budgets = first.map(({ sameChannels }) => (sameChannels ? SAME_CHANNELS_STEPS : RUN_STEPS));
          // Only the unused rest of some runs is credited, so the whole stays within budget plus one run,
          // unless nothing at all was found.
          if (graph.nChannels > 0 && !fallback) {
            const before = first.slice(0, -1).reduce((sum, { steps }) => sum + steps, 0);
            expect(before, what).toBeLessThanOrEqual(
              GLOBAL_STEPS + Math.max(0, ...budgets) + 1024 * 64 * first.length,
            );
          }
          if (graph.pattern === Pattern.NVLS || fallback) continue;
          const members = [...domain.ranks].map((rank) => rank - domain.rankOffset).sort((a, b) => a - b);
          for (const { intra, inter } of graph.channels) {
            expect(
              [...intra].sort((a, b) => a - b),
              what,
            ).toEqual(members);
            if (inter !== null) expect(inter, what).not.toContain(NO_NIC);
          }
          for (const [link, taken] of usage(graph, domain)) {
            const slack = TOLERANCE * graph.nChannels * 4 + 1e-4 * taken;
            expect(taken, `link to ${link.to.type}/${link.to.index}, ${what}`).toBeLessThanOrEqual(
              link.bandwidth + slack,
            );
            checked += 1;
          }
        }
      }
    }
    // Most machines can be used; the others are refused as NCCL refuses them.
    expect(described).toBeGreaterThan(MACHINES / 2);
    expect(checked).toBeGreaterThan(500);
  }, 120_000);
});

describe('the answer', () => {
  it('is the same whichever rank asks', () => {
    let compared = 0;
    for (let seed = FIRST_SEED; seed < FIRST_SEED + 15; seed++) {
      const { xml, nRanks } = randomMachine(seed);
      const options = {
        settings: topologySettings({}),
        nRanks: nRanks * 2,
        nvls: true,
        collnet: false,
        mnnvl: false,
      };
      let plain: ReturnType<typeof describeDomains>;
      try {
        plain = describeDomains(xml, options);
      } catch (error) {
        if (!TuttiError.is(error)) throw error;
        continue;
      }
      // The same machine, asked about a second time and from a copy: nothing was changed by the first search.
      const again = describeDomains(cloneElement(xml), options);
      expect(again.map(({ ranks, graphs }) => ({ ranks, graphs }))).toEqual(
        plain.map(({ ranks, graphs }) => ({ ranks, graphs })),
      );
      for (const { system, whole } of plain) {
        const capacities = (of: typeof system) =>
          NODE_TYPES.filter((type) => type !== 'GPU' && type !== 'DEV').map((type) =>
            of.nodes[type].map(({ links }) => links.map(({ bandwidth }) => bandwidth)),
          );
        expect(capacities(system)).toEqual(capacities(whole));
      }
      compared += 1;
    }
    expect(compared).toBeGreaterThan(7);
  }, 60_000);
});
