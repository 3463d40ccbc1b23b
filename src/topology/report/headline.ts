/**
 * A cluster in one sentence: `8 H100 SXM5 (sm 90) on 2 NUMA nodes, NVSwitch, 8 NICs of 400 Gbit/s; 2 nodes, 16 ranks`.
 */
import type { Cluster } from '../cluster.js';
import { networkIsFaster } from '../paths/reach.js';
import type { DevNode, PortNode, TopoSystem } from '../system/node.js';
import { LinkType } from '../system/path-type.js';
import { firstsBy } from './firsts.js';
import { gpuName } from './product-names.js';
import { bandwidthText, countText, listText, netSpeedText } from './quantities.js';

/** What to say of machines that are all described by the same few documents. */
export function headline(cluster: Cluster): string {
  const { domains, nRanks, comm } = cluster;
  const systems = [...new Set(domains.map(({ whole }) => whole))];
  // Domains of one host were built from the same document, each with a system of its own.
  const firsts = firstsBy(domains, ({ node }) => node);
  const machines = [...new Set(firsts.map(({ whole }) => whole))];
  const hosts = firsts.reduce((sum, { whole }) => sum + whole.hosts.length, 0);
  const said = [...new Set(machines.map(machineText))];
  const kinds = machines.length > 1 ? `${machines.length} kinds of machine` : '';
  const first = kinds === '' ? '' : said.length === 1 ? `${kinds}, each ` : `${kinds}: `;
  const parts = [
    ...(hosts > 1 && systems[0]!.hosts.length > 1 ? [countText(hosts, 'host')] : []),
    countText(comm.nNodes, 'node'),
    countText(nRanks, 'rank'),
  ];
  return `${first}${said.join(' | ')}; ${parts.join(', ')}${splitText(cluster)}`;
}

/** Says that a host is not one node, which most people would expect. */
function splitText({ domains, settings }: Cluster): string {
  const counts = new Map<number, number>();
  for (const { node } of domains) counts.set(node, (counts.get(node) ?? 0) + 1);
  const kinds = new Set(counts.values());
  const [parts = 1] = kinds;
  if (kinds.size === 1 && parts === 1) return '';
  const what = counts.size === 1 ? 'this host' : kinds.size === 1 ? 'each host' : 'some hosts';
  const split = domains.find(({ node }) => counts.get(node)! > 1)!;
  const { whole, comm, localHost } = split;
  const context = { system: whole, comm, settings, localHost };
  const inside = whole.nodes.GPU.filter(({ rank }) => split.ranks.includes(rank + split.rankOffset));
  const outside = whole.nodes.GPU.find((gpu) => !inside.includes(gpu));
  const isFaster = outside !== undefined && inside.every((gpu) => networkIsFaster(context, gpu, outside));
  const why = isFaster
    ? 'the network is faster than the way between their GPUs'
    : 'their GPUs reach each other neither by peer-to-peer nor by shared memory';
  return `. NCCL treats ${what} as ${kinds.size === 1 ? parts : 'several'} nodes (${why})`;
}

/** What a machine has, without what makes it different from one of the same make. */
export function machineText(system: TopoSystem): string {
  const { DEV, CPU, NVS } = system.nodes;
  const used = DEV.filter((device) => device.gpuCount > 0);
  const hosts = system.hosts.length;
  const places = `on ${countText(CPU.length, 'NUMA node')}${hosts > 1 ? ` of ${countText(hosts, 'host')}` : ''}`;
  const nics = nicTexts(system);
  return [
    `${kindsText(used)} ${places}`,
    NVS.length > 0 ? `NVSwitch${nvlinkSpeed(used)}` : nvlinkText(used),
    nics.length > 0 ? listText(nics) : 'no NIC',
  ]
    .filter((part) => part !== '')
    .join(', ');
}

/** `8 H100 SXM5 (sm 90)`, for mixed machines one after the other. */
function kindsText(devices: readonly DevNode[]): string {
  const kinds = new Map<string, number>();
  for (const { device, sm } of devices) {
    const kind = `${gpuName(device, sm)} (sm ${sm})`;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  return listText([...kinds].map(([kind, count]) => `${count} ${kind}`));
}

function nvlinkText(devices: readonly DevNode[]): string {
  if (devices.length < 2) return '';
  const linked = (a: DevNode, b: DevNode) =>
    a.links.some(({ to, type }) => to === b && type === LinkType.NVL);
  const pairs = devices.flatMap((a) => devices.filter((b) => a !== b).map((b) => linked(a, b)));
  const speed = nvlinkSpeed(devices);
  if (pairs.every(Boolean)) return `NVLink between all GPUs${speed}`;
  return pairs.some(Boolean) ? `NVLink between some GPUs${speed}` : 'no NVLink';
}

/** ` (370.8 GB/s per GPU)`, for GPUs that differ the range. */
function nvlinkSpeed(devices: readonly DevNode[]): string {
  const speeds = devices.map(({ links }) =>
    links.reduce((sum, { type, bandwidth }) => sum + (type === LinkType.NVL ? bandwidth : 0), 0),
  );
  const [least, most] = [Math.min(...speeds), Math.max(...speeds)];
  const from = Math.abs(most - least) < 0.01 ? '' : `${bandwidthText(least)} to `;
  return ` (${from}${bandwidthText(most)} GB/s per GPU)`;
}

/** `8 NICs of 400 Gbit/s`, by speed. */
function nicTexts({ nodes: { NET } }: TopoSystem): string[] {
  const speeds = new Map<number, number>();
  for (const [at, net] of NET.entries()) {
    if (NET.findIndex(({ id }) => id === net.id) === at) countSpeed(speeds, net);
  }
  return [...speeds]
    .sort(([a], [b]) => b - a)
    .map(([speed, count]) => `${countText(count, 'NIC')} of ${netSpeedText(speed)}`);
}

function countSpeed(speeds: Map<number, number>, { bandwidth }: PortNode): void {
  const speed = bandwidth * 8000;
  speeds.set(speed, (speeds.get(speed) ?? 0) + 1);
}
