/** NCCL's lines, against the log of a live NCCL and against golden numbers. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ranksOf } from '#src/topology/domains.js';
import { computePaths } from '#src/topology/paths/compute.js';
import { logLines, systemLines } from '#src/topology/report/log-lines.js';
import { topologySettings } from '#src/topology/settings.js';
import { buildSystem } from '#src/topology/system/build.js';
import { element } from '#src/topology/xml/element.js';
import { readGolden } from '../golden/folder.js';
import { cliqueOf, clusterOf, goldenDocument, goldenPath } from './clusters.js';

const texts = (lines: readonly { text: string }[]) => lines.map(({ text }) => text);

describe('log of a live NCCL 2.28.9 on two H200', () => {
  /** Lines of topology, search and connection. */
  const OWN_LINES: readonly RegExp[] = [
    /^=== System/,
    /^(?:CPU|GPU|NET)\/0-/,
    /^ *\+ /,
    /^=====/,
    /^Pattern/,
    /^[ \d]\d :/,
    /^comm 0x\S+ rank \d+ nRanks/,
    /^(?:Tree|Ring) \d+ :/,
    /^Channel \d\d\/\d\d :/,
    /^Trees /,
    /^\d+ coll channels/,
  ];

  /** What one rank logged, without prefixes, from its first topology line on, other parts of NCCL left out. */
  function loggedBy(rank: number, file: string): string[] {
    return readFileSync(goldenPath(`real-2xH200/${file}`), 'utf8')
      .split('\n')
      .map((line) => / \[(\d)\] NCCL INFO (.*)$/.exec(line))
      .flatMap((found) => (found?.[1] === `${rank}` ? [found[2]!] : []))
      .filter((text) => OWN_LINES.some((pattern) => pattern.test(text)));
  }

  /** 2.28.9 has no node for the device under a GPU: its lines, rewritten to those of 2.30.7. */
  function withDevices(line: string, devices: readonly string[]): string[] {
    const gpu = /^(.*)\+ PCI\[48\.0\] - GPU\/0-(60|70) \(\d\)$/.exec(line);
    if (gpu !== null) {
      const [, indent, bus] = gpu as unknown as [string, string, string];
      return [
        `${indent}+ PCI[48.0] - DEV/0-${bus} (10de233510de18bf)`,
        `${indent}${' '.repeat(14)}+ LOC[5000.0] - GPU/0-${bus}`,
      ];
    }
    if (!/^(?:GPU|NET)\/\S+ :/.test(line)) return [line.replace(/^comm 0x\S+/, 'comm 0x0')];
    const own = line.startsWith('GPU') ? 1 : 0;
    // A GPU is one hop away from its device at each end of a path.
    const longer = line.replace(/(\w+)\/(\S+) \((\d+)\//g, (_, type, id, hops) => {
      const more = Number(hops) === 0 ? 0 : own + (type === 'GPU' ? 1 : 0);
      return `${type}/${id} (${Number(hops) + more}/`;
    });
    const from = /^\w+\/0-(\w+)/.exec(line)![1];
    const columns = devices.map((bus) => {
      const at = own === 0 ? '(3/1.2/PHB)' : bus === from ? '(1/5000.0/LOC)' : '(3/370.8/NVL)';
      return `DEV/0-${bus} ${at} `;
    });
    return [longer + columns.join('')];
  }

  /** What else 2.30.7 does in another way: a line, and the lines in its place. */
  const CHANGES: ReadonlyMap<string, readonly string[]> = new Map([
    // The ceiling of a channel is taken from the devices' paths, which do not heed P2P.
    ['=== System : maxBw 48.0 totalBw 370.8 ===', ['=== System : maxBw 370.8 totalBw 370.8 ===']],
    // P2P channels to a peer behind a NIC follow the NIC's bandwidth.
    [
      '2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer',
      ['2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels, 1 p2p channels per peer'],
    ],
  ]);

  /** Devices of GPUs that were cut off stay. */
  const LEFT_DEVICE = [
    '+ PCI[48.0] - DEV/0-60 (10de233510de18bf)',
    `${' '.repeat(14)}+ NVL[370.8] - NVS/0-0`,
  ];

  it.each([
    { rank: 0, file: 'log-2.txt', topology: 'topo-2.xml', env: {} },
    { rank: 1, file: 'log-2.txt', topology: 'topo-2.xml', env: {} },
    { rank: 0, file: 'log-2-nop2p.txt', topology: 'topo-2.xml', env: { NCCL_P2P_DISABLE: '1' } },
    {
      rank: 1,
      file: 'log-2-net.txt',
      topology: 'topo-2.xml',
      env: { NCCL_P2P_DISABLE: '1', NCCL_SHM_DISABLE: '1' },
    },
    { rank: 0, file: 'log-1.txt', topology: 'topo-1.xml', env: {} },
  ])('is reproduced line by line but for what 2.30.7 changed: rank $rank of $file', (example) => {
    const { rank, file, topology, env } = example;
    const logged = loggedBy(rank, file);
    for (const pattern of OWN_LINES) {
      const isOfRank0 = pattern.source.startsWith('^Channel');
      if (rank === 0 || !isOfRank0)
        expect(
          logged.some((line) => pattern.test(line)),
          `${pattern}`,
        ).toBe(true);
    }
    const { cluster } = clusterOf(goldenDocument('real-2xH200', topology), 1, { nvls: false, env });
    const devices = cluster.domains[0]!.system.nodes.DEV.map(({ id }) => id.toString(16));
    const expected = logged
      .flatMap((line) => withDevices(line, devices))
      .flatMap((line) => CHANGES.get(line) ?? [line]);
    if (file === 'log-2-net.txt') expected.splice(4, 0, ...LEFT_DEVICE);
    const got = texts(logLines(cluster, rank, false));
    // The live log cuts a line after its prefix was put before it.
    const cut = got.map((line, at) =>
      line.startsWith('Trees') ? line.slice(0, expected[at]!.length) : line,
    );
    expect(cut).toEqual(expected);
  });
});

