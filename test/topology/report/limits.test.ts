import { describe, expect, test } from 'vitest';
import type { Domain } from '#src/topology/cluster.js';
import { foundBundle, nextSteps, searchEnd } from '#src/topology/report/headroom.js';
import { type ChannelSpeed, linkLoads, pathsOfChannel } from '#src/topology/report/limits.js';
import type { TopoGraph } from '#src/topology/search/graph.js';
import type { GraphName } from '#src/topology/search/search-all.js';
import { SearchSpace } from '#src/topology/search/space.js';
import { NODE_TYPES, type TopoLink } from '#src/topology/system/node.js';
import { CASES, clusterOf } from './golden-clusters.js';

const NAMES: readonly GraphName[] = ['ring', 'tree', 'nvls', 'collnetChain', 'collnetDirect'];

/** The search's own accounting: what is left of each link, or undefined if a path could not be taken. */
function residue(
  { system }: Domain,
  graph: TopoGraph,
  speed: ChannelSpeed,
  count: number,
  settings: ConstructorParameters<typeof SearchSpace>[1],
): Map<TopoLink, number> | undefined {
  const space = new SearchSpace(system, settings);
  for (let channel = 0; channel < count; channel++) {
    for (const { from, to, share, intra } of pathsOfChannel(system, graph, channel % graph.nChannels)) {
      const path =
        from.type === 'GPU'
          ? to.type === 'GPU'
            ? space.gpuToGpu(from.index, to.index)
            : to.type === 'NET'
              ? space.gpuToNet(from.index, to.index)
              : space.gpuToNvs(from.index)
          : from.type === 'NET'
            ? space.netToGpu(from.index, to.index)
            : space.nvsToGpu(to.index);
      const bandwidth = Math.fround((intra ? speed.bwIntra : speed.bwInter) * share);
      if (!space.take(path!, bandwidth)) return undefined;
    }
  }
  const links = NODE_TYPES.flatMap((type) => system.nodes[type].flatMap((node) => node.links));
  return new Map(links.map((link, number) => [link, space.linkBandwidth[number]!]));
}

function* graphsOf(machine: string, nodes: number) {
  const { domains, settings } = clusterOf(machine, nodes);
  for (const domain of new Set(domains)) {
    for (const name of NAMES) {
      const graph = domain.graphs[name];
      const result = domain.results[name];
      if (graph.nChannels === 0 || result === undefined || result.fallback) continue;
      yield { domain, name, graph, result, settings };
    }
  }
}

describe.each(CASES)('%s, %i nodes', (machine, nodes) => {
  test('what channels take from links is what the search took, and never more than there is', () => {
    for (const { domain, graph, settings } of graphsOf(machine, nodes)) {
      const left = residue(domain, graph, graph, graph.nChannels, settings);
      expect(left).toBeDefined();
      const loads = linkLoads(domain.system, graph);
      for (const { link, load, capacity } of loads) {
        expect(capacity - load).toBeGreaterThanOrEqual(-0.001);
        if (link !== undefined) expect(left!.get(link)).toBeCloseTo(capacity - load, 2);
      }
      // Links that are not listed are untouched.
      const listed = new Set(loads.map(({ link }) => link));
      for (const [link, rest] of left!) if (!listed.has(link)) expect(rest).toBe(link.bandwidth);
      const fullness = loads.map(({ load, capacity }) => load / capacity);
      expect(fullness).toEqual(fullness.toSorted((a, b) => b - a));
    }
  });

  test('a link that stands in the way of more has too little for it, also in the accounting of the search', () => {
    for (const { domain, graph, result, settings } of graphsOf(machine, nodes)) {
      const { system } = domain;
      const found = foundBundle(result);
      if (found === undefined) continue;
      const steps = nextSteps(system, graph, result);
      expect(steps.map(({ what }) => what)).toEqual(['channel', 'speed']);
      expect(searchEnd(system, result)).toBeDefined();
      for (const { bundle, obstacle } of steps) {
        switch (obstacle.kind) {
          case 'link': {
            const { load } = obstacle;
            expect(load.load).toBeGreaterThan(load.capacity);
            expect(bundle.channels * bundle.bwIntra).toBeGreaterThan(0);
            // Ports are counted apart from links.
            if (load.link === undefined) break;
            expect(residue(domain, graph, bundle, bundle.channels, settings)).toBeUndefined();
            break;
          }
          case 'search':
            expect(residue(domain, graph, bundle, bundle.channels, settings)).toBeDefined();
            break;
          case 'path':
            expect(obstacle.ceiling).toBe(system.maxBw);
            expect(bundle.bwIntra).toBeGreaterThan(system.maxBw);
            break;
          case 'GPU':
            expect(obstacle.channels * bundle.bwIntra).toBeGreaterThan(obstacle.ceiling);
            break;
          case 'most channels':
            expect(found.channels).toBeGreaterThanOrEqual(obstacle.most);
            break;
          case 'highest speed':
            expect(obstacle.speed).toBe(found.bwIntra);
            break;
        }
      }
    }
  });
});

describe('H100 with NVSwitch', () => {
  const machine = 'azure-ndv5-h100x8-8x400g';

  test('on one host the NVLinks of each GPU carry 360 of 370.8 GB/s, and a seventh channel of 60 would not fit', () => {
    const { system, graphs, results } = clusterOf(machine).domains[0]!;
    const { ring } = graphs;
    expect([ring.nChannels, ring.bwIntra]).toEqual([12, 30]);
    expect(foundBundle(results.ring!)).toEqual({ channels: 6, bwIntra: 60, bwInter: 60 });
    const [fullest] = linkLoads(system, ring);
    expect(fullest!.load).toBeCloseTo(360);
    expect(fullest!.capacity).toBeCloseTo(370.8, 3);
    const [channel, speed] = nextSteps(system, ring, results.ring!);
    expect(channel).toMatchObject({ bundle: { channels: 7, bwIntra: 60 }, obstacle: { kind: 'link' } });
    expect(channel!.obstacle).toHaveProperty('load.load', 420);
    expect(speed!.obstacle).toEqual({ kind: 'highest speed', speed: 60 });
  });

  test('NVLS at 50 GB/s would take 450 GB/s from a GPU: all heads once and its own twice', () => {
    const { system, graphs, results } = clusterOf(machine).domains[0]!;
    const [, speed] = nextSteps(system, graphs.nvls, results.nvls!);
    expect(speed).toMatchObject({ bundle: { channels: 8, bwIntra: 50 }, obstacle: { kind: 'link' } });
    expect(speed!.obstacle).toHaveProperty('load.load', 450);
  });
});
