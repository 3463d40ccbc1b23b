/**
 * Numbers as C's printf writes them.
 */

/**
 * `%.Nf`: of two decimal numbers that are equally near, the even one (`toFixed` takes the larger one).
 *
 * @param value a 32-bit float, so that its multiples by a power of ten up to a million are exact
 */
export function fixedText(value: number, digits: number): string {
  const scaled = Math.abs(value) * 10 ** digits;
  const below = Math.floor(scaled);
  if (scaled - below !== 0.5) return value.toFixed(digits);
  const even = below % 2 === 0 ? below : below + 1;
  return ((Math.sign(value) * even) / 10 ** digits).toFixed(digits);
}
