/** The JSON of a cluster: its form, and numbers as people write them. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeCluster } from '#src/topology/cluster.js';
import { clusterJson, type JsonValue, jsonText } from '#src/topology/report/json.js';
import { readXml } from '#src/topology/xml/read.js';
import { readTopology } from '../golden/folder.js';

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
};
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
      channels: [{ ring: ['number'], tree: { up: ['number'], down: [['number']] } }],
      nvls: {
        nChannels: 'number',
        nHeads: 'number',
        headRank: ['number'],
        trees: [{ up: ['number'], down: [['number']] }],
      },
      collnet: 'null',
      p2p: { nChannels: 'number', nChannelsPerPeer: 'number', maxPeers: 'number' },
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
