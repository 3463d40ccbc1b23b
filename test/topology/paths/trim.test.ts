/** Which GPUs stay together, and the ceilings that the search starts from. */
import { describe, expect, it } from 'vitest';
import { walkPaths } from '#src/topology/paths/breadth-first.js';
import { hasSplitNvlink, measureSystem, trimSystem, worstGpuPath } from '#src/topology/paths/trim.js';
import { buildSystem } from '#src/topology/system/build.js';
import { addLink, addNode, connect } from '#src/topology/system/edit.js';
import type { TopoSystem } from '#src/topology/system/node.js';
import { LinkType, PATH_TYPE_NAMES, PathType } from '#src/topology/system/path-type.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { firstDomain, linkTexts, pathText, reach } from '../described.js';
import {
  cpu,
  gpu,
  link,
  MILAN,
  nic,
  nvlinkTo,
  nvswitch,
  pciSwitch,
  SKYLAKE,
  system,
} from '../machine-xml.js';

/** GPUs below one CPU. */
const flat = (count: number): XmlElement =>
  system(
    cpu(MILAN, ...Array.from({ length: count }, (_, dev) => gpu(`${dev + 1}1:00.0`, dev)), nic('0f:00.0', 0)),
  );

/** Makes the network the way between GPUs, in both directions. */
function part(machine: TopoSystem, pairs: readonly (readonly [number, number])[]): TopoSystem {
  const { GPU } = machine.nodes;
  const set = (from: number, to: number) => {
    const table = GPU[from]!.paths.GPU!;
    table[to] = { ...table[to]!, type: PathType.NET };
  };
  for (const [a, b] of pairs) {
    set(a, b);
    set(b, a);
  }
  return machine;
}

const left = (machine: TopoSystem) => machine.nodes.GPU.map(({ rank }) => rank);

describe('trimming', () => {
  const trimmed = (
    count: number,
    pairs: readonly (readonly [number, number])[],
    own: number,
    nRanks = count,
  ) => {
    const machine = part(reach(flat(count)).system, pairs);
    trimSystem(machine, machine.nodes.GPU[own]!, nRanks);
    return machine;
  };

  it('leaves the GPUs that do not need the network to reach each other [C04-13]', () => {
    const across = [0, 1].flatMap((a) => [2, 3].map((b) => [a, b] as const));
    for (const own of [0, 1]) expect(left(trimmed(4, across, own))).toEqual([0, 1]);
    for (const own of [2, 3]) expect(left(trimmed(4, across, own))).toEqual([2, 3]);
    expect(left(trimmed(4, [], 2))).toEqual([0, 1, 2, 3]);
  });

  it('joins a GPU to the lowest group that it reaches, in one pass', () => {
    // 0 and 1 are apart, 2 reaches both: it joins 0, and 1 stays alone.
    expect(left(trimmed(3, [[0, 1]], 2))).toEqual([0, 2]);
    expect(left(trimmed(3, [[0, 1]], 1))).toEqual([1]);
  });

  it('keeps devices and NICs, and numbers the GPUs anew', () => {
    const machine = trimmed(
      3,
      [
        [0, 1],
        [0, 2],
      ],
      1,
    );
    expect(machine.nodes.GPU.map(({ index, rank }) => [index, rank])).toEqual([
      [0, 1],
      [1, 2],
    ]);
    expect([machine.nodes.DEV.length, machine.nodes.NET.length]).toEqual([3, 1]);
    expect(linkTexts(machine.nodes.DEV[0]!)).toEqual(['PCI 24 CPU0']);
    expect(machine.nodes.DEV[0]!.gpuCount).toBe(1);
    expect(linkTexts(machine.nodes.DEV[1]!)).toEqual(['LOC 5000 GPU0', 'PCI 24 CPU0']);
  });

  it('says whether there are ranks outside', () => {
    expect(trimmed(2, [], 0).inter).toBe(false);
    expect(trimmed(2, [], 0, 4).inter).toBe(true);
    expect(trimmed(2, [[0, 1]], 0).inter).toBe(true);
  });
});

