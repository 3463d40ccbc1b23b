/**
 * What the searches found, as a table: channels, bandwidth, types of paths, and the link that limits each graph; then
 * the rings and trees over all ranks, and how many channels each kind of operation gets.
 */
import type { Cluster, Domain } from '../cluster.js';
import type { TopoGraph } from '../search/graph.js';
import type { GraphName } from '../search/search-all.js';
import { LinkType } from '../system/path-type.js';
import { GRAPH_TITLES } from './graph-order.js';
import { Labels } from './labels.js';
import { equallyFull, linkLoads } from './limits.js';
import { linkNames, loadText } from './link-names.js';
import { type RingOrder, ringOrders, ringText, treeOrders, treeText } from './orders.js';
import { bandwidthText, countText, rangesText } from './quantities.js';
import { padEnd, type Style, visibleLength, wrap } from './style.js';
import { pathTypeName } from './type-legend.js';

/** Orders that are listed; more are counted. */
const MOST_ORDERS = 16;

/** Ranks of an order that are shown. */
const MOST_RANKS = 144;

/** Domains that were searched with the same result share everything; each of these stands for its equals. */
export function distinctDomains(domains: readonly Domain[]): Domain[] {
  return domains.filter(({ graphs }, at) => domains.findIndex((other) => other.graphs === graphs) === at);
}

/** The tables of channels, one per kind of node. */
export function graphSummary(cluster: Cluster, style: Style): string[] {
  const kinds = distinctDomains(cluster.domains);
  const lines: string[] = [];
  const tables = kinds.map((domain) => ({ domain, table: graphTable(domain, style) }));
  // Nodes whose tables read the same need one.
  const shown = tables.filter(({ table }, at) => tables.findIndex((t) => sameText(t.table, table)) === at);
  for (const { domain, table } of shown) {
    if (shown.length > 1) {
      lines.push(style.strong(`Node with GPU ${rangesText(domain.ranks)}`));
    }
    lines.push(...table);
  }
  return lines;
}

const sameText = (a: readonly string[], b: readonly string[]): boolean => a.join('\n') === b.join('\n');

function graphTable(domain: Domain, style: Style): string[] {
  const { graphs, system, rankOffset } = domain;
  const labels = new Labels(system, rankOffset);
  const found = GRAPH_TITLES.filter(([name]) => graphs[name].nChannels > 0);
  const rows = found.map(([name, title]) => {
    const graph = graphs[name];
    const { nChannels, bwIntra, bwInter, typeIntra, typeInter } = graph;
    const differs = system.inter && bwIntra !== bwInter;
    return [
      title,
      `${nChannels} x ${bandwidthText(bwIntra)}${differs ? ` (${bandwidthText(bwInter)} to NICs)` : ''}`,
      bandwidthText(nChannels * bwIntra),
      pathTypeName(typeIntra),
      ...(system.inter ? [pathTypeName(typeInter)] : []),
      limitText(domain, name, graph, labels),
    ];
  });
  const heads = ['', 'channels x GB/s', 'GB/s', 'GPUs', ...(system.inter ? ['NICs'] : []), 'fullest link'];
  return columns([heads, ...rows], style);
}

function limitText(domain: Domain, name: GraphName, graph: TopoGraph, labels: Labels): string {
  if (domain.results[name]?.fallback === true) return 'nothing was found; simple order';
  const loads = linkLoads(domain.system, graph).filter(({ link }) => link?.type !== LinkType.LOC);
  const [fullest] = loads;
  if (fullest === undefined) return 'none: a single GPU';
  return `${linkNames(equallyFull(loads, fullest), labels)}: ${loadText(fullest)}`;
}

/** Rows of cells below each other; the last column is wrapped. */
function columns(rows: readonly (readonly string[])[], style: Style): string[] {
  const count = rows[0]!.length;
  const widths = Array.from({ length: count - 1 }, (_, at) =>
    Math.max(...rows.map((row) => visibleLength(row[at]!))),
  );
  const indent = widths.reduce((sum, width) => sum + width + 2, 0);
  return rows.flatMap((row, at) => {
    const start = row
      .slice(0, -1)
      .map((cell, column) => padEnd(cell, widths[column]!))
      .join('  ');
    const room = Math.max(30, style.width - indent);
    const [first, ...more] = wrap(row.at(-1)!, room, '');
    const line = `${start}  ${first}`.trimEnd();
    return [at === 0 ? style.dim(line) : line, ...more.map((text) => ' '.repeat(indent) + text)];
  });
}

/** Rings and trees over all ranks. */
export function orderSummary({ comm, domains }: Cluster, style: Style): string[] {
  const { rankToNode, nRanks, nNodes } = comm;
  if (nRanks === 1) return [];
  const rings = ringOrders(comm);
  const trees = treeOrders(comm);
  const lines = [style.heading('Rings'), ...rings.slice(0, MOST_ORDERS).flatMap(ringLines)];
  lines.push(...more(rings.length), '', style.heading('Trees'));
  for (const tree of trees.slice(0, MOST_ORDERS)) {
    lines.push(...entry(tree.channels, treeText(tree, MOST_RANKS)));
  }
  lines.push(...more(trees.length));
  lines.push(
    style.dim(
      nNodes > 1
        ? '| goes to another node; (..) (..) are branches of a tree'
        : 'each rank sends to the next one; in a tree the first one is the root',
    ),
  );
  return lines;

  function ringLines(ring: RingOrder): string[] {
    return entry(ring.channels, ringText(ring, rankToNode, MOST_RANKS) + nics(ring));
  }

  /** NICs of the first node, which receives and sends through them. */
  function nics({ channels }: RingOrder): string {
    const { graphs, system, rankOffset } = domains[0]!;
    const graph = graphs.ring;
    const ends = graph.channels[channels[0]! % Math.max(1, graph.nChannels)]?.inter;
    if (ends === undefined || ends === null) return '';
    const labels = new Labels(system, rankOffset);
    const [into, out] = ends.map((id) => system.nodes.NET.find((net) => net.id === id));
    if (into === undefined || out === undefined) return '';
    const first = nNodes > 1 ? 'node 0: ' : '';
    const names =
      into === out
        ? `${first}NIC ${labels.of(into)}`
        : `${first}in by ${labels.of(into)}, out by ${labels.of(out)}`;
    return `  ${style.dim(`(${names})`)}`;
  }

  function entry(channels: readonly number[], text: string): string[] {
    const head = `channel${channels.length > 1 ? 's' : ''} ${rangesText(channels)}`;
    const indent = ' '.repeat(HEAD_WIDTH);
    return wrap(`${padEnd(head, HEAD_WIDTH - 1)} ${text}`, style.width, indent);
  }

  function more(count: number): string[] {
    return count > MOST_ORDERS ? [style.dim(`and ${count - MOST_ORDERS} more orders`)] : [];
  }
}

/** Room for the channels before an order. */
const HEAD_WIDTH = 18;

/** How many channels each kind of operation gets. */
export function channelCounts({ comm, nRanks }: Cluster): string {
  const { nChannels, nvls, p2pnChannels, p2pnChannelsPerPeer, searchChannels } = comm;
  const parts = [
    `${countText(nChannels, 'channel')} for collectives`,
    ...(nvls === undefined ? [] : [`${nvls.nChannels} for NVLS`]),
    ...(nRanks === 1 ? [] : [`${p2pnChannels} for send and receive (${p2pnChannelsPerPeer} per peer)`]),
  ];
  const times = nChannels / searchChannels;
  const twice = Number.isInteger(times) && times > 1 ? `; each channel found is used ${times} times` : '';
  return `${parts.join(', ')}${twice}`;
}
