/** `tutti topo` as a user calls it. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { machineRecord } from '#src/topology/detect/record-machine.js';
import { gpuFacts, SKYLAKE, SyntheticMachine } from '../../topology/detect/synthetic-machine.js';

const MAIN = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url));
const GOLDEN = join(import.meta.dirname, '../../golden');
const H200 = join(GOLDEN, 'hgx-h200-vastai/topo.xml');
const REAL = join(GOLDEN, 'real-2xH200');

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tutti-topo-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs the command; variables of NCCL and of terminals that happen to be set here do not count. */
function topo(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(?:NCCL_|COLUMNS$|(?:FORCE|NO)_COLOR$)/.test(name),
  );
  return spawnSync(process.execPath, [MAIN, 'topo', ...args], {
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...Object.fromEntries(own), ...env },
  });
}

/** A file with this text. */
function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

describe('tutti topo', () => {
  it('says in one sentence what a machine is, then shows it, its paths, channels and orders', () => {
    const { status, stdout, stderr } = topo(['--file', H200]);
    expect(stderr).toBe('');
    expect(status).toBe(0);
    expect(stdout).toMatch(
      /^8 H200 SXM \(sm 90\) on 2 NUMA nodes, NVSwitch \(370\.8 GB\/s per GPU\), 1 NIC of 10 Gbit\/s; 1 node, 8 ranks\n/,
    );
    const titles = ['Machine', 'Paths', 'Channels', 'Rings', 'Trees'];
    const places = titles.map((title) => stdout.search(new RegExp(`^${title}`, 'm')));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places).not.toContain(-1);
    expect(stdout).toMatch(/Ring +12 x 30 +360/);
  });

  it('describes this machine, with or without GPUs', () => {
    const { status, stdout } = topo([]);
    expect(status).toBe(0);
    expect(stdout).toMatch(/NUMA node/);
    expect(stdout).toMatch(/^CPU \d+/m);
    // The one that runs the tests may have GPUs; one without says so first.
    const { nRanks, summary } = JSON.parse(topo(['--json']).stdout);
    if (nRanks === 0) {
      expect(summary).toMatch(/^No GPUs: .+ NCCL would have no ranks here$/);
      expect(stdout.replaceAll('\n  ', ' ')).toContain(summary);
    }
  });

  it('says that a split host counts as several nodes', () => {
    const { stdout } = topo([join(GOLDEN, 'l40s-x4-2socket-2x200g/topo.xml')]);
    expect(stdout).toMatch(/NCCL treats this host as 2 nodes/);
  });

  it('counts ranks through several machines of different kinds', () => {
    const other = join(GOLDEN, 'dgx-a100-8x200g/topo.xml');
    const { status, stdout } = topo([
      join(GOLDEN, 'azure-ndv5-h100x8-8x400g/topo.xml'),
      other,
      '--nodes=3',
      '--json',
    ]);
    expect(status).toBe(0);
    const { nRanks, machines, nodes } = JSON.parse(stdout);
    expect(nRanks).toBe(24);
    expect(machines.map((one: { nodes: number[] }) => one.nodes)).toEqual([[0], [1, 2]]);
    expect(nodes.map((one: { machine: number }) => one.machine)).toEqual([0, 1, 1]);
  });

  it('joins nodes to one NVLink domain', () => {
    const tray = join(GOLDEN, 'gb200-nvl72-tray/topo.xml');
    expect(JSON.parse(topo([tray, '--nodes=4', '--json']).stdout).nNodes).toBe(4);
    expect(JSON.parse(topo([tray, '--nodes=4', '--mnnvl', '--json']).stdout).nNodes).toBe(1);
    expect(JSON.parse(topo([tray, '--nodes=4', '--clique=2', '--json']).stdout).nNodes).toBe(2);
  });

  it('shows what one rank has', () => {
    const { status, stdout } = topo([join(GOLDEN, 'dgx-a100-8x200g/topo.xml'), '--nodes=2', '--rank=9']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/^Rank 9: A100 SXM4 at 0f:00\.0, device 1, rank 1 of node 1$/m);
    expect(stdout).toMatch(/^Rings: previous, next$/m);
    expect(stdout).toMatch(/mlx5_\d through GPU \d+/);
  });

  it('prints the lines of a rank as NCCL logs them', () => {
    const { status, stdout } = topo([join(REAL, 'topo-2.xml'), '--no-nvls', '--log', '--rank=1']);
    expect(status).toBe(0);
    const lines = stdout.split('\n');
    expect(lines[0]).toBe('=== System : maxBw 370.8 totalBw 370.8 ===');
    expect(lines).toContain('Ring 00 : 0 -> 1 -> 0');
    expect(lines).toContain(
      '24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer',
    );
    const logged = readFileSync(join(REAL, 'log-2.txt'), 'utf8');
    for (const line of lines.filter((text) => /^(?:Tree \d|Ring|Trees)/.test(text))) {
      expect(logged).toContain(`[1] NCCL INFO ${line}`);
    }
  });

  it('explains', () => {
    const { status, stdout } = topo([join(GOLDEN, 'dgx-a100-8x200g/topo.xml'), '--explain']);
    expect(status).toBe(0);
    expect(stdout).toMatch(/NVLinks from GPU 0 to the NVSwitch.* 240 of 240 GB\/s/);
  });

  it('uses no colours where the output is no terminal, unless it is asked to', () => {
    expect(topo([H200]).stdout).not.toContain('\u001b');
    expect(topo([H200], { FORCE_COLOR: '1' }).stdout).toContain('\u001b[32mGPU 0\u001b[39m');
  });

  it('keeps to the width that COLUMNS says, whatever it shows', () => {
    const machine = join(GOLDEN, 'l40s-x4-2socket-2x200g/topo.xml');
    for (const args of [[], ['--explain'], ['--rank=0']]) {
      const { stdout } = topo([machine, ...args], { COLUMNS: '44' });
      for (const line of stdout.split('\n')) expect([...line].length, line).toBeLessThanOrEqual(44);
    }
  });

  it('honours variables of NCCL', () => {
    const plain = JSON.parse(topo([H200, '--json']).stdout);
    const changed = JSON.parse(
      topo([H200, '--json'], { NCCL_MAX_NCHANNELS: '4', NCCL_NVLS_ENABLE: '0' }).stdout,
    );
    expect(plain.channels).toHaveLength(24);
    expect(plain.nvls).not.toBeNull();
    expect(changed.channels).toHaveLength(4);
    expect(changed.nvls).toBeNull();
  });
});

