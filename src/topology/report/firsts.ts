/**
 * The first of each kind in a list, in its order; time grows with the list, so that lists of all nodes are fine.
 */

/** Items whose key no item before them has. */
export function firstsBy<T>(items: readonly T[], key: (item: T) => unknown): T[] {
  const known = new Set<unknown>();
  return items.filter((item) => {
    const own = key(item);
    const isNew = !known.has(own);
    known.add(own);
    return isNew;
  });
}
