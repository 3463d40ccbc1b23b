import { type SaxesAttributeNS, SaxesParser } from 'saxes';
import { describe, expect, test } from 'vitest';
import type { Cluster } from '#src/topology/cluster.js';
import { escapeXml } from '#src/topology/report/svg/canvas.js';
import { clusterSvg } from '#src/topology/report/svg.js';
import { cloneElement, type XmlElement } from '#src/topology/xml/element.js';
import { CASES, clusterOf, documentOf } from './golden-clusters.js';

interface Shape {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  text: string;
}

/** All elements of a document; fails where it is no well-formed XML. */
function shapesOf(svg: string): Shape[] {
  const shapes: Shape[] = [];
  const open: Shape[] = [];
  const parser = new SaxesParser({ xmlns: true });
  parser.on('opentag', ({ name, attributes }) => {
    const values = Object.entries(attributes as Record<string, SaxesAttributeNS>);
    const shape = {
      name,
      attributes: Object.fromEntries(values.map(([key, { value }]) => [key, value])),
      text: '',
    };
    shapes.push(shape);
    open.push(shape);
  });
  parser.on('closetag', () => open.pop());
  parser.on('text', (text) => {
    const [shape] = open.slice(-1);
    if (shape !== undefined) shape.text += text;
  });
  parser.on('error', (error) => {
    throw error;
  });
  parser.write(svg).close();
  return shapes;
}