describe('notes', () => {
  it('on variables go to the error output, and into JSON', () => {
    const env = { NCCL_P2P_LEVEL: 'sys', NCCL_P2PLEVEL: 'SYS', NCCL_IB_HCA: 'mlx5_0', NCCL_ALGO: 'Ring' };
    const said = [
      'NCCL has no variable NCCL_P2PLEVEL (did you mean NCCL_P2P_LEVEL?)',
      'NCCL_P2P_LEVEL=sys is ignored by NCCL; write SYS',
      'NCCL_IB_HCA has no effect on a topology file, only where a machine is looked at',
      'NCCL_ALGO has no effect on the topology; tutti tune shows what it changes',
    ];
    const { stderr, stdout, status } = topo([H200, '--json'], env);
    expect(status).toBe(0);
    expect(stderr).toBe(said.map((text) => `tutti topo: ${text}\n`).join(''));
    expect(JSON.parse(stdout).notes).toEqual(said);
    // Where a machine is looked at, the variables of detection count.
    expect(topo(['--json'], { NCCL_IB_DISABLE: '1' }).stderr).not.toMatch(/NCCL_IB_DISABLE/);
  });

  it('name options that have no effect', () => {
    const { stderr } = topo([
      join(GOLDEN, 'rtx3090-x8-2switch/topo.xml'),
      '--nvls',
      '--sm=90',
      '--nic-gbits=100',
    ]);
    expect(stderr).toMatch(/--sm has no effect: the file describes every GPU itself/);
    expect(stderr).toMatch(/--nic-gbits has no effect: the file describes every network card itself/);
    expect(stderr).toMatch(/--nvls has no effect: no NVSwitch joins the GPUs\n/);
    expect(topo([H200, '--nvls']).stderr).toBe('');
    expect(topo(['--sm=90', '--nvlinks=3']).stderr).toMatch(
      /--sm and --nvlinks have no effect on a machine, only on a template/,
    );
  });
});

