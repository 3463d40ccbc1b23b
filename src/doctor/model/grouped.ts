/** Lists by key, in the order of their first members; in time proportional to the length of the list. */
export function grouped<T, K>(list: Iterable<T>, key: (one: T) => K): Map<K, T[]> {
  const found = new Map<K, T[]>();
  for (const one of list) {
    const own = key(one);
    const known = found.get(own);
    if (known === undefined) found.set(own, [one]);
    else known.push(one);
  }
  return found;
}