interface Rectangle {
  readonly text: string;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** Parts of the font size that letters take: wide, above and below the base line. */
const LETTER = { width: 0.5, above: 0.72, below: 0.2 };

function textBoxes(shapes: readonly Shape[]): Rectangle[] {
  return shapes
    .filter(({ name }) => name === 'text')
    .map(({ attributes, text }) => {
      const size = Number(attributes['font-size']);
      const [x, y] = [Number(attributes.x), Number(attributes.y)];
      const width = [...text].length * size * LETTER.width;
      const left = { start: x, middle: x - width / 2, end: x - width }[attributes['text-anchor'] ?? 'start']!;
      return {
        text,
        left,
        right: left + width,
        top: y - size * LETTER.above,
        bottom: y + size * LETTER.below,
      };
    });
}

const overlap = (a: Rectangle, b: Rectangle): boolean =>
  a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

const draw = (cluster: Cluster, machine: string): string => clusterSvg(cluster, () => documentOf(machine));

/** Titles of the boxes of a kind. */
function titles(shapes: readonly Shape[], kind: string): string[] {
  const boxes = shapes.filter(({ name, attributes }) => name === 'rect' && attributes.class === kind);
  return boxes.flatMap((box) => {
    const next = shapes.slice(shapes.indexOf(box) + 1).find(({ name }) => name === 'text');
    return next?.attributes.class?.includes('strong') ? [next.text] : [];
  });
}

describe.each(CASES)('%s, %i nodes', (machine, nodes) => {
  test('the picture is well-formed, shows every GPU and NIC once, and no text covers another', () => {
    const cluster = clusterOf(machine, nodes);
    const svg = draw(cluster, machine);
    const shapes = shapesOf(svg);
    expect(svg).not.toMatch(/undefined|NaN|null|Infinity/);
    const { GPU, NET } = cluster.domains[0]!.whole.nodes;
    const gpuTitles = titles(shapes, 'gpu').flatMap((title) => {
      const numbers = /^GPU ([\d -]+)$/.exec(title)?.[1]?.split(' ') ?? [];
      return numbers.flatMap((part) => {
        const [from, to = from] = part.split('-').map(Number);
        return Array.from({ length: to! - from! + 1 }, (_, at) => from! + at);
      });
    });
    expect(gpuTitles.sort((a, b) => a - b)).toEqual(GPU.map(({ rank }) => rank).sort((a, b) => a - b));
    // A bonded or fused port may stand below several CPUs, and names that are too long are cut.
    const ids = new Set(NET.map(({ id }) => id));
    const nicTitles = titles(shapes, 'nic').flatMap((title) =>
      title.split(' ').filter((word) => word !== 'NIC'),
    );
    expect(nicTitles.length).toBeGreaterThanOrEqual(ids.size > 0 ? 1 : 0);
    for (const { name } of NET) {
      if (name === '' || name.length > 24 || NET.filter((net) => net.name === name).length > 1) continue;
      expect(nicTitles.filter((title) => title === name)).toHaveLength(1);
    }

    const boxes = textBoxes(shapes);
    const [, , width, height] = shapes[0]!.attributes.viewBox!.split(' ').map(Number);
    const covered = boxes.flatMap((a, at) =>
      boxes
        .slice(at + 1)
        .filter((b) => overlap(a, b))
        .map((b) => `${a.text} / ${b.text}`),
    );
    expect(covered).toEqual([]);
    for (const { left, right, top, bottom } of boxes) {
      expect(left).toBeGreaterThanOrEqual(0);
      expect(top).toBeGreaterThanOrEqual(0);
      expect(right).toBeLessThanOrEqual(width!);
      expect(bottom).toBeLessThanOrEqual(height!);
    }
  });
});

describe('channels', () => {
  /** Numbers of the boxes with the colour of an order, in the order in which they were drawn. */
  const chips = (svg: string, colour: string): number[] => {
    const shapes = shapesOf(svg);
    return shapes.flatMap(({ attributes }, at) =>
      attributes.class === `chip ${colour}` ? [Number(shapes[at + 1]!.text)] : [],
    );
  };

  test('a ring is drawn node by node, in its order', () => {
    const svg = draw(clusterOf('azure-ndv5-h100x8-8x400g', 2), 'azure-ndv5-h100x8-8x400g');
    const ring = chips(svg, 'c1').slice(0, 16);
    expect(ring).toEqual([1, 2, 3, 4, 5, 6, 7, 0, 8, 15, 14, 13, 12, 11, 10, 9]);
  });

  test('orders beyond those that fit are counted', () => {
    const svg = draw(clusterOf('azure-ndv5-h100x8-8x400g', 2), 'azure-ndv5-h100x8-8x400g');
    expect(svg).toContain('>and 8 more orders<');
    const many = draw(clusterOf('azure-ndv5-h100x8-8x400g', 16), 'azure-ndv5-h100x8-8x400g');
    expect(many).toContain('>14 more nodes<');
    expect(many).toContain('>and 64 more ranks<');
    expect(many.length).toBeLessThan(300_000);
  });

  test('one machine stands for all that share its document; others are drawn too', () => {
    const one = draw(clusterOf('gh200-x1-1x400g', 2), 'gh200-x1-1x400g');
    expect(one.match(/>GPU 0</g)).toHaveLength(1);
    const nodes = ['gh200-x1-1x400g', 'real-2xH200'].map((machine) => ({ xml: documentOf(machine) }));
    const two = clusterSvg(clusterOf('gh200-x1-1x400g', 1, { nodes }));
    expect(two).toContain('>Machine of node 1<');
    for (const rank of [0, 1, 2]) expect(two.match(new RegExp(`>GPU ${rank}<`, 'g'))).toHaveLength(1);
  });
});

describe('the document', () => {
  test('is the same for the same cluster, and follows the colour scheme of the reader', () => {
    const cluster = clusterOf('l40s-x4-2socket-2x200g');
    const svg = draw(cluster, 'l40s-x4-2socket-2x200g');
    expect(draw(cluster, 'l40s-x4-2socket-2x200g')).toBe(svg);
    expect(svg).toContain('@media (prefers-color-scheme:dark)');
    expect(svg).not.toMatch(/<script|<image|href|url\((?!#arrow\))|@import/);
    for (const node of [0, 1])
      expect(svg.match(new RegExp(`>node ${node}<`, 'g'))!.length).toBeGreaterThan(2);
  });

  test('holds names from a topology as text, whatever is in them', () => {
    const xml = cloneElement(documentOf('gh200-x1-1x400g'));
    const rename = ({ name, attributes, children }: XmlElement): void => {
      if (name === 'net') attributes.set('name', '<b>&"\u0001\ud800x');
      children.forEach(rename);
    };
    rename(xml);
    const svg = clusterSvg(clusterOf('gh200-x1-1x400g', 1, { nodes: [{ xml }, { xml }] }));
    const texts = shapesOf(svg).map(({ text }) => text);
    expect(texts).toContain('<b>&"x');
    expect(escapeXml('a<b & "c">\u0007')).toBe('a&lt;b &amp; &quot;c&quot;&gt;');
    expect(escapeXml('😀é')).toBe('😀é');
  });
});
