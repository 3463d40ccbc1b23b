/** Reading topology and graph files: what NCCL accepts as it reads it, other XML with notes, the rest refused. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import { withoutIgnored } from '#src/topology/xml/nesting.js';
import { readXml } from '#src/topology/xml/read.js';
import { type Plain, plain, trees } from './documents.js';

const read = (text: string, root: 'system' | 'graphs' = 'system') =>
  readXml(text, { root, file: 'topo.xml' });

/** The tree and the notes of what stands in `<system version="1">`, whose tags are lines of their own. */
function inside(text: string) {
  const { root, notes } = read(`<system version="1">\n${text}\n</system>\n`);
  return { children: root.children.map(plain), notes };
}

function refusal(text: string, root: 'system' | 'graphs' = 'system'): string {
  try {
    read(text, root);
  } catch (error) {
    expect(TuttiError.is(error)).toBe(true);
    expect((error as TuttiError).code).toBe('invalidUsage');
    return (error as TuttiError).message;
  }
  throw new Error(`accepted: ${text}`);
}

const leaf = (name: string, attributes: Record<string, string> = {}): Plain => ({
  name,
  attributes: Object.entries(attributes),
  children: [],
});

describe('what NCCL accepts', () => {
  it('needs no notes: spaces, line feeds, carriage returns, comments, both kinds of quotes', () => {
    const text =
      '<!-- made by hand > / -- -->\r\n<system version="1" name=\'a "b"\'>\n\n  <!--x--><cpu numaid="0"></cpu>' +
      '<cpu numaid="1"/>\n <!---->\n</system>\n<!-- end -->\n';
    const { root, notes } = read(text);
    expect(notes).toEqual([]);
    expect(plain(root)).toEqual({
      name: 'system',
      attributes: [
        ['version', '1'],
        ['name', 'a "b"'],
      ],
      children: [leaf('cpu', { numaid: '0' }), leaf('cpu', { numaid: '1' })],
    });
  });

  it('knows the line of each element and how it was closed', () => {
    const { root } = read('<system version="1">\n<cpu>\n</cpu><cpu/>\n\n<cpu\n/></system>');
    expect(root.line).toBe(1);
    expect(root.children.map(({ line, selfClosing }) => [line, selfClosing])).toEqual([
      [2, false],
      [3, true],
      [5, true],
    ]);
  });

  it('takes a second space and a space before the end for an attribute without a name, and says so once', () => {
    const { children, notes } = inside('<cpu  numaid="0" />\n<cpu numaid="1" >\n</cpu>');
    expect(children).toEqual([leaf('cpu', { '': '', numaid: '0' }), leaf('cpu', { numaid: '1', '': '' })]);
    expect(notes).toEqual([
      expect.stringMatching(/^lines 2 and 3: NCCL takes a second space.* attribute without a name in <cpu>/),
    ]);
  });

  it('takes an attribute without a value for an empty one, and a value after a space for one without a name', () => {
    const { children, notes } = inside('<cpu numaid ="0"/>');
    expect(children).toEqual([leaf('cpu', { numaid: '', '': '0' })]);
    expect(notes.join('\n')).toMatch(
      /^line 2: attribute numaid of <cpu> has no value for NCCL; write numaid="\.\.\."/,
    );
  });

  it('decodes nothing, and notes entities', () => {
    const { children, notes } = inside('<cpu name="a&amp;b" other="1 & 2 < 3 > 2"/>');
    expect(children).toEqual([leaf('cpu', { name: 'a&amp;b', other: '1 & 2 < 3 > 2' })]);
    expect(notes).toEqual([
      "line 2: NCCL does not decode '&amp;' in the value of name in <cpu>; the value is read as it stands",
    ]);
  });

  it('ignores the attributes after the 16th', () => {
    const attributes = Array.from({ length: 20 }, (_, index) => `a${index}="${index}"`).join(' ');
    const { children, notes } = inside(`<cpu ${attributes}/>`);
    expect(children[0]!.attributes).toHaveLength(16);
    expect(children[0]!.attributes.at(-1)).toEqual(['a15', '15']);
    expect(notes).toEqual([
      expect.stringMatching(
        /^line 2: <cpu> has more than 16 attributes; .*Ignoring extra attributes \(max 16\)/,
      ),
    ]);
  });

  it('keeps the first of two attributes of one name', () => {
    const { children, notes } = inside('<cpu numaid="0" numaid="1"/>');
    expect(children).toEqual([leaf('cpu', { numaid: '0' })]);
    expect(notes).toEqual([
      'line 2: attribute numaid is in <cpu> twice; the first one counts, remove the other',
    ]);
  });

  it('keeps elements that NCCL ignores, and what stands in them, and notes the outermost ones', () => {
    const text =
      '<cpu>\n<vendor><cpu/></vendor>\n<gpu/>\n<pci><gpu><nvlink><deep/></nvlink></gpu></pci></cpu>\n<foo/><foo/>';
    const { children, notes } = inside(text);
    expect(children).toEqual([
      {
        ...leaf('cpu'),
        children: [
          { ...leaf('vendor'), children: [leaf('cpu')] },
          leaf('gpu'),
          {
            ...leaf('pci'),
            children: [{ ...leaf('gpu'), children: [{ ...leaf('nvlink'), children: [leaf('deep')] }] }],
          },
        ],
      },
      leaf('foo'),
      leaf('foo'),
    ]);
    expect(notes).toEqual([
      'line 3: NCCL ignores <vendor> inside <cpu>, with everything in it',
      'line 4: NCCL ignores <gpu> inside <cpu>, with everything in it',
      'line 5: NCCL ignores <deep> inside <nvlink>, with everything in it',
      'line 6: NCCL ignores <foo> inside <system>, with everything in it',
    ]);
  });

  it('does not mind which name a closing tag has inside what is ignored, and only there', () => {
    const { children, notes } = inside('<foo><a><b></c></d></foo>');
    expect(children).toEqual([{ ...leaf('foo'), children: [{ ...leaf('a'), children: [leaf('b')] }] }]);
    expect(notes).toHaveLength(3);
    expect(inside('<foo></bar>').notes.at(-1)).toMatch(/^line 2: <\/bar> closes <foo>/);
    expect(refusal('<system version="1"><cpu><nic></cpu></cpu></system>')).toMatch(
      /^topo\.xml, line 1, <nic>/,
    );
  });

  it('ignores elements beside the root', () => {
    const { root, notes } = read('<other/>\n<system version="1"/>\n<system version="1"><cpu/></system>');
    expect(root.children).toEqual([]);
    expect(notes).toEqual([
      'line 1: NCCL ignores <other> outside of the root element, with everything in it',
      'line 3: a second <system> follows the one of line 2; it is left out',
    ]);
  });

  it('is what is left without the ignored elements [C04-01]', () => {
    fc.assert(
      fc.property(trees({ unknown: true }), (tree) => {
        const wanted = (one: Plain, names: readonly string[]): Plain => ({
          ...one,
          children: one.children
            .filter(({ name }) => names.includes(name))
            .map((child) => wanted(child, READ_BELOW[child.name] ?? [])),
        });
        const { root } = read(render(tree, () => 0).text);
        expect(plain(withoutIgnored(root))).toEqual(wanted(tree, ['cpu']));
      }),
    );
  });

  it('has room for NCCL files at its limits, and says when NCCL has not', () => {
    const cpus = (count: number) => inside(Array.from({ length: count }, () => '<cpu/>').join('\n'));
    expect(cpus(254).notes).toEqual([]);
    expect(cpus(255).notes).toEqual([
      expect.stringMatching(/^line 256: NCCL refuses a file of 256 elements or more.*limited to 256 nodes/),
    ]);
    expect(cpus(641).notes).toEqual([
      expect.stringMatching(/^line 256: /),
      'line 642: NCCL has no room for more than 640 elements in <system>',
    ]);
    const ignored = Array.from({ length: 400 }, () => '<x/>').join('');
    expect(inside(ignored).notes).toHaveLength(1);
    const graphs = `<graphs version="1"><graph>${'<channel/>'.repeat(600)}</graph></graphs>`;
    expect(read(graphs, 'graphs').notes).toEqual([]);
    expect(inside(`<cpu affinity="${'f'.repeat(253)}"/>`).notes).toEqual([]);
    expect(inside(`<cpu affinity="${'f'.repeat(254)}"/>`).notes).toEqual([
      'line 2: the value of affinity in <cpu> is longer than the 253 characters that NCCL accepts; shorten it',
    ]);
  });
});

