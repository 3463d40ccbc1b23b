/** C's `%g`, in which graph files write bandwidths and latencies. */

const DIGITS = 6;

/**
 * A finite number with six significant digits, without zeros at the end; with an exponent of at least two digits below
 * 1e-4 and from 1e6.
 */
export function generalFormat(value: number): string {
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  const [mantissa, exponentText] = sixDigits(value).split('e') as [string, string];
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent >= DIGITS) {
    const size = String(Math.abs(exponent)).padStart(2, '0');
    return `${withoutZeros(mantissa)}e${exponent < 0 ? '-' : '+'}${size}`;
  }
  return withoutZeros(Number(`${mantissa}e${exponent}`).toFixed(DIGITS - 1 - exponent));
}

/** Digits and exponent; halfway cases go to the even digit as in C, where JavaScript goes up. */
function sixDigits(value: number): string {
  const rounded = value.toExponential(DIGITS - 1);
  const exact = value.toExponential(MOST_DIGITS);
  const [mantissa, exponent] = exact.split('e') as [string, string];
  const kept = mantissa.slice(0, mantissa.indexOf('.') + DIGITS);
  const isHalfway = /^50*$/.test(mantissa.slice(kept.length));
  return isHalfway && Number(kept.at(-1)) % 2 === 0 ? `${kept}e${exponent}` : rounded;
}

/** Digits after the point that `toExponential` gives at most: a number halfway between two of six digits has fewer. */
const MOST_DIGITS = 100;

const withoutZeros = (text: string): string => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);
