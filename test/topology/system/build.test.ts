/** From topology XML to nodes and links. */
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import { hashId, hashText } from '#src/topology/hash.js';
import { type BuildOptions, buildSystem, busIdNumber } from '#src/topology/system/build.js';
import { findNode } from '#src/topology/system/edit.js';
import { CpuArch, CpuVendor, NODE_TYPES, type TopoSystem } from '#src/topology/system/node.js';
import { element, type XmlElement } from '#src/topology/xml/element.js';
import { linkTexts, node } from '../described.js';
import {
  ARM,
  type Attributes,
  c2c,
  cpu,
  gpu,
  gpuElement,
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
  system,
} from '../machine-xml.js';

const build = (...cpus: XmlElement[]): TopoSystem => buildSystem(system(...cpus));
const links = (machine: TopoSystem, name: string) => linkTexts(node(machine, name));
const counts = ({ nodes }: TopoSystem) =>
  Object.fromEntries(NODE_TYPES.map((type) => [type, nodes[type].length]).filter(([, count]) => count !== 0));
const ids = (machine: TopoSystem, type: (typeof NODE_TYPES)[number]) =>
  machine.nodes[type].map(({ id }) => id.toString(16));

function refusal(root: XmlElement, options: BuildOptions = {}): TuttiError {
  try {
    buildSystem(root, options);
  } catch (error) {
    expect(TuttiError.is(error)).toBe(true);
    return error as TuttiError;
  }
  throw new Error('accepted');
}

function logged(...cpus: XmlElement[]): string[] {
  const lines: string[] = [];
  buildSystem(system(...cpus), {
    log: (level, subsystem, text) => lines.push(`${level} ${subsystem} ${text}`),
  });
  return lines;
}

const without = (source: XmlElement, attribute: string): XmlElement => {
  source.attributes.delete(attribute);
  return source;
};

describe('a machine', () => {
  const machine = build(
    cpu(
      { ...SAPPHIRE_RAPIDS, numaid: 0 },
      pciSwitch('10:00.0', gpu('11:00.0', 4, { rank: 1, links: [nvswitch(3)] }), nic('12:00.0', 0)),
      gpu('13:00.0', 5, { rank: 0, sm: 80, gdr: 0, links: [nvswitch(2)] }),
    ),
    cpu({ ...SAPPHIRE_RAPIDS, numaid: 1 }, nic('14:00.0', 1, { net: 1, gin: 1, rma: 1 }, link(5))),
  );

  it('has nodes of its types in document order, with ids from bus ids and numbers [C04-01]', () => {
    expect(counts(machine)).toEqual({
      GPU: 2,
      PCI: 1,
      NVS: 1,
      CPU: 2,
      NIC: 2,
      NET: 2,
      GIN: 1,
      RMA: 1,
      DEV: 2,
    });
    expect(ids(machine, 'GPU')).toEqual(['11000', '13000']);
    expect(ids(machine, 'DEV')).toEqual(['11000', '13000']);
    expect(ids(machine, 'PCI')).toEqual(['10000']);
    expect(ids(machine, 'CPU')).toEqual(['0', '1']);
    expect(ids(machine, 'NIC')).toEqual(['12000', '14000']);
    expect([ids(machine, 'NET'), ids(machine, 'GIN'), ids(machine, 'RMA')]).toEqual([
      ['0', '1'],
      ['1'],
      ['1'],
    ]);
    expect(ids(machine, 'NVS')).toEqual(['0']);
    for (const type of NODE_TYPES) {
      for (const [index, one] of machine.nodes[type].entries()) expect(one).toMatchObject({ type, index });
    }
  });

  it('keeps what files say of GPUs, devices and CPUs', () => {
    expect(machine.nodes.GPU[0]).toMatchObject({ dev: 4, rank: 1, sm: 90, gdr: true, mloPart: -1 });
    expect(machine.nodes.GPU[1]).toMatchObject({ dev: 5, rank: 0, sm: 80, gdr: false });
    expect(machine.nodes.GPU[0]!.parent).toBe(machine.nodes.DEV[0]);
    expect(machine.nodes.DEV[0]).toMatchObject({
      dev: 4,
      sm: 90,
      gpuCount: 1,
      busId: '0000:11:00.0',
      device: 0x0001_0002_0003_0004n,
    });
    expect(machine.nodes.CPU[1]).toMatchObject({
      arch: CpuArch.X86,
      vendor: CpuVendor.INTEL,
      model: 3,
      numaId: 1,
    });
    expect(machine.hosts).toEqual([0x1000n]);
  });

  it('has links both ways: local to devices, PCI upwards, NVLink to the switch, ports to cards, CPU to CPU [C04-08]', () => {
    // Decreasing bandwidth; below a CPU the link upwards is the last.
    expect(links(machine, 'GPU0')).toEqual(['LOC 5000 DEV0']);
    expect(links(machine, 'DEV0')).toEqual(['LOC 5000 GPU0', 'NVL 61.8 NVS0', 'PCI 24 PCI0']);
    expect(links(machine, 'DEV1')).toEqual(['LOC 5000 GPU1', 'NVL 40 NVS0', 'PCI 24 CPU0']);
    expect(links(machine, 'NVS0')).toEqual(['NVL 61.8 DEV0', 'NVL 40 DEV1']);
    expect(links(machine, 'PCI0')).toEqual(['PCI 24 DEV0', 'PCI 24 NIC0', 'PCI 24 CPU0']);
    expect(links(machine, 'NIC0')).toEqual(['NET 25 NET0', 'PCI 24 PCI0']);
    expect(links(machine, 'NET0')).toEqual(['NET 25 NIC0']);
    expect(links(machine, 'NIC1')).toEqual(['NET 25 NET1', 'NET 25 GIN0', 'NET 25 RMA0', 'PCI 48 CPU1']);
    expect(links(machine, 'CPU0')).toEqual(['PCI 24 PCI0', 'PCI 24 DEV1', 'SYS 22 CPU1']);
    expect(links(machine, 'CPU1')).toEqual(['PCI 48 NIC1', 'SYS 22 CPU0']);
  });

  it('finds a node by its id, the first if several have it, or nothing [C04-05]', () => {
    expect(findNode(machine, 'GPU', 0x13000n)).toBe(machine.nodes.GPU[1]);
    expect(findNode(machine, 'GPU', 0x14000n)).toBeUndefined();
    expect(findNode(machine, 'CXB', 0n)).toBeUndefined();
  });
});

