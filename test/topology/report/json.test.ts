/** The JSON of a cluster: its form, and numbers as people write them. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeCluster } from '#src/topology/cluster.js';
import { explanations } from '#src/topology/report/explain.js';
import { clusterJson, type JsonValue, jsonText } from '#src/topology/report/json.js';
import { rankView } from '#src/topology/report/rank-view.js';
import { plainStyle } from '#src/topology/report/style.js';
import { readXml } from '#src/topology/xml/read.js';
import { readTopology } from '../golden/folder.js';
import { clusterOf } from './golden-clusters.js';

const GOLDEN = join(import.meta.dirname, '../../golden');

// biome-ignore lint/suspicious/noExplicitAny: the form is what is tested
function jsonOf(machine: string, nodes: number, collnet = false): any {
  const { root } = readXml(readTopology(join(GOLDEN, machine)), { root: 'system' });
  const documents = Array.from({ length: nodes }, () => root);
  const cluster = describeCluster({ nodes: documents.map((xml) => ({ xml })), collnet });
  return JSON.parse(jsonText(clusterJson({ cluster, documents })));
}

/** Names of fields, types of values; lists by their first entry. */
function formOf(value: JsonValue): unknown {
  if (Array.isArray(value)) return value.length === 0 ? [] : [formOf(value[0]!)];
  if (value === null) return 'null';
  if (typeof value !== 'object') return typeof value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, formOf(one)]));
}

const GRAPH = {
  pattern: 'number',
  crossNic: 'number',
  nChannels: 'number',
  bwIntra: 'number',
  bwInter: 'number',
  latencyInter: 'number',
  typeIntra: 'string',
  typeInter: 'string',
  sameChannels: 'boolean',
  fallback: 'boolean',
  fullest: [{ link: 'string', load: 'number', capacity: 'number' }],
};
const NIC = { id: 'string', rank: 'number' };
const HOP = { from: 'number', to: 'number', fromNic: NIC, toNic: NIC };
const PATH = { type: 'string', bandwidth: 'number', hops: 'number' };
const PCI = { bandwidth: 'number', generation: 'number', lanes: 'number' };

