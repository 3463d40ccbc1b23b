/**
 * IP addresses as bytes and as text, because a unique id carries 16 bytes and people read text.
 * Text follows RFC 5952 (lower case, the first longest run of at least two zero groups is `::`).
 */
import { isIPv4, isIPv6 } from 'node:net';
import { TuttiError } from '../errors/tutti-error.js';

function ipv4Bytes(text: string): number[] {
  return text.split('.').map(Number);
}

/** 4 bytes of an IPv4 address or 16 of an IPv6 address without zone, in network order. */
export function parseIpAddress(text: string): Uint8Array {
  if (isIPv4(text)) return Uint8Array.from(ipv4Bytes(text));
  if (!isIPv6(text) || text.includes('%')) {
    throw new TuttiError('invalidArgument', `'${text}' is not an IPv4 or IPv6 address.`);
  }
  const groupsOf = (part: string): number[] =>
    part === ''
      ? []
      : part.split(':').flatMap((group) => {
          if (!group.includes('.')) return [Number.parseInt(group, 16)];
          const [a, b, c, d] = ipv4Bytes(group) as [number, number, number, number];
          return [(a << 8) | b, (c << 8) | d];
        });
  const [head = '', tail] = text.split('::');
  const front = groupsOf(head);
  const back = tail === undefined ? [] : groupsOf(tail);
  const groups = [...front, ...new Array<number>(8 - front.length - back.length).fill(0), ...back];
  return Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 0xff]));
}

/** Inverse of `parseIpAddress` for 4 or 16 bytes. */
export function formatIpAddress(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join('.');
  const groups = Array.from({ length: 8 }, (_, index) => (bytes[2 * index]! << 8) | bytes[2 * index + 1]!);
  let runStart = -1;
  let runLength = 1;
  for (let start = 0; start < 8; start++) {
    let end = start;
    while (end < 8 && groups[end] === 0) end++;
    if (end - start > runLength) {
      runStart = start;
      runLength = end - start;
    }
  }
  const hex = groups.map((group) => group.toString(16));
  if (runStart < 0) return hex.join(':');
  return `${hex.slice(0, runStart).join(':')}::${hex.slice(runStart + runLength).join(':')}`;
}
