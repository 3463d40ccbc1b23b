/** Channels and orders as text: the numbers of the worked examples and of the graphs. */
import { describe, expect, it } from 'vitest';
import { describeCluster } from '#src/topology/cluster.js';
import {
  channelCounts,
  distinctDomains,
  graphSummary,
  orderSummary,
} from '#src/topology/report/graph-summary.js';
import { plainStyle, visibleLength } from '#src/topology/report/style.js';
import { textReport } from '#src/topology/report/text-report.js';
import { clusterOf, goldenDocument } from './clusters.js';

const WIDE = plainStyle(400);

const rows = (lines: readonly string[]): string[][] => lines.map((line) => line.trim().split(/ {2,}/));

describe('the table of channels', () => {
  it('of one H100 host has ring, tree and NVLS with the link that is full', () => {
    const { cluster } = clusterOf(goldenDocument('azure-ndv5-h100x8-8x400g'));
    const lines = graphSummary(cluster, WIDE);
    expect(lines.at(-1)).toMatch(/the speed of collectives is another/);
    expect(rows(lines.slice(0, -1))).toEqual([
      ['channels x GB/s', 'GB/s', 'GPUs', 'fullest link'],
      [
        'Ring',
        '12 x 30',
        '360',
        'NVL',
        'NVLinks from GPU 0 to the NVSwitch (and 7 like it): 360 of 370.8 GB/s',
      ],
      [
        'Tree',
        '12 x 30',
        '360',
        'NVL',
        'NVLinks from GPU 0 to the NVSwitch (and 6 like it): 360 of 370.8 GB/s',
      ],
      [
        'NVLS',
        '8 x 40',
        '320',
        'NVL',
        'NVLinks from the NVSwitch to GPU 0 (and 7 like it): 360 of 370.8 GB/s',
      ],
    ]);
    expect(channelCounts(cluster)).toBe(
      '24 channels for collectives, 16 for NVLS, 32 for send and receive (32 per peer); each channel found is used 2 times',
    );
  });

  it('of two hosts tells the speed to NICs where it differs, and how NICs cross', () => {
    const { cluster } = clusterOf(goldenDocument('azure-ndv5-h100x8-8x400g'), 2);
    const [, ring, tree, nvls] = rows(graphSummary(cluster, WIDE));
    expect(ring!.slice(0, 4)).toEqual(['Ring', '8 x 48', '384', 'NVL']);
    expect(ring![4]).toContain('crossNic 2');
    expect(tree!.slice(0, 5)).toEqual(['Tree', '8 x 48', '384', 'NVL', 'PIX']);
    expect(nvls!.slice(0, 5)).toEqual(['NVLS', '8 x 40 (48 to NICs)', '320', 'NVL', 'PIX']);
  });

  it('says that nothing was found, and that a single GPU fills no link', () => {
    const slow = clusterOf(goldenDocument('syn-x1-lanes-and-gen1')).cluster;
    expect(graphSummary(slow, WIDE).join('\n')).toMatch(/Ring +1 x 0\.1 .*nothing was found; simple order/);
    const single = clusterOf(goldenDocument('gh200-x1-1x400g')).cluster;
    expect(graphSummary(single, WIDE).join('\n')).toMatch(/Ring +32 x 60 .*a single GPU/);
    expect(channelCounts(single)).toBe('64 channels for collectives; each channel found is used 2 times');
    expect(orderSummary(single, WIDE)).toEqual([]);
  });

  it('shows each kind of node once, however many nodes there are', () => {
    const { cluster } = clusterOf(goldenDocument('l20-x8-cx8'), 3);
    expect(cluster.domains).toHaveLength(6);
    expect(distinctDomains(cluster.domains)).toHaveLength(2);
    const heads = graphSummary(cluster, WIDE).filter((line) => line.startsWith('Node'));
    expect(heads).toEqual(['Node with GPU 0-3', 'Node with GPU 4-7']);
  });

  it('is wrapped to the width of the terminal, and lists CollNet if it was searched', () => {
    const { cluster } = clusterOf(goldenDocument('azure-ndv5-h100x8-8x400g'), 2);
    const lines = graphSummary(cluster, plainStyle(90));
    expect(Math.max(...lines.map(visibleLength))).toBeLessThanOrEqual(90);
    expect(lines.join(' ').replaceAll(/ +/g, ' ')).toContain('48 of 48 GB/s');
    const document = goldenDocument('rccl-collnet-n4');
    const visit = (one: typeof document): void => {
      if (one.name === 'net') one.attributes.set('coll', '1');
      one.children.forEach(visit);
    };
    visit(document);
    const collnet = clusterOf(document, 4, { collnet: true, env: { NCCL_NET_DISABLE_INTRA: '1' } }).cluster;
    expect(graphSummary(collnet, WIDE).join('\n')).toMatch(/CollNet chain .*\nCollNet direct /);
  });
});

describe('rings and trees', () => {
  it('are listed with their channels and the NICs that they go through', () => {
    const { cluster } = clusterOf(goldenDocument('azure-ndv5-h100x8-8x400g'), 2);
    const lines = orderSummary(cluster, WIDE);
    expect(lines[0]).toBe('Rings');
    expect(lines[1]).toBe('channels 0 8   mlx5_ib1 mlx5_ib0  0 7 6 5 4 3 2 1 | 9 10 11 12 13 14 15 8');
    expect(lines).toContain('channel 8   8 (9 10 11 12 13 14 15) (| 0 1 2 3 4 5 6 7)');
    expect(lines.filter((line) => line.startsWith('channel'))).toHaveLength(8 + 16);
  });

  it('of many ranks are shortened, and the rest is counted', () => {
    const { cluster } = clusterOf(goldenDocument('azure-ndv5-h100x8-8x400g'), 64);
    const lines = orderSummary(cluster, WIDE);
    expect(lines[1]).toMatch(
      /^channels 0 8 +mlx5_ib1 mlx5_ib0 +0 7\.\.1 \| 9\.\.15 8 \| 16 23\.\.17 .* \.\.\. \d+ more$/,
    );
    expect(lines.filter((line) => line.startsWith('and '))).toEqual([
      'and 4 more; --json has all',
      'and 12 more; --json has all',
    ]);
  });
});

describe('the whole report', () => {
  it('begins with the sentence and has a section for each kind of machine', () => {
    const [a, b] = [goldenDocument('dgx-a100-8x200g'), goldenDocument('gh200-x1-1x400g')];
    const documents = [a, b, b];
    const cluster = describeCluster({ nodes: documents.map((xml) => ({ xml })) });
    const lines = textReport({ cluster, documents }, plainStyle(120));
    expect(lines[0]).toMatch(/^2 kinds of machine: 8 A100/);
    const heads = lines.filter((line) => /^(?:Machine|Paths|Channels|Rings|Trees)/.test(line));
    expect(heads).toEqual([
      'Machine 0',
      'Paths of machine 0, type and GB/s',
      'Machines 1-2 (2 alike)',
      'Paths of machines 1-2 (2 alike), type and GB/s',
      'Channels',
      'Rings',
      'Trees',
    ]);
    // The second machine begins at the rank after the first.
    expect(lines.some((line) => /GPU 8 GH200/.test(line))).toBe(true);
  });
});