describe('network ports', () => {
  it('may be for the network, for device-initiated and for one-sided traffic [C04-27]', () => {
    const machine = build(
      cpu(
        ARM,
        nicOf(
          '11:00.0',
          {},
          net(3, { net: 1 }),
          net(4, { net: 0, gin: 1 }),
          net(5, { net: 0, rma: 1 }),
          net(6, { net: 0 }),
          net(7, { net: 1, gin: 1, rma: 1 }),
        ),
      ),
    );
    const devs = (type: 'NET' | 'GIN' | 'RMA') => machine.nodes[type].map(({ dev }) => dev);
    expect([devs('NET'), devs('GIN'), devs('RMA')]).toEqual([
      [3, 7],
      [4, 7],
      [5, 7],
    ]);
    expect(links(machine, 'GIN1')).toEqual(['NET 25 NIC0']);
  });

  it('have what the file says, and else what NCCL assumes', () => {
    const told = net(2, {
      latency: 1.5,
      port: 3,
      maxconn: 7,
      coll: 1,
      rail: 4,
      plane: 5,
      speed: 400_000,
      guid: 'beef',
    });
    const machine = build(cpu(ARM, nicOf('11:00.0', {}, told, element('net', { dev: 9 }))));
    const [full, bare] = machine.nodes.NET;
    expect(full).toMatchObject({
      name: 'mlx5_2',
      dev: 2,
      asic: 0xbeefn,
      port: 3,
      bandwidth: 50,
      latency: 1.5,
      gdr: true,
      coll: true,
      maxConnections: 7,
      rail: 4,
      plane: 5,
      pciId: hashText('0000:11:00.0'),
    });
    expect(bare).toMatchObject({
      name: '',
      dev: 9,
      asic: 9n,
      port: 0,
      bandwidth: 1.25,
      latency: 0,
      gdr: false,
      coll: false,
      maxConnections: 64,
      rail: -1,
      plane: -1,
    });
    // Without a device number the port is left out.
    expect(counts(build(cpu(ARM, nicOf('11:00.0', {}, element('net', { name: 'x' })))))).toEqual({
      CPU: 1,
      NIC: 1,
    });
  });

  it('of interfaces without a PCI device share one card, at the first CPU that has some', () => {
    const virtual = (...nets: XmlElement[]) => element('nic', {}, nets);
    const bare = (numaid: number, ...below: XmlElement[]) => cpu({ ...ARM, numaid }, ...below);
    const machine = build(
      bare(0),
      bare(1, virtual(net(0, { guid: '0x77' }), net(1))),
      bare(2, virtual(net(0))),
      cpu({ ...ARM, numaid: 0, host_hash: '0x2000' }, virtual(net(0))),
    );
    expect(ids(machine, 'NIC')).toEqual(['0', '100000000000000']);
    expect(links(machine, 'NIC0')).toEqual(['NET 25 NET0', 'NET 25 NET1', 'NET 25 NET2', 'PCI 5000 CPU1']);
    expect(links(machine, 'CPU1')).toEqual(['PCI 5000 NIC0', 'SYS 6 CPU0', 'SYS 6 CPU2']);
    expect(links(machine, 'CPU2')).toEqual(['SYS 6 CPU0', 'SYS 6 CPU1']);
    expect(ids(machine, 'NET')).toEqual(['0', '1', '0', '100000000000000']);
    // No PCI device above: the id of the card is hashed.
    expect(machine.nodes.NET[0]!.pciId).toBe(hashId(0x77n));
  });

  it('of one card that stands twice are put together, with the links of the first', () => {
    const machine = build(cpu(ARM, nicOf('11:00.0', link(4), net(0)), nicOf('11:00.0', link(5), net(1))));
    expect(links(machine, 'NIC0')).toEqual(['NET 25 NET0', 'NET 25 NET1', 'PCI 24 CPU0']);
  });
});

