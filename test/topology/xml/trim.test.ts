/** Trimming a rank's document to what is marked to be kept. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { element } from '#src/topology/xml/element.js';
import { trimTopology } from '#src/topology/xml/trim.js';
import { built, type Plain, plain, trees } from './documents.js';

const isMarked = ({ attributes }: Plain) =>
  attributes.some(([key, value]) => key === 'keep' && value === '1');

const holdsMark = (one: Plain): boolean => isMarked(one) || one.children.some(holdsMark);

/** The rule in its shortest form. */
function reference(one: Plain): Plain {
  if (isMarked(one)) return { ...one, attributes: one.attributes.filter(([key]) => key !== 'keep') };
  const children = one.children.filter(
    (child) => holdsMark(child) || !['pci', 'cpu', 'nic', 'net'].includes(child.name),
  );
  return { ...one, children: children.map(reference) };
}

describe('trimTopology', () => {
  it('gives what the rule gives, and changes nothing that it is given', () => {
    fc.assert(
      fc.property(trees({ maxAttributes: 8, unknown: true }), (tree) => {
        const given = built(tree);
        expect(plain(trimTopology(given))).toEqual(reference(tree));
        expect(plain(given)).toEqual(tree);
      }),
      { numRuns: 400 },
    );
  });

  it('leaves the own GPU, the NICs that are kept, and what stands above them', () => {
    const pci = (busid: string, ...children: ReturnType<typeof element>[]) =>
      element('pci', { busid }, children);
    const host = element('system', { version: 1 }, [
      element('cpu', { numaid: 0 }, [
        pci(
          'switch',
          pci('own', element('gpu', { rank: 0, keep: 1 }, [element('nvlink')])),
          pci('other', element('gpu', { rank: 1 })),
        ),
        element('nic', {}, [
          element('net', { name: 'down', keep: 0 }),
          element('net', { name: 'up', keep: '1' }),
        ]),
      ]),
      element('cpu', { numaid: 1 }, [pci('far', element('gpu', { rank: 2 }))]),
    ]);
    expect(plain(trimTopology(host))).toEqual(
      plain(
        element('system', { version: 1 }, [
          element('cpu', { numaid: 0 }, [
            pci('switch', pci('own', element('gpu', { rank: 0 }, [element('nvlink')]))),
            element('nic', {}, [element('net', { name: 'up' })]),
          ]),
        ]),
      ),
    );
  });

  it('keeps a whole subtree with its marks below the mark, and never removes a gpu element alone', () => {
    const host = element('system', {}, [
      element('cpu', { keep: 1 }, [element('pci', { keep: 1 }), element('pci')]),
      element('pci', {}, [element('gpu', { keep: 0 }), element('nic', {}, [element('net', { keep: 1 })])]),
    ]);
    expect(plain(trimTopology(host))).toEqual(
      plain(
        element('system', {}, [
          element('cpu', {}, [element('pci', { keep: 1 }), element('pci')]),
          element('pci', {}, [element('gpu', { keep: 0 }), element('nic', {}, [element('net')])]),
        ]),
      ),
    );
  });

  it('keeps nothing but the root where nothing is marked', () => {
    expect(plain(trimTopology(element('system', { version: 1 }, [element('cpu')])))).toEqual(
      plain(element('system', { version: 1 })),
    );
  });
});