describe('the files of tutti topo', () => {
  it('may be the standard input and output, in place of the text', () => {
    const text = readFileSync(H200, 'utf8');
    const dumped = spawnSync(process.execPath, [MAIN, 'topo', '-', '--dump', '-'], {
      encoding: 'utf8',
      input: text,
    });
    expect(dumped.status).toBe(0);
    expect(dumped.stdout).toBe(text);
    expect(topo([H200, '--svg=-']).stdout).toMatch(/^<svg [\s\S]*<\/svg>\n$/);
    expect(topo([H200, '--graph-dump=-']).stdout).toMatch(/^<graphs version="1">\n[\s\S]*<\/graphs>\n$/);
    expect(existsSync('-')).toBe(false);
    const wrong = spawnSync(process.execPath, [MAIN, 'topo', '-'], { encoding: 'utf8', input: '<graphs/>' });
    expect(wrong.stderr).toMatch(/^tutti topo: standard input/);
  });

  it('are those that NCCL writes', () => {
    const [topology, graphs] = [join(folder, 't.xml'), join(folder, 'g.xml')];
    const args = [join(REAL, 'topo-2.xml'), '--no-nvls', '--dump', topology, '--graph-dump', graphs];
    expect(topo(args).status).toBe(0);
    expect(readFileSync(topology, 'utf8')).toBe(readFileSync(join(REAL, 'topo-2.xml'), 'utf8'));
    // NCCL 2.28.9 did not write ranks yet.
    const before = readFileSync(graphs, 'utf8').replace(/ rank="\d+"/g, '');
    expect(before).toBe(readFileSync(join(REAL, 'graph-2.xml'), 'utf8'));
  });

  it('are written for NCCL_TOPO_DUMP_FILE and NCCL_GRAPH_DUMP_FILE, too', () => {
    const env = {
      NCCL_TOPO_DUMP_FILE: join(folder, 'env-t.xml'),
      NCCL_GRAPH_DUMP_FILE: join(folder, 'env-g.xml'),
      NCCL_GRAPH_DUMP_FILE_RANK: '8',
    };
    const azure = join(GOLDEN, 'azure-ndv5-h100x8-8x400g/topo.xml');
    expect(topo([azure, '--nodes=2'], env).status).toBe(0);
    expect(existsSync(env.NCCL_TOPO_DUMP_FILE)).toBe(true);
    expect(readFileSync(env.NCCL_GRAPH_DUMP_FILE, 'utf8')).toMatch(/<gpu dev="0x1" rank="9"\/>/);
  });

  it('take the place of searches as NCCL_GRAPH_FILE', () => {
    const graphs = readFileSync(join(REAL, 'graph-2.xml'), 'utf8');
    const halved = file('half.xml', graphs.replaceAll('nchannels="12"', 'nchannels="6"'));
    const { stdout, status } = topo([join(REAL, 'topo-2.xml'), '--json'], { NCCL_GRAPH_FILE: halved });
    expect(status).toBe(0);
    expect(JSON.parse(stdout).nodes[0].graphs.ring.nChannels).toBe(6);
  });

  it('hold a picture', () => {
    const picture = join(folder, 'p.svg');
    expect(topo([H200, '--svg', picture]).status).toBe(0);
    expect(readFileSync(picture, 'utf8')).toMatch(/^<svg /);
  });

  it('hold a recording, which --from opens', () => {
    const record = join(folder, 'r.tgz');
    const { stderr, status } = topo(['--record', record]);
    expect(status).toBe(0);
    expect(stderr).toMatch(/recorded this machine in .*r\.tgz \(\d+ bytes\); 'tar tzf/);
    const opened = topo(['--from', record]);
    expect(opened.status).toBe(0);
    expect(opened.stdout).toMatch(/^CPU \d+/m);
    // The same answer: what is missing and why, and all devices.
    const live = topo([]).stdout;
    expect(opened.stdout.split('\n\n')[0]).toBe(live.split('\n\n')[0]);
    expect(opened.stdout.split('PCI devices')[1]).toBe(live.split('PCI devices')[1]);
    expect(opened.stdout).not.toContain('?:?');
  });

  it('of several machines keep what each driver reports', () => {
    // Two GPUs below one switch; on the second machine the driver says that they cannot reach each other.
    const gpus = ['0000:18:00.0', '0000:19:00.0'];
    const record = (name: string, read: number) => {
      const machine = new SyntheticMachine().raw('/proc/cpuinfo', SKYLAKE).node(0, 'ff');
      machine.pci(['0000:16:00.0']).pci(['0000:16:00.0', '0000:17:00.0']);
      for (const id of gpus) machine.pci(['0000:16:00.0', '0000:17:00.0', id], { class: '0x030200' });
      machine.pci(['0000:3b:00.0'], { class: '0x020000' });
      machine.interface('eth0', '/sys/devices/pci0000:3b/0000:3b:00.0', '25000');
      const p2p = gpus.map(() => ({ read, write: 0 }));
      const path = join(folder, name);
      writeFileSync(path, machineRecord(machine.machine({ nvml: gpuFacts(gpus, { p2p }) })));
      return path;
    };
    const args = ['--from', record('a.tgz', 0), '--from', record('b.tgz', 1), '--explain'];
    const { stdout, status } = topo(args);
    expect(status).toBe(0);
    expect(stdout).toMatch(/GPU 0 with GPU 1: allowed, path PIX/);
    expect(stdout).toMatch(/GPU 2 with GPU 3: refused, the driver \(NVML\) reports/);
  });

  it('may be a copy of /sys, which does not tell the processor', () => {
    const { status, stdout, stderr } = topo(['--from', join(REAL, 'sysfs.tgz')]);
    expect(status).toBe(0);
    expect(stderr).toMatch(/sysfs\.tgz: the processor is not known/);
    expect(stdout).toMatch(/^No GPUs: sysfs\.tgz holds no facts of NVML/);
  });

  it('that cannot be written end the command with status 1', () => {
    const { status, stderr } = topo([H200, '--svg', join(folder, 'no/such/place.svg')]);
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^tutti topo: cannot write the picture to .*place\.svg: no such file or directory$/m,
    );
  });
});

