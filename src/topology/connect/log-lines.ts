/**
 * The lines in which NCCL logs what it connected, word for word, for people and tools that know its logs.
 *
 * A line is a text without the host and process prefix. (NCCL 2.30.7, connect.cc, rings.cc, init.cc.)
 */

import { bothTrees } from './channel-counts.js';
import type { ConnectedCommunicator } from './communicator.js';
import type { CommNode } from './nodes.js';
import { NVLS_TREE_ARITY } from './nvls.js';
import { channelOrder, graphHeads, treeEnds } from './preset.js';
import { connectTrees, TREE_ARITY } from './trees.js';

/** NCCL's line buffers hold this much; one of them is that of the whole line, prefix and all. */
const LINE_LENGTH = 1023;
const CHANNEL_LINE_LENGTH = 127;

/** Nodes that a line of NVLS heads names. */
const SHOWN_NODES = 20;

/**
 * `Tree 0 : -1 -> 0 -> 1/8/-1` for a rank that its node uses to talk to others: for each order both trees.
 */
export function treeLines(comm: ConnectedCommunicator, rank: number): string[] {
  const { nodes, nRanks, rankToNode, searchChannels: half } = comm;
  const { domain } = nodes[rankToNode[rank]!]!;
  const { tree } = domain.graphs;
  // NCCL says these before it cuts channels that the user does not want.
  const total = bothTrees(half);
  const { up, down } =
    comm.nChannels >= total
      ? { up: comm.treeUp, down: comm.treeDown }
      : connectTrees(nodes, nRanks, half, total);
  const lines: string[] = [];
  for (let channel = 0; channel < half; channel++) {
    const ends = treeEnds(tree.pattern, channelOrder(tree, channel, domain.ranks.length));
    if (!Object.values(ends).includes(rank - domain.rankOffset)) continue;
    for (const both of [channel, channel + half]) {
      if (both >= total) continue;
      const at = both * nRanks + rank;
      lines.push(`Tree ${both} : ${up[at]} -> ${rank} -> ${slots(down, at * TREE_ARITY, TREE_ARITY)}`);
    }
  }
  return lines;
}

/** `Ring 00 : 1 -> 0 -> 1` for every channel. */
export function ringLines(
  { nChannels, nRanks, ringPrev, ringNext }: ConnectedCommunicator,
  rank: number,
): string[] {
  return Array.from({ length: nChannels }, (_, channel) => {
    const at = channel * nRanks + rank;
    return `Ring ${two(channel)} : ${ringPrev[at]} -> ${rank} -> ${ringNext[at]}`;
  });
}

/** `Trees [0] 1/-1/-1->0->-1 [1] ...`: all channels of a rank in one line. */
export function treesLine(
  { nChannels, nRanks, treeUp, treeDown }: ConnectedCommunicator,
  rank: number,
): string {
  let line = 'Trees';
  for (let channel = 0; channel < nChannels; channel++) {
    const at = channel * nRanks + rank;
    line += ` [${channel}] ${slots(treeDown, at * TREE_ARITY, TREE_ARITY)}->${rank}->${treeUp[at]}`;
  }
  return line.slice(0, LINE_LENGTH);
}

/** `Channel 00/24 : 0 1`: the ring of a channel, cut to the length of a line. */
export function channelLine(comm: ConnectedCommunicator, channel: number): string {
  return orderLine(`Channel ${two(channel)}/${two(comm.nChannels)} :`, comm.ringOf(channel));
}

/** A line of ranks, cut to the length of a line; a rank that does not fit becomes dots. */
export function orderLine(start: string, order: ArrayLike<number>): string {
  const width = `${order.length - 1}`.length;
  let line = start;
  for (let i = 0; i < order.length && line.length < CHANNEL_LINE_LENGTH; i++) {
    line += ` ${`${order[i]}`.padStart(width)}`;
  }
  return line.length > CHANNEL_LINE_LENGTH ? `${line.slice(0, CHANNEL_LINE_LENGTH - 3)}...` : line;
}

/** `CollNetDirect channel 0 rank 0 down 1 ... shift 0` for every channel; none without CollNet direct. */
export function collnetDirectLines({ nChannels, collnet }: ConnectedCommunicator, rank: number): string[] {
  const place = collnet?.direct?.(rank);
  if (place === undefined) return [];
  const { headRank, out, shift, nHeads } = place;
  const list = (ranks: readonly number[]) => ranks.map((other) => ` ${other} `).join('');
  const down = headRank === -1 ? '' : `down ${list(place.down)}nDown ${place.down.length} `;
  const rest =
    `${down}up ${list(place.up)}heads ${list(place.heads)}nUp ${place.up.length} nHeads ${nHeads} ` +
    `headRank ${headRank} out ${out} shift ${shift}`;
  return Array.from(
    { length: nChannels },
    (_, channel) => `CollNetDirect channel ${channel} rank ${rank} ${rest}`,
  );
}

/** `NVLS Head  0:  0  8`: the ranks of each head over the nodes; said by ranks of node 0. */
export function nvlsHeadLines({ nodes, nvls }: ConnectedCommunicator): string[] {
  const shown = nodes.slice(0, SHOWN_NODES).map((node) => headsOf(node));
  return Array.from({ length: nvls?.nHeads ?? 0 }, (_, head) => {
    const ranks = shown.map((heads) => ` ${`${heads[head]}`.padStart(2)}`);
    return `NVLS Head ${`${head}`.padStart(2)}:${ranks.join('')}`;
  });
}

const headsOf = ({ domain: { graphs, rankOffset } }: CommNode): number[] =>
  graphHeads(graphs.nvls).map((head) => head + rankOffset);

/** `NVLS Trees : 17/8/-1->0->-1 17/-1/-1->0->8`: a rank's place in both trees; none without NVLS. */
export function nvlsTreesLine({ nRanks, nvls }: ConnectedCommunicator, rank: number): string | undefined {
  if (nvls === undefined) return undefined;
  const trees = [0, 1].map((tree) => {
    const at = tree * nRanks + rank;
    return `${slots(nvls.treeDown, at * NVLS_TREE_ARITY, NVLS_TREE_ARITY)}->${rank}->${nvls.treeUp[at]}`;
  });
  return `NVLS Trees : ${trees.join(' ')}`;
}

/** `24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer` */
export function channelCountsLine(comm: ConnectedCommunicator): string {
  const { nChannels, nvls, p2pnChannels, p2pnChannelsPerPeer } = comm;
  return (
    `${nChannels} coll channels, ${nChannels} collnet channels, ${nvls?.nChannels ?? 0} nvls channels, ` +
    `${p2pnChannels} p2p channels, ${p2pnChannelsPerPeer} p2p channels per peer`
  );
}

/** `rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0`, what follows `comm ADDRESS `. */
export function commLine(comm: ConnectedCommunicator, rank: number, mnnvl: boolean): string {
  const { nRanks, nNodes, nodes, rankToNode, rankToLocalRank } = comm;
  const local = nodes[rankToNode[rank]!]!.ranks.length;
  return (
    `rank ${rank} nRanks ${nRanks} nNodes ${nNodes} localRanks ${local} localRank ${rankToLocalRank[rank]} ` +
    `MNNVL ${mnnvl ? 1 : 0}`
  );
}

const two = (value: number): string => `${value}`.padStart(2, '0');

const slots = (values: Int32Array, start: number, count: number): string =>
  values.subarray(start, start + count).join('/');
