/** What ranks can use of the plain paths: peer-to-peer, GPUDirect RDMA, relays, and the network where it is faster. */
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import { gpuOfNic } from '#src/topology/paths/local-nics.js';
import {
  checkGdr,
  checkP2p,
  firstRankOn,
  gdrLevel,
  networkIsFaster,
  p2pLevel,
  p2pTransportRefuses,
  type ReachContext,
  relayOf,
  shmTransportRefuses,
} from '#src/topology/paths/reach.js';
import { type Environment, topologySettings } from '#src/topology/settings.js';
import type { GpuNode, NetNode } from '#src/topology/system/node.js';
import { PATH_TYPE_NAMES, PathType } from '#src/topology/system/path-type.js';
import type { XmlElement } from '#src/topology/xml/element.js';
import { cluster, hopText, node, pathText, reach } from '../described.js';
import {
  ARM,
  type Attributes,
  c2c,
  cpu,
  type GpuOptions,
  gpu,
  gpuElement,
  link,
  MILAN,
  nic,
  nvlinkTo,
  nvswitch,
  POWER,
  pci,
  pciSwitch,
  SAPPHIRE_RAPIDS,
  system,
} from '../machine-xml.js';

const gpuOf = ({ system }: ReachContext, index: number): GpuNode => system.nodes.GPU[index]!;
const netOf = ({ system }: ReachContext, index: number): NetNode => system.nodes.NET[index]!;
const path = ({ system }: ReachContext, from: string, to: string) =>
  pathText(node(system, from), node(system, to));
const hops = ({ system }: ReachContext, from: string, to: string) =>
  hopText(node(system, from), node(system, to));
const p2p = (context: ReachContext, from: number, to: number) =>
  checkP2p(context, gpuOf(context, from), gpuOf(context, to)).refused;

/** GPUs on as many sockets, without NVLink. */
const sockets = (kind: Attributes, count: number): XmlElement =>
  system(
    ...Array.from({ length: count }, (_, numaid) =>
      cpu({ ...kind, numaid }, gpu(`0${numaid + 1}:00.0`, numaid)),
    ),
  );

/** GPU 0 and 1 below one switch, GPU 2 below the same CPU, GPU 3 below another. */
const spread = (kind: Attributes = SAPPHIRE_RAPIDS, options: GpuOptions = {}): XmlElement =>
  system(
    cpu(
      { ...kind, numaid: 0 },
      pciSwitch('01:00.0', gpu('02:00.0', 0, options), gpu('03:00.0', 1, options)),
      pciSwitch('04:00.0', gpu('05:00.0', 2, options)),
    ),
    cpu({ ...kind, numaid: 1 }, gpu('06:00.0', 3, options)),
  );

/** GPU 0 and 1 joined by NVLink, each with its own options. */
const pair = (options: GpuOptions, ...more: XmlElement[]): XmlElement =>
  system(
    cpu(
      MILAN,
      gpu('01:00.0', 0, { links: [nvlinkTo('02:00.0', 2)], ...options }),
      gpu('02:00.0', 1, { links: [nvlinkTo('01:00.0', 2)], ...options }),
      ...more,
    ),
  );

