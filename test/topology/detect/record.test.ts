/** Recordings: they describe the machine as it was, identify nobody, and damaged ones are refused. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { hostname, networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import type { TuttiError } from '#src/errors/tutti-error.js';
import { detectTopology } from '#src/topology/detect/detect.js';
import { directoryTree } from '#src/topology/detect/directory-tree.js';
import { liveMachine, type Machine } from '#src/topology/detect/machine.js';
import { machineRecord, recordMachine } from '#src/topology/detect/record-machine.js';
import { FACTS_FILE, recordedMachine } from '#src/topology/detect/recorded-machine.js';
import { readArchive, writeArchive } from '#src/topology/detect/tar.js';
import type { Environment } from '#src/topology/settings.js';
import { writeXml } from '#src/topology/xml/write.js';
import { gpuFacts, machineOf, SKYLAKE, SyntheticMachine } from './synthetic-machine.js';

const folder = mkdtempSync(join(tmpdir(), 'tutti-record-'));
afterAll(() => rmSync(folder, { recursive: true }));

const xmlOf = (machine: Machine, env?: Environment, gpus?: []) =>
  writeXml(detectTopology({ machine, ...(env && { env }), ...(gpus && { gpus }) }));

/** Two sockets, GPUs behind a switch, adapters with two ports, a hidden part, a topology file, identities. */
function server(): SyntheticMachine {
  const machine = new SyntheticMachine().node(0, 'ff').node(1, 'ff00');
  machine.raw(
    '/proc/cpuinfo',
    `${SKYLAKE}serial\t\t: 00000000deadbeef\n\nprocessor\t: 1\nvendor_id\t: GenuineIntel\n`,
  );
  machine.file('/proc/sys/kernel/random/boot_id', 'b007b007-0000');
  const up = ['0000:16:01.0', '0000:17:00.0'];
  machine
    .pci(up.slice(0, 1))
    .pci(up, { vendor: '0x1000' })
    .pci([...up, '0000:18:00.0'])
    .pci([...up, '0000:18:04.0']);
  machine.pci([...up, '0000:18:00.0', '0000:19:00.0'], { class: '0x030200', serial_number: 'a-b-c' });
  const hca = [...up, '0000:18:04.0', '0000:1a:00.0'];
  machine.pci(hca, { class: '0x020700', vendor: '0x15b3', vpd: 'SERIAL123' });
  const path = `/sys/devices/pci0000:16/${hca.join('/')}`;
  machine.infiniband('mlx5_0', path, [{}, {}], '0c42:a103:0051:9378').interface('ib0', path, '200000');
  machine.file(`${path}/net/ib0/address`, 'a0:00:01:00:fe:80');
  machine.pci(['0000:88:00.0'], { class: '0x030200', numa_node: '1' });
  machine.pci(['0000:89:00.0'], { class: '0x010802', serial: 'DISK999' });
  const links = '/sys/kernel/pci_switch_link/virtual_switch_links';
  return machine.file(`${links}/0000:17:00.0/0000:88:00.0`, '1').interface('eth0', path, '25000');
}

const fabric = { state: 3, status: 0, clusterUuid: '5ec2e7'.padEnd(32, '1'), cliqueId: 4, healthMask: 0 };
const NVML = gpuFacts(['0000:19:00.0', '0000:88:00.0'], { fabric, chassisSerial: 'CHASSIS42' });
const serverMachine = () => server().machine({ nvml: NVML, hostHash: 0x1234n });

/** Identities of cards and hosts are replaced, and nothing else. */
const withoutGuids = (xml: string) => xml.replace(/(guid|host_hash)="[^"]*"/g, '$1=""');

function recorded(machine: Machine, env: Environment = {}): Machine {
  const path = join(folder, 'machine.tgz');
  writeFileSync(path, machineRecord(machine, env));
  return recordedMachine(path);
}

