/** Names of GPUs, processors and nodes, and the sentence that sums up a cluster. */
import { describe, expect, it } from 'vitest';
import { describeCluster } from '#src/topology/cluster.js';
import { headline } from '#src/topology/report/headline.js';
import { Labels, shortBusId } from '#src/topology/report/labels.js';
import { linkName } from '#src/topology/report/link-names.js';
import { cpuName, gpuName } from '#src/topology/report/product-names.js';
import { buildSystem } from '#src/topology/system/build.js';
import { NODE_TYPES } from '#src/topology/system/node.js';
import { cpu, gpu, MILAN, nic, pciSwitch, system } from '../machine-xml.js';
import { randomMachine } from '../random-machine.js';
import { cliqueOf, clusterOf, GOLDEN_MACHINES, goldenDocument } from './clusters.js';

const nvidia = (device: number) => (0x10den << 48n) | (BigInt(device) << 32n);

describe('names of products', () => {
  it('are those of NVIDIA’s device numbers where they are known, else the class of the compute capability', () => {
    expect(gpuName(nvidia(0x2330), 90)).toBe('H100 SXM5');
    expect(gpuName(nvidia(0x2941), 100)).toBe('GB200');
    expect(gpuName(nvidia(0xffff), 90)).toBe('H100-class GPU');
    expect(gpuName((0x1002n << 48n) | (0x2330n << 32n), 80)).toBe('A100-class GPU');
    expect(gpuName(0n, 35)).toBe('GPU');
  });

  it('of processors come from family and model, in the kernel’s and in NCCL’s way of counting', () => {
    const intel = (model: 3 | 4) => ({ arch: 1, vendor: 1, model }) as const;
    expect(cpuName(intel(3), 6, 143)).toBe('Intel Sapphire Rapids');
    expect(cpuName(intel(4))).toBe('Intel Emerald Rapids class');
    expect(cpuName(intel(4), 6, 200)).toBe('Intel Emerald Rapids class');
    const amd = { arch: 1, vendor: 2, model: -1 } as const;
    expect([cpuName(amd, 23, 49), cpuName(amd, 143, 49), cpuName(amd, 175, 1), cpuName(amd, 191, 2)]).toEqual(
      ['AMD Rome', 'AMD Rome', 'AMD Milan', 'AMD Turin'],
    );
    expect(cpuName(amd, 1, 1)).toBe('AMD');
    expect(cpuName({ arch: 1, vendor: 3, model: 1 })).toBe('Zhaoxin Yongfeng');
    expect(cpuName({ arch: 3, vendor: -1, model: -1 })).toBe('Arm');
    expect(cpuName({ arch: 2, vendor: -1, model: -1 })).toBe('POWER');
    expect(cpuName({ arch: 1, vendor: 0, model: -1 })).toBe('x86, vendor unknown');
    expect(cpuName({ arch: 0, vendor: -1, model: -1 })).toBe('unknown architecture');
  });
});

describe('names of links', () => {
  it('say which way data goes, and name a port once', () => {
    const host = system(cpu(MILAN, pciSwitch('01:00.0', gpu('02:00.0', 0), nic('03:00.0', 0))));
    const machine = buildSystem(host);
    const labels = new Labels(machine);
    const names = (['NIC', 'NET', 'DEV'] as const).flatMap((type) => {
      const from = machine.nodes[type][0]!;
      return from.links.map((link) => linkName({ from, to: link.to, link }, labels));
    });
    expect(names).toEqual([
      'network link of mlx5_0 for sending',
      'PCIe link from NIC mlx5_0 to PCIe switch 01:00.0',
      'network link of mlx5_0 for receiving',
      'link inside the device from GPU 0 to GPU 0',
      'PCIe link from GPU 0 to PCIe switch 01:00.0',
    ]);
    const [port] = machine.nodes.NET;
    expect(linkName({ from: port!, to: port!, link: undefined }, labels)).toBe('port mlx5_0');
  });
});