describe('peer-to-peer', () => {
  it('reaches over switches, not over a CPU', () => {
    const context = reach(spread());
    expect(PATH_TYPE_NAMES[p2pLevel(context)]).toBe('PXB');
    expect([1, 2, 3].map((to) => p2p(context, 0, to))).toEqual([
      undefined,
      'path type above level',
      'path type above level',
    ]);
  });

  it('reaches over everything between at most two GPUs on AMD CPUs, and only there', () => {
    const level = (xml: XmlElement, env: Environment = {}) => PATH_TYPE_NAMES[p2pLevel(reach(xml, { env }))];
    expect([1, 2, 3].map((count) => level(sockets(MILAN, count)))).toEqual(['SYS', 'SYS', 'PXB']);
    expect([ARM, POWER, SAPPHIRE_RAPIDS].map((kind) => level(sockets(kind, 2)))).toEqual([
      'PXB',
      'PXB',
      'PXB',
    ]);
    expect(level(sockets(MILAN, 2), { NCCL_P2P_LEVEL: 'PHB' })).toBe('PHB');
    // Two devices with two ranks each are two GPUs.
    const shared = (bus: string, dev: number) =>
      pci(bus, '0x030200', {}, ...[0, 1].map((one) => gpuElement(dev, { rank: 2 * dev + one })));
    expect(level(system(cpu(MILAN, shared('01:00.0', 0), shared('02:00.0', 1))))).toBe('SYS');
    expect(p2p(reach(sockets(MILAN, 2)), 0, 1)).toBeUndefined();
    expect(p2p(reach(sockets(MILAN, 3)), 0, 1)).toBe('path type above level');
  });

  it('keeps two GPUs on AMD CPUs together without shared memory, but not two on Intel CPUs nor three', () => {
    const domains = (xml: XmlElement) =>
      cluster(xml, 1, { env: { NCCL_SHM_DISABLE: '1' } }).domains.map(({ ranks }) => ranks);
    // A network port for the nodes that the others become.
    const connected = (xml: XmlElement) => {
      xml.children[0]!.children.push(nic('0f:00.0', 0, { speed: 1000 }));
      return xml;
    };
    expect(domains(connected(sockets(MILAN, 2)))).toEqual([[0, 1]]);
    expect(domains(connected(sockets(SAPPHIRE_RAPIDS, 2)))).toEqual([[0], [1]]);
    expect(domains(connected(sockets(MILAN, 3)))).toEqual([[0], [1], [2]]);
  });

  it('goes as far as NCCL_P2P_LEVEL says, and nowhere with NCCL_P2P_DISABLE=1', () => {
    const reached = (env: Environment) => {
      const context = reach(spread(), { env });
      return [1, 2, 3].filter((to) => p2p(context, 0, to) === undefined);
    };
    expect(reached({ NCCL_P2P_LEVEL: 'SYS' })).toEqual([1, 2, 3]);
    expect(reached({ NCCL_P2P_LEVEL: 'PHB' })).toEqual([1, 2]);
    expect(reached({ NCCL_P2P_LEVEL: 'PIX' })).toEqual([1]);
    expect(reached({ NCCL_P2P_LEVEL: 'NVL' })).toEqual([]);
    expect(reached({ NCCL_P2P_LEVEL: 'SYS', NCCL_P2P_DISABLE: '1' })).toEqual([]);
    expect(reached({ NCCL_P2P_DISABLE: '0' })).toEqual([1]);
  });

  it('where it is refused leaves the way over the CPU next to the receiver', () => {
    const through = reach(spread(), { env: { NCCL_P2P_LEVEL: 'LOC' } });
    expect(path(through, 'GPU0', 'GPU1')).toBe('6/24/PHB');
    expect(hops(through, 'GPU0', 'GPU1')).toBe('DEV0 PCI0 CPU0 PCI0 DEV1 GPU1');
    expect(hops(reach(spread()), 'GPU0', 'GPU1')).toBe('DEV0 PCI0 DEV1 GPU1');
    // GPU 3's CPU, although GPU 2 stands at the other.
    expect(hops(through, 'GPU2', 'GPU3')).toBe('DEV2 PCI1 CPU0 CPU1 DEV3 GPU3');
    expect(path(through, 'GPU2', 'GPU3')).toBe('6/22/SYS');
  });

  it('never reaches a container with another /dev/shm, nor another host outside of an NVLink clique', () => {
    const context = reach(spread(), { env: { NCCL_P2P_LEVEL: 'SYS' } });
    const [first, ...rest] = context.comm.ranks;
    const changed = (change: object, more: object = {}): ReachContext => ({
      ...context,
      comm: { ...context.comm, ...more, ranks: [{ ...first!, ...change }, ...rest] },
    });
    expect(p2p(changed({ shmDevice: 7 }), 0, 1)).toBe('different /dev/shm');
    expect(p2p(changed({ hostHash: 7n }), 0, 1)).toBe('different host');
    expect(p2p(changed({ hostHash: 7n }, { mnnvl: true }), 0, 1)).toBe('different host');
    const clique = context.comm.ranks.map((rank) => ({ ...rank, clusterUuid: 'a' }));
    const other = (change: object): ReachContext => ({
      ...context,
      comm: {
        ...context.comm,
        mnnvl: true,
        ranks: [{ ...clique[0]!, hostHash: 7n, ...change }, ...clique.slice(1)],
      },
    });
    expect(p2p(other({}), 0, 1)).toBeUndefined();
    expect(p2p(other({ clusterUuid: 'b' }), 0, 1)).toBe('different host');
    expect(p2p(other({ cliqueId: 1 }), 0, 1)).toBe('different host');
  });

  it('lets the receiver read between two GPUs of compute capability 8.0 with NVLink', () => {
    const reads = (xml: XmlElement) => {
      const context = reach(xml);
      return checkP2p(context, gpuOf(context, 0), gpuOf(context, 1)).read;
    };
    expect(reads(pair({ sm: 80 }))).toBe(true);
    expect(reads(pair({ sm: 86 }))).toBe(false);
    expect(reads(pair({ sm: 90 }))).toBe(false);
    expect(reads(spread(MILAN, { sm: 80 }))).toBe(false);
  });
});

