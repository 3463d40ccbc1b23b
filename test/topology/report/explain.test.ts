import { describe, expect, test } from 'vitest';
import { joinHosts } from '#src/cli/topo/documents.js';
import { type ClusterOptions, describeCluster } from '#src/topology/cluster.js';
import type { Explanation, Topic } from '#src/topology/report/explain/explanation.js';
import { pairsText } from '#src/topology/report/explain/gpu-groups.js';
import { explainCluster, explanations } from '#src/topology/report/explain.js';
import { plainStyle } from '#src/topology/report/style.js';
import { CASES, clusterOf, documentOf } from './golden-clusters.js';

/** Texts on one topic. */
function said(machine: string, nodes: number, topic: Topic, options: Partial<ClusterOptions> = {}): string {
  return explanations(clusterOf(machine, nodes, options))
    .filter((one) => one.topic === topic)
    .map(({ text }) => text)
    .join('\n');
}

const evidenceOf = (all: readonly Explanation[], topic: Topic, fact: string) =>
  all.find((one) => one.topic === topic && one.evidence.fact === fact)?.evidence;

describe.each(CASES)('%s, %i nodes', (machine, nodes) => {
  const cluster = () => clusterOf(machine, nodes);

  test('every sentence is whole, said once, and has its numbers', () => {
    const all = explanations(cluster());
    const topics = new Set(all.map(({ topic }) => topic));
    expect([...topics]).toEqual(expect.arrayContaining(['ring', 'tree', 'nvls', 'channels']));
    for (const { text } of all) {
      expect(text).not.toMatch(/undefined|NaN|null|Infinity|\[object| {2}|\.\.$|\( /);
      expect(text).toMatch(/^[A-Z0-9]/);
      expect(text).toMatch(/\.$/);
      expect(text.split('(').length).toBe(text.split(')').length);
    }
    const keys = all.map(({ topic, text, evidence }) => `${topic} ${evidence.graph} ${text}`);
    expect(new Set(keys).size).toBe(keys.length);
    for (const { evidence } of all) {
      for (const value of Object.values(evidence)) {
        if (typeof value === 'number') expect(value).toSatisfy(Number.isFinite);
      }
    }
  });

  test('a link that limits a graph would really be asked for more than it has', () => {
    for (const { evidence } of explanations(cluster())) {
      if (evidence.obstacle === 'link') expect(evidence.need).toBeGreaterThan(evidence.capacity as number);
      if (evidence.fact === 'fullest')
        expect(evidence.load).toBeLessThan((evidence.capacity as number) + 0.001);
      if (evidence.obstacle === 'path') expect(evidence.bwIntra).toBeGreaterThan(evidence.capacity as number);
    }
  });

  test('all pairs of GPUs of each machine are accounted for', () => {
    const { domains } = cluster();
    const machines = new Map(
      domains.filter(({ node }) => node === 0).map(({ whole }) => [whole.nodes.GPU.length, whole]),
    );
    const [gpus] = [...machines.keys()];
    const pairs = explanations(cluster())
      .filter(({ topic }) => topic === 'p2p')
      .reduce((sum, { evidence }) => sum + (evidence.pairs as number), 0);
    expect(pairs).toBe((gpus! * (gpus! - 1)) / 2);
  });
});

describe('lines', () => {
  test('headings stand above their sentences, in a fixed order, and wrap to the width', () => {
    const cluster = clusterOf('l40s-x4-2socket-2x200g');
    const lines = explainCluster(cluster);
    const headings = lines.filter((line) => line !== '' && !line.startsWith('- '));
    expect(headings[0]).toBe('Why one host counts as several nodes');
    expect(headings[1]).toBe('Ring: why these channels and not more');
    expect(headings.at(-1)).toBe('Number of channels');
    const wrapped = explainCluster(cluster, plainStyle(60));
    expect(Math.max(...wrapped.map(({ length }) => length))).toBeLessThanOrEqual(60);
    const words = (text: readonly string[]) => text.join(' ').split(/\s+/).join(' ');
    expect(words(wrapped)).toBe(words(lines));
  });
});

describe('graphs', () => {
  const h100 = 'azure-ndv5-h100x8-8x400g';

  test('ring of an H100 host: 6 channels of 60 GB/s, split in two, limited by NVLink', () => {
    const text = said(h100, 1, 'ring');
    expect(text).toContain('12 channels of 30 GB/s (360 in all)');
    expect(text).toContain('found 6 channels of 60 GB/s');
    expect(text).toContain('360 of 370.8 GB/s, 10.8 left (7 others are as full)');
    expect(text).toContain('One more channel of 60 GB/s (7 in all) does not fit');
    expect(text).toContain('it would take 420 GB/s, more than its 370.8');
  });

  test('two hosts: NICs are swapped in pairs because one NIC for both ends gives a channel less', () => {
    const all = explanations(clusterOf(h100, 2));
    expect(evidenceOf(all, 'ring', 'crossNic')).toEqual({
      graph: 'ring',
      fact: 'crossNic',
      crossNic: 2,
      before: 7 * 48,
    });
    expect(said(h100, 2, 'ring', { env: { NCCL_CROSS_NIC: '0' } })).toContain('NCCL_CROSS_NIC=0 forbids');
  });

  test('ways through an Intel CPU name the factor 6/5 that makes their links run out', () => {
    const text = said('rtx4090-x2-one-root-intel', 1, 'ring');
    expect(text).toContain('6/5');
    expect(text).toContain('14.4 GB/s (with the factor 6/5 of ways through an Intel CPU), more than its 12');
  });

  test('no NVLS: for each reason its own sentence', () => {
    expect(said('rtx3090-x8-2switch', 1, 'nvls')).toContain('no NVSwitch joins the GPUs');
    expect(said('dgx-a100-8x200g', 1, 'nvls')).toContain('the lowest one here is 8.0');
    expect(said('gh200-x1-1x400g', 1, 'nvls')).toContain('a node of one GPU');
    expect(said(h100, 1, 'nvls', { nvls: false })).toContain('not available or is disabled');
    expect(said(h100, 1, 'nvls')).toContain('8 channels of 40 GB/s');
  });

  test('NVLS and channels of the node that has least count for all', () => {
    const nodes = [h100, 'gh200-x1-1x400g'].map((machine) => ({ xml: documentOf(machine) }));
    const text = said(h100, 1, 'nvls', { nodes });
    expect(text).toContain('Node of GPUs 0-7: NVLS: 8 channels');
    expect(text).toContain('Node of GPU 8: No NVLS: a node of one GPU');
    expect(text).toContain('NVLS is not used, although some nodes could: 1 node has none, and all must.');
    expect(said(h100, 1, 'channels', { nodes })).toContain(
      'Nodes found 2 to 8 channels; all use the least, 2',
    );
  });

  test('CollNet: missing plugin, too few nodes, or its channels', () => {
    expect(said(h100, 2, 'collnet')).toContain('no CollNet plugin');
    const few = { collnet: true, env: { NCCL_COLLNET_NODE_THRESHOLD: '3' } };
    const { comm } = clusterOf('syn-rails-x4-4x200g', 2, few);
    expect(comm.collnetEnabled).toBe(false);
    expect(said('syn-rails-x4-4x200g', 2, 'collnet', few)).toMatch(
      /No CollNet: .*(fewer than|found no chain)/,
    );
  });
});

describe('peer-to-peer and splits', () => {
  test('a host whose network is faster than its sockets splits, and says by how much', () => {
    const text = said('l40s-x4-2socket-2x200g', 1, 'split');
    expect(text).toContain('count as 2 nodes: GPUs 0-1 and GPUs 2-3');
    expect(text).toContain('24.0 > 22.0 GB/s');
    expect(text).toContain('NCCL_NET_DISABLE_INTRA=1');
    expect(said('l40s-x4-2socket-2x200g', 1, 'split', { env: { NCCL_NET_DISABLE_INTRA: '1' } })).toBe('');
  });

  test('pairs beyond the level are grouped, with the variable that would allow them', () => {
    expect(said('rtx3090-x8-2switch', 1, 'p2p').split('\n')).toEqual([
      'GPUs 0-3 with each other; GPUs 4-7 with each other: allowed, path PIX (one PCIe switch) at 24 GB/s.',
      "GPUs 0-3 with GPUs 4-7: refused, the path SYS (through two CPUs) is beyond the level PXB that is NCCL's " +
        'default on this processor. They go through host memory at 10 GB/s. NCCL_P2P_LEVEL=SYS would allow it, if ' +
        'the machine can do it.',
    ]);
    const allowed = said('rtx3090-x8-2switch', 1, 'p2p', { env: { NCCL_P2P_LEVEL: 'SYS' } });
    expect(allowed).not.toContain('refused');
  });

  test('a driver that reports no peer-to-peer access is named as the reason', () => {
    const text = said('rtx3090-x8-2switch', 1, 'p2p', { nvmlP2p: () => false });
    expect(text).toContain('GPUs 0-3 with each other');
    expect(text).toContain('the driver (NVML) reports');
    expect(text).toContain('NCCL_IGNORE_DISABLED_P2P=2');
  });

  test('pairs are said in groups', () => {
    const all = (ranks: number[]) =>
      ranks.flatMap((a) => ranks.filter((b) => b > a).map((b): [number, number] => [a, b]));
    expect(pairsText([[0, 1]])).toBe('GPU 0 with GPU 1');
    expect(pairsText(all([0, 1, 2, 5]))).toBe('GPUs 0-2, 5 with each other');
    expect(pairsText([...all([0, 1]), ...all([2, 3])])).toBe(
      'GPUs 0-1 with each other; GPUs 2-3 with each other',
    );
    expect(pairsText([0, 1].flatMap((a) => [2, 3].map((b): [number, number] => [a, b])))).toBe(
      'GPUs 0-1 with GPUs 2-3',
    );
  });
});

describe('NICs', () => {
  const h100 = 'azure-ndv5-h100x8-8x400g';

  test('each GPU relays for the NIC next to it', () => {
    const [pxn] = explanations(clusterOf(h100, 2)).filter(({ topic }) => topic === 'pxn');
    expect(pxn!.evidence).toMatchObject({ paths: 56, all: 64, relayed: 48, own: 22 });
    expect(pxn!.text).toContain('GPU 0 for mlx5_ib0, GPU 1 for mlx5_ib1');
    expect(said(h100, 2, 'pxn', { env: { NCCL_PXN_DISABLE: '1' } })).toContain('NCCL_PXN_DISABLE=1');
  });

  test('GPUDirect: allowed with path and level; refused by level, by reads, with the remedy', () => {
    expect(said(h100, 2, 'gdr')).toContain('allowed, path PIX (one PCIe switch), level P2C');
    const low = said('dgx-a100-8x200g', 2, 'gdr', { env: { NCCL_NET_GDR_LEVEL: 'LOC' } });
    expect(low).toContain(
      'the path PIX (one PCIe switch) is beyond the level LOC (set by NCCL_NET_GDR_LEVEL)',
    );
    expect(low).toContain('NCCL_NET_GDR_LEVEL=PIX would allow it');
    const reads = said('dgx-a100-8x200g', 2, 'gdr', { env: { NCCL_NET_GDR_READ: '0' } });
    expect(reads).toContain('for receiving; for sending refused: NCCL_NET_GDR_READ=0');
    expect(said('gh200-x1-1x400g', 2, 'gdr')).toContain('allowed, path P2C');
  });
});

describe('GPUDirect RDMA of a machine that is one node', () => {
  test('is that of a cluster of two', () => {
    for (const machine of ['azure-ndv2-v100x8-mesh', 'dgx-a100-8x200g', 'gh200-x1-1x400g']) {
      const alone = said(machine, 1, 'gdr');
      const start = 'All ranks are in one node, which uses no NIC. With a second node like it: ';
      expect(alone).toBe(start + said(machine, 2, 'gdr').replace(/ \(likewise [^)]*\)/, ''));
    }
    expect(said('azure-ndv2-v100x8-mesh', 1, 'gdr')).toMatch(/: refused, the path PHB/);
  });

  test('is not asked where there is no NIC, and not told where the answer would take long', () => {
    expect(said('syn-8gpu-nvs-0nic', 1, 'gdr')).toBe('');
    const xml = joinHosts(Array.from({ length: 5 }, () => documentOf('gb200-nvl72-tray')));
    const all = explanations(describeCluster({ nodes: [{ xml }], mnnvl: true }));
    expect(all.filter(({ topic }) => topic === 'gdr').map(({ text }) => text)).toEqual([
      'All ranks are in one node, which uses no NIC. The description of several (--nodes 2) tells more.',
    ]);
  });
});

describe('counts and variables', () => {
  const h100 = 'azure-ndv5-h100x8-8x400g';

  test('the bound that decides is named', () => {
    expect(said(h100, 2, 'channels', { env: { NCCL_MAX_NCHANNELS: '4' } })).toContain(
      'Collectives have 4 channels: every order of the search (8) is used twice, once for each of the two trees; ' +
        'NCCL_MAX_NCHANNELS cuts them to 4.',
    );
    expect(said(h100, 1, 'channels', { env: { NCCL_MIN_CTAS: '32' } })).toContain(
      'NCCL_MIN_CTAS raises them to 32',
    );
    expect(said(h100, 1, 'channels')).toContain('Collectives have 24 channels');
    expect(said(h100, 1, 'channels', { env: { NCCL_NVLS_NCHANNELS: '6' } })).toContain(
      'NVLS has 6 channels, as NCCL_NVLS_NCHANNELS asks; 8 heads',
    );
    expect(said(h100, 1, 'channels', { config: { nvlsCtas: 6 } })).toContain(
      "NVLS has 6 channels, as the communicator's configuration asks;",
    );
    expect(said(h100, 2, 'channels', { env: { NCCL_NCHANNELS_PER_NET_PEER: '2' } })).toContain(
      '2 of them per peer: NCCL_NCHANNELS_PER_NET_PEER asks for 2 to peers over the network.',
    );
  });

  test('variables that are set are listed: those that count, then those that do not', () => {
    expect(said('rtx3090-x8-2switch', 1, 'variables')).toBe('');
    const env = {
      NCCL_P2P_LEVEL: 'SYS',
      NCCL_CROSS_NIC: '2',
      NCCL_NETDEVS_POLICY: 'max:2',
      NCCL_NET_GDR_LEVEL: 'phb',
      NCCL_NVLS_ENABLE: '1',
      NCCL_MIN_CTAS: '',
    };
    expect(said('rtx3090-x8-2switch', 1, 'variables', { env }).split('\n')).toEqual([
      expect.stringMatching(/^NCCL_P2P_LEVEL is SYS \(default: by the machine\)/),
      expect.stringMatching(/^NCCL_NETDEVS_POLICY is MAX:2 \(default: AUTO\).* no number of channels\.$/),
      'NCCL_CROSS_NIC=2 is what NCCL does without it. It changes nothing here.',
      'NCCL_NET_GDR_LEVEL=phb is ignored by NCCL; write PHB. It changes nothing here.',
      'NCCL_NVLS_ENABLE=1 is what NCCL does without it. It changes nothing here.',
    ]);
  });

  test('variables that change something together only are told so', () => {
    // Either bound alone holds the channels down.
    const env = { NCCL_MAX_NCHANNELS: '4', NCCL_MAX_CTAS: '4' };
    const all = explanations(clusterOf(h100, 1, { env })).filter(({ topic }) => topic === 'variables');
    expect(all).toHaveLength(3);
    expect(all[0]!.text).toMatch(/ no number of channels\.$/);
    expect(all[1]!.text).not.toContain('the channels of collectives');
    expect(all[2]!.text).toMatch(
      /^Both together, against none of them: they change the channels of collectives from 24 to 4;/,
    );
    expect(all[2]!.evidence).toMatchObject({
      together: ['NCCL_MAX_NCHANNELS', 'NCCL_MAX_CTAS'],
      changes: expect.arrayContaining(['the channels of collectives from 24 to 4']),
    });
    // Nothing is said twice.
    const apart = { NCCL_MAX_NCHANNELS: '4', NCCL_NVLS_NCHANNELS: '4' };
    expect(said(h100, 1, 'variables', { env: apart })).not.toContain('together');
  });

  describe('a variable is told with what it changes on one machine', () => {
    const changed = (machine: string, env: Record<string, string>, options: Partial<ClusterOptions> = {}) =>
      said(machine, 1, 'variables', { env, ...options });

    test('pairs of GPUs that reach each other', () => {
      // Two switches of four GPUs: 2 x 6 pairs below one switch, all 8 x 7 / 2.
      expect(changed('rtx3090-x8-2switch', { NCCL_P2P_LEVEL: 'SYS' })).toMatch(
        / Here it changes peer-to-peer access from 12 of 28 pairs of GPUs to 28 of 28 pairs of GPUs\.$/,
      );
    });

    test('nodes, graphs and ways', () => {
      const text = changed('l40s-x4-2socket-2x200g', { NCCL_NET_DISABLE_INTRA: '1' });
      expect(text).toContain(
        'Here it changes the number of nodes from 2 to 1; the Ring graph from 1 channel of ',
      );
      // Two GPUs on each socket: 2 x 2 pairs, both ways.
      expect(text).toMatch(/; 8 ways between GPUs from 22 GB\/s \(NET\) to 22 GB\/s \(SYS\)\.$/);
      expect(changed('l40s-x4-2socket-2x200g', { NCCL_NET_GDR_LEVEL: 'LOC' })).toContain(
        'GPUDirect RDMA from 4 (sending: 4) of 4 pairs of GPU and NIC to 0 (sending: 0) of 4 pairs',
      );
    });

    test('channels, also by the older name of a variable', () => {
      expect(changed(h100, { NCCL_MAX_NRINGS: '2', NCCL_NVLS_NCHANNELS: '4' }).split('\n')).toEqual([
        'NCCL_MAX_NCHANNELS is 2 (default: 64): greatest number of channels. Here it changes the channels of ' +
          'collectives from 24 to 2; the channels of send and receive from 32, 32 per peer to 2, 2 per peer.',
        'NCCL_NVLS_NCHANNELS is 4 (default: by the machine): number of channels of NVLS. Here it changes the ' +
          'channels of NVLS from 16 to 4.',
      ]);
    });

    test('nothing, where it has no effect; of several machines too', () => {
      const env = { NCCL_CROSS_NIC: '0' };
      expect(changed('rtx3090-x8-2switch', env)).toMatch(
        / Here it changes no path, no graph and no number of channels\.$/,
      );
      expect(said(h100, 2, 'variables', { env })).toMatch(/ Here it changes the Ring graph from /);
      expect(
        said('l40s-x4-2socket-2x200g', 3, 'variables', { env: { NCCL_NET_DISABLE_INTRA: '1' } }),
      ).toMatch(/ Here it changes the number of nodes from 6 to 3; .*; 8 ways between GPUs from/);
    });

    test('but not of clusters that would take long', () => {
      const nodes = 65;
      expect(said(h100, nodes, 'variables', { env: { NCCL_MAX_NCHANNELS: '4' } })).toBe(
        'NCCL_MAX_NCHANNELS is 4 (default: 64): greatest number of channels. (What it changes is said up to 512 ranks, 16 in one machine.)',
      );
    });

    test('NVLink SHARP, which a variable forbids', () => {
      const text = changed(h100, { NCCL_NVLS_ENABLE: '0' }, { nvls: false });
      expect(text).toMatch(
        /^NCCL_NVLS_ENABLE is 0 \(default: 2\): no NVLink SHARP, whatever the machine has\./,
      );
      expect(text).toMatch(
        / Here it changes the NVLS graph from .* to none; the channels of NVLS from 16 to 0/,
      );
    });

    test('that NCCL would refuse the machine without it', () => {
      const text = changed(h100, { NCCL_IGNORE_DISABLED_P2P: '1' }, { nvmlP2p: () => false });
      expect(text).toMatch(
        / Without it NCCL refuses this machine: P2P is disabled between NVLINK connected GPUs/,
      );
    });
  });
});
