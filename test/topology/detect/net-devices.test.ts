/** Network devices: interfaces, InfiniBand ports, which plugin is used, and their elements. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { detectTopology } from '#src/topology/detect/detect.js';
import { ibPlugin } from '#src/topology/detect/ib-devices.js';
import type { Machine } from '#src/topology/detect/machine.js';
import { netPlugins } from '#src/topology/detect/net-plugins.js';
import { socketDevices } from '#src/topology/detect/socket-devices.js';
import type { NetDevice, NetPlugin } from '#src/topology/net-device.js';
import type { Environment } from '#src/topology/settings.js';
import { writeXml } from '#src/topology/xml/write.js';
import { gpuFacts, type PciValues, SKYLAKE, SyntheticMachine } from './synthetic-machine.js';

const folder = mkdtempSync(join(tmpdir(), 'tutti-net-'));
afterAll(() => rmSync(folder, { recursive: true }));

const HCA: PciValues = { class: '0x020700', vendor: '0x15b3', device: '0x101b' };
const folderOf = (id: string) => `/sys/devices/pci${id.slice(0, 7)}/${id}`;

/** Adapters on buses of their own, each with active ports. */
function adapters(
  list: Readonly<Record<string, string>>,
  ports: readonly PciValues[] = [{}],
): SyntheticMachine {
  const machine = new SyntheticMachine().raw('/proc/cpuinfo', SKYLAKE).node(0, 'f');
  let number = 0;
  for (const [name, id] of Object.entries(list)) {
    machine.pci([id], HCA).infiniband(name, folderOf(id), ports, `0c42:a103:0051:${String(9000 + number++)}`);
  }
  return machine;
}

const ib = (machine: SyntheticMachine, env: Environment = {}, options = {}) =>
  ibPlugin(machine.machine().files, env, () => {}, options).devices;
const brief = (devices: readonly NetDevice[]) => devices.map(({ name, port }) => `${name}:${port}`);

describe('an InfiniBand port', () => {
  test('has speed, guid as NCCL prints it, path of function 0, port number and the usual limits', () => {
    const machine = new SyntheticMachine().pci(['0000:3b:00.1'], HCA);
    machine.infiniband('mlx5_0', folderOf('0000:3b:00.1'), [{}], '0c42:a103:0051:9378');
    expect(ib(machine)).toEqual([
      {
        name: 'mlx5_0',
        pciPath: folderOf('0000:3b:00.0'),
        speed: 200_000,
        port: 1,
        latency: 0,
        guid: 0x7893510003a1420cn,
        maxConnections: 131_072,
        gdr: false,
      },
    ]);
  });

  test.each([
    ['2.5 Gb/sec (1X SDR)', 2500],
    ['10 Gb/sec (4X SDR)', 10_000],
    ['20 Gb/sec (4X DDR)', 20_000],
    ['40 Gb/sec (4X QDR)', 40_000],
    ['56 Gb/sec (4X FDR)', 56_000],
    ['100 Gb/sec (4X EDR)', 100_000],
    ['400 Gb/sec (4X NDR)', 400_000],
    ['800 Gb/sec (4X XDR)', 800_000],
    ['fast', 0],
    [undefined, 0],
  ])('of rate %s has %i Mbit/s', (rate, speed) => {
    expect(ib(adapters({ mlx5_0: '0000:3b:00.0' }, [{ rate }]))[0]!.speed).toBe(speed);
  });

  test('counts only when it is active and InfiniBand or Ethernet', () => {
    const ports = [
      { state: '1: DOWN' },
      { state: '2: INIT' },
      { state: undefined },
      { link_layer: 'Unspecified' },
      { link_layer: undefined },
      { link_layer: 'Ethernet' },
      {},
    ];
    expect(brief(ib(adapters({ mlx5_0: '0000:3b:00.0' }, ports)))).toEqual(['mlx5_0:6', 'mlx5_0:8']);
  });

  test('reaches GPU memory through a peer memory module, or DMA-BUF where the caller knows of it', () => {
    const one = () => adapters({ mlx5_0: '0000:3b:00.0' });
    const gdr = (machine: SyntheticMachine, options = {}) => ib(machine, {}, options)[0]!.gdr;
    expect(gdr(one())).toBe(false);
    expect(gdr(one(), { dmaBuf: true })).toBe(true);
    expect(gdr(one().file('/sys/module/nvidia_peermem/version', '580.1'))).toBe(true);
    expect(gdr(one().file('/sys/kernel/mm/memory_peers/nv_mem/version', '1.1'))).toBe(true);
  });

  test('without a PCI device, as of software adapters, has no path and its own port number', () => {
    const machine = new SyntheticMachine();
    for (const name of ['rxe0', 'rxe1']) {
      machine.infiniband(name, '/sys/devices/virtual', [{ link_layer: 'Ethernet' }]);
      machine.without(`/sys/devices/virtual/infiniband/${name}/device`);
    }
    expect(ib(machine).map(({ pciPath }) => pciPath)).toEqual([undefined, undefined]);
    expect(brief(ib(machine))).toEqual(['rxe0:1', 'rxe1:1']);
  });
});