/** PCI devices of a cloud's template: no GPU and no NIC is described. */
const TEMPLATE = `<system version="1">
  <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"/>
      <pci busid="0002:00:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"/>
    </pci>
  </cpu>
</system>
`;

describe('templates for virtual machines', () => {
  it('are told from descriptions, with what is missing', () => {
    const { status, stderr } = topo([file('template.xml', TEMPLATE)]);
    expect(status).toBe(1);
    expect(stderr).toMatch(/template\.xml has no <gpu>: it is a template .* 2 display devices.*--sm/);
  });

  it('are completed by what the user knows, which is said', () => {
    const path = file('template.xml', TEMPLATE);
    const { status, stdout, stderr } = topo([
      path,
      '--sm=80',
      '--nvlinks=12',
      '--nic-gbits=200',
      '--nodes=2',
    ]);
    expect(status).toBe(0);
    expect(stderr).toMatch(/added 2 GPUs with compute capability 8\.0/);
    expect(stderr).toMatch(/added 1 NIC of 200 Gbit\/s/);
    expect(stdout).toMatch(
      /^2 A100-class GPU \(sm 80\) on 1 NUMA node, NVSwitch \(240 GB\/s per GPU\), 1 NIC of 200 Gbit\/s/,
    );
  });

  it('without NVLinks leave a note', () => {
    const { stderr } = topo([file('template.xml', TEMPLATE), '--sm=80']);
    expect(stderr).toMatch(/cannot tell NVLinks.*--nvlinks N/);
    expect(stderr).toMatch(/1 network card without <nic> is left out.*--nic-gbits N/);
  });
});

