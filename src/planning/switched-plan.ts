/**
 * Heads, connections and blocks of the algorithms over switches (collectives/switched.ts), over emulated nodes.
 *
 * Every rank of a node is a head, as long as all nodes have so many; heads of equal number in all nodes form a rail with
 * a network switch of its own. A chain has one head for each channel, another for each.
 * Source: NCCL 2.30, NVLS, CollNet direct and chain places (topology/connect) and their chunk rules.
 */

import { STEPS } from '../collectives/ring-connection.js';
import { hasNodeSwitch, type SwitchedName } from '../collectives/switched.js';
import { type SwitchRole, switchRoleName } from '../collectives/switched-role.js';
import { doubleTree } from '../topology/connect/double-tree.js';
import { collnetChainChunk, collnetDirectChunk, nvlsChunk, nvlsTreeChunk } from './chunk-size.js';
import {
  type BlockPlan,
  type ConnectedAlgorithm,
  type ConnectedCall,
  type ConnectedSetting,
  slotElements,
} from './connected-plan.js';
import type { PoolConnection, SwitchPort } from './connection-pool.js';
import { channelShares } from './ring-plan.js';
import { nodeCount, nodeOf, ranksOfNode } from './virtual-nodes.js';

/** Connections between the same two ranks are told apart by what they carry. */
const KINDS = ['up', 'down', 'netUp', 'netDown', 'treeUp', 'treeDown'] as const;
type Kind = (typeof KINDS)[number];

/** A rank among the nodes. */
interface Place {
  readonly nodes: number;
  readonly node: number;
  readonly perNode: number;
  /** Ranks of its node. */
  readonly own: readonly number[];
  /** Heads of every node. */
  readonly heads: number;
  /** Its number among them; -1 for a rank that is none. */
  readonly head: number;
}

type Nodes = Pick<ConnectedSetting, 'ranks' | 'perNode'>;

function placeOf(name: SwitchedName, setting: Nodes, rank: number): Place {
  const perNode = Math.min(setting.perNode, setting.ranks);
  const virtual = { ranks: setting.ranks, perNode };
  const node = nodeOf(virtual, rank);
  const own = ranksOfNode(virtual, node);
  const heads = headCount(name, setting);
  const at = own.indexOf(rank);
  return { nodes: nodeCount(virtual), node, perNode, own, heads, head: at < heads ? at : -1 };
}

/** Heads of a node: as many as every node has ranks. */
export function headCount(name: SwitchedName, { ranks, perNode }: Nodes): number {
  if (name === 'CollNetChain') return 1;
  const virtual = { ranks, perNode: Math.min(perNode, ranks) };
  const last = ranksOfNode(virtual, nodeCount(virtual) - 1).length;
  return Math.min(virtual.perNode, last);
}

interface Links {
  readonly role: SwitchRole;
  readonly receives: readonly PoolConnection[];
  readonly sends: readonly PoolConnection[];
  readonly ports: readonly SwitchPort[];
  /** Head at the other end of the first link to heads. */
  readonly firstHead: number;
}

/** What a rank is joined to in a channel, in the order of a role's links. */
function linksOf(name: SwitchedName, setting: Nodes, channel: number, rank: number): Links {
  const place = placeOf(name, setting, rank);
  return name === 'CollNetChain'
    ? chainLinks(setting, place, channel, rank)
    : headLinks(name, place, channel, rank);
}

const wireIn =
  (channel: number) =>
  (kind: Kind) =>
  (peer: number): PoolConnection => ({ channel: channel * KINDS.length + KINDS.indexOf(kind), peer });

/** The network switch of a rail as one of its ranks sees it, whose work the rank of node `engine` does. */
function network(rail: readonly number[], engine: number, channel: number, rank: number) {
  const wire = wireIn(channel);
  const isEngine = rail[engine] === rank;
  return {
    receives: [wire('netDown')(rail[engine]!)],
    sends: [wire('netUp')(rail[engine]!)],
    engineReceives: isEngine ? rail.map(wire('netUp')) : [],
    engineSends: isEngine ? rail.map(wire('netDown')) : [],
    ports: isEngine ? rail.map((port): SwitchPort => ({ level: 'network', rank: port })) : [],
  };
}

const NO_OUT = { receives: [], sends: [], engineReceives: [], engineSends: [], ports: [] };

function headLinks(name: SwitchedName, place: Place, channel: number, rank: number): Links {
  const { nodes, node, perNode, own, heads, head } = place;
  const wire = wireIn(channel);
  const isHead = head >= 0;
  const inSwitch = hasNodeSwitch(name);
  // Ranks begin with different heads. In a switch the own piece goes the same way as all others.
  const firstHead = !isHead ? 0 : inSwitch ? head : (head + 1) % heads;
  const headRanks = Array.from({ length: heads }, (_, i) => own[(firstHead + i) % heads]!).filter(
    (other) => inSwitch || other !== rank,
  );
  const locals = isHead ? own.filter((other) => inSwitch || other !== rank) : [];
  const rail = Array.from({ length: nodes }, (_, other) => other * perNode + head);
  const tree = name === 'NVLSTree' && isHead ? doubleTree(nodes, node)[channel % 2 === 0 ? 0 : 1] : undefined;
  const children = [tree?.child0 ?? -1, tree?.child1 ?? -1].flatMap((other) =>
    other === -1 ? [] : [rail[other]!],
  );
  const parent = tree === undefined || tree.parent === -1 ? undefined : rail[tree.parent]!;
  const hasNetwork = isHead && name !== 'NVLSTree' && (!inSwitch || nodes > 1);
  const out = hasNetwork
    ? network(rail, (head + channel) % nodes, channel, rank)
    : parent === undefined
      ? NO_OUT
      : { ...NO_OUT, receives: [wire('treeDown')(parent)], sends: [wire('treeUp')(parent)] };
  return {
    role: {
      pieces: headRanks.length,
      works: isHead,
      locals: locals.length,
      children: children.length,
      out: hasNetwork ? 'net' : parent === undefined ? 'none' : 'parent',
      engine: out.engineReceives.length,
    },
    receives: [
      ...headRanks.map(wire('down')),
      ...locals.map(wire('up')),
      ...children.map(wire('treeUp')),
      ...out.receives,
      ...out.engineReceives,
    ],
    sends: [
      ...headRanks.map(wire('up')),
      ...out.sends,
      ...locals.map(wire('down')),
      ...children.map(wire('treeDown')),
      ...out.engineSends,
    ],
    ports: [
      ...(inSwitch ? locals.map((port): SwitchPort => ({ level: 'node', rank: port })) : []),
      ...out.ports,
    ],
    firstHead,
  };
}

