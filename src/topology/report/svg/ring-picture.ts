/**
 * Draws the different rings, each as a row of ranks, node by node, with the NICs between them.
 */
import type { Cluster, Domain } from '../../cluster.js';
import { graphNic } from '../../connect/connection-nics.js';
import { Labels } from '../labels.js';
import { type RingOrder, ringOrders } from '../orders.js';
import { countText, rangesText } from '../quantities.js';
import { hopNames, RailView } from '../rails.js';
import { type Canvas, textWidth } from './canvas.js';
import { ARROW, CHIP, chipWidth, drawChip } from './chip-row.js';
import { channelClass } from './theme.js';

/** Orders that are drawn; more are counted. */
const MOST_RINGS = 8;

/** Ranks of one node that are drawn. */
const MOST_LOCAL = 12;

/** Pixels. */
const ROW = 44;
const LABEL_WIDTH = 150;
const NODE_WIDTH = 46;
const NIC_SIZE = 10;

/** Ranks of a ring that follow each other on one node. */
interface Segment {
  readonly node: number;
  readonly ranks: readonly number[];
}

/** Draws from (left, top) on, within a width where it can; returns the height. */
export function drawRings(
  canvas: Canvas,
  cluster: Cluster,
  left: number,
  top: number,
  width: number,
): number {
  const view = new RailView(cluster);
  const rings = ringOrders(cluster.comm, (channel, order) => hopNames(view.hopsOf(channel, order)));
  const domains = new Map(cluster.domains.flatMap((domain) => domain.ranks.map((rank) => [rank, domain])));
  let y = top;
  for (const [order, ring] of rings.slice(0, MOST_RINGS).entries()) {
    new RingRow(canvas, cluster, domains, ring, channelClass(order), left, y, width).draw();
    y += ROW;
  }
  if (rings.length > MOST_RINGS) {
    canvas.text(left, y + 10, `and ${countText(rings.length - MOST_RINGS, 'more order')}`, {
      className: 'faint',
    });
    y += 20;
  }
  return y - top;
}

class RingRow {
  readonly #canvas: Canvas;
  readonly #cluster: Cluster;
  /** By rank. */
  readonly #domains: ReadonlyMap<number, Domain>;
  readonly #ring: RingOrder;
  readonly #colour: string;
  readonly #left: number;
  readonly #top: number;
  readonly #width: number;
  readonly #chip: number;
  readonly #flow: string;

  constructor(
    canvas: Canvas,
    cluster: Cluster,
    domains: ReadonlyMap<number, Domain>,
    ring: RingOrder,
    colour: string,
    left: number,
    top: number,
    width: number,
  ) {
    this.#canvas = canvas;
    this.#cluster = cluster;
    this.#domains = domains;
    this.#ring = ring;
    this.#colour = colour;
    this.#left = left;
    this.#top = top;
    this.#width = width;
    this.#chip = chipWidth(cluster.nRanks);
    this.#flow = `flow ${colour}`;
  }

