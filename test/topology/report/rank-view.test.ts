/** What one rank has, against the connected communicator. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeCluster } from '#src/topology/cluster.js';
import { rankView } from '#src/topology/report/rank-view.js';
import { plainStyle } from '#src/topology/report/style.js';
import { readXml } from '#src/topology/xml/read.js';
import { readTopology } from '../golden/folder.js';

const GOLDEN = join(import.meta.dirname, '../../golden');

function clusterOf(machine: string, nodes: number) {
  const { root } = readXml(readTopology(join(GOLDEN, machine)), { root: 'system' });
  return describeCluster({ nodes: Array.from({ length: nodes }, () => ({ xml: root })) });
}

/** Channels of a line such as `0 2-4  text`. */
function channelsOf(line: string): number[] {
  const [numbers] = /^[\d -]+?(?= {2})/.exec(line)!;
  return numbers!.split(' ').flatMap((part) => {
    const [from, to = from] = part.split('-').map(Number);
    return Array.from({ length: to! - from! + 1 }, (_, at) => from! + at);
  });
}

describe('the view of a rank', () => {
  const cluster = clusterOf('dgx-a100-8x200g', 2);
  const lines = rankView(cluster, 9, plainStyle(200));
  const section = (title: string) => {
    const start = lines.findIndex((line) => line.startsWith(title)) + 1;
    const end = lines.indexOf('', start);
    return lines.slice(start, end < 0 ? undefined : end);
  };

  it('begins with what the rank is', () => {
    expect(lines[0]).toBe('Rank 9: A100 SXM4 at 0f:00.0, device 1, rank 1 of node 1');
  });

  it('lists the neighbours of every channel of the rings once', () => {
    const { nChannels, ringPrev, ringNext, nRanks } = cluster.comm;
    const seen: number[] = [];
    for (const line of section('Rings')) {
      const [, prev, next] = / (\d+)(?: \([^)]*\))? -> 9 -> (\d+)/.exec(line)!;
      for (const channel of channelsOf(line)) {
        seen.push(channel);
        expect(Number(prev)).toBe(ringPrev[channel * nRanks + 9]);
        expect(Number(next)).toBe(ringNext[channel * nRanks + 9]);
      }
    }
    expect(seen.toSorted((a, b) => a - b)).toEqual(Array.from({ length: nChannels }, (_, at) => at));
  });

  it('names the transport to every other rank once, also where a host is several nodes', () => {
    const transports = section('Transports').flatMap((line) =>
      channelsOf(line).map((peer) => [peer, line.slice(line.indexOf('  ')).trim()] as const),
    );
    const others = Array.from({ length: 16 }, (_, peer) => peer).filter((peer) => peer !== 9);
    expect(transports.map(([peer]) => peer).toSorted((a, b) => a - b)).toEqual(others);
    for (const [peer, text] of transports) expect(text).toBe(peer < 8 ? 'NET' : 'P2P, receiver reads');
    const split = rankView(clusterOf('l40s-x4-2socket-2x200g', 1), 0, plainStyle(200));
    expect(split).toContain('1    P2P');
    expect(split).toContain('2-3  SHM, although graphs count on the network here');
  });

  it('names a NIC for every neighbour on another node, and none for others', () => {
    for (const line of [...section('Rings'), ...section('Trees')]) {
      for (const [, peer, nic] of line.matchAll(
        /(?<!-> )(?<![\d_])\b(\d+)( \([^)]*mlx5[^)]*\))?(?=$| |;)/g,
      )) {
        const isRank = !line.startsWith(peer!) && peer !== '9';
        if (isRank && nic !== undefined) expect(cluster.comm.rankToNode[Number(peer)]).toBe(0);
      }
    }
    expect(section('Rings').join()).toMatch(/\d \(mlx5_\d/);
    expect(section('Trees').join()).toMatch(/\d \(mlx5_\d/);
  });

  it('names the NIC and the relay for each device of peers', () => {
    expect(section('Send')).toHaveLength(8);
    expect(section('Send')[1]).toMatch(/^1 +mlx5_\d$/);
    expect(section('Send')[7]).toMatch(/^7 +mlx5_\d through GPU (14|15)$/);
  });

  it('has no NICs inside one node and no neighbours for a rank that is alone', () => {
    expect(rankView(clusterOf('dgx-a100-8x200g', 1), 0, plainStyle(100)).join()).not.toMatch(/mlx5|Send/);
    const alone = rankView(clusterOf('gh200-x1-1x400g', 1), 0, plainStyle(100));
    expect(alone).toEqual([expect.stringMatching(/^Rank 0: GH200/), 'It is alone and has no neighbours.']);
  });
});
