/** How channels are laid: where they start and end, which GPU comes next, what they take from links, which are better. */
import { describe, expect, it } from 'vitest';
import { Pattern } from '#src/topology/search/graph.js';
import type { Environment } from '#src/topology/settings.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { channelText, firstDomain, graphText, search, searchSpace } from '../described.js';
import {
  ARM,
  type Attributes,
  cpu,
  gpu,
  gpuElement,
  link,
  MILAN,
  nic,
  nvlinkTo,
  nvlinkToCpu,
  nvswitch,
  POWER,
  pci,
  pciSwitch,
  SAPPHIRE_RAPIDS,
  system,
} from '../machine-xml.js';

type Domain = ReturnType<typeof firstDomain>;
const orders = ({ graphs }: Domain, name: keyof Domain['graphs'] = 'ring'): string[] =>
  graphs[name].channels.map((_, channel) => channelText(graphs[name], channel));

const bus = (dev: number): string => `${(dev + 1).toString(16)}1:00.0`;

interface Branch {
  readonly nvlinks: number;
  readonly speed?: number;
  readonly net?: Attributes;
}

/** GPUs behind an NVSwitch, each with a 400 Gbit/s NIC below a fifth generation switch of its own. */
const branches = (first: number, ...list: readonly Branch[]): XmlElement[] =>
  list.map(({ nvlinks, speed = 400_000, net = {} }, at) => {
    const dev = first + at;
    const k = (dev + 1).toString(16);
    return pciSwitch(
      `${k}0:00.0`,
      link(5),
      gpu(bus(dev), dev, { links: nvlinks === 0 ? [] : [nvswitch(nvlinks)], pci: link(5) }),
      nic(`${k}2:00.0`, dev, { speed, ...net }, link(5)),
    );
  });

describe('which graph is better', () => {
  it('the one with fewer hops, if the speed is the same [C04-19]', () => {
    // Only 0 and 2 have NVLink: 3 hops instead of 4 over the CPU. In index order a ring has 16 hops, 0 2 3 1 has 15.
    // Both carry the 24 GB/s of PCI.
    const joined = (dev: number, peer: number) => gpu(bus(dev), dev, { links: [nvlinkTo(bus(peer), 2)] });
    const domain = firstDomain(
      system(cpu(ARM, joined(0, 2), gpu(bus(1), 1), joined(2, 0), gpu(bus(3), 3))),
      1,
    );
    const first = domain.results.ring!.runs.find(({ bestChannels }) => bestChannels > 0);
    expect(first).toMatchObject({ bwIntra: 24, sameChannels: true });
    expect(orders(domain)).toEqual(['0 2 3 1']);
    expect(domain.graphs.ring.nHops).toBe(15);
  });

  it('the one with the most bandwidth in all, and none with fewer channels than asked for [C04-19]', () => {
    // One NVLink pair of 61.8 GB/s: 60, or 2 x 30, or 3 x 20, or 5 x 12.
    const xml = system(
      cpu(
        ARM,
        gpu(bus(0), 0, { links: [nvlinkTo(bus(1), 3)] }),
        gpu(bus(1), 1, { links: [nvlinkTo(bus(0), 3)] }),
      ),
    );
    const found = (min: number, max: number) =>
      graphText(search(searchSpace(xml, 1), Pattern.RING, [min, max]).graph).replace(/ NVL.*/, '');
    expect(found(1, 1)).toBe('4: 1 x 60/60');
    expect(found(2, 2)).toBe('4: 2 x 30/30');
    expect(found(3, 4)).toBe('4: 3 x 20/20');
    // 4 x 15 = 60, as 5 x 12.
    expect(found(4, 8)).toBe('4: 4 x 15/15');
    expect(found(5, 8)).toBe('4: 5 x 12/12');
  });

  it('for NVLS the one with more heads, also with the same bandwidth in all [C04-19]', () => {
    // 5 and 4 links (103 and 82.4 GB/s). One head at 48 takes 96 of the first GPU; two heads take three parts of each,
    // so the second GPU allows 24. 2 x 24 is no more than 1 x 48.
    const xml = system(cpu(SAPPHIRE_RAPIDS, ...branches(0, { nvlinks: 5 }, { nvlinks: 4 })));
    const { results, graphs } = firstDomain(xml, 2);
    const first = results.nvls!.runs.filter(({ pass }) => pass === 1);
    expect([...new Set(first.map((run) => `${run.bestChannels} x ${run.bestBwIntra}`))]).toEqual([
      '1 x 48',
      '2 x 24',
    ]);
    expect(graphText(graphs.nvls)).toBe('5: 2 x 24/48 NVL/PIX cross 0 same 0');
    expect(graphs.nvls.channels.map(({ intra }) => intra)).toEqual([[0], [1]]);
  });
});

