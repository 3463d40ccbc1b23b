/**
 * The log lines, against logs of a live NCCL and against lines that are known from others. The graphs come from the
 * same logs.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type ConnectedCommunicator, connectCommunicator } from '#src/topology/connect/communicator.js';
import type { DomainInfo } from '#src/topology/connect/domain.js';
import {
  channelCountsLine,
  channelLine,
  collnetDirectLines,
  commLine,
  nvlsHeadLines,
  nvlsTreesLine,
  orderLine,
  ringLines,
  treeLines,
  treesLine,
} from '#src/topology/connect/log-lines.js';
import { GraphId, type Pattern, type TopoGraph } from '#src/topology/search/graph.js';
import { type Environment, topologySettings } from '#src/topology/settings.js';
import { PathType } from '#src/topology/system/path-type.js';
import { readGolden } from '../golden/folder.js';
import { goldenDomains } from './golden-domains.js';
import { madeDomain, madeGraph, madeGraphs, madeSystem, upTo } from './machines.js';

const goldenFolder = (machine: string) => fileURLToPath(new URL(`../../golden/${machine}`, import.meta.url));

const connect = (domains: readonly DomainInfo[], env: Environment = {}): ConnectedCommunicator =>
  connectCommunicator({ domains, settings: topologySettings(env) });

describe('logs of a live NCCL', () => {
  /** Bus numbers of the two GPUs in the logs, by rank. */
  const RANK_OF: Readonly<Record<string, number>> = { '60': 0, '70': 1 };

  /** Whole lines that one rank logged. */
  const linesOf = (log: string, rank: number): string[] =>
    log.split('\n').filter((line) => line.includes(` [${rank}] NCCL INFO `));

  /** A line without its prefix, which has the address of the communicator in one kind. */
  const textOf = (line: string): string =>
    line.replace(/^.*? NCCL INFO /, '').replace(/^comm 0x[0-9a-f]+ /, '');

  /** Ring and tree that a rank found: a line of numbers, then a line for each channel. */
  function graphsOf(texts: readonly string[]): TopoGraph[] {
    const graphs: TopoGraph[] = [];
    for (const text of texts) {
      const found = /^Pattern (\d), crossNic (\d), nChannels \d+, bw ([\d.]+)\/([\d.]+),/.exec(text);
      if (found !== null) {
        const [pattern, crossNic, bwIntra, bwInter] = found.slice(1).map(Number);
        const id = graphs.length === 0 ? GraphId.RING : GraphId.TREE;
        const values = { crossNic: crossNic!, bwIntra: bwIntra!, bwInter: bwInter! };
        graphs.push(madeGraph(id, pattern as Pattern, [], values));
      }
      if (!/^[ \d]\d :/.test(text)) continue;
      const graph = graphs.at(-1)!;
      const intra = [...text.matchAll(/GPU\/0-(\d+)/g)].map(([, bus]) => RANK_OF[bus!]!);
      graph.channels.push({ intra, inter: null });
      graph.nChannels++;
    }
    return graphs;
  }

  function domainOf(texts: readonly string[], type: PathType, bandwidth: number): DomainInfo {
    const [ring, tree] = graphsOf(texts);
    const ranks = [...ring!.channels[0]!.intra].sort();
    const system = madeSystem(ranks.length, { gpuPath: () => ({ type, bandwidth: Math.fround(bandwidth) }) });
    const graphs = { ...madeGraphs({ ring: [] }), ring: ring!, tree: tree! };
    return { ...madeDomain(0, ranks.length, graphs, system), ranks };
  }

  it.each([
    { file: 'log-2.txt', ranks: 2, nodes: 1, type: PathType.NVL, bandwidth: 370.8, lines: 126 },
    { file: 'log-2-nop2p.txt', ranks: 2, nodes: 1, type: PathType.PHB, bandwidth: 24, lines: 26 },
    { file: 'log-2-net.txt', ranks: 2, nodes: 2, type: PathType.PHB, bandwidth: 24, lines: 14 },
    { file: 'log-1.txt', ranks: 1, nodes: 1, type: PathType.LOC, bandwidth: 5000, lines: 195 },
  ])('are reproduced line by line: $file', ({ file, ranks, nodes, type, bandwidth, lines }) => {
    const log = readFileSync(`${goldenFolder('real-2xH200')}/${file}`, 'utf8');
    const logged = upTo(ranks).map((rank) => linesOf(log, rank));
    const domains = logged.slice(0, nodes).map((own) => domainOf(own.map(textOf), type, bandwidth));
    const comm = connect(domains);
    let compared = 0;
    for (const [rank, own] of logged.entries()) {
      const prefix = own[0]!.length - own[0]!.replace(/^.*? NCCL INFO /, '').length;
      const ours = [
        ...treeLines(comm, rank),
        ...(rank === 0 ? upTo(comm.nChannels).map((channel) => channelLine(comm, channel)) : []),
        ...ringLines(comm, rank),
        // A line with its prefix has room for 1,023 characters.
        treesLine(comm, rank).slice(0, 1023 - prefix),
        ...(nodes === 1 ? [channelCountsLine(comm)] : []),
        commLine(comm, rank, false),
      ].sort();
      const kinds = /^(Tree \d|Channel \d+\/\d+ : [^[]*$|Ring \d|Trees|rank \d+ nRanks|\d+ coll channels)/;
      const theirs = own
        .map(textOf)
        .filter((text) => kinds.test(text))
        // 2.28.9 gives peers over the network two channels, 2.30.7 as many as the NIC feeds.
        .filter((text) => nodes === 1 || !text.includes('coll channels'))
        .sort();
      expect(ours).toEqual(theirs);
      compared += theirs.length;
    }
    expect(compared).toBe(lines);
  });
});

