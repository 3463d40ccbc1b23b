/** Texts that want to harm: each gives a result or an error of ours, in bounded time and memory. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TuttiError } from '#src/errors/tutti-error.js';
import { readXml } from '#src/topology/xml/read.js';
import { effort } from '../../effort.js';
import { goldenFiles, quoted } from './documents.js';

/** The result, or the message of our error; anything else fails the test. */
function outcome(text: string, root: 'system' | 'graphs' = 'system'): string {
  try {
    const { root: read, notes } = readXml(text, { root });
    for (const note of notes) expect(note.length, quoted(text)).toBeLessThan(600);
    expect(notes.length, quoted(text)).toBeLessThanOrEqual(101);
    return read.name;
  } catch (error) {
    if (!TuttiError.is(error)) throw new Error(`${String(error)} for ${quoted(text)}`, { cause: error });
    expect(error.code).toBe('invalidUsage');
    expect(error.message.length).toBeLessThan(600);
    expect(error.message).toMatch(/^XML file, line \d+/);
    return error.message;
  }
}

const topology = goldenFiles(/^topo\.xml$/).get('a100-pcie-x2-issue2397/topo.xml')!;
const graph = goldenFiles(/^graph-2-net\.xml$/).get('real-2xH200/graph-2-net.xml')!;
const ordinary = topology
  .replace('<system', '<?xml version="1.0"?>\n<!-- by hand -->\n<system')
  .replaceAll('  ', '\t')
  .replaceAll(' link_speed', '\n\t link_speed');

describe('damaged files', () => {
  it('that end at any byte are refused, but for what follows the root', () => {
    for (const [text, root] of [
      [topology, 'system'],
      [ordinary, 'system'],
      [graph, 'graphs'],
    ] as const) {
      const whole = text.lastIndexOf('>');
      for (let length = 0; length <= whole; length++) {
        expect(outcome(text.slice(0, length), root), `first ${length}`).not.toBe(root);
      }
      expect(outcome(text.slice(0, whole + 1), root)).toBe(root);
    }
  });

  it('that hold half a character are refused where it stands, also before a tag', () => {
    for (const half of ['\ud800', '\udfff', '\udfff\ud800']) {
      for (const text of [
        `<system>\n${half}</system>`,
        `<system>\n<cpu name="${half}"/></system>`,
        `\n${half}`,
      ]) {
        expect(outcome(text)).toMatch(/^XML file, line [12]/);
        expect(outcome(text)).not.toBe('system');
      }
    }
    expect(outcome('<system version="1"><!-- \ud83d\ude00 --></system>')).toBe('system');
  });

  it('that were changed at random give a result or an error', () => {
    const edit = fc.record({
      at: fc.nat(),
      remove: fc.nat(6),
      add: fc.oneof(
        fc.string({ unit: 'binary', maxLength: 3 }),
        fc.constantFrom(
          '<',
          '>',
          '/',
          '"',
          "'",
          '=',
          '&',
          '\t',
          '\n',
          '<!--',
          '-->',
          '<?',
          '?>',
          '<![CDATA[',
        ),
        fc.constantFrom(
          '<cpu>',
          '</cpu>',
          '<x',
          '</',
          '<!DOCTYPE a [',
          ']]>',
          '&#0;',
          '&a;',
          ' a="b"',
          '\ud800',
        ),
      ),
    });
    fc.assert(
      fc.property(
        fc.constantFrom(topology, ordinary, graph),
        fc.array(edit, { minLength: 1, maxLength: 6 }),
        (text, edits) => {
          for (const { at, remove, add } of edits) {
            const from = at % (text.length + 1);
            text = text.slice(0, from) + add + text.slice(from + remove);
          }
          outcome(text, text.includes('<graphs') ? 'graphs' : 'system');
        },
      ),
      { numRuns: effort(500, 1500) },
    );
  });

  it('that hold anything at all give a result or an error', () => {
    const piece = fc.constantFrom(
      ...'< > / " \' = & ; ! - ? [ ] a \t \n'.split(' '),
      ...['<system version="1">', '</system>', '<cpu', '/>', '<!--', '-->', ' ', '\0', '\ufeff', '<?xml '],
    );
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.array(piece, { maxLength: 40 })), (pieces) => {
        outcome(typeof pieces === 'string' ? pieces : pieces.join(''));
      }),
      { numRuns: effort(500, 1500) },
    );
  });
});