describe('what NVML says of peer-to-peer', () => {
  const refuse = () => false;
  const lines: string[] = [];
  const log: NonNullable<ReachContext['log']> = (level, subsystem, text) => {
    lines.push(`${level} ${subsystem} ${text}`);
  };
  const said = (xml: XmlElement, env: Environment = {}) => {
    lines.length = 0;
    const context = reach(xml, { nvmlP2p: refuse, env, log });
    return { context, lines: [...lines] };
  };

  it('turns it off over PCI, with a line that names both GPUs', () => {
    const { context, lines: said0 } = said(spread());
    expect(p2p({ ...context, log: () => {} }, 0, 1)).not.toBeUndefined();
    expect(path(context, 'GPU0', 'GPU1')).toBe('6/24/PHB');
    expect(said0).toContain(
      'INFO GRAPH P2P is disabled between connected GPUs 0 and 1. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.',
    );
    expect(said0.every((line) => !/GPUs (2|3)/.test(line))).toBe(true);
  });

  it('is an error between GPUs with NVLink: they should reach each other', () => {
    expect(() => said(pair({}))).toThrow(
      /P2P is disabled between NVLINK connected GPUs 1 and 0\..*NCCL_IGNORE_DISABLED_P2P=1/,
    );
    expect(lines[0]).toMatch(/^WARN GRAPH P2P is disabled between NVLINK connected GPUs 1 and 0\./);
    try {
      said(pair({}));
    } catch (error) {
      expect(TuttiError.is(error) && error.code).toBe('unhandledCudaError');
    }
  });

  it('is heeded silently with NCCL_IGNORE_DISABLED_P2P=1, and not asked with 2', () => {
    const silent = said(pair({}), { NCCL_IGNORE_DISABLED_P2P: '1' });
    expect(silent.lines).toEqual([]);
    expect(path(silent.context, 'GPU0', 'GPU1')).toBe('4/24/PHB');
    const unasked = said(pair({}), { NCCL_IGNORE_DISABLED_P2P: '2' });
    expect(unasked.lines).toEqual([]);
    expect(path(unasked.context, 'GPU0', 'GPU1')).toBe('3/41.2/NVL');
  });

  it('is not asked about one device, nor about other hosts', () => {
    const shared = pci('01:00.0', '0x030200', {}, gpuElement(0, { rank: 0 }), gpuElement(0, { rank: 1 }));
    expect(path(said(system(cpu(MILAN, shared))).context, 'GPU0', 'GPU1')).toBe('2/5000/LOC');
    const context = reach(pair({}));
    expect(
      p2p({ ...context, localHost: 7n, comm: { ...context.comm, nvmlP2p: refuse } }, 0, 1),
    ).toBeUndefined();
  });

  it('is asked for both halves of a path through a third GPU', () => {
    const bus = (dev: number) => `0${dev + 1}:00.0`;
    const row = system(
      cpu(
        MILAN,
        gpu(bus(0), 0, { links: [nvlinkTo(bus(1), 2)] }),
        gpu(bus(1), 1, { links: [nvlinkTo(bus(0), 2), nvlinkTo(bus(2), 2)] }),
        gpu(bus(2), 2, { links: [nvlinkTo(bus(1), 2)] }),
      ),
    );
    const asked: string[] = [];
    const context = reach(row, {
      nvmlP2p: (a, b) => {
        asked.push(`${a.slice(5, 7)}-${b.slice(5, 7)}`);
        return true;
      },
    });
    asked.length = 0;
    const answer = checkP2p(context, gpuOf(context, 0), gpuOf(context, 2));
    expect(answer).toMatchObject({ refused: undefined, intermediate: { rank: 1 } });
    expect(asked).toEqual(['01-02', '02-03']);
    // Only the second half is broken.
    const half = { ...context, comm: { ...context.comm, nvmlP2p: (a: string) => a.includes('01:') } };
    expect(() => p2p(half, 0, 2)).toThrow(/GPUs 1 and 2/);
  });

  it('cannot be asked of a device in the middle that no rank uses', () => {
    const context = reach(pair({}));
    const { system: machine } = context;
    const lost = { ...machine.nodes.DEV[0]!, dev: 5 };
    expect(() => firstRankOn(machine, lost)).toThrow(
      /could not find rank for nvml dev 5 in systemId 0.*NCCL_NVB_DISABLE=1/,
    );
    expect(firstRankOn(machine, machine.nodes.DEV[1]!).rank).toBe(1);
  });
});

