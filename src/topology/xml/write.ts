/**
 * Writes elements as NCCL writes its topology and graph files: one tag a line, two spaces per level, attributes in
 * their stored order, nothing escaped. (NCCL 2.30.7, xml.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { placeOf, type XmlElement } from './element.js';
import { shown } from './notes.js';

/**
 * The text of a document, with a line break at its end.
 *
 * @throws TuttiError invalidArgument for a value that holds both kinds of quotes: no reader could tell where it ends.
 */
export function writeXml(root: XmlElement): string {
  const lines: string[] = [];
  write(root, '', lines);
  lines.push('');
  return lines.join('\n');
}

function write(one: XmlElement, indent: string, lines: string[]): void {
  const { name, attributes, children } = one;
  let tag = `${indent}<${name}`;
  for (const [key, value] of attributes) {
    const quote = quoteFor(one, key, value);
    tag += ` ${key}=${quote}${value}${quote}`;
  }
  if (children.length === 0) {
    lines.push(`${tag}/>`);
    return;
  }
  lines.push(`${tag}>`);
  for (const child of children) write(child, `${indent}  `, lines);
  lines.push(`${indent}</${name}>`);
}

/** NCCL writes double quotes only, and then cannot read a value that holds one; it does read single quotes. */
function quoteFor(one: XmlElement, key: string, value: string): string {
  if (!value.includes('"')) return '"';
  if (!value.includes("'")) return "'";
  throw new TuttiError(
    'invalidArgument',
    `${placeOf(one)}: the value of ${shown(key)} holds both kinds of quotes (${shown(value)}), ` +
      'which a topology file cannot; leave one kind out',
  );
}
