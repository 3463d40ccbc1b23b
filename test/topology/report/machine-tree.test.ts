/** The tree of a machine: everything that the graph holds is there once, with the numbers of the graph. */
import { describe, expect, it } from 'vitest';
import { devicesOf, machineFacts } from '#src/topology/report/machine.js';
import { machineTree } from '#src/topology/report/machine-tree.js';
import { plainStyle, visibleLength } from '#src/topology/report/style.js';
import { buildSystem } from '#src/topology/system/build.js';
import type { TopoSystem } from '#src/topology/system/node.js';
import { LinkType } from '#src/topology/system/path-type.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { randomMachine } from '../random-machine.js';
import { cliqueOf, GOLDEN_MACHINES, goldenDocument } from './clusters.js';

const WIDE = plainStyle(1000);

function treeOf(document: XmlElement, style = WIDE): { lines: string[]; system: TopoSystem } {
  const system = buildSystem(document);
  return { lines: machineTree(machineFacts(system, document), system, style), system };
}

/** Ranks that the labels of GPUs name. */
function ranksIn(lines: readonly string[]): number[] {
  return lines.flatMap((line) => {
    const text = /GPU ((?:\d+(?:-\d+)? )+)/.exec(line.split('NVLink')[0]!)?.[1] ?? '';
    return text
      .trim()
      .split(' ')
      .filter((part) => part !== '')
      .flatMap((part) => {
        const [from, to = from] = part.split('-').map(Number) as [number, number?];
        return Array.from({ length: to! - from + 1 }, (_, at) => from + at);
      });
  });
}

const machines: readonly (readonly [name: string, document: XmlElement])[] = [
  ...GOLDEN_MACHINES.map((name) => [name, goldenDocument(name)] as const),
  ...Array.from({ length: 60 }, (_, seed) => {
    const { text, xml } = randomMachine(seed);
    return [text, xml] as const;
  }),
];

describe('facts of a machine', () => {
  it('hold every device that hangs at a CPU once, with the bandwidth of its link', () => {
    for (const [name, document] of machines) {
      const system = buildSystem(document);
      const facts = machineFacts(system, document);
      const gpus = devicesOf(facts, 'gpu');
      expect(new Set(gpus.map(({ node }) => node)), name).toEqual(new Set(system.nodes.DEV));
      expect(gpus.length, name).toBe(system.nodes.DEV.length);
      expect(
        devicesOf(facts, 'switch')
          .map(({ node }) => node)
          .sort(byIndex),
        name,
      ).toEqual(system.nodes.PCI);
      expect(
        devicesOf(facts, 'nic')
          .map(({ node }) => node)
          .sort(byIndex),
        name,
      ).toEqual(system.nodes.NIC);
      for (const gpu of gpus) {
        const up = gpu.node.links.filter(({ type }) => type === LinkType.PCI);
        expect(
          up.map(({ bandwidth }) => bandwidth),
          name,
        ).toContain(gpu.pci.bandwidth);
        const nvlink = gpu.node.links.filter(({ type }) => type === LinkType.NVL);
        expect(
          gpu.nvlinks.map(({ bandwidth }) => bandwidth),
          name,
        ).toEqual(nvlink.map(({ bandwidth }) => bandwidth));
        expect(gpu.gpus, name).toEqual(system.nodes.GPU.filter(({ parent }) => parent === gpu.node));
      }
    }
  });

  const byIndex = (a: { index: number }, b: { index: number }) => a.index - b.index;

  it('name generation and lanes that the bandwidth stands for', () => {
    const document = goldenDocument('rtx4090-x4-rome-vnics');
    const facts = machineFacts(buildSystem(document), document);
    expect(devicesOf(facts, 'nic').map(({ pci }) => pci)).toContainEqual({
      bandwidth: 3,
      generation: 3,
      lanes: 4,
    });
    expect(devicesOf(facts, 'nic').map(({ pci }) => pci)).toContain(undefined);
    const slow = goldenDocument('syn-x1-lanes-and-gen1');
    const lanes = devicesOf(machineFacts(buildSystem(slow), slow), 'gpu').map(({ pci }) => pci);
    for (const { bandwidth, generation, lanes: width } of lanes) {
      expect(bandwidth).toBeCloseTo((2 ** (generation! - 1) * 3 * width!) / 16, 3);
    }
  });

  it('count NVLinks by the bandwidth of one link, and C2C apart', () => {
    const of = (name: string) => {
      const document = goldenDocument(name);
      return devicesOf(machineFacts(buildSystem(document), document), 'gpu')[0]!;
    };
    expect(of('gb200-nvl72-tray').nvlinks.map(({ count }) => count)).toEqual([18]);
    expect(of('gb200-nvl72-tray').c2c).toBeCloseTo(223.56, 2);
    expect(of('dgx1-v100x8-4x100g').nvlinks.map(({ count }) => count)).toEqual([2, 2, 1, 1]);
    expect(of('l20-x8-cx8').nvlinks).toEqual([]);
  });
});