describe('lines of paths', () => {
  it.each(['dgx-a100-8x200g', 'gh200-x1-1x400g', 'rtx4090-x4-rome-vnics', 'syn-mlopart-x4x2'])(
    'of %s hold the golden numbers of every path in NCCL’s order of columns',
    (name) => {
      const { system } = readGolden(goldenPath(name), 'golden.json.gz');
      const { cluster } = clusterOf(goldenDocument(name), 1, { nvls: false });
      const lines = systemLines(cluster.domains[0]!.system).filter((line) => /^\w+\/\S+ :/.test(line));
      const { nodes, paths } = system!;
      const nameOf = (type: string, id: unknown) => {
        const number = BigInt(`0x${String(id).replace(/^0x/, '')}`);
        return `${type}/${(number >> 56n).toString(16)}-${(number & ((1n << 56n) - 1n)).toString(16)}`;
      };
      const expected = ['GPU', 'NET'].flatMap((from) =>
        (nodes[from] ?? []).map(({ id }, at) => {
          const cells = ['GPU', 'NVS', 'CPU', 'NET'].flatMap((to) =>
            (paths![`${from}-${to}`]?.[at] ?? []).map(([type, , hops], column) => [
              nameOf(to, nodes[to]![column]!.id),
              `${hops}`,
              type,
            ]),
          );
          return [nameOf(from, id), cells];
        }),
      );
      // The files have no paths to DEV nodes, which come last.
      const got = lines.map((line) => {
        const [from, rest] = line.split(' :') as [string, string];
        const cells = [...rest.matchAll(/(\S+) \((\d+)\/[\d.]+\/(\w+)\) /g)].map((cell) => cell.slice(1));
        return [from, cells.filter(([to]) => !to!.startsWith('DEV'))];
      });
      expect(got).toEqual(expected);
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(1023);
    },
  );
});

