/** What a cluster takes from variables, from the configuration of its communicator, and from each of its hosts. */
import { describe, expect, it } from 'vitest';
import { type ClusterOptions, describeCluster } from '#src/topology/cluster.js';
import { cluster, node, pathText } from './described.js';
import { cpu, eightGpuBox, gpu, H100, MILAN, nic, pciSwitch, system } from './machine-xml.js';

type Options = Partial<Omit<ClusterOptions, 'nodes'>>;

describe('the channels of a cluster', () => {
  const box = eightGpuBox(H100);
  const channels = (options: Options) => {
    const { nChannels, nvls } = cluster(box, 1, options).comm;
    return { nChannels, nvls: nvls!.nChannels };
  };

  it('are those of the machine where nobody asks for others', () => {
    expect(channels({})).toEqual({ nChannels: 24, nvls: 16 });
  });

  it('follow the variables', () => {
    expect(channels({ env: { NCCL_NVLS_NCHANNELS: '8' } })).toEqual({ nChannels: 24, nvls: 8 });
    expect(channels({ env: { NCCL_MIN_NCHANNELS: '32' } })).toEqual({ nChannels: 32, nvls: 16 });
    expect(channels({ env: { NCCL_MAX_NCHANNELS: '5' } })).toEqual({ nChannels: 5, nvls: 16 });
    expect(channels({ env: { NCCL_MIN_CTAS: '40' } })).toEqual({ nChannels: 40, nvls: 40 });
    expect(channels({ env: { NCCL_MAX_CTAS: '4' } })).toEqual({ nChannels: 4, nvls: 4 });
  });

  it('follow the configuration, and the variables before it', () => {
    const config = { nvlsCtas: 6, minCtas: 30, maxCtas: 31 };
    expect(channels({ config })).toEqual({ nChannels: 30, nvls: 30 });
    expect(channels({ config: { nvlsCtas: 6 } })).toEqual({ nChannels: 24, nvls: 6 });
    const env = { NCCL_NVLS_NCHANNELS: '7', NCCL_MAX_CTAS: '20', NCCL_MIN_CTAS: '1' };
    expect(channels({ config, env })).toEqual({ nChannels: 20, nvls: 7 });
  });

  it('to a peer over the network follow variable and configuration too', () => {
    const perPeer = (options: Options) => cluster(box, 2, options).comm.p2pnChannelsPerPeer;
    // One NIC of 48 GB/s per GPU needs 4 channels of 14 GB/s.
    expect(perPeer({})).toBe(4);
    expect(perPeer({ config: { nChannelsPerNetPeer: 8 } })).toBe(8);
    const env = { NCCL_NCHANNELS_PER_NET_PEER: '2' };
    expect(perPeer({ config: { nChannelsPerNetPeer: 8 }, env })).toBe(2);
  });
});

describe('hosts of a cluster', () => {
  /** Two GPUs and a NIC below one switch. */
  const host = () =>
    system(cpu(MILAN, pciSwitch('01:00.0', gpu('02:00.0', 0), gpu('03:00.0', 1), nic('04:00.0', 0))));

  it('may have drivers that report different things', () => {
    const refuse = () => false;
    const ways = (options: Options, ...nvml: (typeof refuse | undefined)[]) =>
      describeCluster({ nodes: nvml.map((nvmlP2p) => ({ xml: host(), nvmlP2p })), ...options }).domains.map(
        ({ system: machine }) => pathText(node(machine, 'GPU0'), node(machine, 'GPU1')),
      );
    expect(ways({}, undefined, refuse)).toEqual(['4/24/PIX', '6/24/PHB']);
    expect(ways({ nvmlP2p: refuse }, undefined, () => true)).toEqual(['6/24/PHB', '4/24/PIX']);
  });
});