describe('texts of 10 MB', () => {
  const SIZE = 10_000_000;
  const fill = (piece: string) => piece.repeat(Math.ceil(SIZE / piece.length));
  const inSystem = (text: string) => `<system version="1">${text}</system>`;
  const inOrdinary = (text: string) => `<?xml version="1.0"?>${inSystem(text)}`;
  const laughs = Array.from({ length: 9 }, (_, n) => `<!ENTITY l${n + 1} "${`&l${n};`.repeat(10)}">`).join(
    '',
  );
  const cases: Readonly<Record<string, () => string>> = {
    'many elements': () => inSystem(fill('<cpu numaid="0"/>\n')),
    'many elements, ordinary XML': () => inOrdinary(fill('<cpu numaid="0"/>\n')),
    'elements inside each other': () => `<system version="1">${fill('<pci>')}`,
    'elements inside each other, ordinary XML': () => `<?xml version="1.0"?><system>${fill('<pci>')}`,
    'many attributes': () => `<system version="1"${fill(' a="b"')}/>`,
    'many different attributes, ordinary XML': () =>
      `<?xml version="1.0"?><system version="1" ${Array.from({ length: 700_000 }, (_, n) => `a${n}="${n}"`).join(' ')}/>`,
    'many attributes without names': () => `<system version="1"${fill(' ')}/>`,
    'many names without values': () => `<system version="1"${fill(' a')}/>`,
    'a long name': () => `<${fill('a')}/>`,
    'a long name, ordinary XML': () => `<?xml version="1.0"?><${fill('a')}/>`,
    'a long value': () => `<system version="1" name="${fill('a')}"/>`,
    'a value that does not end': () => inSystem(`<cpu numaid="${fill("'")}`),
    'values that do not end': () => fill('<a b="'),
    'a long version': () => `<system version="${fill('9')}"/>`,
    'a comment that does not end': () => inSystem(`<!-- ${fill('-> ')}`),
    'many comments': () => inSystem(fill('<!---->')),
    'many comments, ordinary XML': () => inOrdinary(fill('<!-- -->')),
    'many processing instructions': () => inSystem(fill('<?a?>')),
    'a long CDATA section': () => inSystem(`<![CDATA[${fill(']]&gt;')}]]>`),
    'many line breaks': () => inSystem(fill('\n')),
    'many tabs': () => inSystem(fill('\t')),
    'tabs in a tag': () => `<system version="1"${fill('\t')}/>`,
    'many line breaks between elements': () => inOrdinary(fill('\n\n\n\t<cpu/>\n<?a?>')),
    'many closing tags': () => inSystem(fill('</cpu>')),
    text: () => fill('hello '),
    zeros: () => fill('\0'),
    'ignored elements of many names': () =>
      inSystem(Array.from({ length: 60_000 }, (_, n) => `<x${n} y="${'z'.repeat(140)}"/>`).join('')),
    'a billion laughs': () =>
      `<?xml version="1.0"?><!DOCTYPE system [<!ENTITY l0 "lol">${laughs}]>${inSystem('<cpu name="&l9;"/>')}`,
    'a long document type': () => `<?xml version="1.0"?><!DOCTYPE a [${fill('<!ENTITY a "b">')}]><a/>`,
    'a document type that does not end': () => `<?xml version="1.0"?><!DOCTYPE a [${fill('<!ENTITY a "b">')}`,
    'undefined entities': () => inOrdinary(fill('&a;')),
    'decoded entities': () => inOrdinary(fill('&#65;&amp;')),
    surrogates: () => inOrdinary(fill('\ud83d\ude00')),
  };
  it.each(Object.keys(cases))('are read or refused in less than a second: %s', (name) => {
    const text = cases[name]!();
    // Time of the processor, and the fastest of a few: others may be working on the machine meanwhile.
    let fastest = Number.POSITIVE_INFINITY;
    for (let attempt = 0; attempt < 4 && fastest >= 1_000_000; attempt++) {
      const before = process.cpuUsage();
      outcome(text);
      const { user, system } = process.cpuUsage(before);
      fastest = Math.min(fastest, user + system);
    }
    expect(fastest, `${name}: microseconds`).toBeLessThan(1_000_000);
  });

  it('with 65,536 elements are read, with one more refused', () => {
    expect(outcome(inSystem('<cpu/>'.repeat(65_535)))).toBe('system');
    expect(outcome(inSystem('<cpu/>'.repeat(65_536)))).toMatch(/more than 65536 elements and comments/);
    expect(outcome(inOrdinary('<cpu/>'.repeat(65_534)))).toBe('system');
    expect(outcome(inOrdinary('<cpu/>'.repeat(65_535)))).toMatch(/more than 65536 elements and comments/);
  });

  it('with 256 elements inside each other are read, with one more refused', () => {
    const deep = (count: number) => `${'<pci>'.repeat(count)}${'</pci>'.repeat(count)}`;
    expect(outcome(inSystem(deep(255)))).toBe('system');
    expect(outcome(inSystem(deep(256)))).toMatch(/more than 256 deep/);
    expect(outcome(inOrdinary(deep(256)))).toMatch(/more than 256 deep/);
  });

  it('longer than 16 Mi characters are refused unread', () => {
    expect(outcome(' '.repeat(16 * 1024 * 1024 + 1))).toMatch(/more than the 16777216/);
  });
});