  draw(): void {
    const { channels } = this.#ring;
    const canvas = this.#canvas;
    const middle = this.#top + CHIP / 2;
    const head = `channel${channels.length > 1 ? 's' : ''} ${rangesText(channels, ', ')}`;
    canvas.text(this.#left, middle + 4, head, { size: 11, className: 'faint', maxWidth: LABEL_WIDTH - 14 });
    const segments = this.#segments();
    const room = this.#width - LABEL_WIDTH - 40;
    // As many nodes from the first on as fit, always two.
    let shown = 0;
    let used = 0;
    for (const segment of segments) {
      const own = this.#segmentWidth(segment) + NODE_GAP;
      if (shown >= 2 && used + own + ELLIPSIS > room) break;
      used += own;
      shown += 1;
    }
    let x = this.#left + LABEL_WIDTH;
    const start = x;
    const across = segments.length > 1;
    for (const [at, segment] of segments.slice(0, shown).entries()) {
      if (at > 0) {
        this.#arrow(x, x + NODE_GAP);
        x += NODE_GAP;
      }
      x = this.#segment(segment, x, across);
    }
    const hidden = segments.length - shown;
    if (hidden > 0) {
      this.#arrow(x, x + ARROW);
      const text = `${countText(hidden, 'more node')}`;
      canvas.text(x + ARROW + 6, middle + 4, text, { size: 11, className: 'faint' });
      x += ARROW + 6 + textWidth(text, 11) + 6;
    }
    // Back to the start, below the row.
    const low = this.#top + CHIP + 8;
    const [first] = segments;
    const nic = this.#nicWidth(first!, 'in', across);
    const back = start + (across ? NODE_WIDTH : 0) + (nic > 0 ? (nic - ARROW) / 2 : this.#chip / 2);
    canvas.line(
      [
        [x, middle],
        [x + 10, middle],
        [x + 10, low],
        [back, low],
        [back, this.#top + CHIP - (nic > 0 ? 2 : -1)],
      ],
      this.#flow,
      true,
    );
  }

  #segments(): Segment[] {
    const { rankToNode } = this.#cluster.comm;
    const segments: { node: number; ranks: number[] }[] = [];
    const { order } = this.#ring;
    // The first node is drawn whole, although rank 0 may stand in its middle.
    let first = 0;
    while (first > -order.length && rankToNode[order.at(first - 1)!] === rankToNode[0]) first -= 1;
    if (first === -order.length) first = 0;
    for (let at = 0; at < order.length; at++) {
      const rank = order.at((first + at) % order.length)!;
      const node = rankToNode[rank]!;
      const last = segments.at(-1);
      if (last?.node === node) last.ranks.push(rank);
      else segments.push({ node, ranks: [rank] });
    }
    return segments;
  }

  #segmentWidth(segment: Segment): number {
    const count = Math.min(segment.ranks.length, MOST_LOCAL);
    const more = segment.ranks.length > MOST_LOCAL ? MORE : 0;
    const nics = this.#nicWidth(segment, 'in', true) + this.#nicWidth(segment, 'out', true);
    return NODE_WIDTH + count * (this.#chip + ARROW) + more + nics + ARROW;
  }

  #nic({ ranks }: Segment, end: 'in' | 'out'): string {
    const rank = end === 'in' ? ranks[0]! : ranks.at(-1)!;
    const domain = this.#domains.get(rank)!;
    const channel = this.#ring.channels[0]!;
    const graph = domain.graphs.ring;
    const gpu = domain.system.nodes.GPU.find((one) => one.rank === rank - domain.rankOffset);
    const ends = graph.channels[channel % Math.max(1, graph.nChannels)]?.inter;
    if (gpu === undefined || ends === undefined || ends === null) return '';
    if (!domain.system.nodes.NET.some(({ id }) => ends.includes(id))) return '';
    const { net } = graphNic(domain.system, graph, gpu, channel);
    return new Labels(domain.system, domain.rankOffset).port(net);
  }

  #nicWidth(segment: Segment, end: 'in' | 'out', across: boolean): number {
    if (!across) return 0;
    const name = this.#nic(segment, end);
    return name === '' ? 0 : textWidth(name, NIC_SIZE) + 10 + ARROW;
  }

  #segment(segment: Segment, from: number, across: boolean): number {
    const canvas = this.#canvas;
    const { node, ranks } = segment;
    let x = from;
    if (across) {
      const end = from + this.#segmentWidth(segment) - 2 * ARROW;
      canvas.box(from, this.#top - 4, end + 4 - from, CHIP + 8, 'band', 4);
      canvas.text(from + 5, this.#top + CHIP / 2 + 4, `node ${node}`, {
        size: NIC_SIZE,
        className: 'faint',
        maxWidth: NODE_WIDTH - 6,
      });
      x = this.#nicBox(segment, 'in', x + NODE_WIDTH);
    }
    const shown = ranks.length > MOST_LOCAL ? [...ranks.slice(0, MOST_LOCAL - 1), ranks.at(-1)!] : ranks;
    for (const [at, rank] of shown.entries()) {
      if (at === shown.length - 1 && shown.length < ranks.length) {
        canvas.text(x, this.#top + CHIP / 2 + 4, `${ranks.length - shown.length} more`, {
          size: 11,
          className: 'faint',
        });
        x += MORE;
      }
      drawChip(canvas, x, this.#top, this.#chip, rank, this.#colour);
      x += this.#chip;
      if (at < shown.length - 1) {
        this.#arrow(x, x + ARROW);
        x += ARROW;
      }
    }
    if (!across) return x;
    return this.#nicBox(segment, 'out', x) + 4;
  }

  #nicBox(segment: Segment, end: 'in' | 'out', from: number): number {
    const name = this.#nic(segment, end);
    if (name === '') return from;
    const canvas = this.#canvas;
    const width = textWidth(name, NIC_SIZE) + 10;
    const x = end === 'in' ? from : from + ARROW;
    if (end === 'out') this.#arrow(from, from + ARROW);
    canvas.box(x, this.#top + 3, width, CHIP - 6, 'nic', 3);
    canvas.text(x + width / 2, this.#top + CHIP / 2 + 4, name, { anchor: 'middle', size: NIC_SIZE });
    if (end === 'out') return x + width;
    this.#arrow(x + width, x + width + ARROW);
    return x + width + ARROW;
  }

  #arrow(x1: number, x2: number): void {
    const y = this.#top + CHIP / 2;
    this.#canvas.line(
      [
        [x1 + 1, y],
        [x2 - 1, y],
      ],
      this.#flow,
      true,
    );
  }
}

/** Room for the number of ranks, and of nodes, that are not drawn. */
const MORE = 62;
const ELLIPSIS = 110;

/** Room for the arrow between two nodes. */
const NODE_GAP = 22;