describe('elements that are left out', () => {
  it('a PCI device with a GPU that no rank uses, with all that is in it', () => {
    const unused = without(gpu('11:00.0', 0), 'x');
    unused.children[0]!.attributes.delete('rank');
    unused.children.push(element('nic', {}, [net(0)]));
    expect(counts(build(cpu(ARM, unused, gpu('12:00.0', 1, { rank: 0 }))))).toEqual({
      GPU: 1,
      CPU: 1,
      DEV: 1,
    });
  });

  it('PCI devices of other kinds', () => {
    const machine = build(
      cpu(
        ARM,
        pci('11:00.0', '0x030200', {}),
        pci('12:00.0', '0x068000', {}),
        pci('13:00.0', '0x068001', {}),
      ),
    );
    expect(counts(machine)).toEqual({ CPU: 1 });
  });

  it('elements of other names, with a line of log', () => {
    expect(logged(cpu(ARM, element('fan')))).toContain('INFO GRAPH Ignoring element fan');
    const root = system(cpu(ARM));
    root.children.push(element('psu'));
    const lines: string[] = [];
    buildSystem(root, { log: (_level, _subsystem, text) => lines.push(text) });
    expect(lines).toEqual(['Loading unnamed topology', 'Ignoring element psu']);
  });

  it('says the name of the topology', () => {
    const root = system(cpu(ARM));
    root.attributes.set('name', 'DGX');
    const lines: string[] = [];
    buildSystem(root, { log: (level, subsystem, text) => lines.push(`${level} ${subsystem} ${text}`) });
    expect(lines).toEqual(['INFO GRAPH Loading topology DGX']);
  });
});

