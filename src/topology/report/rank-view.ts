/**
 * What one rank has: where it is, its neighbours in rings and trees, the transports to all others, the NICs that it
 * sends and receives through.
 *
 * Channels in which everything is the same share a line.
 */
import type { Cluster, Domain } from '../cluster.js';
import type { NicChoice } from '../connect/connection-nics.js';
import { transportText } from '../paths/transports.js';
import type { GpuNode } from '../system/node.js';
import { Labels, shortBusId } from './labels.js';
import { gpuName } from './product-names.js';
import { listText, rangesText } from './quantities.js';
import { RankNics } from './rank-nics.js';
import { padEnd, type Style, wrap } from './style.js';

/** Down slots of a rank in a tree. */
const TREE_ARITY = 3;

/** Beyond all bits of a host hash. */
const HASH_BITS = 64n;

/** Lines about a rank of the cluster. */
export function rankView(cluster: Cluster, rank: number, style: Style): string[] {
  const { comm, nRanks } = cluster;
  const node = comm.rankToNode[rank]!;
  const nics = new RankNics(cluster);
  const { domain, gpu } = nics.placeOf(rank);
  const name = gpuName(gpu.parent.device, gpu.sm);
  const { nChannels } = comm;
  const lines = [
    style.strong(
      `Rank ${rank}: ${name} at ${shortBusId(gpu.parent.busId)}, device ${gpu.dev}, ` +
        `rank ${comm.rankToLocalRank[rank]} of node ${node}`,
    ),
  ];
  if (nRanks === 1) return [...lines, 'It is alone and has no neighbours.'];
  const section = (title: string, texts: readonly string[] | ReadonlyMap<number, string>) => {
    lines.push('', style.heading(title), ...byText(texts, style));
  };
  const at = (channel: number) => channel * nRanks + rank;
  section(
    'Rings: previous, next',
    Array.from({ length: nChannels }, (_, channel) => {
      const [prev, next] = [comm.ringPrev[at(channel)]!, comm.ringNext[at(channel)]!];
      return `${prev}${via('ring', prev, channel)} -> ${rank} -> ${next}${via('ring', next, channel)}`;
    }),
  );
  section(
    'Trees: above; below',
    Array.from({ length: nChannels }, (_, channel) => {
      const start = at(channel) * TREE_ARITY;
      const up = comm.treeUp[at(channel)]!;
      const down = [...comm.treeDown.subarray(start, start + TREE_ARITY)].filter((child) => child !== -1);
      const above = up === -1 ? 'root' : `${up}${via('tree', up, channel)}`;
      const below = down.map((child) => `${child}${via('tree', child, channel)}`);
      return `${above}; ${below.length === 0 ? 'nobody' : listText(below)}`;
    }),
  );
  const others = Array.from({ length: nRanks }, (_, peer) => peer).filter((peer) => peer !== rank);
  section(
    'Transports: to ranks',
    new Map(others.map((peer) => [peer, transportTo(cluster, nics, rank, peer)])),
  );
  if (comm.nvls !== undefined) {
    const head = comm.nvls.headRank[rank]!;
    lines.push('', style.heading('NVLS'), head === -1 ? 'no head' : `head ${head} of ${comm.nvls.nHeads}`);
  }
  const peers = new Map(
    [...nics.ofPeers(rank)].map(([dev, choice]) => [dev, choiceText(choice, domain, gpu)] as const),
  );
  if (comm.nNodes > 1) section('Send and receive: NIC by the number of the peer device', peers);
  return lines;

  function via(graph: 'ring' | 'tree', peer: number, channel: number): string {
    if (comm.rankToNode[peer] === node) return '';
    const choice = nics.ofChannel(graph, rank, channel);
    return choice === undefined ? '' : ` (${choiceText(choice, domain, gpu)})`;
  }
}

/** How what the rank sends reaches a peer. */
function transportTo(cluster: Cluster, nics: RankNics, rank: number, peer: number): string {
  const { domain, gpu } = nics.placeOf(rank);
  const { domain: there, gpu: far } = nics.placeOf(peer);
  const { system, comm, localHost, rankOffset } = domain;
  const info = there.comm.ranks[far.rank]!;
  const apart = BigInt(there.node - domain.node);
  const pair = {
    rank: comm.ranks[gpu.rank]!,
    // Machines of equal documents have equal hashes, and are different hosts all the same.
    peer: apart === 0n ? info : { ...info, hostHash: info.hostHash + (apart << HASH_BITS) },
    from: gpu,
    to: there === domain ? far : undefined,
  };
  const text = transportText({ system, comm, localHost, settings: cluster.settings }, pair, rankOffset);
  // The topology of a rank ends at its node, so the transports cannot see that the network is faster.
  return text === 'SHM' && there !== domain ? 'SHM, although graphs count on the network here' : text;
}

/** `mlx5_3`, `mlx5_3 through GPU 5`. */
function choiceText({ net, relay }: NicChoice, { system, rankOffset }: Domain, gpu: GpuNode): string {
  const labels = new Labels(system, rankOffset);
  return `${labels.of(net)}${relay === gpu ? '' : ` through ${labels.of(relay)}`}`;
}

/** Texts by their places, equal ones in one line. */
function byText(texts: readonly string[] | ReadonlyMap<number, string>, style: Style): string[] {
  const places = new Map<string, number[]>();
  for (const [at, text] of texts.entries()) {
    const known = places.get(text);
    if (known === undefined) places.set(text, [at]);
    else known.push(at);
  }
  const heads = [...places.values()].map((numbers) => rangesText(numbers));
  const width = Math.max(0, ...heads.map(({ length }) => length)) + 2;
  return [...places.keys()].flatMap((text, at) =>
    wrap(`${padEnd(heads[at]!, width - 1)} ${text}`, style.width, ' '.repeat(width)),
  );
}