/** The chain of a node in a channel, its head first. */
function chainOf(own: readonly number[], channel: number): number[] {
  return own.map((_, i) => own[(channel + i) % own.length]!);
}

function chainLinks(setting: Nodes, { nodes, perNode, own }: Place, channel: number, rank: number): Links {
  const wire = wireIn(channel);
  const chain = chainOf(own, channel);
  const at = chain.indexOf(rank);
  const next = chain.slice(at + 1, at + 2);
  const virtual = { ranks: setting.ranks, perNode };
  const rail = Array.from({ length: nodes }, (_, node) => chainOf(ranksOfNode(virtual, node), channel)[0]!);
  const before = chain[at - 1];
  const out =
    before === undefined
      ? network(rail, channel % nodes, channel, rank)
      : { ...NO_OUT, receives: [wire('down')(before)], sends: [wire('up')(before)] };
  return {
    role: {
      pieces: 0,
      works: true,
      locals: 0,
      children: next.length,
      out: before === undefined ? 'net' : 'parent',
      engine: out.engineReceives.length,
    },
    receives: [...next.map(wire('up')), ...out.receives, ...out.engineReceives],
    sends: [...out.sends, ...next.map(wire('down')), ...out.engineSends],
    ports: out.ports,
    firstHead: 0,
  };
}

/** Bytes to which NVLS inside one node rounds up the pieces of the last unit, and a tree does. */
const LAST_PIECE_BYTES = { NVLS: 16384, NVLSTree: 16 } as const;

/** Elements to which pieces of the last unit are rounded up; 0: they stay whole chunks. */
function grainOf(name: SwitchedName, nodes: number, elementBytes: number): number {
  if (name === 'NVLSTree') return LAST_PIECE_BYTES.NVLSTree / elementBytes;
  return name === 'NVLS' && nodes === 1 ? LAST_PIECE_BYTES.NVLS / elementBytes : 0;
}

/** Elements of a whole chunk: what a slot holds, and for less data NCCL's rules. */
function chunkElements(name: SwitchedName, setting: ConnectedSetting, call: ConnectedCall): number {
  const { ranks, perNode, channels } = setting;
  const { collective, elementBytes, count } = call;
  const most = slotElements(setting, elementBytes) * elementBytes;
  const bytes = count * elementBytes * (collective === 'allReduce' ? 1 : ranks);
  const concurrent = channels * headCount(name, setting);
  const local = Math.min(perNode, ranks);
  const chunk = (): number => {
    switch (name) {
      case 'NVLS':
        return nvlsChunk(most, concurrent, bytes);
      case 'NVLSTree':
        return nvlsTreeChunk(most, concurrent, bytes);
      case 'CollNetDirect':
        return collnetDirectChunk(most, concurrent, local > 1 ? 2 : 1, bytes);
      case 'CollNetChain':
        return collnetChainChunk(most, concurrent, local, bytes);
    }
  };
  return Math.max(1, Math.floor(chunk() / elementBytes));
}

/** Elements that all ranks move together in a channel before they begin again. */
function unitElements(name: SwitchedName, setting: ConnectedSetting, call: ConnectedCall): number {
  const chunk = chunkElements(name, setting, call);
  return call.collective === 'allReduce' ? chunk * headCount(name, setting) : chunk;
}

export function switchedAlgorithm(name: SwitchedName): ConnectedAlgorithm {
  return {
    connections: (setting, rank) => {
      const all = Array.from({ length: setting.channels }, (_, channel) =>
        linksOf(name, setting, channel, rank),
      );
      return {
        sends: all.flatMap(({ sends }) => sends),
        receives: all.flatMap(({ receives }) => receives),
        ports: all.flatMap(({ ports }) => ports),
      };
    },
    plan: (setting, call, rank): BlockPlan[] => {
      const { elementBytes, count } = call;
      const { nodes, node, perNode, heads, head } = placeOf(name, setting, rank);
      const chunk = chunkElements(name, setting, call);
      let portRow = 0;
      return channelShares(count, elementBytes, setting.channels, 'Simple').map((share, channel) => {
        const { role, receives, sends, ports, firstHead } = linksOf(name, setting, channel, rank);
        const first = portRow;
        portRow += ports.length;
        const piece = name === 'CollNetChain' ? 0 : Math.max(0, head);
        return {
          role: switchRoleName(role),
          channel,
          receives,
          sends,
          ...share,
          chunk,
          window: STEPS * unitElements(name, setting, call),
          table: [heads, piece, firstHead, nodes, node, perNode, grainOf(name, nodes, elementBytes)],
          portRow: first,
        };
      });
    },
    cut: (setting, call) => unitElements(name, setting, call),
  };
}
