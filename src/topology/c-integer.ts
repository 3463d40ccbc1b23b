/**
 * Integers as C reads them with base 0: decimal, 0x hexadecimal, leading 0 octal; what follows the digits is ignored
 * and no digits at all give 0. Files and variables that NCCL accepts are read by this rule.
 */

const FORM = /^[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)/;

/** The value; 0 for text that holds no number. */
export function cInteger(text: string): bigint {
  const [, sign, digits] = FORM.exec(text) ?? [];
  if (digits === undefined) return 0n;
  const octal = /^0[0-7]+$/.test(digits);
  const value = BigInt(octal ? `0o${digits.slice(1)}` : digits);
  return sign === '-' ? -value : value;
}

/**
 * The value as C gives it to an `int`: what does not fit into 64 bits becomes the nearest number that does, then the
 * bits above 32 are dropped (so 99999999999999999999 is -1).
 */
export const cInt = (text: string): number => Number(BigInt.asIntN(32, nearest(cInteger(text), INT64)));

/** A hexadecimal number with or without 0x; 0 for text that holds none, 64 set bits for what is longer. */
export function cHex(text: string): bigint {
  const [, digits] = /^[ \t\n\v\f\r]*(?:0[xX])?([0-9a-fA-F]+)/.exec(text) ?? [];
  return digits === undefined ? 0n : nearest(BigInt(`0x${digits}`), UINT64);
}

type Range = readonly [least: bigint, most: bigint];
const INT64: Range = [-(1n << 63n), (1n << 63n) - 1n];
const UINT64: Range = [0n, (1n << 64n) - 1n];

const nearest = (value: bigint, [least, most]: Range): bigint =>
  value < least ? least : value > most ? most : value;
