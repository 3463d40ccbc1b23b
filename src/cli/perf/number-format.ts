/**
 * C's `%f`, `%e` and `%g` for finite and infinite doubles, exact to the last digit.
 *
 * JavaScript's toFixed rounds exact halves away from zero, C rounds them to even; tables that are compared
 * with those of nccl-tests need the latter.
 */

/** Significant digits asked of toExponential: the maximum, enough for any double a benchmark produces. */
const EXACT_DIGITS = 100;

interface Decimal {
  readonly negative: boolean;
  /** Digits without point; the value is 0.d1d2d3... * 10^(exponent + 1). */
  readonly digits: string;
  readonly exponent: number;
}

function decimal(x: number): Decimal {
  const [mantissa, exponent] = Math.abs(x).toExponential(EXACT_DIGITS).split('e');
  return {
    negative: x < 0 || Object.is(x, -0),
    digits: mantissa!.replace('.', ''),
    exponent: Number(exponent),
  };
}

/** The first `keep` digits, rounded half to even; one digit longer when the rounding carries out. */
function roundDigits(digits: string, keep: number): { digits: string; carried: boolean } {
  if (keep < 0) return { digits: '', carried: false };
  const head = digits.slice(0, keep).padEnd(keep, '0');
  const next = digits.charCodeAt(keep) - 48;
  const hasRest = /[1-9]/.test(digits.slice(keep + 1));
  const isOdd = head !== '' && (head.charCodeAt(head.length - 1) - 48) % 2 === 1;
  const up = next > 5 || (next === 5 && (hasRest || isOdd));
  if (!up) return { digits: head, carried: false };
  const rounded = String(BigInt(head || '0') + 1n).padStart(keep, '0');
  return { digits: rounded, carried: rounded.length > keep };
}

function special(x: number): string | undefined {
  if (Number.isNaN(x)) return 'nan';
  if (!Number.isFinite(x)) return x < 0 ? '-inf' : 'inf';
  return undefined;
}

/** `%.{decimals}f` */
export function formatFixed(x: number, decimals: number): string {
  const word = special(x);
  if (word !== undefined) return word;
  const { negative, digits, exponent } = decimal(x);
  const keep = exponent + 1 + decimals;
  const rounded = roundDigits(digits, keep);
  const padded = (rounded.digits || '0').padStart(decimals + 1, '0');
  const whole = padded.slice(0, padded.length - decimals);
  const text = decimals === 0 ? whole : `${whole}.${padded.slice(padded.length - decimals)}`;
  return negative ? `-${text}` : text;
}

/** `%.{decimals}e`: at least two digits of exponent. */
export function formatExponent(x: number, decimals: number): string {
  const word = special(x);
  if (word !== undefined) return word;
  const { negative, digits, exponent } = decimal(x);
  const rounded = roundDigits(digits, decimals + 1);
  const shown = rounded.digits.slice(0, decimals + 1);
  const mantissa = decimals === 0 ? shown : `${shown[0]}.${shown.slice(1)}`;
  const power = rounded.carried ? exponent + 1 : exponent;
  const sign = power < 0 ? '-' : '+';
  return `${negative ? '-' : ''}${mantissa}e${sign}${String(Math.abs(power)).padStart(2, '0')}`;
}

/** `%g`: six significant digits, trailing zeros dropped, exponent form outside 1e-4 .. 1e6. */
export function formatGeneral(x: number): string {
  const word = special(x);
  if (word !== undefined) return word;
  const significant = 6;
  const scientific = formatExponent(x, significant - 1);
  const power = x === 0 ? 0 : Number(scientific.slice(scientific.indexOf('e') + 1));
  if (power < -4 || power >= significant) {
    return scientific.replace(/\.?0*e/, 'e');
  }
  const text = formatFixed(x, significant - 1 - power);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/**
 * A number right-aligned in `width` characters with as many decimals (2, 1, 0) as fit, else in exponent form
 * with one decimal (`width` 7 and more) or none. Source: the number columns of nccl-tests 2.19.6.
 */
export function formatToFit(x: number, width: number): string {
  for (const decimals of [2, 1, 0]) {
    const text = formatFixed(x, decimals);
    if (text.length <= width) return text.padStart(width);
  }
  return formatExponent(x, width >= 7 ? 1 : 0).padStart(width);
}