describe('a recording', () => {
  test('of this machine describes it as live detection does, with and without its settings', () => {
    const path = join(folder, 'live.tgz');
    const machine = liveMachine();
    for (const env of [{}, { NCCL_SOCKET_IFNAME: 'lo' }]) {
      const bytes = recordMachine(path, machine, env);
      expect(bytes).toBe(statSync(path).size);
      expect(bytes).toBeLessThan(200_000);
      expect(withoutGuids(xmlOf(recordedMachine(path)))).toBe(withoutGuids(xmlOf(machine, env)));
      expect(withoutGuids(xmlOf(recordedMachine(path), {}, []))).toBe(withoutGuids(xmlOf(machine, {}, [])));
    }
  });

  test('of this machine names neither it nor its addresses', () => {
    const text = gunzipSync(machineRecord(liveMachine())).toString('latin1');
    const addresses = Object.values(networkInterfaces()).flatMap((list) =>
      (list ?? []).map(({ mac }) => mac),
    );
    for (const mac of addresses.filter((one) => one !== '00:00:00:00:00:00')) expect(text).not.toContain(mac);
    if (hostname().length > 3) expect(text).not.toContain(hostname());
    const bootId = liveMachine().files.text('/proc/sys/kernel/random/boot_id')?.trim();
    if (bootId !== undefined) expect(text).not.toContain(bootId);
  });

  test('of a server gives the same documents with InfiniBand and with sockets, with GPUs and without', () => {
    const machine = serverMachine();
    const copy = recorded(machine);
    for (const env of [{}, { NCCL_NET: 'Socket' }, { NCCL_IB_HCA: 'mlx5_0:2' }, { NCCL_IB_MERGE_VFS: '0' }]) {
      expect(withoutGuids(xmlOf(copy, env))).toBe(withoutGuids(xmlOf(machine, env)));
      expect(withoutGuids(xmlOf(copy, env, []))).toBe(withoutGuids(xmlOf(machine, env, [])));
    }
    expect(xmlOf(copy)).toContain('<pcilink target="0000:88:00.0"/>');
    expect(copy.files.text('/proc/cpuinfo')).toBe(SKYLAKE.replace(/^processor.*\n/, ''));
  });

  test('contains no serial numbers, addresses and identities, of whatever part', () => {
    const machine = serverMachine();
    const secret = {
      ...machine,
      interfaces: machine.interfaces.map((one) => ({ ...one, address: '10.11.12.13' })),
    };
    const text = gunzipSync(
      machineRecord(secret, { NCCL_TOPO_FILE: '/home/alice/x', HOME: '/home/alice' }),
    ).toString('latin1');
    const hidden = ['a-b-c', 'SERIAL123', 'DISK999', 'deadbeef', 'b007b007', 'a0:00:01', '9378', 'CHASSIS42'];
    for (const one of [...hidden, '5ec2e7', '10.11.12.13', 'alice']) expect(text).not.toContain(one);
    expect(text).toContain('0000:19:00.0');
  });

  test('keeps equal identities equal: ports of one card, hosts of one NVLink domain', () => {
    const machine = serverMachine();
    const [a, b] = [recorded(machine), recorded(machine)];
    const guids = [...xmlOf(a).matchAll(/guid="([^"]*)"/g)].map(([, guid]) => guid);
    expect(new Set(guids).size).toBe(1);
    expect(guids[0]).not.toBe('0x7893510003a1420c');
    // Cards of different hosts are never compared, so their hashes may differ; domains are.
    for (const one of ['fabric', 'chassisSerial'] as const) {
      expect(a.nvml!.devices[0]![one]).toEqual(b.nvml!.devices[1]![one]);
    }
    expect(a.nvml!.devices[0]!.fabric).toMatchObject({ state: 3, cliqueId: 4 });
  });

  test('keeps the topology file of a virtual machine, with the identities of cards replaced', () => {
    const path = '/var/run/nvidia-topologyd/virtualTopology.xml';
    const file =
      '<!-- of acme --><system version="1" name="acme" owner="acme">of acme<cpu numaid="0"><nic><net name="eth0" guid="0xabcdef12"/></nic></cpu></system>';
    // As on most systems, the folder is a link out of /var.
    const machine = server().link('/var/run', '/run').raw(path.replace('/var/run', '/run'), file).machine();
    const env = { NCCL_NET: 'Socket' };
    const xml = xmlOf(recorded(machine), env);
    expect(withoutGuids(xml)).toBe(
      withoutGuids(xmlOf(machine, env)).replace('name="acme" owner="acme"', 'name="system"'),
    );
    expect(xml).not.toContain('abcdef12');
    expect(gunzipSync(machineRecord(machine, env)).toString('latin1')).not.toMatch(/acme|abcdef12/);
  });

  test('keeps the settings that change what is found, and detection uses them', () => {
    const machine = serverMachine();
    const env = { NCCL_NET: 'Socket', PATH: '/bin' };
    const copy = recorded(machine, env);
    expect(copy.environment).toEqual({ NCCL_NET: 'Socket' });
    expect(withoutGuids(xmlOf(copy))).toBe(withoutGuids(xmlOf(machine, env)));
  });

  test('has another hash of the host each time, the same all through one recording', () => {
    const path = '/var/run/nvidia-topologyd/virtualTopology.xml';
    const file = '<system version="1"><cpu numaid="0" host_hash="0x1234"/></system>';
    const machine = server().raw(path, file).machine({ nvml: NVML, hostHash: 0x1234n });
    const copies = [recorded(machine), recorded(machine)];
    const hashes = copies.map((copy) =>
      [...xmlOf(copy).matchAll(/host_hash="([^"]*)"/g)].map(([, hash]) => hash),
    );
    for (const own of hashes) {
      expect(own.length).toBeGreaterThan(1);
      expect(new Set(own).size).toBe(1);
    }
    expect(new Set([...hashes.flat(), '0x1234']).size).toBe(3);
    expect(gunzipSync(machineRecord(machine)).toString('latin1')).not.toContain('0x1234');
  });

  test('has numbers for names of devices that somebody chose, and filters that let the same devices through', () => {
    const named = new SyntheticMachine().node(0, 'ff').raw('/proc/cpuinfo', SKYLAKE);
    const place = (at: number) => `/sys/devices/pci0000:16/0000:16:0${at}.0`;
    const names = ['acme0', 'acme1', 'eth0', 'enx0c42a1519378', 'ibacme'];
    for (const [at, name] of names.entries()) {
      named.pci([`0000:16:0${at}.0`], { class: '0x020000' }).interface(name, place(at), `${at + 1}0000`);
      named.infiniband(`${name}_rdma`, place(at), [{}, {}], `0c42:a103:0051:937${at}`);
    }
    const interfaces = names.map((name, at) => ({
      name,
      address: `10.0.0.${at}`,
      family: 'IPv4' as const,
      prefixLength: 24,
      internal: false,
    }));
    const queuePairs = new Map([['acme0_rdma', 77]]);
    const machine = named.machine({ nvml: gpuFacts(['0000:16:00.0']), interfaces, queuePairs });
    /** What detection says, a refusal too, without names. */
    const outcome = (one: Machine, env: Environment) => {
      try {
        return withoutGuids(xmlOf(one, env)).replace(/ name="[^"]*"/g, '');
      } catch (error) {
        return (error as TuttiError).code;
      }
    };
    const filters = [
      '',
      'acme',
      '^acme',
      '=acme0',
      '^=acme0',
      'acme1,eth',
      'absent',
      '^',
      'x',
      'e',
      'ib',
      'acme0,acme',
    ];
    for (const env of [
      ...filters.map((filter) => ({ NCCL_NET: 'Socket', NCCL_SOCKET_IFNAME: filter })),
      ...filters.map((filter) => ({ NCCL_IB_HCA: filter, NCCL_NET_MERGE_LEVEL: 'LOC' })),
      { NCCL_IB_HCA: 'acme:2:5:6' },
      { NCCL_NET_FORCE_MERGE: 'acme0_rdma:1,acme1_rdma:3' },
      { NCCL_NET_FORCE_MERGE: 'acme0_rdma,absent' },
    ]) {
      const bytes = machineRecord(machine, env);
      expect(gunzipSync(bytes).toString('latin1')).not.toMatch(/acme|519378/);
      const path = join(folder, 'named.tgz');
      writeFileSync(path, bytes);
      const copy = recordedMachine(path);
      expect(outcome(copy, copy.environment), JSON.stringify(env)).toBe(outcome(machine, env));
    }
  });

  test('has of other variables what NCCL makes of them', () => {
    const env = {
      NCCL_NET: 'Acme',
      NCCL_SOCKET_FAMILY: 'acme',
      NCCL_IB_DISABLE: '0acme',
      NCCL_IB_MERGE_VFS: '',
      NCCL_NET_MERGE_LEVEL: 'PIXacme',
      NCCL_NET_MERGE_POLICY: 'acme',
      NCCL_HOSTID: 'acme',
    };
    expect(recorded(serverMachine(), env).environment).toEqual({
      NCCL_NET: 'unknown',
      NCCL_IB_DISABLE: '0',
      NCCL_NET_MERGE_LEVEL: 'PIX',
      NCCL_NET_MERGE_POLICY: 'unknown',
    });
  });

  test('tells why NVML has no facts, unless the reason names a place', () => {
    const without = (nvmlProblem: string) => recorded(server().machine({ nvmlProblem })).nvmlProblem;
    expect(without('there is no driver')).toBe('there is no driver');
    expect(without('cannot load /home/acme/x.so')).toBe('machine.tgz holds no facts of NVML');
  });

  test('tells what the PCI devices are that no topology holds', () => {
    const disk = recorded(serverMachine()).files;
    expect(disk.text('/sys/bus/pci/devices/0000:89:00.0/vendor')).toBe('0x10b5\n');
    expect(disk.text('/sys/bus/pci/devices/0000:89:00.0/max_link_width')).toBeUndefined();
  });

  test('can be made of a machine that detection refuses', () => {
    const machine = server().raw('/var/run/nvidia-topologyd/virtualTopology.xml', '<nonsense').machine();
    expect(() => xmlOf(machine)).toThrow();
    expect(() => xmlOf(recorded(machine))).toThrow(expect.objectContaining({ name: 'TuttiError' }));
  });

  test('can be unpacked, and read as a directory', () => {
    const path = join(folder, 'machine.tgz');
    writeFileSync(path, machineRecord(serverMachine()));
    const unpacked = join(folder, 'unpacked');
    mkdirSync(unpacked);
    execFileSync('tar', ['xzf', path, '-C', unpacked]);
    expect(xmlOf(recordedMachine(unpacked))).toBe(xmlOf(recordedMachine(path)));
  });

  test('that cannot be written is an error that names the file', () => {
    const path = join(folder, 'no', 'folder.tgz');
    expect(() => recordMachine(path, serverMachine())).toThrow(
      expect.objectContaining({ code: 'systemError', message: expect.stringContaining(path) }),
    );
  });
});