describe('the JSON of a cluster', () => {
  const json = jsonOf('azure-ndv5-h100x8-8x400g', 2);

  it('has the documented form', () => {
    const { machines, ...rest } = formOf(json) as { machines: unknown };
    expect(rest).toEqual({
      format: 'string',
      version: 'number',
      summary: 'string',
      notes: [],
      nRanks: 'number',
      nNodes: 'number',
      nodes: [
        {
          machine: 'number',
          ranks: ['number'],
          maxBw: 'number',
          totalBw: 'number',
          graphs: {
            ring: { ...GRAPH, channels: [{ ranks: ['number'], nics: ['string'] }] },
            tree: { ...GRAPH, channels: [{ ranks: ['number'], nics: ['string'] }] },
            nvls: { ...GRAPH, channels: [{ head: 'number', nics: ['string'] }] },
            collnetChain: 'null',
            collnetDirect: 'null',
          },
        },
      ],
      channels: [
        {
          ring: ['number'],
          tree: { up: ['number'], down: [['number']] },
          hops: { ring: [HOP], tree: [HOP] },
        },
      ],
      ranks: [{ rank: 'number', node: 'number', busId: 'string', dev: 'number', sendReceive: [NIC] }],
      nvls: {
        nChannels: 'number',
        nHeads: 'number',
        headRank: ['number'],
        trees: [{ up: ['number'], down: [['number']] }],
      },
      collnet: 'null',
      p2p: { nChannels: 'number', nChannelsPerPeer: 'number', maxPeers: 'number' },
      explanations: [{ topic: 'string', text: 'string', evidence: expect.anything() }],
    });
    const [{ hosts, ...machine }] = machines as [{ hosts: [{ cpus: [{ devices: unknown }] }] }];
    expect(machine).toEqual({
      nodes: ['number'],
      paths: {
        gpus: ['number'],
        nics: ['string'],
        fromGpu: [{ rank: 'number', toGpus: [PATH], toNics: [PATH] }],
      },
    });
    const [{ devices, ...cpu }] = hosts[0].cpus;
    expect(cpu).toEqual({
      numaId: 'number',
      name: 'string',
      cores: 'string',
      toCpus: [{ numaId: 'number', bandwidth: 'number' }],
    });
    expect(devices).toEqual([{ kind: 'string', busId: 'string', pci: PCI, devices: [expect.anything()] }]);
  });

  it('describes GPUs and NICs where they hang', () => {
    const [gpu, nic] = json.machines[0].hosts[0].cpus[0].devices[0].devices;
    expect(gpu).toEqual({
      kind: 'gpu',
      busId: '0001:00:00.0',
      ranks: [0],
      dev: 0,
      name: 'H100 SXM5',
      sm: 90,
      gdr: true,
      pci: { bandwidth: 48, generation: 5, lanes: 16 },
      nvlinks: [{ to: 'NVSwitch', count: 18, bandwidth: 370.8 }],
      c2c: 0,
    });
    expect(nic).toMatchObject({ kind: 'nic', ports: [{ type: 'NET', id: '0x0', bandwidth: 50, gdr: true }] });
  });

  it('lists ranks of the communicator everywhere, machines once', () => {
    expect(json.machines).toHaveLength(1);
    expect(json.machines[0].nodes).toEqual([0, 1]);
    expect(json.nodes[1].ranks).toEqual([8, 9, 10, 11, 12, 13, 14, 15]);
    expect(json.nodes[1].graphs.ring.channels[0].ranks.toSorted((a: number, b: number) => a - b)).toEqual(
      json.nodes[1].ranks,
    );
    expect(json.nodes[1].graphs.nvls.channels[0].head).toBe(8);
  });

  it('has floats with the digits that they need', () => {
    expect(JSON.stringify(json)).not.toMatch(/\d\.\d{7}/);
  });

  it('names the links that are full', () => {
    const { ring, nvls } = json.nodes[1].graphs;
    expect(ring.fullest).toContainEqual({
      link: 'PCIe link from NIC mlx5_ib0 to PCIe switch ffff:ff:01.0',
      load: 48,
      capacity: 48,
    });
    expect(ring.fullest).toHaveLength(8);
    const alone = jsonOf('azure-ndv5-h100x8-8x400g', 1).nodes[0].graphs;
    expect(alone.ring.fullest).toContainEqual({
      link: 'NVLinks from GPU 0 to the NVSwitch',
      load: 360,
      capacity: 370.8,
    });
    for (const { load, capacity } of [...ring.fullest, ...nvls.fullest])
      expect(load).toBeLessThanOrEqual(capacity);
  });

  it('tells at both ends of each step between nodes which NIC is used, and through which rank', () => {
    for (const { ring, tree, hops } of json.channels) {
      const node = (rank: number) => Math.floor(rank / 8);
      const crossing = ring.filter((rank: number, at: number) => node(rank) !== node(ring[(at + 1) % 16]));
      expect(hops.ring.map(({ from }: { from: number }) => from)).toEqual(crossing);
      const children = tree.up.flatMap((parent: number, rank: number) =>
        parent !== -1 && node(parent) !== node(rank) ? [rank] : [],
      );
      expect(hops.tree.map(({ from }: { from: number }) => from)).toEqual(children);
    }
    // The same as --rank says.
    const { from, fromNic } = json.channels[0].hops.ring[0];
    const nics = json.machines[0].hosts[0].cpus.flatMap(({ devices }: { devices: unknown }) =>
      [...JSON.stringify(devices).matchAll(/"name":"(mlx5_\w+)","dev":\d+,"id":"(0x[0-9a-f]+)"/g)].map(
        ([, name, id]) => [id, name],
      ),
    );
    const view = rankView(clusterOf('azure-ndv5-h100x8-8x400g', 2), from, plainStyle()).join('\n');
    expect(view).toContain(`(${Object.fromEntries(nics)[fromNic.id]})`);
    expect(fromNic.rank).toBe(from);
  });

  it('tells the NIC of send and receive by the device of the peer, with PXN through the rank next to it', () => {
    const { sendReceive } = json.ranks[9];
    expect(sendReceive).toHaveLength(8);
    expect(sendReceive.map(({ rank }: { rank: number }) => rank)).toEqual([8, 9, 10, 11, 12, 13, 14, 15]);
    expect(new Set(sendReceive.map(({ id }: { id: string }) => id)).size).toBe(8);
    expect(jsonOf('azure-ndv5-h100x8-8x400g', 1).ranks[3]).toMatchObject({
      rank: 3,
      node: 0,
      sendReceive: [],
    });
  });

  it('has all explanations with their evidence', () => {
    const cluster = clusterOf('azure-ndv5-h100x8-8x400g', 2);
    const texts = (all: { text: string }[]) => all.map(({ text }) => text);
    expect(texts(json.explanations)).toEqual(texts(explanations(cluster)));
    expect(json.explanations).toContainEqual(
      expect.objectContaining({ topic: 'gdr', evidence: expect.objectContaining({ write: 'allowed' }) }),
    );
  });

  it('has the notes that it is given', () => {
    const { root } = readXml(readTopology(join(GOLDEN, 'gh200-x1-1x400g')), { root: 'system' });
    const cluster = describeCluster({ nodes: [{ xml: root }] });
    expect(clusterJson({ cluster, documents: [root] }, ['a', 'b'])).toMatchObject({ notes: ['a', 'b'] });
  });

  it('has CollNet where it is used', () => {
    const { collnet, channels, nRanks } = jsonOf('azure-ndv5-h100x8-8x400g', 2, true);
    expect(collnet).toBeNull();
    expect(channels[0].ring).toHaveLength(nRanks);
  });
});

describe('the text of JSON', () => {
  it('keeps what is short on one line and breaks what is long, losing nothing', () => {
    const value = { a: [1, 2, 3], b: { c: 'x'.repeat(30), d: [{ e: 1 }, { e: null }] }, f: true };
    const text = jsonText(value, 40);
    expect(JSON.parse(text)).toEqual(value);
    expect(text.split('\n')[1]).toBe(' "a": [1,2,3],');
    expect(jsonText(value, 200)).toBe(JSON.stringify(value));
  });
});
