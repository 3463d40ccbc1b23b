/**
 * Which elements NCCL reads, and below which others. Everything else it ignores with all that is inside.
 *
 * We keep what NCCL ignores, so that a file that is read and written loses nothing; who builds from a document asks
 * here, or works on a copy without it. (NCCL 2.30.7, xml.cc.)
 */
import { type LogSink, SILENT } from '../log.js';
import { cloneElement, type XmlElement } from './element.js';

/** The root elements of the two kinds of files. */
export type RootName = 'system' | 'graphs';

/** Children that are read, by the name of the parent; `/` stands for the document. */
type Nesting = Readonly<Record<string, readonly string[]>>;

const NESTING: Readonly<Record<RootName, Nesting>> = {
  system: {
    '/': ['system'],
    system: ['cpu'],
    cpu: ['pci', 'nic'],
    pci: ['pci', 'gpu', 'nic', 'pcilink'],
    gpu: ['nvlink', 'c2c'],
    nic: ['net'],
  },
  graphs: {
    '/': ['graphs'],
    graphs: ['graph'],
    graph: ['channel'],
    channel: ['net', 'gpu'],
  },
};

/** Name that stands for the document as the parent of the root. */
export const DOCUMENT = '/';

const NONE: readonly string[] = [];

/** Names of the children that NCCL reads below an element of this name, in a file of this kind. */
export function readBelow(root: RootName, parent: string): readonly string[] {
  const nesting = NESTING[root];
  return Object.hasOwn(nesting, parent) ? nesting[parent]! : NONE;
}

/** A copy of a document without the elements that NCCL ignores; it says so, except below elements that hold none. */
export function withoutIgnored(document: XmlElement, log: LogSink = SILENT): XmlElement {
  const root = document.name === 'graphs' ? 'graphs' : 'system';
  const copy = cloneElement(document);
  const strip = (one: XmlElement): void => {
    const names = readBelow(root, one.name);
    one.children = one.children.filter(({ name }) => {
      const isRead = names.includes(name);
      if (!isRead && names.length > 0) log('INFO', 'GRAPH', `Ignoring element ${name}`);
      return isRead;
    });
    one.children.forEach(strip);
  };
  strip(copy);
  return copy;
}