describe('lines of a cluster', () => {
  it('of two H100 hosts are those of the worked example', () => {
    const { cluster } = clusterOf(goldenDocument('azure-ndv5-h100x8-8x400g'), 2);
    const first = texts(logLines(cluster, 0, false));
    expect(first).toContain(
      'Pattern 4, crossNic 2, nChannels 8, bw 48.000000/48.000000, type NVL/PIX, sameChannels 0',
    );
    expect(first).toContain('Channel 00/16 :  0  7  6  5  4  3  2  1  9 10 11 12 13 14 15  8');
    expect(first).toContain('Tree 0 : -1 -> 0 -> 1/8/-1');
    expect(first).toContain('Tree 8 : 8 -> 0 -> 1/-1/-1');
    expect(first).toContain('comm 0x0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0');
    expect(first).toContain('NVLS Head  0:  0  8');
    expect(first).toContain(
      '16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 4 p2p channels per peer',
    );
    const ninth = texts(logLines(cluster, 9, false));
    // Ranks count through the nodes, also in the tree of the machine.
    expect(ninth.some((line) => /GPU\/0-\w+$/.test(line))).toBe(true);
    expect(ninth.filter((line) => line.startsWith('Ring'))).toHaveLength(16);
    expect(ninth.some((line) => line.startsWith('Channel') || line.startsWith('NVLS Head'))).toBe(false);
  });

  it('name the subsystem that NCCL logs each of them under', () => {
    const { cluster } = clusterOf(goldenDocument('azure-ndv5-h100x8-8x400g'), 2, { collnet: true });
    const kinds = new Map(
      logLines(cluster, 0, false).map(({ subsystem, text }) => [
        text.replace(/^ +/, '').replace(/[\d :/-].*$/s, ''),
        subsystem,
      ]),
    );
    expect(
      Object.fromEntries(['===', 'Pattern', 'Tree', 'Ring'].map((kind) => [kind, kinds.get(kind)])),
    ).toEqual({
      '===': 'GRAPH',
      Pattern: 'GRAPH',
      Tree: 'GRAPH',
      Ring: 'GRAPH',
    });
    expect([kinds.get('comm'), kinds.get('Channel'), kinds.get('Trees')]).toEqual(['INIT', 'INIT', 'INIT']);
  });

  it('of a clique show the hosts in the names of nodes', () => {
    const document = cliqueOf(goldenDocument('gb200-nvl72-tray'), 2);
    const { cluster } = clusterOf(document, 1, { mnnvl: true });
    const lines = texts(logLines(cluster, 0, true));
    expect(lines).toContain('CPU/1-0 (3/-1/-1)');
    expect(lines.find((line) => line.startsWith('comm'))).toMatch(
      /nRanks 8 nNodes 1 localRanks 8 .* MNNVL 1$/,
    );
  });

  it('of the simple order name the missing NIC as NCCL does, and a read-in graph is printed too', () => {
    const { cluster } = clusterOf(goldenDocument('syn-x1-lanes-and-gen1'));
    const pattern = texts(logLines(cluster, 0, false)).find((line) => line.startsWith('Pattern 4'));
    expect(pattern).toMatch(/nChannels 1, bw 0\.100000\/0\.100000, type SYS\/SYS/);
  });

  it('end where a device hangs below two switches, which a file can say', () => {
    const gpu = () =>
      element('pci', { busid: '0000:03:00.0', class: '0x030200', link_speed: '', link_width: 16 }, [
        element('gpu', { dev: 0, sm: 90, rank: 0, gdr: 1 }),
      ]);
    const above = (busid: string, below: ReturnType<typeof gpu>) =>
      element('pci', { busid, class: '0x060400', link_speed: '', link_width: 16 }, [below]);
    const root = element('system', { version: 1 }, [
      element('cpu', { numaid: 0, host_hash: '0x1', arch: 'arm64' }, [
        above('0000:01:00.0', gpu()),
        above('0000:02:00.0', {
          ...gpu(),
          children: [element('gpu', { dev: 0, sm: 90, rank: 1, gdr: 1 })],
        }),
      ]),
    ]);
    const system = buildSystem(root);
    const comm = {
      nRanks: 2,
      ranks: ranksOf(root, false),
      mnnvl: false,
      nvmlP2p: () => true,
      pxnSupported: true,
    };
    computePaths(system, comm, topologySettings(), 1n);
    const lines = systemLines(system);
    expect(lines.length).toBeLessThan(40);
    expect(lines.filter((line) => line.includes('DEV/0-3000 ('))).not.toHaveLength(0);
  });
});
