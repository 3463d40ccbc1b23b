/** The domains of a golden file as the connection takes them: systems, paths and searches as NCCL had them. */
import type { DomainInfo } from '#src/topology/connect/domain.js';
import type { TopoGraph } from '#src/topology/search/graph.js';
import { emptySystem } from '#src/topology/system/edit.js';
import type { NodeType, TopoLink, TopoNode, TopoPath, TopoSystem } from '#src/topology/system/node.js';
import {
  LINK_TYPE_NAMES,
  type LinkType,
  PATH_TYPE_NAMES,
  type PathType,
} from '#src/topology/system/path-type.js';
import type {
  GoldenDomain,
  GoldenFile,
  GoldenGraph,
  GoldenLink,
  GoldenPath,
  GoldenSystem,
} from '../golden/format.js';

/**
 * All domains. Files list those of the first two nodes (NVLink cliques: of all); further nodes are like the second.
 * Domains of one kind share their system, but not their graphs where the file lists both.
 */
export function goldenDomains(golden: GoldenFile): DomainInfo[] {
  const { oracle, search, nDomains } = golden;
  const systems = [golden.system!, ...(golden.domainSystems ?? [])].map(systemFrom);
  const perNode = systems.length;
  const nodes = nDomains! / perNode;
  const ranksPerNode = oracle.nRanks / nodes;
  const listed = search!.map((entry, k) => graphsFrom(entry, Math.floor(k / perNode) * ranksPerNode));
  return Array.from({ length: nDomains! }, (_, k) => {
    const node = Math.floor(k / perNode);
    const system = systems[k % perNode]!;
    const rankOffset = node * ranksPerNode;
    const graphs = listed[k < listed.length ? k : Math.min(1, node) * perNode + (k % perNode)]!;
    return { ranks: system.nodes.GPU.map(({ rank }) => rank + rankOffset), rankOffset, system, graphs };
  });
}

const typeNumber = (name: string): PathType => {
  const type = PATH_TYPE_NAMES.indexOf(name as (typeof PATH_TYPE_NAMES)[number]);
  if (type === -1) throw new Error(`no path type '${name}'`);
  return type as PathType;
};

function graphsFrom(entry: GoldenDomain, offset: number): DomainInfo['graphs'] {
  const graph = (golden: GoldenGraph): TopoGraph => ({
    ...golden,
    id: golden.id as TopoGraph['id'],
    pattern: golden.pattern as TopoGraph['pattern'],
    collNet: golden.collNet !== 0,
    typeIntra: typeNumber(golden.typeIntra),
    typeInter: typeNumber(golden.typeInter),
    sameChannels: golden.sameChannels !== 0,
    channels: golden.channels!.map(({ intra, inter }) => ({
      intra: intra.map((rank) => rank - offset),
      inter: inter === undefined ? null : [BigInt(inter[0]!), BigInt(inter[1]!)],
    })),
  });
  return {
    ring: graph(entry.ring),
    tree: graph(entry.tree),
    collnetChain: graph(entry.collnetChain),
    collnetDirect: graph(entry.collnetDirect),
    nvls: graph(entry.nvls),
  };
}

/** Names of fields that golden files give another name. */
const RENAMED: Readonly<Record<string, string>> = {
  bw: 'bandwidth',
  maxChannels: 'maxConnections',
  nGpus: 'gpuCount',
};
const FLAGS = new Set(['gdr', 'coll']);
const IDS = new Set(['id', 'asic', 'device']);

/** The system with links, and paths whose hops have their far ends where the file lists them. */
export function systemFrom(golden: GoldenSystem): TopoSystem {
  const system = emptySystem();
  Object.assign(system, { inter: golden.inter === 1, maxBw: golden.maxBw, totalBw: golden.totalBw });
  const nodes = system.nodes as Record<NodeType, TopoNode[]>;
  for (const [type, list] of Object.entries(golden.nodes)) {
    for (const { i, links: _, ...fields } of list) {
      const node: Record<string, unknown> = { type, index: i, links: [], paths: {} };
      for (const [key, value] of Object.entries(fields)) {
        const name = RENAMED[key] ?? key;
        node[name] = IDS.has(key) ? BigInt(value as string) : FLAGS.has(key) ? value === 1 : value;
      }
      nodes[type as NodeType].push(node as unknown as TopoNode);
    }
  }
  const named = (name: string): TopoNode => {
    const [type, index] = name.split('/');
    return nodes[type as NodeType][Number(index)]!;
  };
  for (const [type, list] of Object.entries(golden.nodes)) {
    for (const [i, { links, parentDev }] of list.entries()) {
      const node = nodes[type as NodeType][i]!;
      node.links = (links as readonly GoldenLink[]).map(([kind, bandwidth, to]) => ({
        type: linkNumber(kind),
        bandwidth: Math.fround(bandwidth),
        to: named(to),
      }));
      if (parentDev !== undefined) Object.assign(node, { parent: nodes.DEV[parentDev as number] });
    }
  }
  for (const [table, rows] of Object.entries(golden.paths ?? {})) {
    const [from, to] = table.split('-') as [NodeType, NodeType];
    for (const [i, row] of rows.entries()) {
      if (row.length > 0) nodes[from][i]!.paths[to] = row.map((path) => pathFrom(path, named));
    }
  }
  return system;
}

const linkNumber = (name: string): LinkType => {
  const [number] = Object.entries(LINK_TYPE_NAMES).find(([, text]) => text === name) ?? [];
  if (number === undefined) throw new Error(`no link type '${name}'`);
  return Number(number) as LinkType;
};

function pathFrom(
  [type, bandwidth, count, through]: GoldenPath,
  named: (name: string) => TopoNode,
): TopoPath {
  const ends = through ? through.split(' ') : [];
  // Where the file does not list the hops, only their number is known: holes make any look at one fail.
  const hops: TopoLink[] = new Array(count);
  for (const [k, name] of ends.entries()) hops[k] = { type: 0, bandwidth, to: named(name) };
  return { type: typeNumber(type), bandwidth: Math.fround(bandwidth), hops };
}
