/** Writing topology and graph files: what NCCL wrote is written back the same, and what is written can be read. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { element } from '#src/topology/xml/element.js';
import { readXml } from '#src/topology/xml/read.js';
import { writeXml } from '#src/topology/xml/write.js';
import { built, goldenFiles, plain, trees } from './documents.js';

const topologies = goldenFiles(/^topo.*\.xml$/);
const graphs = goldenFiles(/^graph.*\.xml$/);

describe('files that NCCL wrote', () => {
  it('are there', () => {
    expect(topologies.size).toBeGreaterThan(100);
    expect([...topologies.keys()].filter((path) => path.startsWith('real-2xH200/'))).toHaveLength(2);
    expect(graphs.size).toBe(4);
  });

  it('come back byte for byte [C04-25]', () => {
    for (const [path, text] of topologies) {
      const { root, notes } = readXml(text, { root: 'system', file: path });
      expect(notes, path).toEqual([]);
      // The generated machines are not of NCCL: an element without children has a closing tag there.
      const expected = path.startsWith('random-')
        ? text.replace(/(<(gpu|cpu) [^>]*)>\n *<\/\2>/g, '$1/>')
        : text;
      expect(writeXml(root), path).toBe(expected);
    }
    for (const [path, text] of graphs) {
      const { root, notes } = readXml(text, { root: 'graphs', file: path });
      expect(notes, path).toEqual([]);
      expect(writeXml(root), path).toBe(text);
    }
  });
});

describe('writeXml', () => {
  it('writes one tag a line, two spaces per level, attributes in their order', () => {
    const tree = element('system', { version: 1 }, [
      element('cpu', { numaid: -1, affinity: '' }, [element('nic', {}, [element('net', { name: 'eth0' })])]),
      element('cpu'),
    ]);
    expect(writeXml(tree)).toBe(
      [
        '<system version="1">',
        '  <cpu numaid="-1" affinity="">',
        '    <nic>',
        '      <net name="eth0"/>',
        '    </nic>',
        '  </cpu>',
        '  <cpu/>',
        '</system>',
        '',
      ].join('\n'),
    );
  });

  it('writes nothing that the reader does not read as the same tree', () => {
    const value = fc
      .string({ maxLength: 20, unit: 'binary' })
      .filter((text) => !text.includes('\0') && !(text.includes('"') && text.includes("'")));
    fc.assert(
      fc.property(trees({ value, unknown: true, maxAttributes: 10 }), (tree) => {
        const text = writeXml(built(tree));
        expect(plain(readXml(text, { root: 'system' }).root)).toEqual(tree);
      }),
      { numRuns: 300 },
    );
  });

  it('is undone by reading also where the text is not XML: an attribute without a name', () => {
    const text = '<system version="1" ="">\n  <cpu ="" numaid="0" name="a & b < c"/>\n</system>\n';
    const { root } = readXml(text, { root: 'system' });
    expect(root.attributes.get('')).toBe('');
    expect(root.children[0]!.attributes.get('name')).toBe('a & b < c');
    expect(writeXml(root)).toBe(text);
  });

  it('uses single quotes for a value with double quotes, and refuses one with both', () => {
    const net = element('net', { name: 'a"b' });
    expect(writeXml(net)).toBe(`<net name='a"b'/>\n`);
    net.attributes.set('name', `a"b'c`);
    expect(() => writeXml(net)).toThrow(/<net>: the value of name holds both kinds of quotes \(a"b'c\)/);
  });
});
