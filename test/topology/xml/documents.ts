/** Documents for the tests of the XML part: random trees, and texts of them in many layouts. */
import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import type { XmlElement } from '#src/topology/xml/element.js';

/** What a tree says, without where and how the file says it. */
export interface Plain {
  readonly name: string;
  readonly attributes: readonly (readonly [string, string])[];
  readonly children: readonly Plain[];
}

/** The plain content of an element. */
export const plain = ({ name, attributes, children }: XmlElement): Plain => ({
  name,
  attributes: [...attributes],
  children: children.map(plain),
});

/** The element of plain content, as if no file held it. */
export const built = ({ name, attributes, children }: Plain): XmlElement => ({
  name,
  attributes: new Map(attributes),
  children: children.map(built),
});

/** Names that no element of a topology has. */
const UNKNOWN = ['foo', 'Cpu', 'x-1', 'net2', 'system'];

/** Children by parent, as the facts about NCCL list them. */
const CHILDREN: Readonly<Record<string, readonly string[]>> = {
  system: ['cpu'],
  cpu: ['pci', 'nic'],
  pci: ['pci', 'gpu', 'nic', 'pcilink'],
  gpu: ['nvlink', 'c2c'],
  nic: ['net'],
};

const KEYS = ['busid', 'class', 'dev', 'rank', 'name', 'speed', 'keep', 'net', 'link_width', 'other'];

/** Few texts, so that elements of different documents are often equal. */
const values = fc.constantFrom('', '0', '1', '0x030200', '0000:3b:00.0', '16.0 GT/s PCIe', '  Shanghai  ');

function attributesOf(value: fc.Arbitrary<string>, maxLength: number) {
  return fc.uniqueArray(fc.tuple(fc.constantFrom(...KEYS), value), { selector: ([key]) => key, maxLength });
}

interface TreeOptions {
  readonly value?: fc.Arbitrary<string>;
  /** With elements that NCCL ignores. */
  readonly unknown?: boolean;
  readonly maxChildren?: number;
  readonly maxAttributes?: number;
}

/** Elements as they may stand in a topology. */
export function trees(options: TreeOptions = {}): fc.Arbitrary<Plain> {
  const { value = values, unknown = false, maxChildren = 3, maxAttributes = 4 } = options;
  const attributes = attributesOf(value, maxAttributes);
  const below = (name: string, depth: number): fc.Arbitrary<Plain> => {
    const names = [...(CHILDREN[name] ?? []), ...(unknown ? UNKNOWN : [])];
    const children: fc.Arbitrary<Plain[]> =
      depth === 0 || names.length === 0
        ? fc.constant([])
        : fc.array(
            fc.constantFrom(...names).chain((child) => below(child, depth - 1)),
            { maxLength: maxChildren },
          );
    return fc.record({ name: fc.constant(name), attributes, children });
  };
  return below('system', 5).map((tree) => ({
    ...tree,
    attributes: [['version', '1'], ...tree.attributes] as const,
  }));
}

/** Files of the folder of golden data by name: every topology, and the dumps of the real machine. */
export function goldenFiles(pattern: RegExp): Map<string, string> {
  const folder = new URL('../../golden/', import.meta.url);
  const found = new Map<string, string>();
  for (const machine of readdirSync(folder, { withFileTypes: true })) {
    if (!machine.isDirectory()) continue;
    for (const file of readdirSync(new URL(`${machine.name}/`, folder))) {
      if (!pattern.test(file)) continue;
      const path = `${machine.name}/${file}`;
      found.set(path, readFileSync(new URL(path, folder), 'utf8'));
    }
  }
  return found;
}

/** Fails a test with the text, if a promise of the reader is broken. */
export const quoted = (text: string): string => JSON.stringify(text.length > 500 ? text.slice(0, 500) : text);