describe('the network between GPUs of one host', () => {
  /** Two GPUs on two Intel sockets (22 GB/s), each next to a NIC. */
  const box = (speed: number): XmlElement =>
    system(
      ...[0, 1].map((numaid) =>
        cpu(
          { ...SAPPHIRE_RAPIDS, numaid },
          pciSwitch(
            `${numaid + 1}0:00.0`,
            gpu(`${numaid + 1}1:00.0`, numaid),
            nic(`${numaid + 1}2:00.0`, numaid, { speed }),
          ),
        ),
      ),
    );
  const faster = (speed: number, env: Environment = {}) => {
    const context = reach(box(speed), { env });
    return networkIsFaster(context, gpuOf(context, 0), gpuOf(context, 1));
  };

  it('is used if both NICs are faster than the way inside', () => {
    // 22.5 GB/s is more than 22; 22 itself is not; 200 Gbit/s are limited to 24 by PCI.
    expect([160_000, 176_000, 180_000, 200_000].map((speed) => faster(speed))).toEqual([
      false,
      false,
      true,
      true,
    ]);
    expect(faster(200_000, { NCCL_NET_DISABLE_INTRA: '1' })).toBe(false);
    const context = reach(box(200_000));
    expect(path(context, 'GPU0', 'GPU1')).toBe('7/22/NET');
    expect(p2pTransportRefuses(context, gpuOf(context, 0), gpuOf(context, 1))).toBe('path type above level');
    expect(shmTransportRefuses(context, gpuOf(context, 0), gpuOf(context, 1))).toBe('network is faster');
    expect(cluster(box(200_000), 1).comm.nNodes).toBe(2);
    expect(cluster(box(160_000), 1).comm.nNodes).toBe(1);
  });

  it('is not used from a NIC behind the CPU', () => {
    const far = system(
      ...[0, 1].map((numaid) =>
        cpu(
          { ...SAPPHIRE_RAPIDS, numaid },
          gpu(`${numaid + 1}1:00.0`, numaid),
          nic(`${numaid + 1}2:00.0`, numaid),
        ),
      ),
    );
    const context = reach(far);
    expect(networkIsFaster(context, gpuOf(context, 0), gpuOf(context, 1))).toBe(false);
  });

  it('refuses the peer-to-peer transport too, except through a third GPU', () => {
    // Without a GPU between: NVLink of 20.6 is slower than NICs of 24.
    const bus = (dev: number) => `${dev + 1}1:00.0`;
    const slow = (peers: readonly number[][]) =>
      system(
        cpu(
          MILAN,
          ...peers.map((to, dev) =>
            pciSwitch(
              `${dev + 1}0:00.0`,
              gpu(bus(dev), dev, { links: to.map((peer) => nvlinkTo(bus(peer), 1)) }),
              nic(`${dev + 1}2:00.0`, dev),
            ),
          ),
        ),
      );
    expect(path(reach(slow([[1], [0]])), 'GPU0', 'GPU1')).toBe('3/20.6/NET');
    const row = reach(slow([[1], [0, 2], [1]]));
    expect(path(row, 'GPU0', 'GPU1')).toBe('3/20.6/NET');
    expect(path(row, 'GPU0', 'GPU2')).toBe('4/20.6/NVB');
  });
});