describe('NVLS', () => {
  const shared = (second: readonly number[]) =>
    system(
      cpu(
        SAPPHIRE_RAPIDS,
        ...[[0], second].map((ranks, dev) =>
          pci(
            bus(dev),
            '0x030200',
            {},
            ...ranks.map((rank) => gpuElement(dev, { rank, links: [nvswitch(18)] })),
          ),
        ),
        nic('0f:00.0', 0),
      ),
    );

  it('needs two GPUs, and no two ranks on one', () => {
    const found = (xml: XmlElement, nvls = true) => firstDomain(xml, 1, { nvls }).graphs.nvls.nChannels;
    expect(found(shared([1]))).toBe(2);
    expect(found(shared([1]), false)).toBe(0);
    expect(found(shared([1, 2]))).toBe(0);
    expect(found(shared([]))).toBe(0);
  });
});

describe('NVLS over several nodes', () => {
  it('tries the GPU of one NIC per channel only', () => {
    // At 48 GPU 0 (61.8 GB/s) cannot be a head (96), GPU 1 could; but after GPU 0 was tried no other is. So nothing is
    // found before 30 (60 of 61.8), and at 20 both are heads: 20 x 2 + 20 = 60. To the network up to twice as much.
    const { results, graphs } = firstDomain(
      system(cpu(SAPPHIRE_RAPIDS, ...branches(0, { nvlinks: 3 }, { nvlinks: 6 }))),
      2,
    );
    const before = results.nvls!.runs.filter(({ bwIntra }) => bwIntra > 30 && bwIntra !== 42);
    expect(new Set(before.map(({ bwIntra }) => bwIntra))).toEqual(new Set([48, 45, 40]));
    for (const { bestChannels } of before) expect(bestChannels).toBe(0);
    expect(graphText(graphs.nvls)).toBe('5: 2 x 20/40 NVL/PIX cross 0 same 0');
  });
});

describe('CollNet', () => {
  const box = (coll: 0 | 1) =>
    system(cpu(SAPPHIRE_RAPIDS, ...branches(0, ...Array(3).fill({ nvlinks: 18, net: { coll } }))));

  it('begins at NICs that can do it only', () => {
    const { graphs } = firstDomain(box(0), 2, { collnet: true });
    expect([graphs.collnetChain.nChannels, graphs.collnetDirect.nChannels]).toEqual([0, 0]);
    const off = firstDomain(box(1), 2).graphs;
    expect([off.collnetChain.nChannels, off.collnetDirect.nChannels]).toEqual([0, 0]);
  });

  it('direct has every GPU as a head, with the others in index order, and half of the speed to each of two [C04-21]', () => {
    const domain = firstDomain(box(1), 2, { collnet: true });
    // 48 at the NIC; between two GPUs 24 there, 24 back, for each of three heads: 96 of 370.8.
    expect(graphText(domain.graphs.collnetDirect)).toBe('6: 3 x 48/48 NVL/PIX cross 0 same 1');
    expect(orders(domain, 'collnetDirect')).toEqual([
      'NET0 0 1 2 NET0',
      'NET1 1 0 2 NET1',
      'NET2 2 0 1 NET2',
    ]);
  });

  it('chains have the channels of the ring, each with one NIC at its first GPU [C04-21]', () => {
    const { graphs } = firstDomain(box(1), 2, { collnet: true });
    expect(graphs.collnetChain).toMatchObject({ pattern: Pattern.TREE, nChannels: graphs.ring.nChannels });
    for (const { inter, intra } of graphs.collnetChain.channels) {
      expect(inter![0]).toBe(inter![1]);
      expect(inter![0]).toBe(BigInt(intra[0]!));
    }
  });
});

