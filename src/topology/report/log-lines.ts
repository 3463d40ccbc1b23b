/**
 * The lines in which NCCL logs a system, its paths, its graphs and what it connected, for one rank, word for word.
 *
 * A line is a text without the host and process prefix. (NCCL 2.30.7, topo.cc, paths.cc, search.cc, init.cc.)
 */
import type { Cluster, Domain } from '../cluster.js';
import {
  channelCountsLine,
  channelLine,
  collnetDirectLines,
  commLine,
  nvlsHeadLines,
  nvlsTreesLine,
  ringLines,
  treeLines,
  treesLine,
} from '../connect/log-lines.js';
import type { LogSubsystem } from '../log.js';
import { GraphId, type TopoGraph } from '../search/graph.js';
import { nodeName } from '../system/edit.js';
import { LOCAL_ID_MASK, type NodeType, type TopoNode, type TopoSystem } from '../system/node.js';
import { LINK_TYPE_NAMES, LinkType, PATH_TYPE_NAMES } from '../system/path-type.js';
import { fixedText } from './c-format.js';
import { GRAPH_NAMES_IN_SEARCH_ORDER } from './graph-order.js';

/** One line and the subsystem that NCCL_DEBUG_SUBSYS selects it by. */
export interface LogLine {
  readonly subsystem: LogSubsystem;
  readonly text: string;
}

/** NCCL's line buffer holds this much. */
const LINE_LENGTH = 1023;

/** Tables of paths in the order in which they are printed. */
const PATH_COLUMNS: readonly NodeType[] = ['GPU', 'NVS', 'CPU', 'NET', 'GIN', 'RMA', 'DEV'];

/** Nodes whose paths are printed. */
const PATH_ROWS: readonly NodeType[] = ['GPU', 'NET', 'GIN', 'RMA'];

/** All lines of a rank, in NCCL's order. */
export function logLines(cluster: Cluster, rank: number, mnnvl: boolean): LogLine[] {
  const { comm, domains } = cluster;
  const domain = domains.find(({ ranks }) => ranks.includes(rank))!;
  const lines: LogLine[] = [];
  const say = (subsystem: LogSubsystem, texts: readonly string[]) => {
    for (const text of texts) lines.push({ subsystem, text });
  };
  say('GRAPH', systemLines(domain.system, domain.rankOffset));
  say('GRAPH', searchLines(domain));
  say('INIT', [`comm ${COMM_ADDRESS} ${commLine(comm, rank, mnnvl)}`]);
  say('GRAPH', treeLines(comm, rank));
  if (comm.rankToNode[rank] === 0) say('INIT', nvlsHeadLines(comm));
  say('GRAPH', collnetDirectLines(comm, rank));
  const nvlsTrees = nvlsTreesLine(comm, rank);
  say('GRAPH', nvlsTrees === undefined ? [] : [nvlsTrees]);
  if (rank === 0) {
    say(
      'INIT',
      Array.from({ length: comm.nChannels }, (_, channel) => channelLine(comm, channel)),
    );
  }
  say('GRAPH', ringLines(comm, rank));
  say('INIT', [treesLine(comm, rank), channelCountsLine(comm)]);
  return lines;
}

/** There is no communicator whose address could be printed. */
const COMM_ADDRESS = '0x0';

/** The system as a tree per CPU, then the paths. */
export function systemLines(system: TopoSystem, rankOffset = 0): string[] {
  const { maxBw, totalBw, nodes } = system;
  const lines = [`=== System : maxBw ${fixedText(maxBw, 1)} totalBw ${fixedText(totalBw, 1)} ===`];
  for (const cpu of nodes.CPU) treeOf(cpu, [], '', '', rankOffset, lines);
  lines.push('='.repeat(42));
  for (const type of PATH_ROWS) for (const node of nodes[type]) lines.push(pathLine(system, node));
  return lines;
}

/**
 * A node, then its links, each with what hangs below.
 *
 * @param above nodes that led here; a device that hangs below two switches must not lead round in circles
 * @param start text before the node on its line
 */
