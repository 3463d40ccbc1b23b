/**
 * What the searches found, as a table: channels, bandwidth, types of paths, and the link that limits each graph; then
 * the rings and trees over all ranks, and how many channels each kind of operation gets.
 */
import type { Cluster, Domain } from '../cluster.js';
import type { TopoGraph } from '../search/graph.js';
import type { GraphName } from '../search/search-all.js';
import { LinkType } from '../system/path-type.js';
import { firstsBy } from './firsts.js';
import { GRAPH_TITLES } from './graph-order.js';
import { Labels } from './labels.js';
import { equallyFull, linkLoads } from './limits.js';
import { linkNames, loadText } from './link-names.js';
import { ringOrders, ringText, treeOrders, treeText } from './orders.js';
import { bandwidthText, countText, listText, rangesText } from './quantities.js';
import { hopNames, RailView, railsText } from './rails.js';
import { padEnd, type Style, visibleLength, wrap } from './style.js';
import { pathTypeName } from './type-legend.js';

/** Orders that are listed of small clusters; more are counted, and larger ones list fewer. */
const MOST_ORDERS = 16;

/** Ranks of a cluster whose orders are shown rank by rank. */
const FEW_RANKS = 32;
const SOME_RANKS = 128;

/** Ranks, or runs of ranks, that are shown of an order; half of it for large clusters. */
const MOST_WORDS = 64;

/** Columns that an order gets however narrow the terminal is. */
const LEAST_ORDER_WIDTH = 20;

/** Domains that were searched with the same result share everything; each of these stands for its equals. */
export function distinctDomains(domains: readonly Domain[]): Domain[] {
  return firstsBy(domains, ({ graphs }) => graphs);
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
  for (const text of [...alignedTexts(cluster), ...unusedNics(cluster)])
    lines.push(...wrap(text, style.width));
  if (kinds.some(({ graphs }) => graphs.tree.nChannels > 0 || graphs.nvls.nChannels > 0)) {
    lines.push(...wrap(NO_SPEEDS, style.width).map(style.dim));
  }
  return lines;
}

/** What the numbers of the table are not. */
const NO_SPEEDS =
  'GB/s count what a search asks of the links; the speed of collectives is another, which tutti tune predicts.';

/** Nodes that found different channels all use what the poorest found. */
function alignedTexts({ domains, comm }: Cluster): string[] {
  if (distinctDomains(domains).length < 2) return [];
  const titles = GRAPH_TITLES.filter(([name]) => {
    const { nChannels, bwIntra } = comm.aligned[name];
    return (
      nChannels > 0 &&
      domains.some(({ graphs }) => graphs[name].nChannels * graphs[name].bwIntra !== nChannels * bwIntra)
    );
  });
  if (titles.length === 0) return [];
  const said = titles.map(([name, title]) => {
    const { nChannels, bwIntra, bwInter } = comm.aligned[name];
    const inter = bwIntra === bwInter || comm.nNodes === 1 ? '' : ` (${bandwidthText(bwInter)} to NICs)`;
    return `${title} ${nChannels} x ${bandwidthText(bwIntra)}${inter}`;
  });
  return [`All nodes run with the least that one of them found: ${said.join(', ')}.`];
}

/** NICs of a node that no ring and no tree uses. */
function unusedNics({ domains, comm }: Cluster): string[] {
  if (comm.nNodes === 1) return [];
  const said = distinctDomains(domains).flatMap(({ system, rankOffset, ranks, node }) => {
    const labels = new Labels(system, rankOffset);
    // Those of the other parts of a machine that was split count too.
    const graphs = domains
      .filter((one) => one.node === node)
      .flatMap((one) => [one.graphs.ring, one.graphs.tree]);
    const used = new Set(
      graphs.flatMap(({ channels, nChannels }) =>
        channels.slice(0, nChannels).flatMap(({ inter }) => inter ?? []),
      ),
    );
    const names = [
      ...new Set(system.nodes.NET.filter(({ id }) => !used.has(id)).map((net) => labels.of(net))),
    ];
    if (names.length === 0) return [];
    const all = new Set(system.nodes.NET.map(({ id }) => id)).size;
    const few = names.length <= MOST_UNUSED ? `: ${listText(names)}` : '';
    return [{ text: `${names.length} of ${countText(all, 'NIC')}${few}`, ranks }];
  });
  const texts = [...new Set(said.map(({ text }) => text))];
  const everywhere = said.length === distinctDomains(domains).length;
  if (everywhere && texts.length === 1) return [`In each node, no ring and no tree uses ${texts[0]}.`];
  return said.map(
    ({ text, ranks }) => `Node with GPU ${rangesText(ranks)}: no ring and no tree uses ${text}.`,
  );
}