describe('ceilings of the search', () => {
  const totals = (xml: XmlElement, hosts: number) => {
    const { maxBw, totalBw } = firstDomain(xml, hosts).system;
    return { maxBw, totalBw };
  };
  const nvlinks = (count: number) => Math.fround(count * Math.fround(20.6));
  const box = (gpus: number) =>
    system(
      cpu(
        SKYLAKE,
        ...Array.from({ length: gpus }, (_, dev) =>
          pciSwitch(
            `${dev + 1}0:00.0`,
            gpu(`${dev + 1}1:00.0`, dev, { links: [nvswitch(2 + dev)] }),
            nic(`${dev + 1}2:00.0`, dev, { speed: 100_000 }),
          ),
        ),
      ),
    );

  it('are the best way between devices, or to a NIC, and the most that a device has', () => {
    // The narrower of two devices has 2 NVLinks of 20.6, the wider one 3.
    expect(totals(box(2), 1)).toEqual({ maxBw: nvlinks(2), totalBw: nvlinks(3) });
    expect(totals(box(2), 2)).toEqual({ maxBw: 12.5, totalBw: nvlinks(3) });
    // Two hosts of one GPU: the PCI link of 24 counts less than NVLink.
    expect(totals(box(1), 2)).toEqual({ maxBw: 12.5, totalBw: nvlinks(2) });
    expect(totals(flat(2), 1)).toEqual({ maxBw: 24, totalBw: 24 });
  });

  it('are without limit for a single GPU', () => {
    expect(totals(box(1), 1)).toEqual({ maxBw: 5000, totalBw: 5000 });
  });

  it('count the last PCI link of a device, not its widest', () => {
    const machine = buildSystem(system(cpu(MILAN, gpu('01:00.0', 0, { pci: link(5) }), gpu('02:00.0', 1))));
    const second = addNode(machine, { type: 'PCI', id: 99n, device: 0n, busId: '' });
    for (const device of machine.nodes.DEV) connect(device, second, LinkType.PCI, 3);
    expect(linkTexts(machine.nodes.DEV[0]!)).toEqual(['LOC 5000 GPU0', 'PCI 48 CPU0', 'PCI 3 PCI0']);
    walkPaths(machine, false);
    measureSystem(machine);
    expect(machine.totalBw).toBe(3);
  });

  it('add all NVLinks of a device', () => {
    const machine = buildSystem(system(cpu(MILAN, gpu('01:00.0', 0), gpu('02:00.0', 1), gpu('03:00.0', 2))));
    const [a, b, c] = machine.nodes.DEV;
    for (const [from, to] of [
      [a, b],
      [b, c],
    ] as const) {
      addLink(from!, to!, LinkType.NVL, 40);
      addLink(to!, from!, LinkType.NVL, 40);
    }
    walkPaths(machine, false);
    measureSystem(machine);
    expect([machine.maxBw, machine.totalBw]).toEqual([40, 80]);
  });
});

describe('NVLink groups', () => {
  const joined = (count: number, pairs: readonly (readonly [number, number])[]): TopoSystem => {
    const bus = (dev: number) => `${dev + 1}1:00.0`;
    const links = (dev: number) =>
      pairs.filter((pair) => pair.includes(dev)).map(([a, b]) => nvlinkTo(bus(a === dev ? b : a), 2));
    return reach(
      system(
        cpu(MILAN, ...Array.from({ length: count }, (_, dev) => gpu(bus(dev), dev, { links: links(dev) }))),
      ),
      { env: { NCCL_NVB_DISABLE: '1' } },
    ).system;
  };

  it('are split if exactly two have several GPUs', () => {
    expect(
      hasSplitNvlink(
        joined(4, [
          [0, 1],
          [2, 3],
        ]),
      ),
    ).toBe(true);
    expect(
      hasSplitNvlink(
        joined(5, [
          [0, 1],
          [2, 3],
        ]),
      ),
    ).toBe(true);
    expect(hasSplitNvlink(joined(4, [[0, 1]]))).toBe(false);
    expect(
      hasSplitNvlink(
        joined(6, [
          [0, 1],
          [2, 3],
          [4, 5],
        ]),
      ),
    ).toBe(false);
    expect(
      hasSplitNvlink(
        joined(4, [
          [0, 1],
          [1, 2],
          [2, 3],
          [0, 3],
          [0, 2],
          [1, 3],
        ]),
      ),
    ).toBe(false);
    // A chain 0-1-2-3 is followed in index order, also without a path from 0 to 2.
    expect(
      hasSplitNvlink(
        joined(4, [
          [0, 1],
          [1, 2],
          [2, 3],
        ]),
      ),
    ).toBe(false);
  });

  it('have a worst path between GPUs', () => {
    const worst = (machine: TopoSystem) => PATH_TYPE_NAMES[worstGpuPath(machine)];
    expect(worst(joined(2, [[0, 1]]))).toBe('NVL');
    expect(worst(joined(3, [[0, 1]]))).toBe('PHB');
    expect(worst(joined(1, []))).toBe('LOC');
    expect(pathText(joined(2, [[0, 1]]).nodes.GPU[0]!, joined(2, [[0, 1]]).nodes.GPU[0]!)).toBe('0/5000/LOC');
  });
});
