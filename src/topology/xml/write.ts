/**
 * Writes elements as NCCL writes its topology and graph files: one tag a line, two spaces per level, attributes in
 * their stored order. (NCCL 2.30.7, xml.cc.)
 */
import type { XmlElement } from './element.js';

/** The text of a document, with a line break at its end. */
export function writeXml(root: XmlElement): string {
  const lines: string[] = [];
  write(root, 0, lines);
  return `${lines.join('\n')}\n`;
}

function write({ name, attributes, children }: XmlElement, level: number, lines: string[]): void {
  const indent = '  '.repeat(level);
  let tag = `${indent}<${name}`;
  for (const [key, value] of attributes) tag += ` ${key}="${escapeValue(value)}"`;
  if (children.length === 0) {
    lines.push(`${tag}/>`);
    return;
  }
  lines.push(`${tag}>`);
  for (const child of children) write(child, level + 1, lines);
  lines.push(`${indent}</${name}>`);
}

/** NCCL knows no entities; values that it can write need none. */
function escapeValue(value: string): string {
  return value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