describe('several InfiniBand ports', () => {
  test('of one card have one path; a later device on it continues the port numbers', () => {
    const machine = adapters({ mlx5_0: '0000:3b:00.0', mlx5_1: '0000:3b:00.1' });
    const devices = ib(machine);
    expect(new Set(devices.map(({ pciPath }) => pciPath))).toEqual(new Set([folderOf('0000:3b:00.0')]));
    expect(brief(devices)).toEqual(['mlx5_0:1', 'mlx5_1:2']);
    expect(brief(ib(adapters({ mlx5_0: '0000:3b:00.0' }, [{}, {}])))).toEqual(['mlx5_0:1', 'mlx5_0:3']);
  });

  test('of virtual functions are merged into function 0 of device 0, unless NCCL_IB_MERGE_VFS is 0', () => {
    const machine = adapters({ mlx5_0: '0000:3b:00.0', mlx5_1: '0000:3b:02.3' });
    expect(ib(machine).map(({ pciPath, port }) => [pciPath!.slice(-12), port])).toEqual([
      ['0000:3b:00.0', 1],
      ['0000:3b:00.0', 2],
    ]);
    expect(
      ib(machine, { NCCL_IB_MERGE_VFS: '0' }).map(({ pciPath, port }) => [pciPath!.slice(-12), port]),
    ).toEqual([
      ['0000:3b:00.0', 1],
      ['0000:3b:02.0', 1],
    ]);
  });

  test('come in the order of their paths, or of their names with NCCL_IB_DEVICE_PCI_ORDER 0', () => {
    const machine = adapters({ mlx5_10: '0000:1b:00.0', mlx5_2: '0000:3b:00.0', mlx5_0: '0000:9b:00.0' });
    expect(brief(ib(machine))).toEqual(['mlx5_10:1', 'mlx5_2:1', 'mlx5_0:1']);
    expect(brief(ib(machine, { NCCL_IB_DEVICE_PCI_ORDER: '0' }))).toEqual([
      'mlx5_0:1',
      'mlx5_2:1',
      'mlx5_10:1',
    ]);
  });

  test.each([
    ['mlx5_1', ['mlx5_1:1', 'mlx5_10:1']],
    ['=mlx5_1', ['mlx5_1:1']],
    ['^mlx5_1', ['mlx5_0:1']],
    ['^=mlx5_1', ['mlx5_0:1', 'mlx5_10:1']],
    ['=mlx5_0:2,mlx5_1:1', ['mlx5_1:1']],
    ['=mlx5_0:1,mlx5_10', ['mlx5_0:1', 'mlx5_10:1']],
    ['', ['mlx5_0:1', 'mlx5_1:1', 'mlx5_10:1']],
  ])('are chosen by NCCL_IB_HCA=%s', (NCCL_IB_HCA, expected) => {
    const machine = adapters({ mlx5_0: '0000:1b:00.0', mlx5_1: '0000:2b:00.0', mlx5_10: '0000:3b:00.0' });
    expect(brief(ib(machine, { NCCL_IB_HCA }))).toEqual(expected);
  });

  test('have the rail and plane that NCCL_IB_HCA attaches to their names', () => {
    const machine = adapters({ mlx5_0: '0000:1b:00.0', mlx5_1: '0000:2b:00.0' });
    const env = { NCCL_IB_HCA: '=mlx5_0:1:4:2,mlx5_1' };
    expect(ib(machine, env).map(({ rail, plane }) => [rail, plane])).toEqual([
      [4, 2],
      [undefined, undefined],
    ]);
  });

  test('are at most 32', () => {
    const list = Array.from({ length: 40 }, (_, index) => [
      `mlx5_${index}`,
      `0000:${(16 + index).toString(16)}:00.0`,
    ]);
    expect(ib(adapters(Object.fromEntries(list)))).toHaveLength(32);
  });
});

