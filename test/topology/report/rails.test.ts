/** Which NICs rings go through, and whether they stay on their rails. */
import { describe, expect, it } from 'vitest';
import { describeCluster } from '#src/topology/cluster.js';
import { graphSummary, orderSummary } from '#src/topology/report/graph-summary.js';
import { hopNames, RailView, railChanges, railsText } from '#src/topology/report/rails.js';
import { plainStyle } from '#src/topology/report/style.js';
import { cloneElement, type XmlElement } from '#src/topology/xml/element.js';
import { clusterOf, goldenDocument } from './clusters.js';

const WIDE = plainStyle(200);

/** A copy in which the PCI link of a NIC has fewer lanes. */
function withLanes(document: XmlElement, net: string, lanes: number): XmlElement {
  const copy = cloneElement(document);
  const visit = (one: XmlElement): boolean => {
    const has = one.attributes.get('name') === net || one.children.map(visit).some(Boolean);
    if (!has || one.name !== 'pci') return has;
    one.attributes.set('link_width', `${lanes}`);
    // Only the nearest element above.
    return false;
  };
  visit(copy);
  return copy;
}

describe('NICs of rings', () => {
  it.each([
    ['dgx-spark-gen1-2x200g', ['rocep1s0f0', 'roceP2p1s0f0']],
    ['rtx4090-x4-rome-vnics', ['tunl0', 'tunl1', 'tunl2']],
  ])('of %s differ between channels of one order, and each is told', (name, nics) => {
    const { cluster } = clusterOf(goldenDocument(name), 2);
    const { comm } = cluster;
    const view = new RailView(cluster);
    const names = Array.from({ length: comm.nChannels }, (_, channel) =>
      hopNames(view.hopsOf(channel, comm.ringOf(channel))),
    );
    expect(names).toEqual(names.map((_, channel) => nics[channel % nics.length]));
    const lines = orderSummary(cluster, WIDE).filter((line) => /^channels? .* \| /.test(line));
    expect(lines.slice(0, nics.length).map((line) => line.split(/ {2,}/)[1])).toEqual(nics);
  });

  it('leave and enter by the same name on an even number of nodes, and one of three hops changes on three', () => {
    const h100 = goldenDocument('azure-ndv5-h100x8-8x400g');
    const [two, three] = [2, 3].map((nodes) => clusterOf(h100, nodes).cluster);
    expect(railChanges(two!)).toEqual({ hops: 16, changes: 0, first: undefined });
    expect(railsText(two!)).toMatch(/^Every hop .* same name/);
    expect(railChanges(three!)).toEqual({
      hops: 24,
      changes: 8,
      first: { channel: 0, fromNode: 2, toNode: 0, out: 'mlx5_ib1', in: 'mlx5_ib0' },
    });
    expect(railsText(three!)).toContain('8 of 24 hops');
  });

  it('are no matter inside one node, or with one NIC', () => {
    const h100 = goldenDocument('azure-ndv5-h100x8-8x400g');
    expect(railsText(clusterOf(h100).cluster)).toBe('');
    expect(railsText(clusterOf(goldenDocument('gh200-x1-1x400g'), 2).cluster)).toBe('');
  });

  it('cross the rails where one node lacks a NIC, which is told with what runs in the end and what is idle', () => {
    const good = goldenDocument('dgx-a100-8x200g');
    const cluster = describeCluster({
      nodes: [good, withLanes(good, 'mlx5_0', 4)].map((xml) => ({ xml })),
    });
    expect(railsText(cluster)).toMatch(/^14 of 14 hops .* from mlx5_0 of node 0 to mlx5_1 of node 1\.$/);
    const lines = graphSummary(cluster, WIDE);
    expect(lines).toContain(
      'All nodes run with the least that one of them found: Ring 7 x 24, Tree 7 x 30 (24 to NICs).',
    );
    expect(lines).toContain('Node with GPU 8-15: no ring and no tree uses 1 of 8 NICs: mlx5_0.');
  });
});