describe('NICs of several hosts of a clique', () => {
  /** Two hosts in one clique, each with one GPU and two 200 Gbit/s NICs. */
  const clique = system(
    ...[0, 1].map((host) =>
      cpu(
        { ...SAPPHIRE_RAPIDS, host_hash: `0x${host + 1}000` },
        pciSwitch(
          '10:00.0',
          link(5),
          gpu('11:00.0', 0, { rank: host, links: [nvswitch(18)], pci: link(5) }),
          ...[0, 1].map((dev) => nic(`1${dev + 2}:00.0`, dev, { guid: `0x${host}${dev}` }, link(5))),
        ),
      ),
    ),
  );
  const starts = (env: Environment) => {
    const { graphs, system: machine } = firstDomain(clique, 2, { mnnvl: true, env });
    expect(graphText(graphs.ring)).toMatch(/^4: 4 x 24\/24 NVL\/PIX cross 2 /);
    return graphs.ring.channels.map(({ inter }) => machine.nodes.NET.findIndex(({ id }) => id === inter![0]));
  };
  const list = (env: Environment) => {
    const { system: machine } = firstDomain(clique, 2, { mnnvl: true, env });
    expect(machine.nodes.NET.length).toBe(4);
    return [...searchSpaceOf(env).nics(-1, -1)];
  };
  const searchSpaceOf = (env: Environment) => searchSpace(clique, 2, env, true);

  it('are taken channel by channel over all GPUs', () => {
    expect(list({})).toEqual([0, 2, 1, 3]);
    // Ring 0 leaves at NIC 0 and ends at NIC 2, ring 1 the other way round; ring 2 starts at the third of the list.
    expect(starts({})).toEqual([0, 2, 1, 3]);
  });

  it('or GPU by GPU with NCCL_MNNVL_SCATTER_NETS_ENABLE=0, as on one host', () => {
    const env = { NCCL_MNNVL_SCATTER_NETS_ENABLE: '0' };
    expect(list(env)).toEqual([0, 1, 2, 3]);
    expect(starts(env)).toEqual([0, 2, 3, 1]);
  });
});

describe('NICs of one host', () => {
  /** Two GPUs with two NICs each, and a NIC behind the CPU. */
  const box = system(
    cpu(
      MILAN,
      ...[0, 1].map((dev) =>
        pciSwitch(
          `${dev + 1}0:00.0`,
          gpu(bus(dev), dev),
          nic(`${dev + 1}2:00.0`, 2 * dev),
          nic(`${dev + 1}3:00.0`, 2 * dev + 1),
        ),
      ),
      nic('0f:00.0', 4),
    ),
  );
  const list = (gpuIndex: number, typeLimit: number, env: Environment = {}) => [
    ...searchSpace(box, 2, { NCCL_NET_DISABLE_INTRA: '1', ...env }).nics(gpuIndex, typeLimit),
  ];

  it('are listed GPU by GPU, the preferred ones first, then by type of path', () => {
    expect(list(-1, -1)).toEqual([0, 1, 2, 3]);
    expect(list(1, -1)).toEqual([2, 3]);
    expect(list(1, 4)).toEqual([2, 3]);
    // Host bridge: GPU 1 sees NIC 0, 1 and 4.
    expect(list(1, 8)).toEqual([2, 3, 0, 1, 4]);
    expect(list(-1, 8)).toEqual([0, 1, 2, 3, 4]);
  });

  it('are limited by NCCL_NETDEVS_POLICY=MAX:n, n per GPU', () => {
    const env = { NCCL_NETDEVS_POLICY: 'MAX:1' };
    expect(list(1, 8, env)).toEqual([2]);
    expect(list(-1, 8, env)).toEqual([0, 2]);
    const three = { NCCL_NETDEVS_POLICY: 'MAX:3' };
    expect(list(1, 8, three)).toEqual([2, 3, 0]);
  });
});