describe('kinds of PCI devices', () => {
  it('go by the beginning of the class, first match first; any unknown class is a switch', () => {
    const kind = (text: string) => {
      const machine = build(cpu(ARM, pci('11:00.0', text, {}, pci('12:00.0', '0x060400', {}))));
      return machine.nodes.PCI.length;
    };
    expect(['0x060400', '0x080100', '0x0604001', '0x120000', '0x088000', ''].map(kind)).toEqual([
      2, 2, 2, 2, 2, 2,
    ]);
    // GPU, NIC, NVSwitch and CPU classes: nothing below them is looked at.
    expect(['0x030000', '0x03', '0x020000', '0x068000', '0x068001'].map(kind)).toEqual([0, 0, 0, 0, 0]);
  });

  it('unknown ones are told, with hints', () => {
    expect(logged(cpu(ARM, pci('11:00.0', '0x120000', {})))).toEqual([
      'INFO GRAPH Loading unnamed topology',
      "INFO GRAPH KV Convert to int : could not find value of '0x120000' in dictionary, falling back to 0",
      'INFO GRAPH HINT: In many cases this issue indicates missing or faulty information in the provided topology file.',
      'INFO GRAPH HINT: To confirm, set NCCL_TOPO_DUMP_FILE=topo.xml to produce the topology NCCL has detected and compare to the one provided.',
    ]);
  });

  it('the same for speeds, architectures and vendors', () => {
    const first = (one: XmlElement) => logged(one).find((line) => line.includes('KV Convert')) ?? 'none';
    const told = (value: string, fallback: number) =>
      `INFO GRAPH KV Convert to int : could not find value of '${value}' in dictionary, falling back to ${fallback}`;
    expect(first(cpu(ARM, pciSwitch('11:00.0', { link_speed: '16.0 GT/s' })))).toBe(told('16.0 GT/s', 60));
    expect(first(cpu(ARM, pciSwitch('11:00.0', { link_speed: '' })))).toBe(told('', 60));
    expect(first(cpu({ arch: 'riscv64' }))).toBe(told('riscv64', 0));
    expect(first(cpu({ arch: 'x86_64', vendor: 'Other' }))).toBe(told('Other', 0));
    expect(first(cpu(MILAN, pciSwitch('11:00.0')))).toBe('none');
  });
});

describe('CPUs', () => {
  const model = (vendor: string, familyid: number, modelid: number) =>
    build(cpu({ arch: 'x86_64', vendor, familyid, modelid })).nodes.CPU[0]!.model;

  it('are of four Intel models, by model number of family 6', () => {
    const intel = (family: number, number: number) => model('GenuineIntel', family, number);
    expect([0xcf, 0xff, 0xce, 0x8f, 0x8e, 0x55, 0x54, 0].map((number) => intel(6, number))).toEqual([
      4, 4, 3, 3, 2, 2, 1, 1,
    ]);
    expect([intel(15, 0xcf), intel(5, 0xcf)]).toEqual([1, 1]);
  });

  it('of Zhaoxin are Yongfeng or others, under both names', () => {
    expect([model('  Shanghai  ', 7, 0x5b), model('CentaurHauls', 7, 0x5b)]).toEqual([1, 1]);
    expect([model('CentaurHauls', 7, 0x5a), model('CentaurHauls', 6, 0x5b)]).toEqual([-1, -1]);
  });

  it('go by the beginning of their texts; only x86 has a vendor', () => {
    const of = (attributes: Attributes) => build(cpu(attributes)).nodes.CPU[0]!;
    expect(of({ arch: 'ppc64le' }).arch).toBe(CpuArch.POWER);
    expect(of({ arch: 'arm64', vendor: 'GenuineIntel' })).toMatchObject({
      arch: CpuArch.ARM,
      vendor: -1,
      model: -1,
    });
    expect(of({ arch: 'riscv64' })).toMatchObject({ arch: CpuArch.UNKNOWN, vendor: -1 });
    expect(
      of({ arch: 'x86_64', vendor: 'GenuineIntel Xeon', familyid: '0x6', modelid: '0x8f' }),
    ).toMatchObject({
      vendor: CpuVendor.INTEL,
      model: 3,
    });
    expect(of({ arch: 'x86_64', vendor: 'x' })).toMatchObject({ vendor: CpuVendor.UNKNOWN, model: -1 });
    expect(of({ ...ARM, affinity: 'ff,0000ffff' }).affinity).toBe('ff,0000ffff');
  });

  it('of one host are joined in pairs, each way with the bandwidth of the CPU it leaves [C04-10]', () => {
    const machine = build(
      cpu({ ...SAPPHIRE_RAPIDS, numaid: 0 }),
      cpu({ ...MILAN, numaid: 1 }),
      cpu({ ...MILAN, numaid: 2, host_hash: '0x2000' }),
    );
    expect([links(machine, 'CPU0'), links(machine, 'CPU1'), links(machine, 'CPU2')]).toEqual([
      ['SYS 22 CPU1'],
      ['SYS 16 CPU0'],
      [],
    ]);
  });

  it('have ids of host and NUMA number; hosts are numbered as they appear [C04-01]', () => {
    const host = (hash: string, numaid: number) => cpu({ ...ARM, host_hash: hash, numaid });
    const machine = build(host('0xb', 0), host('0xa', 0), host('b', 1), host('0xa', -1));
    expect(machine.hosts).toEqual([0xbn, 0xan]);
    expect(ids(machine, 'CPU')).toEqual(['0', '100000000000000', '1', '1ffffffffffffff']);
    expect(buildSystem(system(without(cpu(ARM), 'host_hash'))).hosts).toEqual([0n]);
  });
});