describe('a copy of /sys that somebody made', () => {
  test('is found one or two folders down, and its interfaces are those that were up', () => {
    for (const prefix of ['', 'copy', 'a/b']) {
      const entries = server().entries.map((entry) => ({ ...entry, path: join(prefix, entry.path) }));
      const path = join(folder, 'copy.tgz');
      writeFileSync(path, writeArchive(entries));
      const machine = recordedMachine(path);
      expect(machine.interfaces.map(({ name }) => name)).toEqual(['eth0', 'ib0']);
      expect(machine.nvml).toBeUndefined();
      expect(machine.nvmlProblem).toContain('copy.tgz');
      expect(machine.cpu).toMatchObject({ arch: 'x86_64', family: 6, model: 85 });
      expect(xmlOf(machine)).toContain('<net name="mlx5_0+mlx5_0"');
    }
  });

  test('as a directory gives what the tree in memory gives', () => {
    const root = join(folder, 'tree');
    server().unpack(root);
    const machine = machineOf(directoryTree(root), { nvml: NVML });
    expect(xmlOf(machine)).toBe(xmlOf(server().machine({ nvml: NVML })));
  });
});

describe('what is no recording', () => {
  const open = (bytes: Uint8Array) => {
    const path = join(folder, 'bad.tgz');
    writeFileSync(path, bytes);
    return recordedMachine(path);
  };
  const refusal = (message: RegExp) =>
    expect.objectContaining({ code: 'invalidArgument', message: expect.stringMatching(message) });

  test('is refused with the reason: absent, empty, text, another archive', () => {
    expect(() => recordedMachine(join(folder, 'absent.tgz'))).toThrow(refusal(/absent\.tgz.*no such file/));
    expect(() => open(new Uint8Array())).toThrow(refusal(/is not a readable archive/));
    expect(() => open(Buffer.alloc(2048, 'text'))).toThrow(refusal(/no tar header at byte 0/));
    expect(() => open(writeArchive([{ kind: 'directory', path: 'etc' }]))).toThrow(
      refusal(/neither sys\/class nor sys\/devices.*--record/),
    );
  });

  /** A recording with other facts. */
  function withFacts(change: (facts: Record<string, unknown>) => unknown): Uint8Array {
    const entries = readArchive(machineRecord(serverMachine()), 'x').map((entry) => {
      if (entry.path !== FACTS_FILE || entry.kind !== 'file') return entry;
      const facts = JSON.parse(Buffer.from(entry.bytes).toString());
      return { ...entry, bytes: Buffer.from(JSON.stringify(change(facts)) ?? '') };
    });
    return writeArchive(entries);
  }

  test('is refused when its facts are wrong, and the message names the fact', () => {
    const cases: readonly [(facts: Record<string, unknown>) => unknown, RegExp][] = [
      [() => undefined, /is not JSON text/],
      [() => 5, /form/],
      [(facts) => ({ ...facts, format: 'x' }), /format/],
      [(facts) => ({ ...facts, version: 2 }), /version: it is 2, this version of tutti reads 1/],
      [(facts) => ({ ...facts, hostHash: '12' }), /hostHash/],
      [(facts) => ({ ...facts, cpu: { arch: 'x86"64' } }), /arch of cpu/],
      [(facts) => ({ ...facts, interfaces: [{ name: '../x' }] }), /name of an interface/],
      [(facts) => ({ ...facts, interfaces: {} }), /list of interfaces/],
      [(facts) => ({ ...facts, environment: { NCCL_NET: 1 } }), /environment/],
      [(facts) => ({ ...facts, queuePairs: { mlx5_0: -1 } }), /queuePairs/],
      [(facts) => ({ ...facts, queuePairs: [] }), /queuePairs/],
      [(facts) => ({ ...facts, nvml: { devices: 3 } }), /list of devices/],
    ];
    for (const [change, message] of cases) expect(() => open(withFacts(change))).toThrow(refusal(message));
    expect(() => open(withFacts((facts) => facts))).not.toThrow();
  });

  test('is refused or described, never anything else, when bytes of it are damaged', () => {
    const bytes = gunzipSync(machineRecord(serverMachine()));
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.integer({ min: 0, max: 255 })), {
          minLength: 1,
          maxLength: 40,
        }),
        (changes) => {
          const damaged = Buffer.from(bytes);
          for (const [at, value] of changes) damaged[at] = value;
          try {
            xmlOf(open(damaged));
          } catch (error) {
            expect(error).toMatchObject({ name: 'TuttiError' });
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});
