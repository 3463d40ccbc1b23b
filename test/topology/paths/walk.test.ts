/** The plain breadth-first walk: types, bandwidths, hops, and which of several ways is kept. */
import { describe, expect, it } from 'vitest';
import { walkPaths } from '#src/topology/paths/breadth-first.js';
import { pathBetween, UNREACHED } from '#src/topology/paths/path.js';
import { buildSystem } from '#src/topology/system/build.js';
import { addLink, addNode, connect, emptySystem } from '#src/topology/system/edit.js';
import { CpuArch, CpuVendor, type TopoSystem } from '#src/topology/system/node.js';
import { LinkType, PATH_TYPE_NAMES, PathType } from '#src/topology/system/path-type.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { hopText, node, pathText, reach } from '../described.js';
import {
  ARM,
  type Attributes,
  c2c,
  cpu,
  eightGpuBox,
  gpu,
  gpuElement,
  H100,
  link,
  MILAN,
  net,
  nic,
  nicOf,
  nvlinkTo,
  nvlinkToCpu,
  nvswitch,
  POWER,
  pci,
  pciLink,
  pciSwitch,
  SAPPHIRE_RAPIDS,
  SKYLAKE,
  system,
} from '../machine-xml.js';

/** The plain paths of a machine, before the rules of transports. */
function walked(xml: XmlElement, nvbDisable = false): TopoSystem {
  const built = buildSystem(xml);
  walkPaths(built, nvbDisable);
  return built;
}

const path = (machine: TopoSystem, from: string, to: string) =>
  pathText(node(machine, from), node(machine, to));
const hops = (machine: TopoSystem, from: string, to: string) =>
  hopText(node(machine, from), node(machine, to));

describe('paths of eight H100 on two sockets', () => {
  const machine = reach(eightGpuBox(H100)).system;

  it('are those that the arithmetic gives [C04-12]', () => {
    const to = (name: string) => path(machine, 'GPU0', name);
    expect(to('GPU0')).toBe('0/5000/LOC');
    // 18 x 20.6 GB/s; GPU, DEV, NVS, DEV, GPU.
    expect(to('GPU1')).toBe('4/370.8/NVL');
    expect(to('NVS0')).toBe('2/370.8/NVL');
    expect(to('CPU0')).toBe('3/48/PHB');
    expect(to('CPU1')).toBe('4/22/SYS');
    // The NIC carries 50, PCI only 48.
    expect(to('NET0')).toBe('4/48/PIX');
    expect(to('DEV1')).toBe('3/370.8/NVL');
  });

  it('lead to the NICs of others through those GPUs, on both sockets', () => {
    expect(path(machine, 'GPU0', 'NET1')).toBe('8/48/PXN');
    expect(hops(machine, 'GPU0', 'NET1')).toBe('DEV0 NVS0 DEV1 GPU1 DEV1 PCI1 NIC1 NET1');
    expect(path(machine, 'GPU0', 'NET4')).toBe('8/48/PXN');
    expect(path(walked(eightGpuBox(H100)), 'GPU0', 'NET1')).toBe('6/48/PHB');
    // The way from the NIC stays the plain one.
    expect(path(machine, 'NET1', 'GPU0')).toBe('6/48/PHB');
    expect(path(machine, 'NET4', 'GPU0')).toBe('7/22/SYS');
  });
});

