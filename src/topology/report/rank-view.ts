/**
 * What one rank has: where it is, its neighbours in rings and trees, the NICs that it sends and receives through.
 *
 * Channels in which everything is the same share a line.
 */
import type { Cluster, Domain } from '../cluster.js';
import { graphNic, type NicChoice, p2pNic } from '../connect/connection-nics.js';
import type { GpuNode } from '../system/node.js';
import { Labels, shortBusId } from './labels.js';
import { gpuName } from './product-names.js';
import { listText, rangesText } from './quantities.js';
import { padEnd, type Style, wrap } from './style.js';

/** Down slots of a rank in a tree. */
const TREE_ARITY = 3;

/** Lines about a rank of the cluster. */
export function rankView(cluster: Cluster, rank: number, style: Style): string[] {
  const { comm, domains, nRanks } = cluster;
  const node = comm.rankToNode[rank]!;
  const domain = domains.find(({ ranks }) => ranks.includes(rank))!;
  const gpu = domain.system.nodes.GPU.find((one) => one.rank + domain.rankOffset === rank)!;
  const name = gpuName(gpu.parent.device, gpu.sm);
  const { nChannels } = comm;
  const lines = [
    style.strong(
      `Rank ${rank}: ${name} at ${shortBusId(gpu.parent.busId)}, device ${gpu.dev}, ` +
        `rank ${comm.rankToLocalRank[rank]} of node ${node}`,
    ),
  ];
  if (nRanks === 1) return [...lines, 'It is alone and has no neighbours.'];
  const section = (title: string, texts: readonly string[]) => {
    lines.push('', style.heading(title), ...byText(texts, style));
  };
  const at = (channel: number) => channel * nRanks + rank;
  section(
    'Rings: previous, next',
    Array.from({ length: nChannels }, (_, channel) => {
      const [prev, next] = [comm.ringPrev[at(channel)]!, comm.ringNext[at(channel)]!];
      return `${prev}${viaRing(prev, channel)} -> ${rank} -> ${next}${viaRing(next, channel)}`;
    }),
  );
  section(
    'Trees: above; below',
    Array.from({ length: nChannels }, (_, channel) => {
      const start = at(channel) * TREE_ARITY;
      const up = comm.treeUp[at(channel)]!;
      const down = [...comm.treeDown.subarray(start, start + TREE_ARITY)].filter((child) => child !== -1);
      const above = up === -1 ? 'root' : `${up}${viaTree(up, channel)}`;
      const below = down.map((child) => `${child}${viaTree(child, channel)}`);
      return `${above}; ${below.length === 0 ? 'nobody' : listText(below)}`;
    }),
  );
  if (comm.nvls !== undefined) {
    const head = comm.nvls.headRank[rank]!;
    lines.push('', style.heading('NVLS'), head === -1 ? 'no head' : `head ${head} of ${comm.nvls.nHeads}`);
  }
  if (comm.nNodes > 1) section('Send and receive: NIC by the number of the peer device', p2pTexts());
  return lines;

  function viaRing(peer: number, channel: number): string {
    return comm.rankToNode[peer] === node
      ? ''
      : via(() => graphNic(domain.system, domain.graphs.ring, gpu, channel));
  }

  function viaTree(peer: number, channel: number): string {
    return comm.rankToNode[peer] === node
      ? ''
      : via(() => graphNic(domain.system, domain.graphs.tree, gpu, channel));
  }

  function via(choose: () => NicChoice): string {
    return ` (${choiceText(choose(), domain, gpu)})`;
  }

  function p2pTexts(): string[] {
    const { system } = domain;
    const devices = new Set(domains.flatMap((one) => one.system.nodes.GPU.map(({ dev }) => dev)));
    const context = { system, comm: domain.comm, settings: cluster.settings, localHost: domain.localHost };
    const most = Math.max(...devices);
    return Array.from({ length: most + 1 }, (_, dev) =>
      devices.has(dev) ? choiceText(p2pNic(context, gpu, dev, 0), domain, gpu) : '',
    );
  }
}

/** `mlx5_3`, `mlx5_3 through GPU 5`. */
function choiceText({ net, relay }: NicChoice, { system, rankOffset }: Domain, gpu: GpuNode): string {
  const labels = new Labels(system, rankOffset);
  return `${labels.of(net)}${relay === gpu ? '' : ` through ${labels.of(relay)}`}`;
}

/** Texts by their places, equal ones in one line; empty ones are left out. */
function byText(texts: readonly string[], style: Style): string[] {
  const places = new Map<string, number[]>();
  for (const [at, text] of texts.entries()) {
    if (text === '') continue;
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