describe('XML that NCCL refuses', () => {
  const cases: readonly (readonly [what: string, text: string, line: number, note: RegExp])[] = [
    [
      'a prolog',
      '<?xml version="1.0" encoding="UTF-8"?>\n<system version="1"/>',
      1,
      /XML prolog .*remove it before/,
    ],
    ['a processing instruction', '<system version="1">\n<?edit x?></system>', 2, /processing instruction/],
    [
      'a tab between elements',
      '<system version="1">\n\t<cpu/>\n</system>',
      2,
      /a tab .*expecting '<', got '\\t'.*spaces/,
    ],
    [
      'text between elements',
      '<system version="1">\n\n\n hello <cpu/></system>',
      4,
      /text.*expecting '<', got 'h'/,
    ],

    ['a CDATA section', '<system version="1">\n<![CDATA[<cpu/>]]></system>', 2, /CDATA/],
    [
      'a line break in a tag',
      '<system version="1">\n<cpu\n numaid="0"/></system>',
      2,
      /line break inside the tag of <cpu> .*expected >, got '\\n'/,
    ],
    [
      'a carriage return in a tag',
      '<system version="1"\r\n/>',
      1,
      /line break inside the tag of <system> .*got '\\r'/,
    ],
    [
      'a tab in a tag',
      '<system version="1">\n<cpu\tnumaid="0"/></system>',
      2,
      /a tab inside the tag of <cpu>/,
    ],
    [
      'spaces around an equals sign',
      '<system version="1">\n<cpu numaid= "0"/></system>',
      2,
      /spaces around the '='/,
    ],
    [
      'a space in a closing tag',
      '<system version="1">\n<cpu></cpu ></system>',
      2,
      /space in <\/cpu> .*unexpected trailing {3}in closing tag cpu/,
    ],
    [
      'an equals sign in the first word of a comment',
      '<!--a=b--><system version="1"/>',
      1,
      /comment with '='.*Unexpected value with name !--a/,
    ],
    ['a byte order mark', '\ufeff<system version="1"/>', 1, /byte order mark/],
    ['a byte order mark read byte by byte', '\u00ef\u00bb\u00bf<system version="1"/>', 1, /byte order mark/],
  ];
  it.each(cases)('is accepted with a note: %s', (_what, text, line, note) => {
    const { root, notes } = read(text);
    expect(root.name).toBe('system');
    expect(notes).toHaveLength(1);
    expect(notes[0]).toMatch(note);
    expect(notes[0]).toMatch(new RegExp(`^line ${line}: `));
  });

  it('is read like what NCCL accepts: raw values, first of two attributes, lines', () => {
    const { root, notes } = read(
      '<?xml version="1.0"?>\n<system version="1">\n<cpu numaid="0" name="&lt;&#65;" numaid="1"\n/></system>\n',
    );
    expect(root.children.map(plain)).toEqual([leaf('cpu', { numaid: '0', name: '&lt;&#65;' })]);
    expect(root.children[0]!.line).toBe(3);
    expect(notes).toHaveLength(4);
  });

  it('is noted in each respect', () => {
    expect(inside('\t\n x<cpu/>').notes).toEqual([
      expect.stringMatching(/^line 2: NCCL does not accept a tab /),
      'line 3: NCCL does not accept text between elements; remove it',
    ]);
    expect(inside(`\t<cpu affinity="${'f'.repeat(254)}"/>`).notes).toEqual([
      expect.stringMatching(/^line 2: NCCL does not accept a tab /),
      'line 2: the value of affinity in <cpu> is longer than the 253 characters that NCCL accepts; shorten it',
    ]);
  });

  it('has as many notes as there are kinds of places, with their lines', () => {
    const { notes } = read(`<system version="1">\n${'\t<cpu/>\n'.repeat(9)}</system>`);
    expect(notes).toEqual([
      expect.stringMatching(/^lines 2, 3, 4, 5 and 5 more: NCCL does not accept a tab/),
    ]);
  });
});

