/**
 * Makes one document of those of several ranks: equal elements are one, others are appended, so the GPUs below a
 * switch come in the order of the ranks. (NCCL 2.30.7, xml.cc.)
 */
import { cloneElement, type XmlElement } from './element.js';

/** Fuses documents in rank order; they are not changed. */
export function fuseTopologies(parts: readonly XmlElement[]): XmlElement {
  const [first, ...rest] = parts;
  if (first === undefined) return { name: 'system', attributes: new Map([['version', '1']]), children: [] };
  const fused = cloneElement(first);
  for (const part of rest) merge(fused, part);
  return fused;
}

function merge(into: XmlElement, from: XmlElement): void {
  for (const child of from.children) {
    const same = into.children.find((other) => isSame(other, child));
    if (same === undefined) into.children.push(cloneElement(child));
    else merge(same, child);
  }
}

/** The same tag with the same attributes. */
function isSame(a: XmlElement, b: XmlElement): boolean {
  if (a.name !== b.name || a.attributes.size !== b.attributes.size) return false;
  for (const [key, value] of b.attributes) if (a.attributes.get(key) !== value) return false;
  return true;
}
