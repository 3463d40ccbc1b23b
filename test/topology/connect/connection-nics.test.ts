import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { graphNic, type NicChoice, p2pNic, pxnRelays } from '#src/topology/connect/connection-nics.js';
import type { DomainInfo } from '#src/topology/connect/domain.js';
import type { ReachContext } from '#src/topology/paths/reach.js';
import { GraphId, Pattern, type TopoGraph } from '#src/topology/search/graph.js';
import { type Environment, topologySettings } from '#src/topology/settings.js';
import { hostOf } from '#src/topology/system/node.js';
import { PathType } from '#src/topology/system/path-type.js';
import { readGolden } from '../golden/folder.js';
import { goldenDomains } from './golden-domains.js';
import { madeGraph, upTo } from './machines.js';

const firstDomain = (machine: string, file: string): DomainInfo =>
  goldenDomains(readGolden(fileURLToPath(new URL(`../../golden/${machine}`, import.meta.url)), file))[0]!;

/** 8 H100 with a 400 Gbit/s NIC each, NVSwitch: every GPU reaches every NIC through the GPU next to it. */
const h100 = firstDomain('azure-ndv5-h100x8-8x400g', 'golden-n2-nvls.json.gz');

const show = ({ net, relay }: NicChoice) => `NIC ${net.dev} by rank ${relay.rank}`;

function contextOf({ system, ranks }: DomainInfo, env: Environment = {}, pxnSupported = true): ReachContext {
  const comm = { nRanks: 2 * ranks.length, ranks: [], mnnvl: false, nvmlP2p: () => true, pxnSupported };
  return { system, comm, settings: topologySettings(env), localHost: 0n };
}

describe('NIC of a ring or tree channel', () => {
  const nic = ({ system, graphs }: DomainInfo, graph: TopoGraph, rank: number, channel: number) => {
    expect(Object.values(graphs)).toContain(graph);
    return show(graphNic(system, graph, system.nodes.GPU[rank]!, channel));
  };

  it('is the first one at the first GPU and the last one at all others', () => {
    const { ring } = h100.graphs;
    expect(ring.channels[0]).toEqual({ intra: [0, 7, 6, 5, 4, 3, 2, 1], inter: [0n, 1n] });
    expect([nic(h100, ring, 0, 0), nic(h100, ring, 1, 0)]).toEqual(['NIC 0 by rank 0', 'NIC 1 by rank 1']);
    expect([nic(h100, ring, 0, 1), nic(h100, ring, 1, 1)]).toEqual(['NIC 0 by rank 0', 'NIC 1 by rank 1']);
    expect(nic(h100, ring, 2, 1)).toBe('NIC 0 by rank 0');
  });

  it('repeats with the channels of the search', () => {
    const { ring } = h100.graphs;
    for (const rank of upTo(8)) {
      for (const channel of upTo(8)) {
        expect(nic(h100, ring, rank, channel + 8)).toBe(nic(h100, ring, rank, channel));
      }
    }
  });

  it('is driven by the relay of a PXN path, which sits next to it', () => {
    // Rings that return to the NIC they came from end at a GPU that reaches it through the first one.
    const uncrossed = firstDomain('azure-ndv5-h100x8-8x400g', 'golden-n2-nvls-env-crossnic0.json.gz');
    const { ring } = uncrossed.graphs;
    expect(ring.channels.length).toBe(8);
    for (const [channel, { intra }] of ring.channels.entries()) {
      expect(nic(uncrossed, ring, intra[0]!, channel)).toBe(`NIC ${channel} by rank ${channel}`);
      expect(nic(uncrossed, ring, intra.at(-1)!, channel)).toBe(`NIC ${channel} by rank ${channel}`);
    }
  });

  it('is one of the NICs of the channels that a rank heads, for NVLS', () => {
    expect(nic(h100, h100.graphs.nvls, 3, 5)).toBe('NIC 3 by rank 3');
    const graph = madeGraph(GraphId.NVLS, Pattern.NVLS, [[0], [1], [0]]);
    graph.channels = [0n, 1n, 2n].map((id, k) => ({ intra: [k % 2], inter: [id, id] }));
    const of = (channel: number) => show(graphNic(h100.system, graph, h100.system.nodes.GPU[0]!, channel));
    expect(upTo(4).map(of)).toEqual(
      upTo(4).map((channel) => `NIC ${channel % 2 === 0 ? '0 by rank 0' : '2 by rank 2'}`),
    );
  });

  it('is an error for a rank without a head, and for a NIC that is not there', () => {
    const graph = madeGraph(GraphId.NVLS, Pattern.NVLS, [[0]]);
    const gpu = h100.system.nodes.GPU[1]!;
    const message = 'Could not find NIC for rank 1 in NVLS graph';
    expect(() => graphNic(h100.system, graph, gpu, 0)).toThrow(
      expect.objectContaining({ code: 'internalError', message, rank: 1 }),
    );
    const ring = madeGraph(GraphId.RING, Pattern.RING, [upTo(8)]);
    expect(() => graphNic(h100.system, ring, gpu, 0)).toThrow(/names NIC none for rank 1 in channel 0/);
    ring.channels = [{ intra: upTo(8), inter: [0xffff_ffff_ffff_ffffn, 0n] }];
    expect(() => graphNic(h100.system, ring, h100.system.nodes.GPU[0]!, 0)).toThrow(/names NIC f{16}/);
  });
});

