/** Typed arrays as bits: what the plain reference computes with. */
import type { Buffer } from '#src/communicator/buffers.js';
import { ELEMENT_TYPES, type ElementType } from '#src/kernel/element-types.js';
import { arrayFor, encode } from '#src/kernel/numeric.js';

const UNSIGNED = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array } as const;

type UnsignedArray = Uint8Array | Uint16Array | Uint32Array | BigUint64Array;

function unsignedView(view: Buffer): UnsignedArray {
  const Unsigned = UNSIGNED[view.BYTES_PER_ELEMENT as 1 | 2 | 4 | 8] as new (
    memory: ArrayBufferLike,
    byteOffset: number,
    length: number,
  ) => UnsignedArray;
  return new Unsigned(view.buffer, view.byteOffset, view.length);
}

export function readBits(view: Buffer): bigint[] {
  const elements: ArrayLike<number | bigint> = unsignedView(view);
  return Array.from(elements, (element) => BigInt(element));
}

export function writeBits(view: Buffer, bits: readonly bigint[]): void {
  const target = unsignedView(view);
  for (const [i, element] of bits.entries()) {
    if (target instanceof BigUint64Array) target[i] = element;
    else target[i] = Number(element);
  }
}

/** A view of `count` elements that begins `offset` elements into fresh memory, with `offset + 1` behind it. */
export function elementView(type: ElementType, bytes: Uint8Array, offset: number, count: number): Buffer {
  const ArrayType = arrayFor(type) as unknown as new (
    buffer: ArrayBufferLike,
    byteOffset: number,
    length: number,
  ) => Buffer;
  return new ArrayType(bytes.buffer, bytes.byteOffset + offset * ELEMENT_TYPES[type].size, count);
}

/** Any bits at all (NaNs, infinities and subnormal numbers among them), or numbers that people use. */
export function randomBits(type: ElementType, count: number, plain: boolean, next: () => number): bigint[] {
  const { size, kind } = ELEMENT_TYPES[type];
  const word = () => BigInt(Math.floor(next() * 2 ** 32));
  return Array.from({ length: count }, () => {
    if (!plain) return BigInt.asUintN(size * 8, (word() << 32n) | word());
    if (kind === 'float') return encode(type, (next() - 0.5) * 8);
    return encode(type, Math.floor(next() * 200) - (kind === 'signed' ? 100 : 0));
  });
}
