/**
 * How two descriptions of the same machine differ: nodes, ways between GPUs and to NICs, graphs, numbers of channels.
 */
import type { Cluster, Domain } from '../../cluster.js';
import { pathOrNone } from '../../paths/path.js';
import type { TopoGraph } from '../../search/graph.js';
import { PathType } from '../../system/path-type.js';
import { GRAPH_TITLES } from '../graph-order.js';
import { bandwidthText, countText } from '../quantities.js';
import { pathTypeName } from '../type-legend.js';
import { machineViews } from './machine-views.js';
import { nicUses } from './nics.js';
import { gpuPairs } from './peer-to-peer.js';

/** What is compared, as a text of each description; empty where a description does not have it. */
const FACTS: readonly (readonly [what: string, of: (cluster: Cluster) => string])[] = [
  ['the number of nodes', ({ comm }) => `${comm.nNodes}`],
  ['peer-to-peer access', directPairs],
  ['GPUDirect RDMA', directNics],
  ['ways to NICs through other GPUs', relayedWays],
  ...GRAPH_TITLES.map(
    ([name, title]) =>
      [`the ${title} graph`, ({ comm }: Cluster) => graphText(comm.aligned[name], comm.nNodes > 1)] as const,
  ),
  ['the channels of collectives', ({ comm }) => `${comm.nChannels}`],
  ['the channels of NVLS', ({ comm }) => `${comm.nvls?.nChannels ?? 0}`],
  ['the chunks of NVLS', ({ comm: { nvls } }) => `${nvls?.chunkSize ?? 0} bytes`],
  ['the chunks of NVLS trees', ({ comm: { nvls } }) => `${nvls?.treeMaxChunkSize ?? 0} bytes`],
  [
    'the channels of send and receive',
    ({ comm }) => `${comm.p2pnChannels}, ${comm.p2pnChannelsPerPeer} per peer`,
  ],
];

/** `the Ring graph from 1 channel of 10 GB/s (SYS) to 2 channels of 12 GB/s (PHB)`, one text per fact that changed. */
export function clusterChanges(usual: Cluster, changed: Cluster): string[] {
  const facts = FACTS.flatMap(([what, of]) => {
    const [before, after] = [of(usual), of(changed)];
    return before === after || before === '' || after === '' ? [] : [`${what} from ${before} to ${after}`];
  });
  return [...facts, ...changedWays(usual, changed)];
}

/** Domains of each different machine. */
const distinct = (cluster: Cluster): Domain[] => machineViews(cluster).flatMap(({ domains }) => domains);

function directPairs(cluster: Cluster): string {
  const pairs = machineViews(cluster).flatMap((view) => gpuPairs(view));
  const direct = pairs.filter(({ refused }) => refused === undefined).length;
  return `${direct} of ${countText(pairs.length, 'pair')} of GPUs`;
}

function directNics(cluster: Cluster): string {
  const uses = distinct(cluster).flatMap((domain) => nicUses(domain, cluster.settings));
  if (uses.length === 0) return '';
  const count = (way: 'read' | 'write') => uses.filter((use) => use[way] === undefined).length;
  const all = countText(uses.length, 'pair');
  return `${count('write')} (sending: ${count('read')}) of ${all} of GPU and NIC`;
}

function relayedWays(cluster: Cluster): string {
  const ways = distinct(cluster).flatMap(({ system: { nodes, inter } }) =>
    inter ? nodes.GPU.flatMap((gpu) => nodes.NET.map((net) => pathOrNone(gpu, net).type)) : [],
  );
  return ways.length === 0 ? '' : `${ways.filter((type) => type === PathType.PXN).length}`;
}

function graphText({ nChannels, ...graph }: TopoGraph, usesNics: boolean): string {
  if (nChannels === 0) return 'none';
  const { bwIntra, bwInter, typeIntra, typeInter, crossNic } = graph;
  const nics = usesNics ? `, NICs ${bandwidthText(bwInter)} GB/s ${pathTypeName(typeInter)}` : '';
  const cross = usesNics && crossNic > 0 ? `, crossNic ${crossNic}` : '';
  const channels = countText(nChannels, 'channel');
  return `${channels} of ${bandwidthText(bwIntra)} GB/s (${pathTypeName(typeIntra)}${nics}${cross})`;
}

/** Ways between GPUs, those that changed alike together. */
function changedWays(usual: Cluster, changed: Cluster): string[] {
  const [before, after] = [usual, changed].map(waysOf);
  const counts = new Map<string, number>();
  for (const [pair, way] of after!) {
    const old = before!.get(pair) ?? 'none';
    if (old === way) continue;
    const text = `from ${old} to ${way}`;
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return [...counts].map(([text, count]) => `${countText(count, 'way')} between GPUs ${text}`);
}

function waysOf(cluster: Cluster): Map<string, string> {
  const ways = machineViews(cluster).flatMap(({ domains: [first] }, machine) => {
    const { GPU } = first!.whole.nodes;
    return GPU.flatMap((from) =>
      GPU.filter((to) => to !== from).map((to): [string, string] => {
        const { bandwidth, type } = pathOrNone(from, to);
        return [
          `${machine} ${from.rank} ${to.rank}`,
          `${bandwidthText(bandwidth)} GB/s (${pathTypeName(type)})`,
        ];
      }),
    );
  });
  return new Map(ways);
}