describe('shared memory', () => {
  it('is refused by NCCL_SHM_DISABLE=1 and between containers and hosts', () => {
    const context = reach(spread());
    const [first, ...rest] = context.comm.ranks;
    const shm = (change: object, env: Environment = {}) =>
      shmTransportRefuses(
        {
          ...context,
          settings: topologySettings(env),
          comm: { ...context.comm, ranks: [{ ...first!, ...change }, ...rest] },
        },
        gpuOf(context, 0),
        gpuOf(context, 1),
      );
    expect(shm({})).toBeUndefined();
    expect(shm({ shmDevice: 1 })).toBe('different /dev/shm');
    expect(shm({ hostHash: 1n })).toBe('different host');
    expect(shm({}, { NCCL_SHM_DISABLE: '1' })).toBe('NCCL_SHM_DISABLE');
  });
});

describe('GPUDirect RDMA', () => {
  /** NICs next to GPU 0, below its CPU, and below another. */
  const three = (gpuOptions: GpuOptions = {}, netOptions: Attributes = {}): XmlElement =>
    system(
      cpu(
        { ...SAPPHIRE_RAPIDS, numaid: 0 },
        pciSwitch('01:00.0', gpu('02:00.0', 0, gpuOptions), nic('03:00.0', 0, netOptions)),
        nic('04:00.0', 1, netOptions),
      ),
      cpu({ ...SAPPHIRE_RAPIDS, numaid: 1 }, nic('05:00.0', 2, netOptions), gpu('06:00.0', 1, gpuOptions)),
    );
  const gdr = (context: ReachContext, net: number, read = false) =>
    checkGdr(context, gpuOf(context, 0), netOf(context, net), read).refused;

  it('reaches over switches and chip-to-chip links, or as far as NCCL_NET_GDR_LEVEL says', () => {
    const reached = (env: Environment) => {
      const context = reach(three(), { env });
      return [0, 1, 2].filter((net) => gdr(context, net) === undefined);
    };
    expect(reached({})).toEqual([0]);
    expect(reached({ NCCL_NET_GDR_LEVEL: 'PHB' })).toEqual([0, 1]);
    expect(reached({ NCCL_NET_GDR_LEVEL: 'SYS' })).toEqual([0, 1, 2]);
    expect(reached({ NCCL_NET_GDR_LEVEL: 'LOC' })).toEqual([]);
    const level = (env: Environment) => PATH_TYPE_NAMES[gdrLevel(topologySettings(env))];
    expect([{}, { NCCL_NET_GDR_C2C: '0' }, { NCCL_NET_GDR_LEVEL: '3' }].map(level)).toEqual([
      'P2C',
      'PXB',
      'PHB',
    ]);
  });

  it('needs both the NIC and the GPU', () => {
    expect(gdr(reach(three({ gdr: 0 })), 0)).toBe('GPU without GPUDirect RDMA');
    expect(gdr(reach(three({}, { gdr: 0 })), 0)).toBe('NIC without GPUDirect RDMA');
  });

  it('without which the NIC is reached over the CPU, in both directions', () => {
    const context = reach(three({ gdr: 0 }));
    expect(path(context, 'GPU0', 'NET0')).toBe('6/24/PHB');
    expect(hops(context, 'GPU0', 'NET0')).toBe('DEV0 PCI0 CPU0 PCI0 NIC0 NET0');
    expect(hops(context, 'NET0', 'GPU0')).toBe('NIC0 PCI0 CPU0 PCI0 DEV0 GPU0');
    expect(path(reach(three()), 'GPU0', 'NET0')).toBe('4/24/PIX');
  });

  it('is off for a partition of a GPU, unless NCCL_NET_GDR_MLOPART=1', () => {
    expect(gdr(reach(three({ mlopart: 0 })), 0)).toBe('MLOPart partition');
    expect(gdr(reach(three({ mlopart: 0 }), { env: { NCCL_NET_GDR_MLOPART: '1' } }), 0)).toBeUndefined();
    expect(gdr(reach(three({ mlopart: -1 })), 0)).toBeUndefined();
  });

  it('does not let a NIC read below compute capability 8.0, except of GPUs with NVLink and of single ones', () => {
    const refusal = 'no GPUDirect read below compute capability 80 without NVLink';
    const read = (xml: XmlElement, env: Environment = {}) => gdr(reach(xml, { env }), 0, true);
    const besides = pciSwitch('0e:00.0', gpu('0f:00.0', 2, { sm: 70 }), nic('10:00.0', 0));
    expect(read(three({ sm: 79 }))).toBe(refusal);
    expect(read(three({ sm: 80 }))).toBeUndefined();
    expect(gdr(reach(three({ sm: 70 })), 0)).toBeUndefined();
    expect(read(three({ sm: 70 }), { NCCL_NET_GDR_READ: '1' })).toBeUndefined();
    expect(read(three({ sm: 70 }), { NCCL_NET_GDR_READ: '-1' })).toBe(refusal);
    expect(read(three({ sm: 90 }), { NCCL_NET_GDR_READ: '0' })).toBe('NCCL_NET_GDR_READ');
    expect(gdr(reach(three(), { env: { NCCL_NET_GDR_READ: '0' } }), 0)).toBeUndefined();
    // A single GPU.
    expect(
      read(system(cpu(MILAN, pciSwitch('01:00.0', gpu('02:00.0', 0, { sm: 70 }), nic('03:00.0', 0))))),
    ).toBeUndefined();
    // GPU 0 and 1 have NVLink, GPU 2 has none: the rule asks for a path of the GPU itself.
    const mixed = reach(pair({ sm: 70 }, besides));
    const near = checkGdr(mixed, gpuOf(mixed, 2), netOf(mixed, 0), true).refused;
    expect(near).toBe(refusal);
    const level = reach(pair({ sm: 70 }, besides), { env: { NCCL_NET_GDR_LEVEL: 'SYS' } });
    expect(checkGdr(level, gpuOf(level, 0), netOf(level, 0), true).refused).toBeUndefined();
  });

  it('over PCI, next to a chip-to-chip link, is told apart', () => {
    const grace = (netPlace: 'switch' | 'cpu') => {
      const port = nic('03:00.0', 0);
      const hopper = gpu('02:00.0', 0, { links: [c2c(40_000, 10)] });
      return reach(
        system(netPlace === 'cpu' ? cpu(ARM, hopper, port) : cpu(ARM, pciSwitch('01:00.0', hopper, port))),
      );
    };
    const beside = grace('switch');
    expect(checkGdr(beside, gpuOf(beside, 0), netOf(beside, 0), false)).toEqual({
      refused: undefined,
      mode: 'PCI',
      distance: PathType.PIX,
    });
    const behind = grace('cpu');
    expect(path(behind, 'GPU0', 'NET0')).toBe('4/24/P2C');
    expect(path(behind, 'NET0', 'GPU0')).toBe('4/24/P2C');
    expect(checkGdr(behind, gpuOf(behind, 0), netOf(behind, 0), false)).toEqual({
      refused: undefined,
      mode: 'default',
      distance: PathType.P2C,
    });
    const plain = reach(three());
    expect(checkGdr(plain, gpuOf(plain, 0), netOf(plain, 0), false).mode).toBe('default');
  });
});

