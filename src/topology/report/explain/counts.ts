/**
 * What makes the number of channels: those found, both trees, copies, bounds of the user; and the channels of send and
 * receive.
 */

import type { Cluster } from '../../cluster.js';
import { bothTrees, channelSources } from '../../connect/channel-counts.js';
import { argumentChannels, type ConnectConfig, channelsPerNetPeer, nvlsCtas } from '../../connect/config.js';
import { channelsPerPeer } from '../../connect/p2p-channels.js';
import { greatestOf, leastOf } from '../../extremes.js';
import { MAX_CHANNELS } from '../../settings.js';
import { countText } from '../quantities.js';
import { because, type Explanation } from './explanation.js';

export function countExplanations(cluster: Cluster): Explanation[] {
  return [...collectives(cluster), ...nvls(cluster), ...sendAndReceive(cluster)];
}

function collectives({ comm, domains, nRanks, settings }: Cluster): Explanation[] {
  const { searchChannels, nChannels, aligned, nNodes, minSm } = comm;
  const said: Explanation[] = [];
  const found = domains.map(({ graphs }) => Math.min(graphs.ring.nChannels, graphs.tree.nChannels));
  const least = leastOf(found);
  if (greatestOf(found) > least) {
    said.push(
      because(
        'channels',
        `Nodes found ${least} to ${greatestOf(found)} channels; all use the least, ${least}, because a channel goes through all nodes.`,
        { fact: 'aligned', channels: least },
      ),
    );
  }
  const twice = bothTrees(searchChannels);
  const steps = [
    `every order of the search (${searchChannels}) is used twice, once for each of the two trees`,
  ];
  const facts = {
    searchChannels,
    nNodes,
    nRanks,
    minSm,
    ringBwIntra: aligned.ring.bwIntra,
    collnet: comm.collnetEnabled ? aligned.collnetChain : undefined,
  };
  const free = {
    ...settings,
    minChannels: 0,
    maxChannels: MAX_CHANNELS,
    minCtas: undefined,
    maxCtas: undefined,
  };
  const withoutCollnet = channelSources({ ...facts, collnet: undefined }, free).length;
  const unbound = channelSources(facts, free).length;
  if (withoutCollnet > twice) {
    steps.push(
      `there are several nodes, rings of more than 45 GB/s per channel on Hopper or later and fewer than 16 channels, so that they are doubled to ${withoutCollnet}`,
    );
  }
  if (unbound > withoutCollnet)
    steps.push(`CollNet, faster inside a node than outside, takes half as many again: ${unbound}`);
  const bound = channelSources(facts, settings).length;
  if (bound < unbound) steps.push(`${upperBound(settings)} cuts them to ${bound}`);
  if (bound > unbound) steps.push(`${lowerBound(settings)} raises them to ${bound} by copies`);
  if (bound !== nChannels) steps.push(`the communicator's configuration makes them ${nChannels}`);
  said.push(
    because('channels', `Collectives have ${countText(nChannels, 'channel')}: ${steps.join('; ')}.`, {
      fact: 'collectives',
      channels: nChannels,
      searchChannels,
      bothTrees: twice,
    }),
  );
  return said;
}

type Settings = Cluster['settings'];

function upperBound(settings: Settings): string {
  const bounds: [string, number][] = [
    ['NCCL_MAX_NCHANNELS', settings.maxChannels],
    ['NCCL_MAX_CTAS', settings.maxCtas ?? MAX_CHANNELS],
    ['NCCL_WORK_ARGS_BYTES', argumentChannels(settings)],
  ];
  return bounds.sort(([, a], [, b]) => a - b)[0]![0];
}

function lowerBound({ minChannels, minCtas = 0 }: Settings): string {
  return minCtas > minChannels ? 'NCCL_MIN_CTAS' : 'NCCL_MIN_NCHANNELS';
}

function nvls({ comm, settings, options: { config = {} } }: Cluster): Explanation[] {
  if (comm.nvls === undefined || comm.nvls.nChannels === 0) return [];
  const { nChannels, nHeads } = comm.nvls;
  const why =
    nvlsCtas(settings, config) === undefined
      ? 'a number that NCCL keeps per GPU generation and number of nodes'
      : settings.nvlsCtas === undefined
        ? "as the communicator's configuration asks"
        : 'as NCCL_NVLS_NCHANNELS asks';
  return [
    because(
      'channels',
      `NVLS has ${countText(nChannels, 'channel')}, ${why}; ${countText(nHeads, 'head')} share the data of each.`,
      { fact: 'nvls', channels: nChannels, heads: nHeads },
    ),
  ];
}

function sendAndReceive({ comm, domains, nRanks, settings, options }: Cluster): Explanation[] {
  if (nRanks < 2) return [];
  const { config = {} } = options;
  const { p2pnChannels, p2pnChannelsPerPeer: perPeer, p2pMaxPeers, nNodes } = comm;
  const outside = nNodes > 1;
  let least = MAX_CHANNELS;
  let inside = MAX_CHANNELS;
  const seen = new Set<unknown>();
  for (const { system, nets } of domains) {
    if (seen.has(system)) continue;
    seen.add(system);
    for (const gpu of system.nodes.GPU) {
      inside = Math.min(inside, channelsPerPeer(system, gpu, undefined, settings, config));
      const far = outside ? { nets: nets[gpu.index]! } : undefined;
      least = Math.min(least, channelsPerPeer(system, gpu, far, settings, config));
    }
  }
  const reason =
    least < inside || inside === MAX_CHANNELS
      ? networkReason(least, settings, config)
      : inside > 2
        ? `two per NVLink of the pair with the fewest, ${inside}`
        : 'two for a pair of GPUs without NVLink, or with a single one';
  const power = powerUp(least);
  const steps = [reason];
  if (power !== least) steps.push(`the next power of two is ${power}`);
  if (perPeer < power) {
    steps.push(
      outside
        ? `halved to ${perPeer}, so that ${countText(p2pMaxPeers, 'peer')}, 8 at a time, find room in the ${countText(p2pnChannels, 'channel')}`
        : `no more than the ${countText(p2pnChannels, 'channel')} there are`,
    );
  }
  return [
    because(
      'channels',
      `Send and receive have ${countText(p2pnChannels, 'channel')} (${poolReason(p2pnChannels, comm.nChannels)}), ` +
        `${perPeer} of them per peer: ${steps.join('; ')}.`,
      { fact: 'p2p', channels: p2pnChannels, perPeer, least },
    ),
  ];
}

function networkReason(channels: number, settings: Settings, config: ConnectConfig): string {
  if (channelsPerNetPeer(settings, config) === undefined) {
    return `the network needs ${channels} (one per NIC of a GPU, and one per ${settings.p2pPerChannelNetBw} GB/s of them)`;
  }
  return settings.channelsPerNetPeer === undefined
    ? `the communicator's configuration asks for ${channels} to peers over the network`
    : `NCCL_NCHANNELS_PER_NET_PEER asks for ${channels} to peers over the network`;
}

function poolReason(p2pnChannels: number, nChannels: number): string {
  if (p2pnChannels === nChannels) return 'as many as collectives';
  if (p2pnChannels === powerUp(nChannels)) return `the next power of two from ${nChannels} on`;
  return 'by NCCL_MIN_P2P_NCHANNELS, NCCL_MAX_P2P_NCHANNELS or the size of kernel arguments';
}

function powerUp(value: number): number {
  let power = 1;
  while (power < value) power *= 2;
  return power;
}