describe('the tree of a machine', () => {
  it('has a line for each CPU, switch, GPU device and NIC, and names every rank once', () => {
    for (const [name, document] of machines) {
      const { lines, system } = treeOf(document);
      const { CPU, PCI, DEV, NIC, GPU } = system.nodes;
      const whole = CPU.length + PCI.length + DEV.length + NIC.length;
      // Longer ones are folded.
      if (whole > 44) expect(lines.length, name).toBeLessThan(whole);
      else expect(lines, name).toHaveLength(whole);
      expect(
        ranksIn(lines).sort((a, b) => a - b),
        name,
      ).toEqual(GPU.map(({ rank }) => rank).sort((a, b) => a - b));
    }
  });

  it('shows an H100 host as people know it', () => {
    const { lines } = treeOf(goldenDocument('azure-ndv5-h100x8-8x400g'), plainStyle(100));
    expect(lines.slice(0, 4)).toEqual([
      'CPU 0  Intel Sapphire Rapids, NUMA 0, cores 0-15, 22 GB/s to CPU 1',
      '├─ PCIe switch         ffff:ff:01.0  Gen5 x16 48 GB/s',
      '│  ├─ GPU 0 H100 SXM5  0001:00:00.0  Gen5 x16 48 GB/s  18 NVLinks (370.8) to NVSwitch',
      '│  └─ NIC mlx5_ib0     0101:00:00.0  Gen5 x16 48 GB/s  400 Gbit/s, GPUDirect',
    ]);
  });

  it('says to which GPUs NVLinks lead, what is virtual, and what cannot do GPUDirect', () => {
    const dgx1 = treeOf(goldenDocument('dgx1-v100x8-4x100g')).lines.join('\n');
    expect(dgx1).toContain('2 NVLinks (40) each to GPU 3-4; 1 NVLink (20) each to GPU 1-2');
    const rome = treeOf(goldenDocument('rtx4090-x4-rome-vnics')).lines;
    expect(rome[1]).toBe('├─ GPU 0 RTX 4090          01:00.0  Gen4 x16 24 GB/s  no GPUDirect');
    expect(rome[2]).toMatch(/^└─ NIC tunl0 \.\. tunl2 +virtual +3 ports, 10 Gbit\/s, no GPUDirect$/);
    expect(rome.join('\n')).toContain('GPU 2 RTX 4090, NVML 3');
  });

  it('drops the bus ids where the terminal is too narrow for them, and never breaks the columns', () => {
    const document = goldenDocument('azure-ndv5-h100x8-8x400g');
    const narrow = treeOf(document, plainStyle(78)).lines;
    expect(narrow.join('\n')).not.toContain('0001:00:00.0');
    expect(treeOf(document, plainStyle(100)).lines.join('\n')).toContain('0001:00:00.0');
    const columns = narrow.filter((line) => line.includes('Gen5')).map((line) => line.indexOf('Gen5'));
    expect(new Set(columns).size).toBe(1);
    expect(Math.max(...narrow.map(visibleLength))).toBeLessThanOrEqual(78);
  });

  it('wraps notes that are too long, beside the lines of the tree', () => {
    const { lines } = treeOf(goldenDocument('dgx1-v100x8-4x100g'), plainStyle(80));
    expect(lines.slice(2, 6)).toEqual([
      '│  ├─ GPU 0 V100 SXM2  Gen3 x16 12 GB/s  2 NVLinks (40) each to GPU 3-4; 1',
      '│  │                                     NVLink (20) each to GPU 1-2',
      '│  ├─ GPU 1 V100 SXM2  Gen3 x16 12 GB/s  2 NVLinks (40) each to GPU 2 5; 1',
      '│  │                                     NVLink (20) each to GPU 0 3',
    ]);
    for (const [name, document] of machines) {
      const narrow = treeOf(document, plainStyle(80)).lines;
      const wide = treeOf(document).lines;
      // Wrapped lines hold the same words.
      const words = (text: readonly string[]) => text.join(' ').match(/[^\s├└─│]+/g);
      const shown = words(narrow)!.join(' ');
      for (const line of wide.filter((text) => text.includes('NVLink'))) {
        const notes = line.slice(line.search(/\d+ NVLink|NVLink /));
        expect(shown, name).toContain(words([notes])!.join(' '));
      }
      for (const line of narrow.filter((text) => text.includes('GB/s  '))) {
        expect(visibleLength(line), name).toBeLessThanOrEqual(110);
      }
    }
  });

  it('folds the hosts of a rack into one, and names first and last of what is alike', () => {
    const { lines } = treeOf(cliqueOf(goldenDocument('gb200-nvl72-tray'), 18));
    expect(lines).toHaveLength(7);
    expect(lines[0]).toBe('Hosts 0-17, all alike');
    expect(lines[2]).toMatch(/GPU 0-1 \.\. 68-69 GB200 .*18 NVLinks \(721\.8\) to NVSwitch; C2C to its CPU/);
    expect(lines[3]).toMatch(/NIC mlx5_0, mlx5_1 /);
  });

  it('does not fold hosts that differ', () => {
    const document = cliqueOf(goldenDocument('gb200-nvl72-tray'), 6);
    const last = document.children.at(-1)!;
    last.children.pop();
    const { lines, system } = treeOf(document);
    expect(system.nodes.GPU).toHaveLength(23);
    expect(lines.filter((line) => line.startsWith('Host'))).toEqual(['Hosts 0-4, all alike', 'Host 5']);
  });

  it('adds the rank offset of a later node', () => {
    const document = goldenDocument('gh200-x1-1x400g');
    const system = buildSystem(document);
    const lines = machineTree(machineFacts(system, document), system, WIDE, 7);
    expect(lines.join('\n')).toContain('GPU 7 GH200');
  });
});