describe('interfaces', () => {
  test('have the speed of sysfs or 10 Gbit/s, their number as guid, and the path of their device', () => {
    const machine = new SyntheticMachine().pci(['0000:3b:00.0'], HCA);
    machine
      .interface('eth0', folderOf('0000:3b:00.0'), '100000')
      .interface('eth1', undefined, '-1')
      .interface('eth2');
    const log: string[] = [];
    const interfaces = ['eth0', 'eth1', 'eth2', 'lo'].map((name, index) => ({
      name,
      address: `192.0.2.${index + 1}`,
      family: 'IPv4' as const,
      prefixLength: 24,
      internal: name === 'lo',
    }));
    const devices = socketDevices(machine.machine().files, interfaces, {}, (_level, _subsystem, text) =>
      log.push(text),
    );
    const usual = { port: 0, latency: 0, maxConnections: 65_536, gdr: false };
    expect(devices).toEqual([
      { name: 'eth0', pciPath: folderOf('0000:3b:00.0'), speed: 100_000, guid: 0n, ...usual },
      { name: 'eth1', speed: 10_000, guid: 1n, ...usual },
      { name: 'eth2', speed: 10_000, guid: 2n, ...usual },
    ]);
    expect(log).toEqual(
      ['eth1', 'eth2'].map(
        (name) => `Could not get speed from /sys/class/net/${name}/speed. Defaulting to 10 Gbps.`,
      ),
    );
    const only = socketDevices(machine.machine().files, interfaces, { NCCL_SOCKET_IFNAME: '=eth2' });
    expect(only.map(({ name, guid }) => [name, guid])).toEqual([['eth2', 0n]]);
  });
});

describe('the plugin in use', () => {
  const names = (machine: Machine, env: Environment = {}) =>
    netPlugins(machine.files, machine.interfaces, env).map(({ kind, name }) => [kind, name]);
  const withIb = () => adapters({ mlx5_0: '0000:1b:00.0' });

  test('is IB where it has devices, else sockets, else none', () => {
    expect(names(withIb().machine())).toEqual([['net', 'IB']]);
    expect(names(new SyntheticMachine().machine())).toEqual([['net', 'Socket']]);
    expect(names(new SyntheticMachine().machine({ interfaces: [] }))).toEqual([]);
  });

  test('follows NCCL_IB_DISABLE and NCCL_NET in any case', () => {
    expect(names(withIb().machine(), { NCCL_IB_DISABLE: '1' })).toEqual([['net', 'Socket']]);
    expect(names(withIb().machine(), { NCCL_NET: 'SOCKET' })).toEqual([['net', 'Socket']]);
    expect(names(withIb().machine(), { NCCL_NET: 'ib' })).toEqual([['net', 'IB']]);
    for (const [machine, NCCL_NET] of [
      [new SyntheticMachine().machine(), 'IB'],
      [withIb().machine(), 'ofi'],
    ] as const) {
      expect(() => names(machine, { NCCL_NET })).toThrow(
        expect.objectContaining({
          code: 'invalidUsage',
          message: expect.stringContaining(`NCCL_NET=${NCCL_NET}`),
        }),
      );
    }
  });
});