describe('NIC of a send or receive', () => {
  const nic = (env: Environment, peerDev: number, pxnSupported?: boolean) =>
    show(p2pNic(contextOf(h100, env, pxnSupported), h100.system.nodes.GPU[2]!, peerDev, 0));

  it("is the peer's rail, by the rank next to that NIC", () => {
    expect(upTo(8).map((dev) => nic({}, dev))).toEqual(upTo(8).map((dev) => `NIC ${dev} by rank ${dev}`));
  });

  it('is the own one for a peer that has no counterpart here, and without PXN', () => {
    expect(nic({}, 9)).toBe('NIC 2 by rank 2');
    expect(nic({ NCCL_PXN_DISABLE: '1' }, 5)).toBe('NIC 2 by rank 2');
    expect(nic({ NCCL_P2P_PXN_LEVEL: '0' }, 5)).toBe('NIC 2 by rank 2');
    expect(nic({}, 5, false)).toBe('NIC 2 by rank 2');
  });

  it("is the peer's rail by the own rank where rails must not be crossed and PXN fails", () => {
    expect(nic({ NCCL_CROSS_NIC: '0', NCCL_PXN_DISABLE: '1' }, 5)).toBe('NIC 5 by rank 2');
    expect(nic({ NCCL_CROSS_NIC: '0', NCCL_NET_GDR_LEVEL: 'LOC' }, 5)).toBe('NIC 5 by rank 2');
    expect(nic({ NCCL_CROSS_NIC: '0' }, 5)).toBe('NIC 5 by rank 5');
    expect(nic({ NCCL_CROSS_NIC: '0' }, 9)).toBe('NIC 2 by rank 2');
  });

  it('needs GPUDirect RDMA at the relay for level 2', () => {
    expect(nic({ NCCL_NET_GDR_LEVEL: 'LOC' }, 5)).toBe('NIC 2 by rank 2');
    expect(nic({ NCCL_NET_GDR_LEVEL: 'PIX' }, 5)).toBe('NIC 5 by rank 5');
  });

  it('needs NVLink from the relay, and a NIC near it, for level 2', () => {
    const changed = (env: Environment, toGpu: PathType, toNic: PathType) => {
      const domain = firstDomain('azure-ndv5-h100x8-8x400g', 'golden-n2-nvls.json.gz');
      const { GPU } = domain.system.nodes;
      GPU[5]!.paths.GPU![2]!.type = toGpu;
      // Other NICs stay worse, or the GPU would prefer them.
      for (const path of GPU[5]!.paths.NET!) path.bandwidth = 1;
      Object.assign(GPU[5]!.paths.NET![5]!, { type: toNic, bandwidth: 48 });
      return show(p2pNic(contextOf(domain, env), GPU[2]!, 5, 0));
    };
    const near = { NCCL_NET_GDR_LEVEL: 'SYS' };
    expect(changed(near, PathType.NVL, PathType.P2C)).toBe('NIC 5 by rank 5');
    expect(changed(near, PathType.NVB, PathType.PIX)).toBe('NIC 2 by rank 2');
    expect(changed(near, PathType.NVL, PathType.PHB)).toBe('NIC 2 by rank 2');
    expect(changed({ ...near, NCCL_PXN_C2C: '0' }, PathType.NVL, PathType.PXB)).toBe('NIC 5 by rank 5');
    expect(changed({ ...near, NCCL_PXN_C2C: '0' }, PathType.NVL, PathType.P2C)).toBe('NIC 2 by rank 2');
  });

  it('goes by the own path for level 1', () => {
    expect(nic({ NCCL_P2P_PXN_LEVEL: '1' }, 5)).toBe('NIC 5 by rank 5');
    expect(nic({ NCCL_P2P_PXN_LEVEL: '1', NCCL_NET_GDR_LEVEL: 'LOC' }, 5)).toBe('NIC 5 by rank 5');
  });

  it('looks for the counterpart on the own host of a clique', () => {
    const clique = firstDomain('gb200-nvl72-tray', 'golden-mnnvl-n4-clique2.json.gz');
    const { GPU } = clique.system.nodes;
    const own = GPU.find((gpu) => hostOf(gpu) === 1 && gpu.dev === 0)!;
    for (const dev of upTo(4)) {
      const { net, relay } = p2pNic(contextOf(clique), own, dev, 0);
      expect([hostOf(net), hostOf(relay)]).toEqual([1, 1]);
    }
    // On level 1 the relay is chosen by the path to a NIC of host 0, which is no PXN path.
    const context = contextOf(clique, { NCCL_P2P_PXN_LEVEL: '1' });
    const other = p2pNic(context, own, 3, 0);
    expect(own.paths.NET![other.net.index]!.type).toBe(PathType.PXN);
    expect([hostOf(other.net), other.relay]).toEqual([1, own]);
  });
});

describe('relays to connect to at the start', () => {
  const relays = (env: Environment, devs: Iterable<number>, domain = h100) =>
    pxnRelays(contextOf(domain, env), domain.system.nodes.GPU[2]!, devs).map(({ rank }) => rank);

  it('are the other ranks that carry traffic to some peer, each once', () => {
    expect(relays({}, [...upTo(8), ...upTo(8)])).toEqual([0, 1, 3, 4, 5, 6, 7]);
    expect(relays({}, [2, 4, 2, 4])).toEqual([4]);
  });

  it('are none where NICs may not read GPU memory, without PXN, and inside one system', () => {
    expect(relays({ NCCL_NET_GDR_READ: '0' }, upTo(8))).toEqual([]);
    expect(relays({ NCCL_PXN_DISABLE: '1' }, upTo(8))).toEqual([]);
    expect(relays({}, upTo(8), { ...h100, system: { ...h100.system, inter: false } })).toEqual([]);
  });
});
