/** Bandwidth that a search takes from links and gives back. */
import { describe, expect, it } from 'vitest';
import { searchGraphs } from '#src/topology/search/search-all.js';
import type { SearchSpace } from '#src/topology/search/space.js';
import { topologySettings } from '#src/topology/settings.js';
import { buildSystem } from '#src/topology/system/build.js';
import { NODE_TYPES, type TopoSystem } from '#src/topology/system/node.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { firstDomain, searchSpace } from '../described.js';
import {
  ARM,
  cpu,
  eightGpuBox,
  gpu,
  H100,
  link,
  MILAN,
  nic,
  nvswitch,
  pciSwitch,
  SAPPHIRE_RAPIDS,
  system,
} from '../machine-xml.js';

/** Bandwidth of every link of a system, in order. */
const bandwidths = (machine: TopoSystem): number[] =>
  NODE_TYPES.flatMap((type) =>
    machine.nodes[type].flatMap(({ links }) => links.map(({ bandwidth }) => bandwidth)),
  );

const pair = (nvlinks: number, kind = SAPPHIRE_RAPIDS, sm = 90): XmlElement =>
  system(
    cpu(
      kind,
      ...[0, 1].map((dev) =>
        gpu(`0${dev + 1}:00.0`, dev, { sm, links: nvlinks === 0 ? [] : [nvswitch(nvlinks)], pci: link(4) }),
      ),
      nic('0f:00.0', 0, { speed: 80_000 }),
    ),
  );

/** What is missing, per link, in order of use. */
function taken(space: SearchSpace, before: Float32Array): number[] {
  return [...space.linkBandwidth]
    .map((left, number) => Math.round((before[number]! - left) * 1e6) / 1e6)
    .filter((missing) => missing !== 0)
    .sort((a, b) => a - b);
}

