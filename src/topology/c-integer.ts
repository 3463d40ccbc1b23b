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

/** The value as a 32-bit signed integer (higher bits are dropped, as in C's conversion to int). */
export const cInt = (text: string): number => Number(BigInt.asIntN(32, cInteger(text)));

/** A hexadecimal number with or without 0x, at most 64 bits; 0 for text that holds none. */
export function cHex(text: string): bigint {
  const [, digits] = /^[ \t\n\v\f\r]*(?:0[xX])?([0-9a-fA-F]+)/.exec(text) ?? [];
  return digits === undefined ? 0n : BigInt.asUintN(64, BigInt(`0x${digits}`));
}
