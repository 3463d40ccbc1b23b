/**
 * Leaves of a rank's document what is marked to be kept and what leads there: the own GPU, the NICs, and the switches
 * and CPUs above them. (NCCL 2.30.7, xml.cc.)
 */
import { cloneElement, type XmlElement } from './element.js';

/** Elements that go if nothing in them is kept; others stay as long as what holds them. */
const REMOVABLE: ReadonlySet<string> = new Set(['pci', 'cpu', 'nic', 'net']);

/** A trimmed copy, in which elements that were marked `keep="1"` are whole and without the mark. */
export function trimTopology(root: XmlElement): XmlElement {
  const copy = cloneElement(root);
  keepsAnything(copy);
  return copy;
}

/** Trims below an element; true if it, or something in it, is marked to be kept. */
function keepsAnything(one: XmlElement): boolean {
  if (one.attributes.get('keep') === '1') {
    one.attributes.delete('keep');
    return true;
  }
  let kept = false;
  one.children = one.children.filter((child) => {
    const keeps = keepsAnything(child);
    kept ||= keeps;
    return keeps || !REMOVABLE.has(child.name);
  });
  return kept;
}