describe('bus ids', () => {
  it('are numbers: colons and dots dropped, at most 16 digits, to the first other character', () => {
    const expected: readonly (readonly [string, bigint])[] = [
      ['0000:3b:00.0', 0x3b000n],
      ['0001:C1:00.0', 0x1c1000n],
      ['00000000:07:00.0', 0x7000n],
      ['fffffff:ffff:ff', 0xfffffffffffffn],
      ['0000:3b:00.0 x', 0x3b000n],
      ['3b-1', 0x3bn],
      ['', 0n],
      ['x', 0n],
      ['123456789abcdef012', 0x123456789abcdef0n],
    ];
    for (const [text, number] of expected) expect(busIdNumber(text), text).toBe(number);
  });

  it('of GPUs have function 0 or 4, because the lower bits hold the partition', () => {
    expect(counts(build(cpu(ARM, gpu('11:00.4', 0)))).GPU).toBe(1);
    for (const bus of ['11:00.1', '11:00.2', '11:00.3', '11:00.5']) {
      const { code, message } = refusal(system(cpu(ARM, gpu(bus, 0))));
      expect(code).toBe('internalError');
      expect(message).toMatch(new RegExp(`<gpu>.*bus id 0000:${bus}.*MLOPart mask 0x3`));
    }
  });
});

describe('NVLink', () => {
  it('to another GPU goes one way; its own links are the other way; an absent peer is nothing', () => {
    const machine = build(
      cpu(
        ARM,
        gpu('11:00.0', 0, { sm: 86, links: [nvlinkTo('12:00.0', 3), nvlinkTo('1f:00.0', 4)] }),
        gpu('12:00.0', 1, { sm: 80, links: [nvlinkTo('11:00.0', 2)] }),
      ),
    );
    expect(links(machine, 'DEV0')).toEqual(['LOC 5000 GPU0', 'NVL 36 DEV1', 'PCI 24 CPU0']);
    expect(links(machine, 'DEV1')).toEqual(['LOC 5000 GPU1', 'NVL 40 DEV0', 'PCI 24 CPU0']);
  });

  it('to any switch, or to something unknown, goes to the one NVSwitch node of all hosts, both ways', () => {
    const to = (tclass: string) => {
      const nvlink = nvswitch(2);
      nvlink.attributes.set('tclass', tclass);
      return build(
        cpu(ARM, gpu('11:00.0', 0, { links: [nvlink] })),
        cpu({ ...ARM, host_hash: '0x2000' }, gpu('11:00.0', 0, { rank: 1, links: [nvswitch(4)] })),
      );
    };
    for (const tclass of ['0x068000', '0x060400', '0x020000', '0x999999']) {
      const machine = to(tclass);
      expect(ids(machine, 'NVS')).toEqual(['0']);
      expect(links(machine, 'NVS0')).toEqual(['NVL 82.4 DEV1', 'NVL 41.2 DEV0']);
      expect(links(machine, 'DEV0')).toContain('NVL 41.2 NVS0');
    }
  });

  it('to a CPU goes to the one above, through switches, both ways', () => {
    const machine = build(
      cpu(POWER, pciSwitch('10:00.0', gpu('11:00.0', 0, { sm: 70, links: [nvlinkToCpu(3)] }))),
    );
    expect(links(machine, 'CPU0')).toEqual(['NVL 60 DEV0', 'PCI 24 PCI0']);
    expect(links(machine, 'DEV0')).toEqual(['LOC 5000 GPU0', 'NVL 60 CPU0', 'PCI 24 PCI0']);
  });

  it('several entries to one target are added up [C04-06]', () => {
    const machine = build(
      cpu(
        ARM,
        gpu('11:00.0', 0, { sm: 80, links: [nvlinkTo('12:00.0', 1), nvlinkTo('12:00.0', 3)] }),
        gpu('12:00.0', 1),
      ),
    );
    expect(links(machine, 'DEV0')).toContain('NVL 80 DEV1');
  });

  it('counts once where several ranks share a GPU: the first speaks for it', () => {
    const shared = pci(
      '11:00.0',
      '0x030200',
      {},
      gpuElement(0, { rank: 0, links: [nvswitch(2)] }),
      gpuElement(0, { rank: 1, links: [nvswitch(5)] }),
    );
    const machine = build(cpu(ARM, shared));
    expect(links(machine, 'NVS0')).toEqual(['NVL 41.2 DEV0']);
    expect(ids(machine, 'GPU')).toEqual(['11000', '10000011000']);
    expect(machine.nodes.DEV[0]!.gpuCount).toBe(2);
    expect(links(machine, 'DEV0')).toEqual([
      'LOC 5000 GPU0',
      'LOC 5000 GPU1',
      'NVL 41.2 NVS0',
      'PCI 24 CPU0',
    ]);
  });

  it('counts again where a document lists the GPU again, as fusion does when one of its attributes changed', () => {
    const again = (rank: number, count: number, speed: Attributes) =>
      gpu('11:00.0', 0, { rank, links: [nvswitch(count)], pci: speed });
    const machine = build(cpu(ARM, again(0, 2, link(4)), again(1, 3, link(3))));
    expect(counts(machine)).toEqual({ GPU: 2, NVS: 1, CPU: 1, DEV: 1 });
    // The PCI link is that of the first.
    expect(links(machine, 'DEV0')).toEqual(['LOC 5000 GPU0', 'LOC 5000 GPU1', 'NVL 103 NVS0', 'PCI 24 CPU0']);
  });
});

