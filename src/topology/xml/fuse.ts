/**
 * Makes one document of those of several ranks: equal elements are one, others are appended, so that the GPUs below a
 * switch come in the order of the ranks. Any difference in an attribute makes two elements. (NCCL 2.30.7, xml.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { cloneElement, type XmlElement } from './element.js';

/** Children that are searched one by one; more are found by a key, so that wide documents do not take square time. */
const SEARCHED_CHILDREN = 32;

/**
 * Fuses documents in rank order. The documents are not changed, and the result shares nothing with them.
 *
 * @throws TuttiError invalidArgument without a document, or with documents of different kinds.
 */
export function fuseTopologies(parts: readonly XmlElement[]): XmlElement {
  const [first, ...rest] = parts;
  if (first === undefined) {
    throw new TuttiError('invalidArgument', 'there is no topology to fuse; give one document per rank');
  }
  const fused = cloneElement(first);
  for (const [index, part] of rest.entries()) {
    if (part.name !== first.name) {
      throw new TuttiError(
        'invalidArgument',
        `document ${index + 1} to fuse is a <${part.name}>, the first one a <${first.name}>; give documents of one kind`,
      );
    }
    merge(fused, part);
  }
  return fused;
}

function merge(into: XmlElement, from: XmlElement): void {
  const found =
    into.children.length + from.children.length <= SEARCHED_CHILDREN
      ? undefined
      : new ChildIndex(into.children);
  for (const child of from.children) {
    const candidates = found?.alike(child) ?? into.children;
    const same = candidates.find((other) => isSame(other, child));
    if (same === undefined) {
      const copy = cloneElement(child);
      into.children.push(copy);
      found?.add(copy);
    } else if (child.children.length > 0) {
      merge(same, child);
    }
  }
}

/** The same tag with the same attributes; elements of files must also agree in how they are closed. */
function isSame(a: XmlElement, b: XmlElement): boolean {
  if (a.name !== b.name || a.attributes.size !== b.attributes.size) return false;
  for (const [key, value] of b.attributes) if (a.attributes.get(key) !== value) return false;
  return a.selfClosing === undefined || b.selfClosing === undefined || a.selfClosing === b.selfClosing;
}

/** Children by name and attributes, in their order. */
class ChildIndex {
  readonly #byKey = new Map<string, XmlElement[]>();

  constructor(children: readonly XmlElement[]) {
    for (const child of children) this.add(child);
  }

  add(child: XmlElement): void {
    const key = keyOf(child);
    const alike = this.#byKey.get(key);
    if (alike === undefined) this.#byKey.set(key, [child]);
    else alike.push(child);
  }

  alike(child: XmlElement): readonly XmlElement[] {
    return this.#byKey.get(keyOf(child)) ?? [];
  }
}

/** Equal for elements with the same tag and attributes. */
const keyOf = ({ name, attributes }: XmlElement): string =>
  JSON.stringify([name, ...[...attributes].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))]);