describe('the NIC at the end of a channel', () => {
  /** One GPU with two 800 Gbit/s NICs on sixth generation PCI (96 GB/s): two channels of 48 by each. */
  const ends = (nets: readonly [Attributes, Attributes], crossNic: string): string[] => {
    const xml = system(
      cpu(
        ARM,
        pciSwitch(
          '10:00.0',
          link(6),
          gpu('11:00.0', 0, { pci: link(6) }),
          ...nets.map((net, dev) => nic(`1${dev + 2}:00.0`, dev, { speed: 800_000, ...net }, link(6))),
        ),
      ),
    );
    const domain = firstDomain(xml, 2, { env: { NCCL_CROSS_NIC: crossNic } });
    expect(graphText(domain.graphs.ring)).toMatch(/^4: 4 x 24\/24 LOC\/PIX /);
    // Channels 2 and 3 repeat 0 and 1.
    expect(orders(domain).slice(2)).toEqual(orders(domain).slice(0, 2));
    return orders(domain).slice(0, 2);
  };
  const same = ['NET0 0 NET0', 'NET1 0 NET1'];
  const crossed = ['NET0 0 NET0', 'NET1 0 NET0'];

  it('is any with NCCL_CROSS_NIC=1, but never one of another plane', () => {
    expect(ends([{}, {}], '1')).toEqual(crossed);
    expect(ends([{ plane: 0 }, { plane: 1 }], '1')).toEqual(same);
    expect(ends([{ plane: 1 }, { plane: 1 }], '1')).toEqual(crossed);
    expect(ends([{ plane: 0 }, {}], '1')).toEqual(crossed);
  });

  it('is the port where it began without crossing, or one of the same rail', () => {
    expect(ends([{}, {}], '0')).toEqual(same);
    expect(ends([{ rail: 3 }, { rail: 3 }], '0')).toEqual(crossed);
    expect(ends([{ rail: 3 }, { rail: 4 }], '0')).toEqual(same);
    // A rail on one side only does not count; the card does.
    expect(ends([{ rail: 3 }, {}], '0')).toEqual(same);
    expect(ends([{ rail: 3 }, { guid: '0xa0' }], '0')).toEqual(crossed);
    expect(
      ends(
        [
          { guid: '0xa0', port: 1 },
          { guid: '0xa0', port: 2 },
        ],
        '0',
      ),
    ).toEqual(same);
    // Rails count before cards.
    expect(
      ends(
        [
          { rail: 1, guid: '0xa0' },
          { rail: 2, guid: '0xa0' },
        ],
        '0',
      ),
    ).toEqual(same);
  });

  it('of another host is one in the same place with NCCL_MNNVL_RAIL_PER_HOST=1', () => {
    const host = (number: number, card: string) =>
      cpu(
        { ...SAPPHIRE_RAPIDS, host_hash: `0x${number}000` },
        pciSwitch(
          '10:00.0',
          link(5),
          gpu('11:00.0', 0, { rank: number - 1, links: [nvswitch(18)], pci: link(5) }),
          nic(card, 0, { speed: 400_000, guid: `0x${number}` }, link(5)),
        ),
      );
    const crossing = (second: string, env: Environment) => {
      const xml = system(host(1, '12:00.0'), host(2, second));
      const options = { mnnvl: true, env: { NCCL_CROSS_NIC: '0', ...env } };
      return firstDomain(xml, 2, options).results.ring!.fallback ? 'none' : 'found';
    };
    const perHost = { NCCL_MNNVL_RAIL_PER_HOST: '1' };
    expect(crossing('12:00.0', {})).toBe('none');
    expect(crossing('12:00.0', perHost)).toBe('found');
    expect(crossing('13:00.0', perHost)).toBe('none');
  });
});