describe('GPU partitions (MLOPart) [C04-28]', () => {
  const parts = (...which: number[]) =>
    which.map((mlopart, rank) =>
      gpuElement(0, { rank, mlopart, links: [nvswitch(4), nvlinkTo('12:00.0', 4), c2c(40_000, 10)] }),
    );
  const xml = system(
    cpu(
      ARM,
      pci('11:00.0', '0x030200', {}, ...parts(0, 1)),
      gpu('12:00.0', 1, { rank: 2, links: [nvlinkTo('11:00.0', 4)] }),
    ),
  );

  it('are devices of their own, joined to each other, that share the links of the GPU', () => {
    const machine = buildSystem(xml);
    expect(ids(machine, 'DEV')).toEqual(['11001', '11003', '12000']);
    expect(machine.nodes.DEV.map(({ busId, mloPart }) => [busId, mloPart])).toEqual([
      ['0000:11:00.0', 0],
      ['0000:11:00.0', 1],
      ['0000:12:00.0', -1],
    ]);
    expect(machine.nodes.GPU.map(({ mloPart }) => mloPart)).toEqual([0, 1, -1]);
    // 4 x 20.6 = 82.4, half for each; a bridge to the CPU that both have whole.
    expect(links(machine, 'DEV0')).toEqual([
      'LOC 5000 GPU0',
      'LOC 2618 DEV1',
      'C2C 400 CXB0',
      'NVL 41.2 NVS0',
      'NVL 41.2 DEV2',
      'PCI 24 CPU0',
    ]);
    // The other GPU's 82.4 are shared by both, too.
    expect(links(machine, 'DEV2')).toEqual([
      'LOC 5000 GPU2',
      'NVL 41.2 DEV0',
      'NVL 41.2 DEV1',
      'PCI 24 CPU0',
    ]);
    expect(ids(machine, 'CXB')).toEqual(['11000']);
    expect(links(machine, 'CXB0')).toEqual(['C2C 400 CPU0', 'C2C 400 DEV0', 'C2C 400 DEV1']);
    expect(links(machine, 'CPU0').filter((text) => text.startsWith('C2C'))).toEqual(['C2C 400 CXB0']);
  });

  it('are one device with NCCL_TOPO_SPLIT_MLOPART=0, for which the first speaks', () => {
    const machine = buildSystem(xml, { splitMloPart: false });
    expect(ids(machine, 'DEV')).toEqual(['11000', '12000']);
    expect(links(machine, 'DEV0')).toEqual([
      'LOC 5000 GPU0',
      'LOC 5000 GPU1',
      'NVL 82.4 NVS0',
      'NVL 82.4 DEV1',
      'PCI 24 CPU0',
      'C2C 400 CPU0',
    ]);
    expect(counts(machine).CXB).toBeUndefined();
  });

  it('are two at most', () => {
    const { code, message } = refusal(system(cpu(ARM, pci('11:00.0', '0x030200', {}, ...parts(2)))));
    expect(code).toBe('internalError');
    expect(message).toBe('<gpu>: MLOPart index 2 out of range (max 1)');
  });
});