describe('type of a path', () => {
  it('says how many switches are passed, and whether a CPU or two', () => {
    const machine = walked(
      system(
        cpu(
          { ...SKYLAKE, numaid: 0 },
          pciSwitch(
            '01:00.0',
            gpu('02:00.0', 0),
            gpu('03:00.0', 1),
            pciSwitch('04:00.0', gpu('05:00.0', 2), nic('06:00.0', 0)),
          ),
          gpu('07:00.0', 3),
        ),
        cpu({ ...SKYLAKE, numaid: 1 }, gpu('08:00.0', 4)),
      ),
    );
    const types = ['GPU1', 'GPU2', 'GPU3', 'GPU4', 'NET0', 'CPU0', 'CPU1'].map((to) =>
      path(machine, 'GPU0', to),
    );
    expect(types).toEqual([
      '4/24/PIX',
      '5/24/PXB',
      '5/24/PHB',
      // Skylake sockets: 10 GB/s.
      '6/10/SYS',
      '5/24/PXB',
      '3/24/PHB',
      '4/10/SYS',
    ]);
    // The NET link itself does not count.
    expect(path(machine, 'GPU2', 'NET0')).toBe('4/24/PIX');
  });

  it('over a switch-to-switch link is that of several switches, although the link is local', () => {
    const machine = walked(
      system(
        cpu(
          MILAN,
          pciSwitch('01:00.0', gpu('02:00.0', 0), pciLink('03:00.0')),
          pciSwitch('03:00.0', gpu('04:00.0', 1), pciLink('01:00.0')),
        ),
      ),
    );
    expect(path(machine, 'GPU0', 'GPU1')).toBe('5/24/PXB');
    expect(hops(machine, 'GPU0', 'GPU1')).toBe('DEV0 PCI0 PCI1 DEV1 GPU1');
  });

  it('is C2C to a CPU by a chip-to-chip link, and host bridge behind it', () => {
    const machine = walked(
      system(cpu(ARM, gpu('01:00.0', 0, { links: [c2c(40_000, 10)] }), nic('02:00.0', 0))),
    );
    expect(path(machine, 'GPU0', 'CPU0')).toBe('2/400/C2C');
    expect(path(machine, 'GPU0', 'NET0')).toBe('4/24/PHB');
  });

  it('has the twelve names in order of preference [C04-14]', () => {
    expect(PATH_TYPE_NAMES.join(' ')).toBe('LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS NET DIS');
    for (const [number, name] of PATH_TYPE_NAMES.entries()) expect(PathType[name]).toBe(number);
  });
});

describe('NVLink through a third GPU', () => {
  /** GPUs in a row: 0 - 1 - 2 - 3. */
  const bus = (dev: number) => `0${dev + 1}:00.0`;
  const row = system(
    cpu(
      MILAN,
      ...[0, 1, 2, 3].map((dev) => {
        const peers = [dev - 1, dev + 1].filter((peer) => peer >= 0 && peer < 4);
        return gpu(bus(dev), dev, { sm: 80, links: peers.map((peer) => nvlinkTo(bus(peer), 2)) });
      }),
    ),
  );

  it('is one type worse, and passes one device only', () => {
    const machine = walked(row);
    expect(path(machine, 'GPU0', 'GPU1')).toBe('3/40/NVL');
    expect(path(machine, 'GPU0', 'GPU2')).toBe('4/40/NVB');
    expect(hops(machine, 'GPU0', 'GPU2')).toBe('DEV0 DEV1 DEV2 GPU2');
    // Two devices between: by the CPU.
    expect(path(machine, 'GPU0', 'GPU3')).toBe('4/24/PHB');
  });

  it('is off with NCCL_NVB_DISABLE', () => {
    expect(path(walked(row, true), 'GPU0', 'GPU2')).toBe('4/24/PHB');
    expect(path(walked(row, true), 'GPU0', 'GPU1')).toBe('3/40/NVL');
  });

  it('is not used by NICs and CPUs, nor is any other device on the way', () => {
    const machine = walked(
      system(
        cpu(
          MILAN,
          pciSwitch('05:00.0', gpu('01:00.0', 0, { links: [nvlinkTo('02:00.0', 12)] }), nic('06:00.0', 0)),
          // Its own PCI link is slow.
          gpu('02:00.0', 1, { links: [nvlinkTo('01:00.0', 12)], pci: link(1, 1) }),
        ),
      ),
    );
    expect(path(machine, 'NET0', 'GPU1')).toBe('5/0.188/PHB');
    expect(path(machine, 'GPU1', 'CPU0')).toBe('2/0.188/PHB');
    expect(path(machine, 'GPU0', 'GPU1')).toBe('3/247.2/NVL');
  });

  it('is used by a CPU that the first GPU hangs below directly', () => {
    const pair = (dev: number, attributes: Attributes) =>
      gpu(bus(dev), dev, { links: [nvlinkTo(bus(1 - dev), 12)], pci: attributes });
    const machine = walked(system(cpu(MILAN, pair(0, link(4)), pair(1, link(1, 1)))));
    expect(path(machine, 'GPU1', 'CPU0')).toBe('3/24/PHB');
    expect(hops(machine, 'GPU1', 'CPU0')).toBe('DEV1 DEV0 CPU0');
  });

  it('with the CPU on NVLink (POWER) goes to a CPU through the device next to it', () => {
    const machine = walked(
      system(
        cpu(
          POWER,
          gpu('01:00.0', 0, { sm: 70, links: [nvlinkToCpu(3), nvlinkTo('02:00.0', 3)] }),
          gpu('02:00.0', 1, { sm: 70, links: [nvlinkTo('01:00.0', 3)] }),
        ),
      ),
    );
    expect(path(machine, 'GPU0', 'CPU0')).toBe('2/60/NVL');
    // Base CPU0: DEV0 is one hop away, from there one more NVLink is allowed.
    expect(path(machine, 'GPU1', 'CPU0')).toBe('3/60/NVB');
  });
});

