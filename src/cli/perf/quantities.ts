/**
 * Numbers and sizes as users of nccl-tests write them.
 *
 * Sizes are decimal numbers, fractions allowed, with an optional K, M or G of either case (powers of 1024;
 * a following B or iB is tolerated); the product is truncated to whole bytes. Integers follow C: 0x for
 * hexadecimal, a leading 0 for octal. What is not a number is an error here, where nccl-tests reads 0.
 */
import { TuttiError } from '../../errors/tutti-error.js';

const UNIT: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };

/** Bytes of a size such as `8`, `1.5K`, `32M`, `1G`. `what` names the option in the error. */
export function parseSize(text: string, what: string): number {
  const match = /^(\d+\.?\d*|\.\d+)(?:([kmg])(?:i?b)?)?$/i.exec(text.trim());
  const bytes =
    match === null ? Number.NaN : Math.trunc(Number(match[1]) * UNIT[(match[2] ?? '').toLowerCase()]!);
  if (!Number.isSafeInteger(bytes)) {
    throw new TuttiError(
      'invalidArgument',
      `${what}: '${text}' is not a size; write bytes with an optional K, M or G, such as 8, 1.5K or 32M`,
    );
  }
  return bytes;
}

/** An integer of C syntax between `least` and `most`. */
export function parseInteger(
  text: string,
  what: string,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
): number {
  const match = /^([+-]?)(0x[0-9a-f]+|0[0-7]*|[1-9]\d*)$/i.exec(text.trim());
  const digits = match?.[2] ?? '';
  const isOctal = /^0[0-7]+$/.test(digits);
  const magnitude = match === null ? Number.NaN : isOctal ? Number.parseInt(digits, 8) : Number(digits);
  const value = match?.[1] === '-' ? 0 - magnitude : magnitude;
  if (!Number.isSafeInteger(value)) {
    throw new TuttiError('invalidArgument', `${what}: '${text}' is not an integer`);
  }
  if (value < least || value > most) {
    const range = most === Number.MAX_SAFE_INTEGER ? `at least ${least}` : `between ${least} and ${most}`;
    throw new TuttiError('invalidArgument', `${what}: ${value} is out of range; it must be ${range}`);
  }
  return value;
}
