/** Devices that are not like the others of their kind, and machines that are not built alike. */
import { describe, expect, it } from 'vitest';
import { describeCluster } from '#src/topology/cluster.js';
import { machineFacts } from '#src/topology/report/machine.js';
import { machineDifferences, oddDevices } from '#src/topology/report/odd-devices.js';
import { plainStyle } from '#src/topology/report/style.js';
import { textReport } from '#src/topology/report/text-report.js';
import { cloneElement, type XmlElement } from '#src/topology/xml/element.js';
import { clusterOf, GOLDEN_MACHINES, goldenDocument } from './clusters.js';

const DGX = goldenDocument('dgx-a100-8x200g');

/** A copy with one attribute changed: of the `at`-th element that `is` picks. */
function changed(is: (one: XmlElement) => boolean, attribute: string, value: string, at = 0): XmlElement {
  const copy = cloneElement(DGX);
  let seen = 0;
  const visit = (one: XmlElement): void => {
    if (is(one) && seen++ === at) one.attributes.set(attribute, value);
    for (const child of one.children) visit(child);
  };
  visit(copy);
  expect(seen).toBeGreaterThan(at);
  return copy;
}

const holds = (name: string) => (one: XmlElement) =>
  one.name === 'pci' && one.children.some((child) => child.name === name);
const isNet = (one: XmlElement) => one.name === 'net';

const factsOf = (document: XmlElement) => {
  const system = clusterOf(document).cluster.domains[0]!.whole;
  return { system, facts: machineFacts(system, document) };
};

const odd = (document: XmlElement): string[] => {
  const { system, facts } = factsOf(document);
  return oddDevices(system, facts);
};

describe('a device that is not like the others', () => {
  it('is told: a NIC with fewer lanes, a GPU of a lower generation, one with fewer NVLinks', () => {
    expect(odd(DGX)).toEqual([]);
    expect(odd(changed(holds('nic'), 'link_width', '4', 2))).toEqual([
      'mlx5_2 has PCIe Gen4 x4 6 GB/s, the 7 other NICs of 200 Gbit/s Gen4 x16 24 GB/s.',
    ]);
    expect(odd(changed(holds('gpu'), 'link_speed', '2.5 GT/s PCIe', 3))).toEqual([
      'GPU 3 has PCIe Gen1 x16 3 GB/s, the 7 other A100 SXM4 Gen4 x16 24 GB/s.',
    ]);
    expect(odd(changed((one) => one.name === 'nvlink', 'count', '1', 15))).toEqual([
      'GPU 2 has NVLinks 220 GB/s, the 7 other A100 SXM4 240 GB/s.',
    ]);
  });

  it('is none where there is no clear majority', () => {
    for (const name of ['rtx4090-x2-one-root-intel', 'gh200-x1-1x400g']) {
      expect(odd(goldenDocument(name)), name).toEqual([]);
    }
  });

  it('is rare among machines that work', () => {
    const found = GOLDEN_MACHINES.filter((name) => !name.startsWith('syn-')).filter(
      (name) => odd(goldenDocument(name)).length > 0,
    );
    expect(found.length / GOLDEN_MACHINES.length).toBeLessThan(0.15);
  });
});

describe('two machines of one make', () => {
  const compare = (a: XmlElement, b: XmlElement) =>
    machineDifferences({ name: 'machine 0', ...factsOf(a) }, { name: 'machine 1', ...factsOf(b) });

  it('are compared device by device', () => {
    expect(compare(DGX, DGX)).toEqual([]);
    expect(compare(DGX, changed(holds('nic'), 'link_width', '4', 0))).toEqual([
      'mlx5_0 has PCIe Gen4 x16 24 GB/s in machine 0, Gen4 x4 6 GB/s in machine 1',
    ]);
    expect(compare(DGX, changed(isNet, 'speed', '100000', 1))).toEqual([
      'mlx5_1 runs at 200 Gbit/s in machine 0, 100 Gbit/s in machine 1',
    ]);
    expect(compare(DGX, changed(holds('nic'), 'busid', '0000:ee:00.0', 0))).toEqual([
      'only machine 0 has mlx5_0 at that place',
      'only machine 1 has mlx5_0 at that place',
    ]);
  });

  it('stand in the first sentence once, with what differs below it', () => {
    const documents = [DGX, changed(holds('nic'), 'link_width', '4', 0)];
    const cluster = describeCluster({ nodes: documents.map((xml) => ({ xml })) });
    const [first, second] = textReport({ cluster, documents }, plainStyle(400));
    expect(first).toMatch(/^2 kinds of machine, each 8 A100 SXM4 /);
    expect(first!.match(/A100/g)).toHaveLength(1);
    expect(second).toMatch(/^Machine 0 and machine 1 differ: mlx5_0 has /);
  });
});
