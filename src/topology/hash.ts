/**
 * NCCL's 64-bit mixing hash, used for host hashes and for the ids of PCI devices above a NIC.
 *
 * Two words are mixed with every chunk of up to 8 little-endian bytes; constants and shifts are those of the format,
 * so that files and logs of NCCL and of tutti name a host alike. (NCCL 2.30.7, bitops.h.)
 */

const MASK = (1n << 64n) - 1n;
const MIX_A = 0x9de62bbc8cef3ce3n;
const MIX_B = 0x485cd6311b599e79n;
const FINAL_B = 0xbac3bd562846de6bn;
const FINAL_H = 0x995a187a14e7b445n;
const CHUNK_BYTES = 8;

/** Hash of a byte string. */
export function hashBytes(bytes: Uint8Array): bigint {
  let a = 1n ^ BigInt(bytes.length);
  let b = 1n;
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) {
    let chunk = 0n;
    for (let i = Math.min(start + CHUNK_BYTES, bytes.length) - 1; i >= start; i--) {
      chunk = (chunk << 8n) | BigInt(bytes[i]!);
    }
    a = (a + b) & MASK;
    b ^= a;
    a ^= a >> 31n;
    a = (a * MIX_A) & MASK;
    b ^= b >> 32n;
    b = (b * MIX_B) & MASK;
    a = (a + chunk) & MASK;
  }
  let h = a ^ (a >> 31n);
  h = (h * FINAL_B) & MASK;
  h = (h + b) & MASK;
  h ^= h >> 32n;
  return (h * FINAL_H) & MASK;
}

/** Hash of a text (UTF-8, without a terminator). */
export const hashText = (text: string): bigint => hashBytes(new TextEncoder().encode(text));

/** Hash of a 64-bit number as 8 little-endian bytes. */
export function hashId(id: bigint): bigint {
  const bytes = new Uint8Array(CHUNK_BYTES);
  new DataView(bytes.buffer).setBigUint64(0, id, true);
  return hashBytes(bytes);
}
