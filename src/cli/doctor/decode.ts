/**
 * Bytes as text: UTF-8, or UTF-16 as shells of Windows write it. Bytes that are no text become replacement characters.
 */
import { StringDecoder } from 'node:string_decoder';
import type { Bytes } from './unpack.js';

/** The encoding that the first bytes tell: a mark, or every second byte empty. */
export function encodingOf(head: Uint8Array): 'utf-8' | 'utf-16le' | 'utf-16be' {
  const [a, b, c, d] = head;
  if (a === 0xff && b === 0xfe) return 'utf-16le';
  if (a === 0xfe && b === 0xff) return 'utf-16be';
  const pairs = Math.min(32, head.length >> 1);
  if (pairs < 4 || a === undefined || c === undefined) return 'utf-8';
  const isPrinted = (byte: number): boolean => (byte >= 32 && byte < 127) || (byte >= 9 && byte <= 13);
  const every = (empty: number): boolean =>
    Array.from({ length: pairs }, (_, i) => i).every(
      (i) => head[2 * i + empty] === 0 && isPrinted(head[2 * i + 1 - empty]!),
    );
  if (b === 0 && d === 0 && every(1)) return 'utf-16le';
  return a === 0 && c === 0 && every(0) ? 'utf-16be' : 'utf-8';
}

/** Text in pieces, as the bytes come. */
export async function* decoded(bytes: Bytes, head: Uint8Array): AsyncGenerator<string> {
  const encoding = encodingOf(head);
  if (encoding === 'utf-8') {
    // Faster than TextDecoder on pieces of a stream.
    const decoder = new StringDecoder('utf8');
    for await (const piece of bytes) yield decoder.write(piece as Buffer);
    const rest = decoder.end();
    if (rest !== '') yield rest;
    return;
  }
  const decoder = new TextDecoder(encoding);
  for await (const piece of bytes) yield decoder.decode(piece, { stream: true });
  yield decoder.decode();
}
