/** Descriptors and the like that depend on the number of ranks alone: made once for each. */

/** `make` with a memory. */
export function byRanks<T>(make: (ranks: number) => T): (ranks: number) => T {
  const made = new Map<number, T>();
  return (ranks) => {
    let one = made.get(ranks);
    if (one === undefined) made.set(ranks, (one = make(ranks)));
    return one;
  };
}