describe('other links', () => {
  it('chip-to-chip: MB/s times their number, to the CPU above, both ways', () => {
    const machine = build(cpu(ARM, pciSwitch('10:00.0', gpu('11:00.0', 0, { links: [c2c(44_712, 10)] }))));
    expect(links(machine, 'DEV0')).toEqual(['LOC 5000 GPU0', 'C2C 447.12 CPU0', 'PCI 24 PCI0']);
    expect(links(machine, 'CPU0')).toEqual(['C2C 447.12 DEV0', 'PCI 24 PCI0']);
    // Both links go upwards; it is the first of them that becomes the last.
    const direct = build(cpu(ARM, gpu('11:00.0', 0, { links: [c2c(44_712, 10)] })));
    expect(links(direct, 'DEV0')).toEqual(['LOC 5000 GPU0', 'PCI 24 CPU0', 'C2C 447.12 CPU0']);
  });

  it('between switches: one way, local, and nothing to a switch that is not there', () => {
    const machine = build(
      cpu(ARM, pciSwitch('10:00.0', pciLink('20:00.0'), pciLink('30:00.0')), pciSwitch('20:00.0')),
    );
    expect(links(machine, 'PCI0')).toEqual(['LOC 5000 PCI1', 'PCI 24 CPU0']);
    expect(links(machine, 'PCI1')).toEqual(['PCI 24 CPU0']);
  });
});

describe('order of links', () => {
  it('is decreasing bandwidth, the link upwards last, except in CPUs [C04-06, C04-10]', () => {
    const machine = build(
      cpu(
        ARM,
        pciSwitch(
          '10:00.0',
          link(5),
          gpu('11:00.0', 0, { pci: link(3) }),
          pciSwitch('12:00.0', link(4)),
          nic('13:00.0', 0, {}, link(5)),
          gpu('14:00.0', 1, { pci: link(4) }),
        ),
        gpu('15:00.0', 2, { pci: link(6) }),
      ),
    );
    expect(links(machine, 'PCI0')).toEqual([
      'PCI 48 NIC0',
      'PCI 24 PCI1',
      'PCI 24 DEV1',
      'PCI 12 DEV0',
      'PCI 48 CPU0',
    ]);
    expect(links(machine, 'CPU0')).toEqual(['PCI 96 DEV2', 'PCI 48 PCI0']);
  });
});

describe('two-level Broadcom switches', () => {
  const gen4 = (subsystem: string): Attributes => ({
    vendor: '0x1000',
    device: '0xc010',
    subsystem_vendor: '0x1000',
    subsystem_device: subsystem,
  });
  const gen5 = (subsystem: string): Attributes => ({ ...gen4(subsystem), device: '0xc030' });
  const tree = (upper: Attributes, lower: Attributes, other: Attributes) =>
    build(
      cpu(
        ARM,
        pciSwitch(
          '10:00.0',
          { ...upper, ...link(5) },
          pciSwitch('11:00.0', lower, gpu('12:00.0', 0, { pci: link(5) }), nic('13:00.0', 0)),
          pciSwitch('14:00.0', other, gpu('15:00.0', 1)),
          gpu('16:00.0', 2, { pci: link(3) }),
        ),
      ),
    );

  it('of the fourth generation become one, which takes over what hangs below [C04-09]', () => {
    const machine = tree(gen4('0xa001'), gen4('0xa002'), gen4('0xa003'));
    expect(machine.nodes.PCI.map(({ busId, index }) => [busId, index])).toEqual([['0000:10:00.0', 0]]);
    // What was below the lower switches follows in their order, not sorted; the link upwards is the last.
    expect(links(machine, 'PCI0')).toEqual([
      'PCI 12 DEV2',
      'PCI 48 DEV0',
      'PCI 24 NIC0',
      'PCI 24 DEV1',
      'PCI 48 CPU0',
    ]);
    expect(links(machine, 'DEV0')).toEqual(['LOC 5000 GPU0', 'PCI 48 PCI0']);
    expect(links(machine, 'NIC0')).toEqual(['NET 25 NET0', 'PCI 24 PCI0']);
    expect(machine.nodes.PCI[0]!.device & 0xffffn).toBe(0xffffn);
  });

  it('stay where the lower one is another device', () => {
    expect(tree(gen4('0xa001'), gen4('0xb002'), gen4('0xa003')).nodes.PCI.map(({ busId }) => busId)).toEqual([
      '0000:10:00.0',
      '0000:11:00.0',
    ]);
    expect(tree(gen4('0xa001'), gen5('0x1002'), {}).nodes.PCI.length).toBe(3);
    expect(tree({}, gen4('0xa002'), {}).nodes.PCI.length).toBe(3);
  });

  it('of the fifth generation have their level in the device number [C04-09]', () => {
    expect(tree(gen5('0x0001'), gen5('0x1001'), gen5('0x1002')).nodes.PCI.length).toBe(1);
    expect(tree(gen5('0x0001'), gen5('0x0002'), gen5('0x1002')).nodes.PCI.length).toBe(2);
    expect(tree(gen5('0x1001'), gen5('0x1002'), gen5('0x1003')).nodes.PCI.length).toBe(3);
  });

  it('give their links to other switches, too', () => {
    const machine = build(
      cpu(
        ARM,
        pciSwitch('10:00.0', gen4('0xa001'), pciSwitch('11:00.0', gen4('0xa002'), pciLink('20:00.0'))),
        pciSwitch('20:00.0', pciLink('11:00.0')),
      ),
    );
    expect(links(machine, 'PCI0')).toEqual(['LOC 5000 PCI1', 'PCI 24 CPU0']);
    expect(links(machine, 'PCI1')).toEqual(['LOC 5000 PCI0', 'PCI 24 CPU0']);
  });
});

