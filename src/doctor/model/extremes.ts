/** Extremes of lists of any length: arguments of `Math.max` lie on the stack, and lists of a large job do not fit there. */

/** The largest number of a list; `least` where it is empty or all are below. */
export function largest(list: Iterable<number>, least = Number.NEGATIVE_INFINITY): number {
  let found = least;
  for (const one of list) if (one > found) found = one;
  return found;
}

/** The smallest number of a list; `most` where it is empty or all are above. */
export function smallest(list: Iterable<number>, most = Number.POSITIVE_INFINITY): number {
  let found = most;
  for (const one of list) if (one < found) found = one;
  return found;
}