/** Unused NICs that are named. */
const MOST_UNUSED = 4;

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
      ...(system.inter ? [pathTypeName(typeInter) + crossText(graph)] : []),
      limitText(domain, name, graph, labels),
    ];
  });
  const heads = ['', 'channels x GB/s', 'GB/s', 'GPUs', ...(system.inter ? ['NICs'] : []), 'fullest link'];
  return columns([heads, ...rows], style);
}

/** Channels that come in by one NIC and leave by another need a network that joins all rails. */
const crossText = ({ crossNic }: TopoGraph): string => (crossNic === 0 ? '' : `, crossNic ${crossNic}`);

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
export function orderSummary(cluster: Cluster, style: Style): string[] {
  const { comm } = cluster;
  const { rankToNode, nRanks, nNodes } = comm;
  if (nRanks === 1) return [];
  const most = nRanks <= FEW_RANKS ? MOST_ORDERS : nRanks <= SOME_RANKS ? MOST_ORDERS / 2 : MOST_ORDERS / 4;
  const limits = {
    words: nRanks <= SOME_RANKS ? MOST_WORDS : MOST_WORDS / 2,
    joins: nRanks > FEW_RANKS,
  };
  const view = new RailView(cluster);
  const rings = ringOrders(comm, (channel, order) => hopNames(view.hopsOf(channel, order)));
  const trees = treeOrders(comm);
  const rails = nNodes > 1 ? railsText(cluster) : '';
  return [
    style.heading('Rings'),
    ...list(
      rings,
      (ring) => ring.mark,
      (ring) => ringText(ring, rankToNode, limits),
    ),
    ...(rails === '' ? [] : wrap(rails, style.width).map(style.dim)),
    '',
    style.heading('Trees'),
    ...list(
      trees,
      () => '',
      (tree) => treeText(tree, rankToNode, limits),
    ),
    ...wrap(nNodes > 1 ? SEVERAL_NODES : ONE_NODE, style.width).map(style.dim),
  ];

  function list<T extends { readonly channels: readonly number[] }>(
    orders: readonly T[],
    nics: (order: T) => string,
    text: (order: T) => string,
  ): string[] {
    const rows = orders.slice(0, most).map((order) => ({
      head: `channel${order.channels.length > 1 ? 's' : ''} ${rangesText(order.channels)}`,
      nics: nics(order),
      text: text(order),
    }));
    const headWidth = Math.max(...rows.map(({ head }) => head.length));
    const nicWidth = Math.max(...rows.map((row) => row.nics.length));
    const lines = rows.flatMap((row) => {
      const columnsBefore = [padEnd(row.head, headWidth)];
      if (nicWidth > 0) columnsBefore.push(style.nic(padEnd(row.nics, nicWidth)));
      const start = `${columnsBefore.join('  ')}  `;
      const indent = visibleLength(start);
      const [first, ...others] = wrap(row.text, Math.max(LEAST_ORDER_WIDTH, style.width - indent));
      return [start + first, ...others.map((line) => ' '.repeat(indent) + line)];
    });
    const hidden = orders.length - rows.length;
    return hidden > 0 ? [...lines, style.dim(`and ${hidden} more; --json has all`)] : lines;
  }
}

/** How to read the orders. */
const SEVERAL_NODES =
  '| goes to another node; (..) (..) are branches; NICs are those that a ring goes through';
const ONE_NODE =
  'each rank sends to the next one, the last one of a ring to the first; a tree starts at its root';

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