describe('what cannot be described', () => {
  it('gets numbers where the file has no ranks, and says so', () => {
    const text = readFileSync(H200, 'utf8').replace(/ rank="\d+"/g, '');
    const { status, stdout, stderr } = topo([file('unranked.xml', text)]);
    expect(status).toBe(0);
    expect(stdout).toMatch(/8 ranks/);
    expect(stderr).toMatch(/no GPU of the topology has a rank; they are counted in its order, 0 to 7/);
  });

  it('prints the notes of the reader with the name of the file', () => {
    const path = file(
      'odd.xml',
      readFileSync(H200, 'utf8').replace('<system', '<!-- by hand -->\n<?odd?><system'),
    );
    const { status, stderr } = topo([path]);
    expect(status).toBe(0);
    expect(stderr).toMatch(/^tutti topo: .*odd\.xml: line/m);
  });

  test.each([
    [
      'a missing file',
      ['/no/such/file.xml'],
      /cannot read the topology file \/no\/such\/file\.xml: no such file or directory\n$/,
    ],
    ['a folder', ['/'], /cannot read the topology file \/: illegal operation on a directory\n$/],
    ['no topology', [fileURLToPath(import.meta.url)], /command\.test\.ts/],
    ['a graph file', [join(REAL, 'graph-2.xml')], /this is a graph file.*not a topology file/],
    ['a recording that is none', ['--from', H200], /topo\.xml/],
  ])('%s ends with status 1 and one sentence', (_, args, message) => {
    const { status, stdout, stderr } = topo(args);
    expect(status).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/^tutti topo: [^\n]+\n$/);
  });

  it('a wrong graph file ends with status 1, naming line and remedy', () => {
    const graphs = readFileSync(join(REAL, 'graph-2.xml'), 'utf8').replace('dev="0x1"', 'dev="0x7"');
    const path = file('other-gpu.xml', graphs);
    const { status, stderr } = topo([join(REAL, 'topo-2.xml')], { NCCL_GRAPH_FILE: path });
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /<gpu> on line 5: XML Import Channel : dev 0x7 not found.*a machine like this one/,
    );
  });

  it('a graph file that is not there ends with status 1, naming it', () => {
    const { status, stderr } = topo([H200], { NCCL_GRAPH_FILE: '/no/such/graph.xml' });
    expect(status).toBe(1);
    expect(stderr).toBe(
      'tutti topo: NCCL_GRAPH_FILE=/no/such/graph.xml: cannot read the graph file: no such file or directory\n',
    );
  });

  it('a machine without GPUs ends with status 1 and says what would do', () => {
    const { stderr, status } = topo(['--from', join(REAL, 'sysfs.tgz'), '--nodes=2']);
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /give a topology file \(--file FILE\), or a recording of a machine with GPUs \(--from RECORD/,
    );
  });

  test.each([[['--nodes', 'x']], [['--no-such-option']], [['--json', '--log']], [[H200, '--rank=8']]])(
    '%j is wrong use: status 2, one sentence',
    (args) => {
      const { status, stdout, stderr } = topo(args);
      expect(status).toBe(2);
      expect(stdout).toBe('');
      expect(stderr).toMatch(/^tutti topo: [^\n]+\n$/);
    },
  );

  it('help says every option and goes to the output', () => {
    const { status, stdout, stderr } = topo(['--help']);
    expect(status).toBe(0);
    expect(stderr).toBe('');
    for (const name of [
      'file',
      'from',
      'nodes',
      'mnnvl',
      'clique',
      'sm',
      'nvls',
      'collnet',
      'explain',
      'rank',
      'log',
      'json',
      'svg',
      'dump',
      'graph-dump',
      'record',
    ]) {
      expect(stdout).toContain(`--${name}`);
    }
  });
});
