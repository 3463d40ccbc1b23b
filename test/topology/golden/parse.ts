/** Reads topology text: the stand-in until there is a reader in src/. */
import { element, type XmlElement } from '#src/topology/xml/element.js';

export function parseTopology(text: string): XmlElement {
  const root = element('document');
  const open = [root];
  for (const [, close, name, attributes, empty] of text.matchAll(
    /<(\/?)(\w+)((?: [\w]+="[^"]*")*) ?(\/?)>/g,
  )) {
    if (close === '/') {
      open.pop();
      continue;
    }
    const child = element(name!);
    for (const [, key, value] of attributes!.matchAll(/(\w+)="([^"]*)"/g)) child.attributes.set(key!, value!);
    open.at(-1)!.children.push(child);
    if (empty !== '/') open.push(child);
  }
  return root.children[0]!;
}