describe('labels of nodes', () => {
  it('tell the GPUs and the NICs of a machine apart, on every golden and on random machines', () => {
    const systems = [
      ...GOLDEN_MACHINES.map((name) => goldenDocument(name)),
      ...Array.from({ length: 60 }, (_, seed) => randomMachine(seed).xml),
    ].map((document) => buildSystem(document));
    for (const system of systems) {
      const labels = new Labels(system);
      const { GPU, NET } = system.nodes;
      expect(new Set(GPU.map((gpu) => labels.of(gpu))).size).toBe(GPU.length);
      // Virtual NICs have several nodes with one id, and one name.
      expect(new Set(NET.map((net) => labels.of(net))).size).toBe(new Set(NET.map(({ id }) => id)).size);
      for (const type of NODE_TYPES) {
        for (const node of system.nodes[type]) expect(labels.of(node)).toMatch(/^\S/);
      }
    }
  });

  it('add the rank offset, the host in a clique, and the number of a NIC whose name is taken twice', () => {
    const clique = clusterOf(cliqueOf(goldenDocument('gb200-nvl72-tray'), 2), 1, { mnnvl: true });
    const { whole } = clique.cluster.domains[0]!;
    const labels = new Labels(whole, 16);
    expect(labels.of(whole.nodes.GPU[5]!)).toBe('GPU 21');
    expect(labels.of(whole.nodes.GPU[5]!.parent)).toBe('GPU 21');
    expect(labels.of(whole.nodes.NET.at(-1)!)).toBe('mlx5_3 of host 1');
    expect(labels.port(whole.nodes.NET.at(-1)!)).toBe('mlx5_3');
    expect(labels.of(whole.nodes.CPU[1]!)).toBe('CPU 1 of host 0');

    const document = goldenDocument('gh200-x1-1x400g');
    const nets = document.children.flatMap((cpu) => cpu.children).filter(({ name }) => name === 'pci');
    const nic = nets.find((pci) => pci.children.some(({ name }) => name === 'nic'))!;
    const [group] = nic.children;
    const [net] = group!.children;
    group!.children.push({
      ...net!,
      attributes: new Map([...net!.attributes, ['dev', '1'], ['guid', '0x9']]),
    });
    const doubled = clusterOf(document).cluster.domains[0]!.whole;
    expect(doubled.nodes.NET.map((port) => new Labels(doubled).of(port))).toEqual(['NIC 0', 'NIC 1']);
  });

  it('leave out a domain of zeros in bus ids', () => {
    expect([shortBusId('0000:3b:00.0'), shortBusId('0001:00:00.0')]).toEqual(['3b:00.0', '0001:00:00.0']);
  });
});

describe('the sentence about a cluster', () => {
  it.each([
    [
      'azure-ndv5-h100x8-8x400g',
      2,
      '8 H100 SXM5 (sm 90) on 2 NUMA nodes, NVSwitch (370.8 GB/s per GPU), 8 NICs of 400 Gbit/s; 2 nodes, 16 ranks',
    ],
    [
      'dgx1-v100x8-4x100g',
      1,
      '8 V100 SXM2 (sm 70) on 2 NUMA nodes, NVLink between some GPUs (120 GB/s per GPU), 4 NICs of 100 Gbit/s; 1 node, 8 ranks',
    ],
    [
      'rtx4090-x4-rome-vnics',
      1,
      '4 RTX 4090 (sm 89) on 4 NUMA nodes, no NVLink, 3 NICs of 10 Gbit/s and 1 NIC of 1 Gbit/s; 1 node, 4 ranks',
    ],
    ['gh200-x1-1x400g', 1, '1 GH200 (sm 90) on 1 NUMA node, 1 NIC of 400 Gbit/s; 1 node, 1 rank'],
  ])('%s on %i nodes', (name, nodes, sentence) => {
    expect(headline(clusterOf(goldenDocument(name), nodes).cluster)).toBe(sentence);
  });

  it('says that a host is several nodes, and why', () => {
    expect(headline(clusterOf(goldenDocument('l20-x8-cx8')).cluster)).toMatch(
      /; 2 nodes, 8 ranks\. NCCL treats this host as 2 nodes \(the network is faster than the way between their GPUs\)$/,
    );
    expect(headline(clusterOf(goldenDocument('l20-x8-cx8'), 2).cluster)).toMatch(
      /treats each host as 2 nodes/,
    );
    const { cluster } = clusterOf(goldenDocument('a100-pcie-x2-issue2397'), 1, {
      env: { NCCL_SHM_DISABLE: '1', NCCL_P2P_DISABLE: '1' },
    });
    expect(headline(cluster)).toMatch(/neither by peer-to-peer nor by shared memory\)$/);
  });

  it('names every kind of machine, and the hosts of a clique', () => {
    const [a, b] = [goldenDocument('dgx-a100-8x200g'), goldenDocument('azure-ndv5-h100x8-8x400g')];
    const mixed = describeCluster({ nodes: [{ xml: a }, { xml: b }, { xml: b }] });
    expect(headline(mixed)).toMatch(/^2 kinds of machine: 8 A100 .* \| 8 H100 .*; 3 nodes, 24 ranks$/);
    const clique = clusterOf(cliqueOf(goldenDocument('gb200-nvl72-tray'), 2), 1, { mnnvl: true });
    expect(headline(clique.cluster)).toMatch(
      /^8 GB200 \(sm 100\) on 4 NUMA nodes of 2 hosts, .*; 2 hosts, 1 node, 8 ranks$/,
    );
  });
});
