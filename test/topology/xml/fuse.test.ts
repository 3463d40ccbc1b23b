/** Fusing the documents of several ranks, against a plain reference and for its promises; and its speed. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cloneElement, element, type XmlElement } from '#src/topology/xml/element.js';
import { fuseTopologies } from '#src/topology/xml/fuse.js';
import { readXml } from '#src/topology/xml/read.js';
import { trimTopology } from '#src/topology/xml/trim.js';
import { writeXml } from '#src/topology/xml/write.js';
import { built, goldenFiles, type Plain, plain, trees } from './documents.js';

/** Equal for elements with the same tag and attributes. */
const keyOf = ({ name, attributes }: Plain) =>
  JSON.stringify([name, [...attributes].map(([key, value]) => `${key}=${value}`).sort()]);

/** The rule in its shortest form. */
function reference([first, ...rest]: readonly Plain[]): Plain {
  const merge = (into: Plain, from: Plain): Plain => {
    const children = [...into.children];
    for (const child of from.children) {
      const at = children.findIndex((other) => keyOf(other) === keyOf(child));
      if (at < 0) children.push(child);
      else children[at] = merge(children[at]!, child);
    }
    return { ...into, children };
  };
  return rest.reduce(merge, first!);
}

/** A tree in which no element has an equal sibling. */
function withoutTwins(tree: Plain): Plain {
  const seen = new Set<string>();
  const children = tree.children.filter((child) => {
    const key = keyOf(child);
    const isNew = !seen.has(key);
    seen.add(key);
    return isNew;
  });
  return { ...tree, children: children.map(withoutTwins) };
}

const gpusOf = (one: XmlElement): string[] => [
  ...(one.name === 'gpu' ? [one.attributes.get('rank') ?? ''] : []),
  ...one.children.flatMap(gpusOf),
];

/** What the rank of a host has after trimming: its own GPU, all NICs, and what stands above them. */
function partOf(host: XmlElement, rank: string): XmlElement {
  const marked = cloneElement(host);
  const mark = (one: XmlElement): void => {
    if (one.name === 'net' || (one.name === 'gpu' && one.attributes.get('rank') === rank)) {
      one.attributes.set('keep', '1');
    }
    one.children.forEach(mark);
  };
  mark(marked);
  return trimTopology(marked);
}