describe('a NIC next to another GPU', () => {
  /** Two GPUs with NVLink below one switch, GPU 0 on a PCI link of its own; the NIC beside them. */
  const one = (first: Attributes, options: GpuOptions = {}): XmlElement =>
    system(
      cpu(
        MILAN,
        pciSwitch(
          '01:00.0',
          gpu('02:00.0', 0, { links: [nvlinkTo('03:00.0', 4)], pci: first }),
          gpu('03:00.0', 1, { links: [nvlinkTo('02:00.0', 4)], ...options }),
          nic('04:00.0', 0),
        ),
      ),
    );

  it('is reached through that GPU if that is wider, although the own way passes one switch only', () => {
    const narrow = reach(one(link(3)));
    expect(path(narrow, 'GPU0', 'NET0')).toBe('7/24/PXN');
    expect(hops(narrow, 'GPU0', 'NET0')).toBe('DEV0 DEV1 GPU1 DEV1 PCI0 NIC0 NET0');
    expect(relayOf(narrow.system, gpuOf(narrow, 0), netOf(narrow, 0)).rank).toBe(1);
    // The way from the NIC stays.
    expect(path(narrow, 'NET0', 'GPU0')).toBe('4/12/PIX');
    // As wide is not enough: both have 24, the NIC is GPU 0's, and GPU 1 keeps its own way.
    const equal = reach(one(link(4)));
    expect(equal.system.nodes.NET[0]!.localGpu).toBe(0);
    expect(['GPU0', 'GPU1'].map((from) => path(equal, from, 'NET0'))).toEqual(['4/24/PIX', '4/24/PIX']);
  });

  it('is not reached through it without NVLink, without GPUDirect there, on request, or with old plugins', () => {
    const plain = '4/12/PIX';
    const unlinked = one(link(3), { links: [] });
    unlinked.children[0]!.children[0]!.children[0]!.children[0]!.children.length = 0;
    expect(path(reach(unlinked), 'GPU0', 'NET0')).toBe(plain);
    expect(path(reach(one(link(3), { gdr: 0 })), 'GPU0', 'NET0')).toBe(plain);
    expect(path(reach(one(link(3)), { env: { NCCL_PXN_DISABLE: '1' } }), 'GPU0', 'NET0')).toBe(plain);
    expect(path(reach(one(link(3)), { env: { NCCL_NET_GDR_READ: '0' } }), 'GPU0', 'NET0')).toBe(plain);
    expect(path(reach(one(link(3)), { pxnSupported: false }), 'GPU0', 'NET0')).toBe(plain);
  });

  it('is reached through it instead of over the CPU, on one host only', () => {
    const branch = (k: number, dev: number) =>
      pciSwitch(`${k}0:00.0`, gpu(`${k}1:00.0`, dev, { links: [nvswitch(18)] }), nic(`${k}2:00.0`, dev));
    const both = reach(system(cpu(MILAN, branch(1, 0), branch(2, 1))));
    expect(path(both, 'GPU0', 'NET1')).toBe('8/24/PXN');
    const apart = reach(
      system(cpu(MILAN, branch(1, 0)), cpu({ ...MILAN, host_hash: '0x2000' }, branch(1, 1))),
      { mnnvl: true },
    );
    expect(path(apart, 'GPU0', 'GPU1')).toBe('4/370.8/NVL');
    expect(apart.system.nodes.NET.map(({ id }) => id >> 56n)).toEqual([0n, 1n]);
    expect(path(apart, 'GPU0', 'NET1')).toBe('0/0/DIS');
  });

  it('by a chip-to-chip link is reached through that GPU unless NCCL_PXN_C2C=0', () => {
    const grace = (numaid: number) =>
      cpu(
        { ...ARM, numaid },
        gpu(`${numaid + 1}1:00.0`, numaid, { links: [nvswitch(18), c2c(40_000, 10)] }),
        nic(`${numaid + 1}2:00.0`, numaid),
      );
    const two = system(grace(0), grace(1));
    expect(path(reach(two), 'GPU0', 'NET0')).toBe('4/24/P2C');
    expect(path(reach(two), 'GPU0', 'NET1')).toBe('8/24/PXN');
    // Between the sockets 6 GB/s.
    expect(path(reach(two, { env: { NCCL_PXN_C2C: '0' } }), 'GPU0', 'NET1')).toMatch(/\/6\/SYS$/);
  });
});

describe('the GPU of a NIC', () => {
  it('is the first of the nearest that prefers it for some channel', () => {
    const two = reach(
      system(
        cpu(
          MILAN,
          pciSwitch('01:00.0', gpu('02:00.0', 0), gpu('03:00.0', 1), nic('04:00.0', 0), nic('05:00.0', 1)),
          pciSwitch('06:00.0', nic('07:00.0', 2)),
        ),
      ),
    );
    const { system: machine, settings } = two;
    const owner = (net: number) => gpuOfNic(machine, netOf(two, net), settings.netDevsPolicy)?.rank;
    expect([0, 1].map(owner)).toEqual([0, 1]);
    // Both are equally near to NIC 2, and neither prefers it.
    expect(owner(2)).toBeUndefined();
    expect(machine.nodes.NET.map(({ localGpu }) => localGpu)).toEqual([0, 1, -1]);
  });
});