describe('which way is kept', () => {
  it('is the wider one of equal type', () => {
    const machine = walked(
      system(
        cpu(
          MILAN,
          pciSwitch('01:00.0', link(5), pciLink('02:00.0'), gpu('05:00.0', 0, { pci: link(5) })),
          pciSwitch('02:00.0', link(3), pciLink('01:00.0'), gpu('06:00.0', 1, { pci: link(5) })),
        ),
      ),
    );
    // The own way up carries 12, that over the other switch 48.
    expect(path(machine, 'GPU1', 'CPU0')).toBe('4/48/PHB');
    expect(hops(machine, 'GPU1', 'CPU0')).toBe('DEV1 PCI1 PCI0 CPU0');
  });

  it('is the one of a better type, however narrow', () => {
    const machine = walked(
      system(
        cpu(
          MILAN,
          gpu('01:00.0', 0, { pci: link(5), links: [nvlinkTo('02:00.0', 1)] }),
          gpu('02:00.0', 1, { pci: link(5), links: [nvlinkTo('01:00.0', 1)] }),
        ),
      ),
    );
    expect(path(machine, 'GPU0', 'GPU1')).toBe('3/20.6/NVL');
  });

  it('is the shorter one where a longer one of equal type and bandwidth was found first', () => {
    // From the CPU: A (48), B (12) and D (3). A is processed first and improves B to 48 over two hops; B then reaches R,
    // which carries 3, over three; D reaches R with 3 over two.
    const [a, b, d, r] = ['01:00.0', '02:00.0', '03:00.0', '04:00.0'] as const;
    const machine = walked(
      system(
        cpu(
          MILAN,
          pciSwitch(a, link(5), pciLink(b), gpu('05:00.0', 0)),
          pciSwitch(b, link(3), pciLink(a), pciSwitch(r, link(1), pciLink(d), gpu('06:00.0', 1))),
          pciSwitch(d, link(1), pciLink(r), gpu('07:00.0', 2)),
        ),
      ),
    );
    const named = (bus: string) => machine.nodes.PCI.find(({ busId }) => busId.endsWith(bus))!;
    const cpu0 = machine.nodes.CPU[0]!;
    expect(pathBetween(named(b), cpu0)!.hops.map(({ to }) => to)).toEqual([named(a), cpu0]);
    const found = pathBetween(named(r), cpu0)!;
    expect([found.bandwidth, found.type]).toEqual([3, PathType.PHB]);
    expect(found.hops.map(({ to }) => to)).toEqual([named(d), cpu0]);
    expect(path(machine, 'GPU1', 'CPU0')).toBe('4/3/PHB');
  });

  it('stays the first of two that are equal in everything', () => {
    const machine = emptySystem();
    const names = [0n, 1n, 2n, 3n];
    const [base, first, second, far] = names.map((id) =>
      addNode(machine, {
        type: 'CPU',
        id,
        arch: CpuArch.ARM,
        vendor: CpuVendor.UNDEFINED,
        model: -1,
        affinity: '',
        numaId: Number(id),
      }),
    );
    for (const middle of [first!, second!]) {
      connect(base!, middle, LinkType.SYS, 10);
      connect(middle, far!, LinkType.SYS, 10);
    }
    walkPaths(machine, false);
    expect(hopText(far!, base!)).toBe('CPU1 CPU0');
    expect(hopText(base!, far!)).toBe('CPU1 CPU3');
  });

  it('sees an improvement made in the same level, and passes it on', () => {
    // Level 1 is [A (10), B (5)]; A makes B 10 wide before B is looked at, so C gets 10 at once.
    const machine = emptySystem();
    const [base, a, b, c] = [0n, 1n, 2n, 3n].map((id) =>
      addNode(machine, {
        type: 'CPU',
        id,
        arch: CpuArch.ARM,
        vendor: CpuVendor.UNDEFINED,
        model: -1,
        affinity: '',
        numaId: Number(id),
      }),
    );
    connect(base!, a!, LinkType.SYS, 10);
    connect(base!, b!, LinkType.SYS, 5);
    connect(a!, b!, LinkType.SYS, 10);
    connect(b!, c!, LinkType.SYS, 10);
    walkPaths(machine, false);
    expect(pathText(c!, base!)).toBe('3/10/SYS');
  });

  it('fails on a link that has no way back, naming both ends', () => {
    const machine = walkedError(
      system(cpu(MILAN, gpu('01:00.0', 0, { links: [nvlinkTo('02:00.0', 2)] }), gpu('02:00.0', 1))),
    );
    expect(machine).toMatchObject({
      code: 'internalError',
      message: expect.stringMatching(/reverse path from DEV\/0-2000 to DEV\/0-1000.*NVL/),
    });
  });
});

