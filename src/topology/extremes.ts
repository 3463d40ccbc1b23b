/**
 * Least and greatest of lists that may have an entry per rank: as arguments of a function, as `Math.min(...values)`
 * takes them, a hundred thousand values are too many.
 */

/** Infinity for an empty list, as Math.min. */
export const leastOf = (values: readonly number[]): number =>
  values.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);

/** Minus infinity for an empty list, as Math.max. */
export const greatestOf = (values: readonly number[]): number =>
  values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
