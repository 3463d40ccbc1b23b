/**
 * An element of NCCL's topology and graph files: a name, attributes in their stored order, children in theirs.
 *
 * Both orders carry meaning: attributes are written back as they stood, and the order of children decides the
 * order of nodes and with it every later search. (NCCL 2.30.7, xml.h.)
 */

export interface XmlElement {
  name: string;
  /** Attribute name to text, in stored order. Unknown attributes are kept. */
  attributes: Map<string, string>;
  children: XmlElement[];
  /** Line of the file on which the element starts, from 1; absent for elements that no file holds. */
  line?: number;
  /** The file closes the element in its own tag (`/>`); absent for elements that no file holds. */
  selfClosing?: boolean;
}

/** A new element without children. */
export function element(
  name: string,
  attributes: Readonly<Record<string, string | number>> = {},
  children: XmlElement[] = [],
): XmlElement {
  return {
    name,
    attributes: new Map(Object.entries(attributes).map(([key, value]) => [key, String(value)])),
    children,
  };
}

/** A copy that shares nothing with the original. */
export function cloneElement(source: XmlElement): XmlElement {
  const copy: XmlElement = {
    name: source.name,
    attributes: new Map(source.attributes),
    children: source.children.map(cloneElement),
  };
  if (source.line !== undefined) copy.line = source.line;
  if (source.selfClosing !== undefined) copy.selfClosing = source.selfClosing;
  return copy;
}

/** Where the element stands, for messages: `<gpu> on line 7`. */
export function placeOf(source: XmlElement): string {
  return source.line === undefined ? `<${source.name}>` : `<${source.name}> on line ${source.line}`;
}