function walkedError(xml: XmlElement): unknown {
  try {
    walked(xml);
  } catch (error) {
    return error;
  }
  return undefined;
}

describe('tables of paths', () => {
  it('are missing for nodes that were never looked at, and hold unreached slots for others', () => {
    // Host 1 has no link to host 0 at all.
    const machine = walked(
      system(
        cpu({ ...MILAN, numaid: 0 }, gpu('01:00.0', 0), nic('02:00.0', 0)),
        cpu({ ...MILAN, numaid: 0, host_hash: '0x2000' }, gpu('01:00.0', 1)),
      ),
    );
    expect(path(machine, 'GPU0', 'GPU1')).toBe('0/0/DIS');
    expect(path(machine, 'GPU1', 'NET0')).toBe('none');
    expect(path(machine, 'NET0', 'GPU1')).toBe('0/0/DIS');
    expect(pathBetween(node(machine, 'GPU0'), node(machine, 'GPU1'))).toEqual(UNREACHED);
  });

  it('come into being behind a hop that is refused', () => {
    // From a NIC nothing passes a GPU's device, but its NVLink is looked at: the switch gets a table without a path.
    const machine = walked(
      system(
        cpu(MILAN, gpu('01:00.0', 0, { links: [nvswitch(4)] }), nic('02:00.0', 0)),
        cpu({ ...MILAN, host_hash: '0x2000' }, gpu('01:00.0', 1, { links: [nvswitch(4)] })),
      ),
    );
    expect(path(machine, 'NVS0', 'NET0')).toBe('0/0/DIS');
    expect(path(machine, 'GPU1', 'NET0')).toBe('none');
  });

  it('have one slot for several NICs with one id: that of the first', () => {
    const virtual = () => nicElementOf(net(0, { speed: 10_000, gdr: 0 }));
    const machine = walked(
      system(
        cpu({ ...MILAN, numaid: 0 }, gpu('01:00.0', 0), virtual()),
        cpu({ ...MILAN, numaid: 1 }, virtual()),
      ),
    );
    expect(machine.nodes.NET.map(({ id }) => id)).toEqual([0n, 0n]);
    expect(path(machine, 'GPU0', 'NET0')).toBe('4/1.25/PHB');
    expect(path(machine, 'GPU0', 'NET1')).toBe('0/0/DIS');
  });
});

const nicElementOf = (...nets: XmlElement[]): XmlElement => nicOf('00:00.0', {}, ...nets).children[0]!;

describe('several ranks on one GPU', () => {
  it('are joined by the device', () => {
    const two = pci('01:00.0', '0x030200', {}, gpuElement(0, { rank: 0 }), gpuElement(0, { rank: 1 }));
    const machine = walked(system(cpu(SAPPHIRE_RAPIDS, two)));
    expect(path(machine, 'GPU0', 'GPU1')).toBe('2/5000/LOC');
  });
});

describe('a one-way NVLink of another width', () => {
  it('is used in its own direction', () => {
    const machine = emptySystem();
    const [a, b] = [0n, 1n].map((id) =>
      addNode(machine, {
        type: 'DEV',
        id,
        dev: Number(id),
        sm: 80,
        gpuCount: 0,
        device: 0n,
        mloPart: -1,
        busId: '',
      }),
    );
    addLink(a!, b!, LinkType.NVL, 40);
    addLink(b!, a!, LinkType.NVL, 20);
    walkPaths(machine, false);
    // Bandwidth is that of the link on which the walk came, hops are the links of the way back.
    expect(pathText(b!, a!)).toBe('1/40/NVL');
    expect(pathBetween(b!, a!)!.hops[0]!.bandwidth).toBe(20);
  });
});