describe('net elements', () => {
  const device = (name: string, more: Partial<NetDevice> = {}): NetDevice => ({
    name,
    speed: 1000,
    port: 1,
    latency: 2.9,
    guid: 0xffff_ffff_ffff_ffffn,
    maxConnections: 5,
    gdr: true,
    ...more,
  });
  const netLines = (machine: Machine, plugins: readonly NetPlugin[], log: string[] = []) =>
    writeXml(
      detectTopology({ machine, plugins, gpus: [], log: (_level, _subsystem, text) => log.push(text) }),
    )
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => /<net|<nic|<pci|<\/nic/.test(line));

  test('carry the flags of the plugins that share a device, in the order of GIN, RMA, CollNet, NET', () => {
    const plugins = (['net', 'coll', 'rma', 'gin'] as const).map((kind, index): NetPlugin => {
      const first = device('mlx5_0', { rail: 3, plane: 0 });
      const devices = index === 3 ? [device('other'), first] : [first];
      return { kind, name: kind.toUpperCase(), devices };
    });
    const log: string[] = [];
    expect(netLines(new SyntheticMachine().machine(), plugins, log)).toEqual([
      '<nic>',
      '<net name="other" dev="0" latency="2" speed="1000" port="1" guid="0xffffffffffffffff" maxconn="5" gdr="1" net="0" gin="1"/>',
      '<net name="mlx5_0" dev="0" latency="2" speed="1000" port="1" rail="3" plane="0" guid="0xffffffffffffffff" maxconn="5" gdr="1" net="1" gin="1" rma="1" coll="1"/>',
      '</nic>',
    ]);
    expect(log).toContain('TOPO/NET : Changing RMA dev index from 1 to 0');
    expect(log).toContain("NET/GIN : GPU Direct RDMA Enabled for HCA 1 'mlx5_0'");
  });

  const twoPorts = (ports?: readonly PciValues[]) =>
    adapters({ mlx5_0: '0000:3b:00.0', mlx5_1: '0000:3b:00.1' }, ports).machine();
  const PCI =
    '<pci busid="0000:3b:00.0" class="0x020700" vendor="0x15b3" device="0x101b" subsystem_vendor="0x10b5" subsystem_device="0x8747" link_speed="8.0 GT/s PCIe" link_width="0">';
  const SINGLE = [
    '<net name="mlx5_0" dev="0" latency="0" speed="200000" port="1" guid="0x90510003a1420c" maxconn="131072" gdr="0" net="1"/>',
    '<net name="mlx5_1" dev="1" latency="0" speed="200000" port="2" guid="0x190510003a1420c" maxconn="131072" gdr="0" net="1"/>',
  ];
  const JOINED =
    '<net name="mlx5_0+mlx5_1" dev="2" latency="0" speed="400000" port="1" guid="0x90510003a1420c" maxconn="131072" gdr="0" net="1"/>';
  const netLinesWith = (machine: Machine, env: Environment) =>
    netLines({ ...machine, environment: env }, netPlugins(machine.files, machine.interfaces, env));

  test('of ports of one card share a nic below its pci element; one virtual device stands for them', () => {
    expect(netLinesWith(twoPorts(), {})).toEqual([PCI, '<nic>', JOINED, '</nic>']);
  });

  test('of ports of one card stay single where the user or the plugin does not want them joined', () => {
    const single = [PCI, '<nic>', ...SINGLE, '</nic>'];
    expect(netLinesWith(twoPorts(), { NCCL_NET_MERGE_LEVEL: 'LOC' })).toEqual(single);
    expect(netLinesWith(twoPorts(), { NCCL_IB_MERGE_NICS: '0' })).toEqual(single);
    // One port each of InfiniBand and Ethernet: the second device's port has another link layer.
    const mixed = adapters({ mlx5_0: '0000:3b:00.0' });
    mixed.infiniband('mlx5_1', folderOf('0000:3b:00.0'), [{ link_layer: 'Ethernet' }]);
    expect(netLinesWith(mixed.machine(), {}).filter((line) => line.startsWith('<net'))).toHaveLength(2);
  });

  test('of cards behind one switch are joined on request, behind a device of their own, or refused', () => {
    const machine = new SyntheticMachine().raw('/proc/cpuinfo', SKYLAKE).node(0, 'f');
    const root = ['0000:10:01.0', '0000:11:00.0'];
    machine.pci(root.slice(0, 1)).pci(root);
    for (const [index, bus] of ['13', '14'].entries()) {
      const chain = [...root, `0000:12:0${index}.0`, `0000:${bus}:00.0`];
      machine.pci(chain.slice(0, 3)).pci(chain, { ...HCA, max_link_width: '16' });
      machine.infiniband(`mlx5_${index}`, `/sys/devices/pci0000:10/${chain.join('/')}`, [{}]);
    }
    const lines = netLinesWith(machine.machine(), { NCCL_NET_MERGE_LEVEL: 'PIX' });
    expect(lines.map((line) => /(?:busid|name|link_width)="[^"]*"/g.exec(line)?.[0] ?? line)).toEqual([
      'busid="0000:11:00.0"',
      'busid="0000:13:00.1"',
      '<nic>',
      'name="mlx5_0+mlx5_1"',
      '</nic>',
    ]);
    expect(lines[1]).toContain('link_width="32"');
    expect(() => netLinesWith(machine.machine(), { NCCL_NET_FORCE_MERGE: 'mlx5_0,mlx5_7' })).toThrow(
      expect.objectContaining({ code: 'invalidUsage' }),
    );
  });

  test('are single in a dumped file, and joined in the document that is used', () => {
    const path = join(folder, 'dump.xml');
    const machine = twoPorts();
    const env = { NCCL_TOPO_DUMP_FILE: path };
    const xml = writeXml(detectTopology({ machine, env, gpus: [] }));
    expect(xml).toContain('mlx5_0+mlx5_1');
    const dumped = readFileSync(path, 'utf8');
    for (const line of SINGLE) expect(dumped).toContain(line);
    expect(dumped).not.toContain('mlx5_0+mlx5_1');
    // A file with the single ports leads to the joined device again.
    const again = { NCCL_TOPO_FILE: path };
    expect(writeXml(detectTopology({ machine, env: again, gpus: [] }))).toBe(xml);
  });

  test('are kept single beside a GPU only where they are not joined', () => {
    const gpu = adapters({ mlx5_0: '0000:3b:00.0', mlx5_1: '0000:3b:00.1' }).pci(['0000:08:00.0'], {
      class: '0x030200',
    });
    const machine = gpu.machine({ nvml: gpuFacts(['0000:08:00.0']) });
    const found = (env: Environment) =>
      [...writeXml(detectTopology({ machine, env })).matchAll(/<net name="([^"]*)" dev="(\d)"/g)].map(
        ([, name, dev]) => `${name} ${dev}`,
      );
    expect(found({})).toEqual(['mlx5_0+mlx5_1 2']);
    expect(found({ NCCL_NET_MERGE_LEVEL: 'LOC' })).toEqual(['mlx5_0 0', 'mlx5_1 1']);
  });

  test('of devices that are not on the PCI bus hang below the first processor', () => {
    const machine = new SyntheticMachine().node(0, 'f').node(1, 'f0');
    const virtio = '/sys/devices/pci0000:00/0000:00:03.0/virtio2';
    machine.pci(['0000:00:03.0'], { class: '0x020000' }).file(`${virtio}/vendor`, '0x1af4');
    machine
      .link(`${virtio}/subsystem`, '../../../../bus/virtio')
      .interface('eth0', virtio)
      .interface('veth0');
    const log: string[] = [];
    const plugins: NetPlugin[] = [
      {
        kind: 'net',
        name: 'Socket',
        devices: [
          device('eth0', { pciPath: virtio }),
          device('gone', { pciPath: '/sys/absent' }),
          device('veth0'),
        ],
      },
    ];
    const lines = netLines(machine.machine(), plugins, log);
    expect(lines.map((line) => /<net name="(\w+)"/.exec(line)?.[1] ?? line)).toEqual([
      '<nic>',
      'eth0',
      'gone',
      'veth0',
      '</nic>',
    ]);
    expect(log.filter((line) => line.startsWith('Topology detection: network path'))).toEqual([
      `Topology detection: network path (name = eth0) ${virtio} is not a PCI device (virtio). Attaching to first CPU`,
      'Topology detection: network path (name = gone) /sys/absent is not a PCI device (). Attaching to first CPU',
    ]);
  });
});