describe('what a document must say', () => {
  const box = (change: (parts: Record<string, XmlElement>) => void): XmlElement => {
    const nvlink = nvswitch(1);
    const chip = c2c(1, 1);
    const gpuPci = gpu('11:00.0', 0, { links: [nvlink, chip] });
    const wire = pciLink('10:00.0');
    const switchPci = pciSwitch('10:00.0', gpuPci, wire);
    const socket = cpu(SAPPHIRE_RAPIDS, switchPci);
    const parts = { cpu: socket, pci: switchPci, gpu: gpuPci.children[0]!, nvlink, c2c: chip, pcilink: wire };
    change(parts);
    return system(socket);
  };

  it.each([
    ['cpu', ['numaid', 'arch', 'vendor', 'familyid', 'modelid']],
    ['pci', ['busid', 'class', 'link_speed', 'link_width']],
    ['gpu', ['dev', 'sm', 'gdr']],
    ['nvlink', ['count', 'tclass']],
    ['c2c', ['bw', 'count']],
    ['pcilink', ['target']],
  ])('%s: %s', (name, attributes) => {
    expect(() => buildSystem(box(() => {}))).not.toThrow();
    for (const attribute of attributes) {
      const { code, message } = refusal(box((parts) => parts[name]!.attributes.delete(attribute)));
      expect([code, message]).toEqual(['internalError', `<${name}>: attribute ${attribute} is missing`]);
    }
  });

  it('the target of an NVLink, if it is a GPU; and vendor and model of x86 CPUs only', () => {
    const linked = nvlinkTo('12:00.0', 1);
    linked.attributes.delete('target');
    expect(refusal(system(cpu(ARM, gpu('11:00.0', 0, { links: [linked] })))).message).toBe(
      '<nvlink>: attribute target is missing',
    );
    expect(() => buildSystem(system(cpu({ arch: 'x86_64', vendor: 'AuthenticAMD' })))).not.toThrow();
    expect(() => buildSystem(system(cpu(ARM)))).not.toThrow();
  });

  it('with the line, where it comes from a file', () => {
    const broken = pciSwitch('10:00.0');
    broken.line = 7;
    broken.attributes.delete('class');
    expect(refusal(system(cpu(ARM, broken))).message).toBe('<pci> on line 7: attribute class is missing');
  });

  it('this host, if it is asked for', () => {
    const root = system(cpu(ARM), cpu({ ...ARM, host_hash: '0x2000' }));
    expect(() => buildSystem(root, { localHost: 0x2000n })).not.toThrow();
    const { code, message } = refusal(root, { localHost: 0x3000n });
    expect(code).toBe('invalidArgument');
    expect(message).toMatch(
      /localHostHash = 0x3000 not found in the list of system hostHashes \(0x1000, 0x2000\)/,
    );
  });
});
