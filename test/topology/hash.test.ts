/**
 * The mixing hash of host and PCI ids.
 *
 * The expected values come from a separate program in Python, written from the description of the hash: state (1, 1),
 * the length, chunks of eight little-endian bytes, the four multipliers.
 */
import { describe, expect, it } from 'vitest';
import { hashBytes, hashId, hashText } from '#src/topology/hash.js';

const TEXTS: readonly (readonly [string, bigint])[] = [
  ['', 0x75b6431c590e86a2n],
  ['a', 0xf67f960500f37951n],
  ['abc', 0x751c1b124ef01f18n],
  ['0000:3b:00.0', 0xb9785b20a60820e5n],
  ['12345678', 0xc93e3fe6a418053fn],
  ['123456789', 0x5f1e19df19cbc6a2n],
  ['node-13f2c8a52-1c1e-4b9b-8f63-0d7c1a6c5e11', 0x3d17b3970d183a1dn],
  ['knoten-ä', 0x569df12d6e303826n],
];

describe('hash', () => {
  it('of texts', () => {
    for (const [text, expected] of TEXTS) expect(hashText(text), text).toBe(expected);
  });

  it('of bytes of every value, over many chunks', () => {
    expect(hashBytes(Uint8Array.from({ length: 256 }, (_, byte) => byte))).toBe(0xcff621e9fced3f1n);
  });

  it('of 64-bit ids, as their eight bytes', () => {
    expect([0n, 1n, 0xa088c20300c8a4fcn].map(hashId)).toEqual([
      0x9f8ef9bd0f23990en,
      0x4c4a56a0611d2ee2n,
      0x6b6a4cc815d9abeen,
    ]);
    expect(hashId(1n)).toBe(hashBytes(Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0)));
  });

  it('tells apart texts that differ in trailing zero bytes only', () => {
    expect(hashText('a')).not.toBe(hashText('a\0'));
  });
});
