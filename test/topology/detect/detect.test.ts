/** The order of work: topology files, host hash, dumps, hosts without GPUs, limits. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { archiveTree } from '#src/topology/detect/archive-tree.js';
import { detectTopology } from '#src/topology/detect/detect.js';
import { effectiveHostHash, hostHashOf } from '#src/topology/detect/host-hash.js';
import { liveMachine } from '#src/topology/detect/machine.js';
import { traceTree } from '#src/topology/detect/tracing-tree.js';
import { hashText } from '#src/topology/hash.js';
import type { Environment } from '#src/topology/settings.js';
import { writeXml } from '#src/topology/xml/write.js';
import { gpuFacts, machineOf, SKYLAKE, SyntheticMachine } from './synthetic-machine.js';

const folder = mkdtempSync(join(tmpdir(), 'tutti-detect-'));
afterAll(() => rmSync(folder, { recursive: true }));

const BUS_IDS = ['0000:08:00.0', '0000:88:00.0'];

function twoSockets(): SyntheticMachine {
  const machine = new SyntheticMachine().raw('/proc/cpuinfo', SKYLAKE).node(0, 'f').node(1, 'f0');
  machine.pci([BUS_IDS[0]!], { class: '0x030200' });
  machine.pci([BUS_IDS[1]!], { class: '0x030200', numa_node: '1' });
  const port = '/sys/devices/pci0000:90/0000:90:00.0';
  machine.pci(['0000:90:00.0'], { class: '0x020000', vendor: '0x15b3', numa_node: '1' });
  return machine.interface('eth0', port, '25000');
}

const NIC_LINES = [
  '    <pci busid="0000:90:00.0" class="0x020000" vendor="0x15b3" device="0x8747" subsystem_vendor="0x10b5" subsystem_device="0x8747" link_speed="8.0 GT/s PCIe" link_width="0">',
  '      <nic>',
  '        <net name="eth0" dev="0" latency="0" speed="25000" port="0" guid="0x0" maxconn="65536" gdr="0" net="1"/>',
  '      </nic>',
  '    </pci>',
];

function run(env: Environment = {}, log: string[] = []): string {
  const machine = twoSockets().machine({ nvml: gpuFacts(BUS_IDS) });
  return writeXml(
    detectTopology({
      machine,
      env,
      log: (level, subsystem, text) => log.push(`${level} ${subsystem} ${text}`),
    }),
  );
}

/** Writes a file into the folder and gives its path. */
function put(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

describe('a host with GPUs', () => {
  test('has processors in the order in which the first rank met them, then those of later ranks', () => {
    const lines = run().trimEnd().split('\n');
    expect(
      lines.filter((line) => /<cpu|<gpu|<net/.test(line)).map((line) => line.trim().slice(0, 40)),
    ).toEqual([
      '<cpu host_hash="0xabc" numaid="0" affini',
      '<gpu dev="0" sm="80" rank="0" gdr="1" ml',
      '<cpu host_hash="0xabc" numaid="1" affini',
      '<net name="eth0" dev="0" latency="0" spe',
      '<gpu dev="1" sm="80" rank="1" gdr="1" ml',
    ]);
    expect(lines).toEqual(expect.arrayContaining(NIC_LINES));
  });

  test('has the host hash of NCCL_HOSTID where that is set', () => {
    const log: string[] = [];
    const xml = run({ NCCL_HOSTID: 'node-17' }, log);
    expect(xml).toContain(`host_hash="0x${hashText('node-17').toString(16)}"`);
    expect(xml).not.toContain('0xabc');
    expect(log).toContain('INFO ENV NCCL_HOSTID set by environment to node-17');
  });

  test('refuses to describe more elements than NCCL can, also when a file alone has fewer [C04-04]', () => {
    const fits = Array.from({ length: 250 }, (_, index) => `<pci busid="x${index}" class="0x02"/>`).join(
      '\n',
    );
    const full = put('full.xml', `<system version="1"><cpu numaid="0">${fits}</cpu></system>`);
    expect(() => run({ NCCL_TOPO_FILE: full })).toThrow(
      expect.objectContaining({ code: 'internalError', message: expect.stringContaining('256 elements') }),
    );
  });
});

describe('NCCL_TOPO_FILE', () => {
  test('gives names, places and attributes that detection keeps, except host hash and class [C04-02]', () => {
    const log: string[] = [];
    const file = put(
      'given.xml',
      `<system version="1" name="mine">
  <cpu numaid="7" host_hash="0x5" affinity="abc" arch="arm64">
    <pci busid="0000:08:00.0" class="0x099999" vendor="0x1234" link_speed="2.5 GT/s PCIe" link_width="1"/>
    <nic>
      <net name="eth0" dev="4" speed="1" guid="0x99"/>
    </nic>
  </cpu>
</system>`,
    );
    const lines = run({ NCCL_TOPO_FILE: file }, log).split('\n');
    expect(lines.slice(0, 8)).toEqual([
      '<system version="1" name="mine">',
      '  <cpu numaid="7" host_hash="0xabc" affinity="abc" arch="arm64" vendor="GenuineIntel" familyid="6" modelid="85">',
      '    <pci busid="0000:08:00.0" class="0x030200" vendor="0x1234" link_speed="2.5 GT/s PCIe" link_width="1" device="0x20b0" subsystem_vendor="0x10de" subsystem_device="0x134f">',
      '      <gpu dev="0" sm="80" rank="0" gdr="1" mlopart="-1"/>',
      '    </pci>',
      '    <nic>',
      '      <net name="eth0" dev="0" speed="1" guid="0x99" latency="0" port="0" maxconn="65536" gdr="0" net="1"/>',
      '    </nic>',
    ]);
    expect(log).toEqual(
      expect.arrayContaining([
        `INFO ENV NCCL_TOPO_FILE set by environment to ${file}`,
        `INFO GRAPH Loading topology file ${file}`,
        'INFO GRAPH Loading topology mine',
        'INFO GRAPH TOPO/NET : Changing Socket dev index from 4 to 0',
      ]),
    );
  });

  test('takes nothing from elements of a file that NCCL ignores', () => {
    // The kind of net that a plugin's device would be found in, and a GPU, both where NCCL does not look for them.
    const file = put(
      'ignored.xml',
      `<system version="1">
  <rack>
    <net name="eth0" speed="1" guid="0x99"/>
  </rack>
  <cpu numaid="1" host_hash="0x5" affinity="f0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <nic>
      <net name="lo" speed="1">
        <speed/>
      </net>
    </nic>
    <notes>
      <nic>
        <net name="eth0" speed="2" guid="0x98"/>
      </nic>
      <pci busid="0000:08:00.0" class="0x030200" link_speed="2.5 GT/s PCIe" link_width="1"/>
    </notes>
  </cpu>
</system>`,
    );
    const log: string[] = [];
    const xml = run({ NCCL_TOPO_FILE: file }, log);
    expect(xml).not.toMatch(/rack|notes|0x9[89]|2\.5 GT/);
    expect(xml).toContain(NIC_LINES.join('\n'));
    // Once for each of the two ranks; what stands below a net is skipped silently.
    const ignored = ['rack', 'notes'].map((name) => `INFO GRAPH Ignoring element ${name}`);
    expect(log.filter((line) => line.includes('Ignoring'))).toEqual([...ignored, ...ignored]);
  });

  test('keeps a family without model, the uses of a NIC, and the place of what has no bus id', () => {
    const file = put(
      'partial.xml',
      `<system version="1">
  <cpu numaid="0" host_hash="0x5" affinity="abc" arch="x86_64" vendor="GenuineIntel" familyid="15">
    <nic>
      <net name="eth0" net="1" coll="0"/>
    </nic>
  </cpu>
</system>`,
    );
    const machine = twoSockets().machine({ nvml: gpuFacts(BUS_IDS.slice(0, 1)) });
    const device = { name: 'eth0', speed: 1, port: 0, latency: 0, guid: 0n, maxConnections: 1, gdr: false };
    const plugins = [{ kind: 'coll', name: 'SHARP', devices: [device] }] as const;
    const xml = writeXml(detectTopology({ machine, plugins, env: { NCCL_TOPO_FILE: file } }));
    const [, cpu, nic, net, , pci] = xml.split('\n').map((line) => line.trim());
    expect(cpu).toMatch(/familyid="15">$/);
    expect(nic).toBe('<nic>');
    expect(net).toMatch(/^<net name="eth0" net="1" coll="0" dev="0"/);
    expect(pci).toMatch(/^<pci busid="0000:08:00\.0"/);
  });

  test('that cannot be opened is said, and detection begins with nothing', () => {
    const log: string[] = [];
    const file = join(folder, 'absent.xml');
    expect(run({ NCCL_TOPO_FILE: file }, log)).toBe(run());
    expect(log).toContain(`INFO GRAPH Could not open XML topology file ${file} : no such file or directory`);
  });

  test('with an error is refused as NCCL refuses it', () => {
    const file = put('bad.xml', '<system version="2"></system>');
    expect(() => run({ NCCL_TOPO_FILE: file })).toThrow(expect.objectContaining({ code: 'invalidUsage' }));
  });

  test("can be this host's own dump: the same comes out again [C04-25]", () => {
    const dump = join(folder, 'dump.xml');
    const first = run({ NCCL_TOPO_DUMP_FILE: dump });
    expect(run({ NCCL_TOPO_FILE: dump })).toBe(first);
  });

  test('has a default place, which is used without a word when it is absent', () => {
    const log: string[] = [];
    run({}, log);
    expect(log.filter((line) => line.includes('topology file'))).toEqual([]);
    const path = '/var/run/nvidia-topologyd/virtualTopology.xml';
    const machine = twoSockets().raw(
      path,
      '<system version="1"><cpu numaid="3"><nic><net name="eth0"/></nic></cpu></system>',
    );
    const xml = writeXml(detectTopology({ machine: machine.machine({ nvml: gpuFacts(BUS_IDS) }) }));
    expect(xml).toMatch(/<cpu numaid="3" host_hash="0xabc">\n {4}<nic>\n {6}<net name="eth0" dev="0"/);
  });
});

describe('NCCL_TOPO_DUMP_FILE', () => {
  test('gets the fused document, from rank 0 or the rank that is named', () => {
    for (const [rank, expected] of [
      [undefined, true],
      ['1', true],
      ['2', false],
    ] as const) {
      const file = join(folder, `dump-${rank}.xml`);
      const log: string[] = [];
      const env = {
        NCCL_TOPO_DUMP_FILE: file,
        ...(rank === undefined ? {} : { NCCL_TOPO_DUMP_FILE_RANK: rank }),
      };
      const xml = run(env, log);
      expect(log.includes(`INFO ENV NCCL_TOPO_DUMP_FILE set by environment to ${file}`)).toBe(expected);
      if (expected) expect(readFileSync(file, 'utf8')).toBe(xml);
      else expect(() => readFileSync(file)).toThrow('ENOENT');
    }
  });

  test('that cannot be written is said, and nothing fails', () => {
    const log: string[] = [];
    const file = join(folder, 'no', 'such', 'folder.xml');
    expect(run({ NCCL_TOPO_DUMP_FILE: file }, log)).toBe(run());
    expect(log).toContain(`INFO GRAPH Unable to open ${file}, not dumping topology.`);
  });
});

describe('a host without GPUs', () => {
  test('shows all its NUMA nodes with processors, and its NICs', () => {
    const machine = twoSockets().node(2, '00000000,00000000').node(10, '00000f00').node(3);
    const xml = writeXml(detectTopology({ machine: machine.machine() }));
    const cpu = (rest: string) =>
      `  <cpu host_hash="0xabc" ${rest} arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"`;
    expect(xml.trimEnd().split('\n')).toEqual([
      '<system version="1">',
      `${cpu('numaid="0" affinity="f"')}/>`,
      `${cpu('numaid="1" affinity="f0"')}>`,
      ...NIC_LINES,
      '  </cpu>',
      `${cpu('numaid="3"')}/>`,
      `${cpu('numaid="10" affinity="00000f00"')}/>`,
      '</system>',
    ]);
  });

  test('has one processor and its interfaces where there is no /sys, as on other systems than Linux', () => {
    const cpu = { arch: 'arm64', name: 'Apple M3' };
    const machine = new SyntheticMachine().machine({ cpu });
    expect(writeXml(detectTopology({ machine })).split('\n')).toEqual([
      '<system version="1">',
      '  <cpu host_hash="0xabc" numaid="0" arch="arm64">',
      '    <nic>',
      '      <net name="eth0" dev="0" latency="0" speed="10000" port="0" guid="0x0" maxconn="65536" gdr="0" net="1"/>',
      '    </nic>',
      '  </cpu>',
      '</system>',
      '',
    ]);
  });

  test('has a processor even without any network', () => {
    const machine = new SyntheticMachine().machine({ interfaces: [] });
    expect(writeXml(detectTopology({ machine }))).toBe(
      '<system version="1">\n  <cpu host_hash="0xabc" numaid="0"/>\n</system>\n',
    );
  });

  test('is this machine, whatever it is: a document with a processor comes out', () => {
    const machine = liveMachine();
    const document = detectTopology({ machine, env: {}, gpus: [] });
    const first = document.children.find(({ name }) => name === 'cpu');
    expect(first?.attributes.get('arch')).toBe({ x64: 'x86_64' }[process.arch as string] ?? process.arch);
    expect(first?.attributes.get('host_hash')).toBe(`0x${machine.hostHash.toString(16)}`);
  });
});

test('the driver of Broadcom switches is made to look at its links again', () => {
  const path = '/sys/kernel/pci_switch_link/refresh_switch_toplogy';
  const { tree, seen } = traceTree(archiveTree(twoSockets().file(path, '').entries));
  detectTopology({ machine: machineOf(tree), plugins: [] });
  expect(seen.get(path)).toEqual({ kind: 'file', text: '\n' });
});

describe('the host hash', () => {
  test('is that of host name and boot id, of the name alone without one, of NCCL_HOSTID in their place', () => {
    const files = new SyntheticMachine()
      .file('/proc/sys/kernel/random/boot_id', '802ea6a5-3711')
      .machine().files;
    expect(hostHashOf('node1', files)).toBe(hashText('node1802ea6a5-3711'));
    expect(hostHashOf('node1', new SyntheticMachine().machine().files)).toBe(hashText('node1'));
    expect(effectiveHostHash(1n, { NCCL_HOSTID: 'x' })).toBe(hashText('x'));
    expect(effectiveHostHash(1n, { NCCL_HOSTID: '' })).toBe(1n);
  });
});