describe('fuseTopologies', () => {
  it('gives what the rule gives, and changes nothing that it is given', () => {
    fc.assert(
      fc.property(fc.array(trees({ unknown: true }), { minLength: 1, maxLength: 4 }), (plains) => {
        const parts = plains.map(built);
        expect(plain(fuseTopologies(parts))).toEqual(reference(plains));
        expect(parts.map(plain)).toEqual(plains);
      }),
      { numRuns: 300 },
    );
  });

  it('gives what the rule gives for elements with many children', () => {
    const wide = trees({ maxChildren: 60, maxAttributes: 2 });
    fc.assert(
      fc.property(fc.array(wide, { minLength: 2, maxLength: 3 }), (plains) => {
        expect(plain(fuseTopologies(plains.map(built)))).toEqual(reference(plains));
      }),
      { numRuns: 40 },
    );
  });

  it('changes nothing when the same document comes again', () => {
    fc.assert(
      fc.property(trees({ unknown: true }), fc.integer({ min: 1, max: 4 }), (tree, count) => {
        const single = withoutTwins(tree);
        expect(plain(fuseTopologies(Array.from({ length: count }, () => built(single))))).toEqual(single);
        // Twins with different children: the first takes in what only the second has, once.
        const once = fuseTopologies([built(tree), built(tree)]);
        expect(plain(fuseTopologies([once, ...Array.from({ length: count }, () => built(tree))]))).toEqual(
          plain(once),
        );
      }),
    );
  });

  it('shares nothing with the documents', () => {
    const parts = [
      element('system', { version: 1 }, [element('cpu')]),
      element('system', { version: 1 }, []),
    ];
    const fused = fuseTopologies(parts);
    fused.children[0]!.attributes.set('numaid', '5');
    fused.children.push(element('cpu'));
    expect(parts.map(plain)).toEqual([
      plain(element('system', { version: 1 }, [element('cpu')])),
      plain(element('system', { version: 1 })),
    ]);
  });

  it('gives each GPU of every golden machine once, in rank order below each parent [C04-03]', () => {
    let hosts = 0;
    for (const [path, text] of goldenFiles(/^topo\.xml$/)) {
      const host = readXml(text, { root: 'system' }).root;
      const ranks = gpusOf(host);
      const fused = fuseTopologies(
        [...ranks].sort((a, b) => Number(a) - Number(b)).map((rank) => partOf(host, rank)),
      );
      expect(gpusOf(fused).sort(), path).toEqual([...ranks].sort());
      const inOrder = (one: XmlElement): void => {
        const own = one.children.flatMap((child) =>
          child.children.some((c) => c.name === 'gpu') ? gpusOf(child) : [],
        );
        expect(own, path).toEqual([...own].sort((a, b) => Number(a) - Number(b)));
        one.children.forEach(inOrder);
      };
      inOrder(fused);
      // Fusing the parts again, or one of them, adds nothing.
      const again = fuseTopologies([fused, ...ranks.map((rank) => partOf(host, rank))]);
      expect(plain(again), path).toEqual(plain(fused));
      hosts++;
    }
    expect(hosts).toBeGreaterThan(100);
  });

  it('puts the GPU of a later rank after the NIC that the first rank brought', () => {
    const pci = (busid: string, children: XmlElement[]) => element('pci', { busid }, children);
    const gpu = (rank: number) => pci(`g${rank}`, [element('gpu', { rank })]);
    const nic = () => pci('n', [element('nic', {}, [element('net', { name: 'a' })])]);
    const part = (rank: number) =>
      element('system', { version: 1 }, [element('cpu', {}, [pci('s', [gpu(rank), nic()])])]);
    const [cpu] = fuseTopologies([part(0), part(1)]).children;
    expect(cpu!.children[0]!.children.map(({ attributes }) => attributes.get('busid'))).toEqual([
      'g0',
      'n',
      'g1',
    ]);
  });

  it('has an element twice if one attribute differs, is missing, or the element is closed in another way', () => {
    const system = (child: string) =>
      readXml(`<system version="1"><cpu>${child}</cpu></system>`, { root: 'system' }).root;
    const count = (a: string, b: string) =>
      fuseTopologies([system(a), system(b)]).children[0]!.children.length;
    expect(count('<pci busid="1" link_speed="8"/>', '<pci busid="1" link_speed="8"/>')).toBe(1);
    expect(count('<pci busid="1" link_speed="8"/>', '<pci link_speed="8" busid="1"/>')).toBe(1);
    expect(count('<pci busid="1" link_speed="8"/>', '<pci busid="1" link_speed="16"/>')).toBe(2);
    expect(count('<pci busid="1"/>', '<pci busid="1" link_speed="8"/>')).toBe(2);
    expect(count('<pci busid="1"/>', '<pci BUSID="1"/>')).toBe(2);
    expect(count('<pci busid="1"/>', '<nic busid="1"/>')).toBe(2);
    expect(count('<pci busid="1"/>', '<pci busid="1"></pci>')).toBe(2);
    expect(count('<pci busid="1"></pci>', '<pci busid="1"><nic/></pci>')).toBe(1);
    // Only elements of files have been closed in a way.
    const made = element('system', { version: 1 }, [element('cpu', {}, [element('pci', { busid: 1 })])]);
    const found = system('<pci busid="1"></pci>');
    expect(fuseTopologies([made, found]).children[0]!.children).toHaveLength(1);
    expect(fuseTopologies([found, made]).children[0]!.children).toHaveLength(1);
  });

  it('refuses no document, and documents of different kinds', () => {
    expect(() => fuseTopologies([])).toThrow(/no topology to fuse; give one document per rank/);
    expect(() => fuseTopologies([element('system'), element('graphs')])).toThrow(
      /document 1 to fuse is a <graphs>, the first one a <system>/,
    );
  });

  it('fuses 8,192 documents of one GPU, 8 for each host, in less than a second', () => {
    const [, text] = [...goldenFiles(/^topo\.xml$/)].find(([path]) => path.startsWith('azure-ndv5'))!;
    const parts = Array.from({ length: 8 }, (_, rank) =>
      partOf(readXml(text, { root: 'system' }).root, String(rank)),
    );
    const hosts = Array.from({ length: 1024 }, () => parts.map(cloneElement));
    let fastest = Number.POSITIVE_INFINITY;
    for (let attempt = 0; attempt < 4 && fastest >= 1_000_000; attempt++) {
      const before = process.cpuUsage();
      for (const host of hosts) expect(fuseTopologies(host).children.length).toBe(2);
      const { user, system } = process.cpuUsage(before);
      fastest = Math.min(fastest, user + system);
    }
    expect(fastest, 'microseconds').toBeLessThan(1_000_000);
  });

  it('fuses documents of tens of thousands of children in less than a second', () => {
    const wide = (from: number) =>
      element(
        'system',
        { version: 1 },
        Array.from({ length: 20_000 }, (_, index) =>
          element('cpu', { numaid: from + index, host_hash: '0x1' }),
        ),
      );
    const before = process.cpuUsage();
    expect(fuseTopologies([wide(0), wide(10_000)]).children).toHaveLength(30_000);
    expect(process.cpuUsage(before).user).toBeLessThan(1_000_000);
  });

  it('keeps the ranks of golden machines apart from what is written: fused parts are read back the same', () => {
    const [, text] = [...goldenFiles(/^topo\.xml$/)].find(([path]) => path.startsWith('dgx-a100'))!;
    const host = readXml(text, { root: 'system' }).root;
    const fused = fuseTopologies(gpusOf(host).map((rank) => partOf(host, rank)));
    expect(plain(readXml(writeXml(fused), { root: 'system' }).root)).toEqual(plain(fused));
  });
});
