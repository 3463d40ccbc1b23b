/**
 * Leaves of a rank's document what is marked to be kept, and what leads there: the own GPU, the NICs, and the
 * switches and CPUs above them. (NCCL 2.30.7, xml.cc.)
 */
import { cloneElement, type XmlElement } from './element.js';

/** Elements that go if nothing below them is kept; others stay as long as what holds them. */
const REMOVABLE = new Set(['pci', 'cpu', 'nic', 'net']);

/** A trimmed copy, without the marks. */
export function trimTopology(root: XmlElement): XmlElement {
  const copy = cloneElement(root);
  trim(copy);
  return copy;
}

/** Is the element, or something below it, kept? */
function trim(element: XmlElement): boolean {
  if (element.attributes.get('keep') === '1') {
    element.attributes.delete('keep');
    return true;
  }
  let kept = false;
  element.children = element.children.filter((child) => {
    const keeps = trim(child);
    kept ||= keeps;
    return keeps || !REMOVABLE.has(child.name);
  });
  return kept;
}
