/**
 * How much the tests do. By default the long ones look at a part of what they can look at, so that the suite ends in
 * minutes on two cores; `npm run test:full` (TUTTI_TEST_FULL=1) looks at all of it, before a release say.
 */

/** The suite does everything that it can. */
export const FULL = process.env.TUTTI_TEST_FULL === '1';

/** What a test takes, by how much the suite does. */
export function effort<T>(short: T, full: T): T {
  return FULL ? full : short;
}

/** Every `step`-th of a list, with its first and last; all of it when the suite does everything. */
export function sample<T>(list: readonly T[], step: number): readonly T[] {
  return FULL ? list : list.filter((_, at) => at % step === 0 || at === list.length - 1);
}
