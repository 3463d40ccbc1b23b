/**
 * A picture of a cluster: its machine and its channels, as one stand-alone SVG that follows the reader's colour scheme.
 */
import type { Cluster, Domain } from '../cluster.js';
import { element, type XmlElement } from '../xml/element.js';
import { firstsBy } from './firsts.js';
import { GRAPH_TITLES } from './graph-order.js';
import { headline } from './headline.js';
import { Labels } from './labels.js';
import { machineFacts } from './machine.js';
import { bandwidthText, countText } from './quantities.js';
import { wrap } from './style.js';
import { Canvas } from './svg/canvas.js';
import { drawMachine } from './svg/machine-picture.js';
import { drawRings } from './svg/ring-picture.js';
import { STYLE_SHEET } from './svg/theme.js';
import { drawTrees } from './svg/tree-picture.js';

/** Pixels. */
const LEFT = 16;
const WIDTH = 1320;

/** Different machines that are drawn. */
const MOST_MACHINES = 4;

/**
 * Draws a cluster. The same cluster gives the same text.
 *
 * @param documentOf the document of a node, which knows numbers of lanes; they are left out without it
 */
export function clusterSvg(
  cluster: Cluster,
  documentOf: (node: number) => XmlElement = () => element('system'),
): string {
  const canvas = new Canvas();
  const title = headline(cluster);
  let y = 34;
  for (const line of wrap(title, 110)) {
    canvas.text(LEFT, y, line, { size: 15, className: 'text strong' });
    y += 20;
  }
  canvas.text(LEFT, y, graphLine(cluster), { className: 'faint' });
  y += 34;

  const machines = differentMachines(cluster);
  for (const domain of machines.slice(0, MOST_MACHINES)) {
    if (machines.length > 1) {
      canvas.text(LEFT, y, `Machine of node ${domain.node}`, { size: 13, className: 'text strong' });
      y += 20;
    }
    const facts = machineFacts(domain.whole, documentOf(domain.node));
    const labels = new Labels(domain.whole, domain.rankOffset);
    const isSplit = cluster.domains.filter(({ node }) => node === domain.node).length > 1;
    const nodeOf = (rank: number) => (isSplit ? `node ${cluster.comm.rankToNode[rank]}` : '');
    y += drawMachine(canvas, facts, labels, nodeOf, LEFT, y) + 34;
  }
  if (machines.length > MOST_MACHINES) {
    canvas.text(LEFT, y, `and ${countText(machines.length - MOST_MACHINES, 'more kind')} of machine`, {
      className: 'faint',
    });
    y += 24;
  }
  if (cluster.nRanks > 1) {
    canvas.text(LEFT, y, 'Rings', { size: 13, className: 'text strong' });
    y += 16;
    y += drawRings(canvas, cluster, LEFT, y, WIDTH) + 18;
    canvas.text(LEFT, y, 'Trees', { size: 13, className: 'text strong' });
    const dashed = cluster.comm.nNodes > 1 ? '; dashed: to another node' : '';
    canvas.text(LEFT + 50, y, `root at the left${dashed}`, { size: 11, className: 'faint' });
    y += 16;
    drawTrees(canvas, cluster, LEFT, y, WIDTH);
  }
  return canvas.toSvg(title, STYLE_SHEET);
}

/** `Ring 12 x 30 = 360 GB/s   Tree ...` of the first node. */
function graphLine({ comm }: Cluster): string {
  return GRAPH_TITLES.flatMap(([name, title]) => {
    const { nChannels, bwIntra } = comm.aligned[name];
    if (nChannels === 0) return [];
    return [
      `${title}: ${nChannels} x ${bandwidthText(bwIntra)} = ${bandwidthText(nChannels * bwIntra)} GB/s`,
    ];
  }).join('   ·   ');
}

/** The first domain of each different machine. */
function differentMachines({ domains }: Cluster): Domain[] {
  return firstsBy(
    firstsBy(domains, ({ node }) => node),
    ({ whole }) => whole,
  );
}