describe('lines over several nodes', () => {
  const golden = (file: string) => goldenDomains(readGolden(goldenFolder('azure-ndv5-h100x8-8x400g'), file));
  const two = connect(golden('golden-n2-nvls.json.gz'));

  it('show the rings of rank 0, numbers in columns', () => {
    expect(channelLine(two, 0)).toBe('Channel 00/16 :  0  7  6  5  4  3  2  1  9 10 11 12 13 14 15  8');
  });

  it('show both trees of each order, said by the ranks at the ends of their node', () => {
    expect(treeLines(two, 0)).toEqual(['Tree 0 : -1 -> 0 -> 1/8/-1', 'Tree 8 : 8 -> 0 -> 1/-1/-1']);
    expect(treeLines(two, 8)).toEqual(['Tree 0 : 0 -> 8 -> 9/-1/-1', 'Tree 8 : -1 -> 8 -> 9/0/-1']);
    const balanced = connect(
      [0, 3].map((first) => madeDomain(first, 3, madeGraphs({ ring: [upTo(3)], treePattern: 1 }))),
    );
    expect([1, 2].map((rank) => treeLines(balanced, rank).length)).toEqual([2, 0]);
  });

  it('show trees that are cut away afterwards', () => {
    const cut = connect(golden('golden-n2-nvls.json.gz'), { NCCL_MAX_NCHANNELS: '4' });
    expect(cut.nChannels).toBe(4);
    expect(treeLines(cut, 0)).toEqual(treeLines(two, 0));
    expect(ringLines(cut, 8)).toEqual(ringLines(two, 8).slice(0, 4));
  });

  it('show NVLS heads by node, 20 nodes at most, and both NVLS trees', () => {
    expect(nvlsHeadLines(two).slice(0, 2)).toEqual(['NVLS Head  0:  0  8', 'NVLS Head  1:  1  9']);
    expect(nvlsHeadLines(two).length).toBe(8);
    expect(nvlsTreesLine(two, 0)).toBe('NVLS Trees : 17/8/-1->0->-1 17/-1/-1->0->8');
    expect(nvlsTreesLine(two, 9)).toBe('NVLS Trees : 18/-1/-1->9->1 18/1/-1->9->-1');
    const graphs = madeGraphs({ ring: [[0, 1]], nvls: [[1]] });
    const many = connect(upTo(25).map((m) => madeDomain(2 * m, 2, graphs)));
    const numbers = upTo(20).map((m) => `${2 * m + 1}`.padStart(2));
    expect(nvlsHeadLines(many)).toEqual([`NVLS Head  0: ${numbers.join(' ')}`]);
  });

  it('say nothing of NVLS and CollNet where there is none', () => {
    const plain = connect([madeDomain(0, 2)]);
    expect([nvlsTreesLine(plain, 0), nvlsHeadLines(plain), collnetDirectLines(plain, 0)]).toEqual([
      undefined,
      [],
      [],
    ]);
  });

  it('show CollNet direct of heads and of others', () => {
    const comm = connect(golden('golden-n2-collnet.json.gz'));
    const lines = collnetDirectLines(comm, 8);
    expect(lines.length).toBe(16);
    expect(lines[3]).toBe(
      'CollNetDirect channel 3 rank 8 down  9  10  11  12  13  14  15 nDown 7 up  9  10  11  12  13  14  15 ' +
        'heads  8  9  10  11  12  13  14  15 nUp 7 nHeads 8 headRank 0 out 16 shift 0',
    );
    const ring = [[0, 1, 2]];
    const graphs = madeGraphs({ ring, collnetChain: ring, collnetDirect: ring });
    const few = connect([madeDomain(0, 3, graphs), madeDomain(3, 3, graphs)]);
    expect(collnetDirectLines(few, 4)[0]).toBe(
      'CollNetDirect channel 0 rank 4 up  3 heads  3 nUp 1 nHeads 1 headRank -1 out -1 shift 0',
    );
  });

  it('show the counts', () => {
    expect(channelCountsLine(two)).toBe(
      '16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 4 p2p channels per peer',
    );
    expect(commLine(two, 9, true)).toBe('rank 9 nRanks 16 nNodes 2 localRanks 8 localRank 1 MNNVL 1');
  });
});

describe('long lines', () => {
  it('end in dots where a rank does not fit into 127 characters', () => {
    const start = 'Channel 000/02 :';
    const line = orderLine(start, upTo(200));
    const numbers = upTo(28).map((rank) => ` ${`${rank}`.padStart(3)}`);
    expect(line).toBe(`${start}${numbers.join('')}`.slice(0, 124).concat('...'));
    expect(line.length).toBe(127);
    expect(orderLine(start, upTo(10))).toBe(
      `${start}${upTo(10)
        .map((rank) => ` ${rank}`)
        .join('')}`,
    );
  });

  it('end without dots where the last rank fills the line exactly', () => {
    const start = 'x'.repeat(127 - 5 * 3);
    expect(orderLine(start, upTo(11))).toBe(`${start}  0  1  2  3  4`);
  });

  it('of trees are cut at 1023 characters', () => {
    const many = connect([madeDomain(0, 4, madeGraphs({ ring: upTo(32).map(() => upTo(4)) }))]);
    expect(many.nChannels).toBe(64);
    const line = treesLine(many, 1);
    expect(line.length).toBe(1023);
    expect(line.startsWith('Trees [0] 2/-1/-1->1->0 [1] 2/-1/-1->1->0')).toBe(true);
  });
});
