/**
 * A topology document while it is being completed: the tree, who is whose parent, and the order in which elements came
 * into being, which is the order in which NCCL finds them. (NCCL 2.30.7, xml.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { element, type XmlElement } from '../xml/element.js';

/** Elements of one rank's document, as in NCCL. */
export const MAX_ELEMENTS = 256;

export class TopologyDocument {
  readonly root: XmlElement;
  readonly #parents = new Map<XmlElement, XmlElement>();
  /** In order of creation; includes elements that have no parent yet. */
  readonly #elements: XmlElement[] = [];
  readonly #limit: number;

  /** Takes over a document that was read from a file, or starts an empty one. */
  constructor(root: XmlElement | undefined, limit: number) {
    this.#limit = limit;
    this.root = root ?? element('system', { version: 1 });
    this.#adopt(this.root);
  }

  #adopt(one: XmlElement): void {
    this.#register(one);
    for (const child of one.children) {
      this.#parents.set(child, one);
      this.#adopt(child);
    }
  }

  #register(one: XmlElement): void {
    if (this.#elements.length >= this.#limit) {
      throw new TuttiError(
        'internalError',
        `the description of this machine has more than ${this.#limit} elements, which NCCL's format does not allow; ` +
          'a smaller topology file (NCCL_TOPO_FILE) can describe it',
      );
    }
    this.#elements.push(one);
  }

  /** A new element without a parent. */
  create(name: string, attributes: Readonly<Record<string, string | number>> = {}): XmlElement {
    const made = element(name, attributes);
    this.#register(made);
    return made;
  }

  /** A new last child. */
  append(parent: XmlElement, name: string, attributes: Readonly<Record<string, string | number>> = {}) {
    const made = this.create(name, attributes);
    parent.children.push(made);
    this.#parents.set(made, parent);
    return made;
  }

  /** Puts an element before the first child whose bus id is greater as a text; children without one do not count. */
  insert(parent: XmlElement, child: XmlElement): void {
    const own = child.attributes.get('busid') ?? '';
    const at = parent.children.findIndex((other) => {
      const id = other.attributes.get('busid');
      return id !== undefined && id > own;
    });
    parent.children.splice(at < 0 ? parent.children.length : at, 0, child);
    this.#parents.set(child, parent);
  }

  parentOf(child: XmlElement): XmlElement | undefined {
    return this.#parents.get(child);
  }

  /** Whether `ancestor` is `one` or stands above it. */
  isWithin(one: XmlElement, ancestor: XmlElement): boolean {
    for (let at: XmlElement | undefined = one; at !== undefined; at = this.#parents.get(at)) {
      if (at === ancestor) return true;
    }
    return false;
  }

  /** The first element of this name, anywhere, with these attributes. */
  find(name: string, attributes: Readonly<Record<string, string>> = {}): XmlElement | undefined {
    return this.#elements.find((one) => one.name === name && hasAll(one, attributes));
  }

  /** The first child of this name with these attributes. */
  childOf(parent: XmlElement, name: string, attributes: Readonly<Record<string, string>> = {}) {
    return parent.children.find((one) => one.name === name && hasAll(one, attributes));
  }
}

function hasAll(one: XmlElement, attributes: Readonly<Record<string, string>>): boolean {
  return Object.entries(attributes).every(([key, value]) => one.attributes.get(key) === value);
}

/** Sets an attribute that is not there yet. */
export function setIfAbsent(one: XmlElement, key: string, value: string | number | bigint): void {
  if (!one.attributes.has(key)) one.attributes.set(key, String(value));
}