function treeOf(
  node: TopoNode,
  above: readonly TopoNode[],
  start: string,
  indent: string,
  rankOffset: number,
  lines: string[],
): void {
  lines.push(start + nodeText(node, rankOffset));
  for (const { type, to, bandwidth } of node.links) {
    const link = `${indent}+ ${LINK_TYPE_NAMES[type]}[${fixedText(bandwidth, 1)}] - `;
    if (type === LinkType.PCI) {
      if (!above.includes(to)) treeOf(to, [...above, node], link, ' '.repeat(link.length), rankOffset, lines);
    } else if (type === LinkType.NET && 'asic' in to) {
      const { coll, asic, port } = to;
      const facts = `${coll ? 1 : 0}/${asic.toString(16)}/${port}/${fixedText(to.bandwidth, 6)}`;
      lines.push(`${link}${nodeName(to)} (${facts})`);
    } else if (type !== LinkType.NET) lines.push(link + nodeName(to));
  }
}

function nodeText(node: TopoNode, rankOffset: number): string {
  const name = nodeName(node);
  switch (node.type) {
    case 'GPU':
      return `${name} (${node.rank + rankOffset})${node.mloPart >= 0 ? ` [MLOPart ${node.mloPart}]` : ''}`;
    case 'CPU':
      return `${name} (${node.arch}/${node.vendor}/${node.model})`;
    case 'PCI':
    case 'DEV':
      return `${name} (${node.device.toString(16)})`;
    default:
      return name;
  }
}

function pathLine({ nodes }: TopoSystem, from: TopoNode): string {
  let line = `${nodeName(from)} :`;
  for (const type of PATH_COLUMNS) {
    for (const [at, path] of (from.paths[type] ?? []).entries()) {
      const { hops, bandwidth } = path;
      const to = nodes[type][at]!;
      line += `${nodeName(to)} (${hops.length}/${fixedText(bandwidth, 1)}/${PATH_TYPE_NAMES[path.type]}) `;
    }
  }
  return line.slice(0, LINE_LENGTH);
}

/** Graphs that were searched or read from a file, in the order of the searches. */
function searchLines({ graphs, results, system }: Domain): string[] {
  return GRAPH_NAMES_IN_SEARCH_ORDER.flatMap((name) =>
    results[name] !== undefined || graphs[name].nChannels > 0 ? graphLines(graphs[name], system) : [],
  );
}

/** A graph: its numbers, then the way of each channel. */
export function graphLines(graph: TopoGraph, system: TopoSystem): string[] {
  const { pattern, crossNic, nChannels, bwIntra, bwInter, typeIntra, typeInter, sameChannels } = graph;
  const lines = [
    `Pattern ${pattern}, crossNic ${crossNic}, nChannels ${nChannels}, ` +
      `bw ${fixedText(bwIntra, 6)}/${fixedText(bwInter, 6)}, ` +
      `type ${PATH_TYPE_NAMES[typeIntra]}/${PATH_TYPE_NAMES[typeInter]}, sameChannels ${sameChannels ? 1 : 0}`,
  ];
  for (const [channel, { intra, inter }] of graph.channels.slice(0, nChannels).entries()) {
    const ranks = graph.id === GraphId.NVLS ? intra.slice(0, 1) : intra;
    const gpus = ranks.map((rank) => nodeName(system.nodes.GPU.find((gpu) => gpu.rank === rank)!));
    const words = inter === null ? gpus : [nicText(inter[0]), ...gpus, nicText(inter[1])];
    lines.push(`${`${channel}`.padStart(2)} :${words.map((word) => ` ${word}`).join('')}`);
  }
  return lines;
}

/** A NIC by its id; the host part of a missing one is printed as a negative number. */
function nicText(id: bigint): string {
  const host = BigInt.asUintN(64, BigInt.asIntN(64, id) >> 56n);
  return `NET/${host.toString(16)}-${(id & LOCAL_ID_MASK).toString(16)}`;
}