describe('taking bandwidth', () => {
  it('rounds what is left to a thousandth: 370.8 - 60 is 310.8', () => {
    const space = searchSpace(pair(18), 1);
    const path = space.gpuToGpu(0, 1)!;
    const left = () => [...path.links].map((number) => space.linkBandwidth[number]);
    // GPU - DEV - NVS - DEV - GPU. 18 times 20.6 is not quite 370.8 in 32 bits.
    expect(left()[1]).not.toBe(Math.fround(370.8));
    expect(space.take(path, 60)).toBe(true);
    expect(left()).toEqual([4940, 310.8, 310.8, 4940].map(Math.fround));
    expect(space.take(path, -60)).toBe(true);
    expect(left()).toEqual([5000, 370.8, 370.8, 5000].map(Math.fround));
  });

  it('changes a link once by less than half a thousandth, and never again', () => {
    // 0.1875 GB/s (first generation, one lane) becomes 0.188.
    const xml = system(
      cpu(ARM, gpu('01:00.0', 0, { pci: link(1, 1) }), gpu('02:00.0', 1), nic('03:00.0', 0)),
    );
    const space = searchSpace(xml, 1);
    const path = space.gpuToGpu(0, 1)!;
    const first = path.links[1]!;
    expect(space.linkBandwidth[first]).toBe(0.1875);
    for (let use = 0; use < 3; use++) {
      expect(space.take(path, Math.fround(0.12))).toBe(true);
      // 0.1875 - 0.12 = 0.0675, to thousandths 0.068 (half away from zero).
      expect(space.linkBandwidth[first]).toBe(Math.fround(0.068));
      space.take(path, -Math.fround(0.12));
      expect(space.linkBandwidth[first]).toBe(Math.fround(0.188));
    }
  });

  it('takes nothing if any link has too little', () => {
    const space = searchSpace(pair(0, ARM as never), 1);
    const path = space.gpuToGpu(0, 1)!;
    const before = Float32Array.from(space.linkBandwidth);
    expect(space.take(path, 25)).toBe(false);
    expect(space.linkBandwidth).toEqual(before);
    expect(space.take(path, 24)).toBe(true);
    const after = Float32Array.from(space.linkBandwidth);
    expect(space.take(path, Math.fround(0.001))).toBe(false);
    expect(space.linkBandwidth).toEqual(after);
    // A shortage at the last hop: the first hops are given back.
    const lopsided = system(cpu(ARM, gpu('01:00.0', 0), gpu('02:00.0', 1, { pci: link(3) })));
    const narrow = searchSpace(lopsided, 1);
    const untouched = Float32Array.from(narrow.linkBandwidth);
    expect(narrow.take(narrow.gpuToGpu(0, 1)!, 20)).toBe(false);
    expect(narrow.linkBandwidth).toEqual(untouched);
  });

  it('takes 6/5 from PCI links through an Intel CPU, from a GPU only', () => {
    for (const [kind, factor] of [
      [SAPPHIRE_RAPIDS, 1.2],
      [MILAN, 1],
      [ARM, 1],
    ] as const) {
      const space = searchSpace(pair(0, kind as never), 1);
      const before = Float32Array.from(space.linkBandwidth);
      space.take(space.gpuToGpu(0, 1)!, 10);
      // Two local links, two PCI links.
      expect(taken(space, before)).toEqual([10, 10, 10 * factor, 10 * factor]);
    }
    const toNic = searchSpace(pair(18), 2);
    const before = Float32Array.from(toNic.linkBandwidth);
    toNic.take(toNic.gpuToNet(0, 0)!, 10);
    // GPU - DEV, then PCI twice, then the NIC's own port.
    expect(taken(toNic, before)).toEqual([10, 10, 12, 12]);
    const fromNic = searchSpace(pair(18), 2);
    const full = Float32Array.from(fromNic.linkBandwidth);
    fromNic.take(fromNic.netToGpu(0, 0)!, 10);
    expect(taken(fromNic, full)).toEqual([10, 10, 10, 10]);
  });

  it('takes an eighth backwards where an old GPU receives from a NIC or a switch', () => {
    const received = (sm: number) => {
      const space = searchSpace(pair(6, ARM as never, sm), 2);
      const before = Float32Array.from(space.linkBandwidth);
      space.take(space.netToGpu(0, 0)!, 8);
      return taken(space, before);
    };
    expect(received(70)).toEqual([1, 8, 8, 8, 8]);
    expect(received(80)).toEqual([8, 8, 8, 8]);
    const fromGpu = searchSpace(pair(6, ARM as never, 70), 2);
    const before = Float32Array.from(fromGpu.linkBandwidth);
    fromGpu.take(fromGpu.gpuToGpu(0, 1)!, 8);
    expect(taken(fromGpu, before)).toEqual([8, 8, 8, 8]);
  });

  it('from a port counts for all entries of the port', () => {
    const xml = system(
      cpu(
        ARM,
        pciSwitch(
          '01:00.0',
          gpu('02:00.0', 0),
          nic('03:00.0', 0, { guid: '0x1', port: 1 }),
          nic('04:00.0', 1, { guid: '0x1', port: 1 }),
          nic('05:00.0', 2, { guid: '0x1', port: 2 }),
          nic('06:00.0', 3, { guid: '0x2', port: 1 }),
        ),
      ),
    );
    const space = searchSpace(xml, 2);
    space.takeNet(1, 12);
    expect([...space.netBandwidth]).toEqual([13, 13, 25, 25]);
    space.takeNet(0, -12);
    expect([...space.netBandwidth]).toEqual([25, 25, 25, 25]);
  });
});

describe('after a search', () => {
  it('the machine is as before, bit for bit [C04-17]', () => {
    for (const hosts of [1, 2]) {
      const { system: machine } = firstDomain(eightGpuBox(H100), hosts);
      const untouched = bandwidths(machine);
      const settings = topologySettings();
      searchGraphs(machine, { settings, nvls: true, collnet: true });
      expect(bandwidths(machine)).toEqual(untouched);
      expect(untouched).toEqual(bandwidths(buildSystem(eightGpuBox(H100))));
    }
  });

  it('also one that failed, and it can be searched again [C04-17]', () => {
    const { system: machine } = firstDomain(eightGpuBox(H100), 1);
    const untouched = bandwidths(machine);
    const settings = topologySettings();
    const fail = () => {
      throw new Error('no graph file');
    };
    let asked = 0;
    const failLater = () => (++asked === 2 ? fail() : undefined);
    expect(() =>
      searchGraphs(machine, { settings, nvls: true, collnet: false, loadGraph: failLater }),
    ).toThrow('no graph file');
    expect(bandwidths(machine)).toEqual(untouched);
    const again = searchGraphs(machine, { settings, nvls: true, collnet: false });
    expect(again.graphs).toEqual(firstDomain(eightGpuBox(H100), 1).graphs);
  });
});