describe('what a channel takes', () => {
  it('on POWER, of the NVLink between GPU and CPU, also against the direction', () => {
    // 4 links are 80 GB/s. A ring of 40 takes 80 of every link: 40 there, 40 for the other direction's traffic to the
    // CPU. So one ring of 40 (two of 20), not two of 40.
    const ringOn = (kind: Attributes) => {
      const gpus = [0, 1].map((dev) => gpu(bus(dev), dev, { sm: 70, links: [nvlinkToCpu(4)] }));
      return firstDomain(system(cpu(kind, ...gpus)), 1).results.ring!;
    };
    const ring = ringOn(POWER);
    expect(ring.runs[0]).toMatchObject({ bwIntra: 40, bestChannels: 1 });
    expect(graphText(ring.graph)).toBe('4: 2 x 20/20 NVL/PIX cross 0 same 1');
    // No other CPU: two rings of 40 fill the 80.
    expect(ringOn(ARM).runs[0]).toMatchObject({ bwIntra: 40, bestChannels: 2 });
    expect(graphText(ringOn(ARM).graph)).toBe('4: 4 x 20/20 NVL/PIX cross 0 same 1');
  });

  it('through an Intel CPU, a fifth more of PCI links', () => {
    const two = (kind: Attributes) => system(cpu(kind, gpu(bus(0), 0), gpu(bus(1), 1)));
    // 24 GB/s: 24 themselves, 20 x 6/5.
    expect(graphText(firstDomain(two(ARM), 1).graphs.ring)).toMatch(/^4: 1 x 24\/24 PHB/);
    expect(graphText(firstDomain(two(SAPPHIRE_RAPIDS), 1).graphs.ring)).toMatch(/^4: 1 x 20\/20 PHB/);
  });

  it('before Ampere, an eighth of what a GPU receives from a NIC, backwards', () => {
    // One GPU, in and out 24 of 24 GB/s of PCI: an old GPU sends an eighth back too, so 20 (22.5) is the most.
    const one = (sm: number) =>
      system(cpu(MILAN, pciSwitch('10:00.0', gpu('11:00.0', 0, { sm }), nic('12:00.0', 0))));
    const ring = (sm: number) => graphText(firstDomain(one(sm), 2).graphs.ring);
    expect(ring(80)).toMatch(/^4: 1 x 24\/24 /);
    expect(ring(70)).toMatch(/^4: 1 x 20\/20 /);
  });

  it('as a balanced tree, half of the NIC at each of the first two GPUs', () => {
    // The NIC and GPU 0 carry 24, GPU 1 has 12 to PCI: just half of a tree of 24. Inside, NVLink of 40 lets it rise to
    // 28 and 30.
    const xml = system(
      cpu(
        MILAN,
        pciSwitch(
          '10:00.0',
          ...[0, 1].map((dev) => {
            const links = [nvlinkTo(`1${2 - dev}:00.0`, 2)];
            return gpu(`1${dev + 1}:00.0`, dev, { sm: 80, links, pci: link(dev === 0 ? 4 : 3) });
          }),
          nic('1f:00.0', 0),
        ),
      ),
    );
    const tree = search(searchSpace(xml, 2, { NCCL_PXN_DISABLE: '1' }), Pattern.BALANCED_TREE, [1, 1]).graph;
    expect(graphText(tree)).toMatch(/^1: 1 x 30\/24 NVL\/PIX/);
    expect(channelText(tree, 0)).toBe('NET0 0 1 NET0');
  });
});