/** What NCCL reads below each element. */
const READ_BELOW: Readonly<Record<string, readonly string[]>> = {
  cpu: ['pci', 'nic'],
  pci: ['pci', 'gpu', 'nic', 'pcilink'],
  gpu: ['nvlink', 'c2c'],
  nic: ['net'],
};

/**
 * A text of a tree in a layout that `choose` picks: where there is a choice among n, it gives 0 to n - 1, and 0 is what
 * NCCL writes. Tells whether NCCL would refuse it, and whether it sees attributes that are not in the tree.
 */
function render(tree: Plain, choose: (count: number) => number) {
  let isRefused = false;
  let hasNameless = false;
  const pick = (choices: readonly (readonly [text: string, effect?: 'refused' | 'nameless'])[]) => {
    const [text, effect] = choices[choose(choices.length)]!;
    isRefused ||= effect === 'refused';
    hasNameless ||= effect === 'nameless';
    return text;
  };
  const between = () =>
    pick([
      ['\n'],
      [''],
      ['  \r\n'],
      ['<!-- a > b / -->'],
      ['<!---->\n'],
      ['\t', 'refused'],
      ['\n text &amp; more', 'refused'],
      ['<?pi?>', 'refused'],
      ['<![CDATA[<a>]]>', 'refused'],
      ['<!--a="1"-->', 'refused'],
    ]);
  const space = () => pick([[' '], ['  ', 'nameless'], ['\t', 'refused'], ['\n  ', 'refused']]);
  const end = () => pick([[''], [' ', 'nameless'], ['\n', 'refused']]);
  const equals = () => pick([['='], ['= ', 'refused'], [' =\t', 'refused']]);
  const quote = () => pick([['"'], ["'"]]);
  const element = ({ name, attributes, children }: Plain): string => {
    let tag = `<${name}`;
    for (const [key, value] of attributes) {
      const mark = quote();
      tag += `${space()}${key}${equals()}${mark}${value}${mark}`;
    }
    tag += end();
    const short = children.length === 0 && choose(2) === 0;
    if (short) return `${tag}/>`;
    const closing = pick([[`</${name}>`], [`</${name} >`, 'refused'], [`</${name}\n>`, 'refused']]);
    return `${tag}>${children.map((child) => between() + element(child)).join('')}${between()}${closing}`;
  };
  const start = pick([[''], ['\n'], ['<?xml version="1.0"?>', 'refused'], ['\ufeff', 'refused']]);
  const text = `${start}${element(tree)}\n`;
  return { text, isRefused, hasNameless };
}

describe('any layout of a document', () => {
  it('gives the same tree; NCCL refuses it exactly where a note says so', () => {
    const choices = fc.infiniteStream(fc.nat(1000));
    fc.assert(
      fc.property(trees({ unknown: true }), choices, fc.constantFrom(0, 3, 40), (tree, stream, rarity) => {
        // Choose what NCCL writes mostly, so that both verdicts are common.
        const choose = (count: number) => {
          const { value } = stream.next();
          return rarity > 0 && value % rarity === 0 ? (value >> 3) % count : 0;
        };
        const { text, isRefused, hasNameless } = render(tree, choose);
        const { root, notes } = read(text);
        const withoutNameless = (one: Plain): Plain => ({
          ...one,
          attributes: one.attributes.filter(([key]) => key !== ''),
          children: one.children.map(withoutNameless),
        });
        expect(withoutNameless(plain(root)), text).toEqual(tree);
        const stops = notes.filter((note) => /NCCL (?:does not accept|stops here)/.test(note));
        expect(stops.length > 0, text).toBe(isRefused);
        expect(
          notes.some((note) => note.includes('without a name')),
          text,
        ).toBe(hasNameless);
      }),
      { numRuns: 400 },
    );
  });
});

describe('what is refused', () => {
  const cases: readonly (readonly [text: string, message: RegExp])[] = [
    ['', /^topo\.xml, line 1: the file is empty; a topology file holds a <system> element$/],
    ['\n<!-- -->\n', /the file is empty/],
    ['hello', /^topo\.xml, line 1: not well-formed XML: text data outside of root node/],
    ['<system/>', /^topo\.xml, line 1, <system>: attribute version is missing; write version="1"$/],
    ['<system version="2"/>', /^topo\.xml, line 1, <system>: XML Topology has wrong version 2, 1 needed; /],
    ['\n<system version="x"/>', /^topo\.xml, line 2, <system>: XML Topology has wrong version x, 1 needed/],
    [
      '<graphs version="1"/>',
      /line 1, <graphs>: this is a graph file \(NCCL_GRAPH_FILE\), not a topology file/,
    ],
    ['<html></html>', /line 1, <html>: the file holds no <system> element .*NCCL_TOPO_DUMP_FILE/],
    [
      '<system version=1/>',
      /line 1, <system>: the value of version does not start with a quote; .*"XML Parse : Expected \(double\) quote\."/,
    ],
    [
      '<system version="1">\n<cpu>\n</system>',
      /line 3, <cpu>: <\/system> does not close <cpu> of line 2; .*"XML Mismatch : cpu \/ system"/,
    ],
    [
      '<system version="1">\n<cpu/>\n',
      /line 3, <system>: the file ends inside <system> of line 1; add <\/system>.*"XML Parse : unterminated system"/,
    ],
    ['<system version="1">\n<cpu numaid="0', /line 2, <cpu>: the value of numaid does not end; /],
    [
      '<system version="1">\n<cpu numaid="0"',
      /line 2, <system>: the file ends inside a tag; .*"XML Parse : Unexpected EOF"/,
    ],
    [
      '<system version="1">\n<!-- x </system>',
      /line 2, <system>: a comment does not end; .*unterminated comment/,
    ],
    ['</system>', /line 1: <\/system> closes nothing; remove it/],
    [
      '<?xml version="1.0"?>\n<system version="1">\n<cpu>\n</nic>\n</system>',
      /line 4, <cpu>: not well-formed XML: <\/nic> does not close <cpu> of line 3/,
    ],
    [
      '<?xml version="1.0"?>\n<system version="1">\n<cpu name="a & b"/></system>',
      /line 3, <system>: not well-formed XML: /,
    ],
    ['<system version="1">\u0000</system>', /not well-formed XML: disallowed character/],
    [
      '<!DOCTYPE system>\n<system version="1"/>',
      /line 1: '<!DOCTYPE' declares something; .* no document type and no entities/,
    ],
    [
      '<?xml version="1.0"?><!DOCTYPE system [<!ENTITY a "b">]><system version="1" name="&a;"/>',
      /document type/,
    ],
    ['<system version="1"><!ENTITY a "b"></system>', /'<!ENTITY' declares something/],
  ];
  it.each(cases)('names file, line, element and remedy: %j', (text, message) => {
    expect(refusal(text)).toMatch(message);
  });

  it('names the version for graph files too, and files of the wrong kind', () => {
    expect(refusal('<graphs version="0"/>', 'graphs')).toMatch(
      /<graphs>: XML Graph has wrong version 0, 1 needed/,
    );
    expect(refusal('<system version="1"/>', 'graphs')).toMatch(
      /this is a topology file \(NCCL_TOPO_FILE\), not a graph/,
    );
    expect(refusal('', 'graphs')).toMatch(/a graph file holds a <graphs> element/);
  });

  it('accepts versions as C reads numbers', () => {
    for (const version of ['1', '01', '0x1', ' 1', '1x', '+1']) read(`<system version="${version}"/>`);
    for (const version of ['', '10', '-1', 'v1']) refusal(`<system version="${version}"/>`);
  });
});
