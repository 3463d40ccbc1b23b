/** The name that somebody probably meant. */

/**
 * Nearest of `names` regardless of case, blanks, '_' and '-', if it is near enough to be meant.
 *
 * @param part of the letters that may differ; beyond that a suggestion would be a guess
 */
export function nearestName<T extends string>(
  text: string,
  names: readonly T[],
  part = 1 / 2,
): T | undefined {
  const plain = (name: string) => name.toLowerCase().replaceAll(/[\s_-]/g, '');
  const wanted = plain(text);
  let best: T | undefined;
  let bestDistance = Math.max(2, Math.ceil(wanted.length * part));
  for (const name of names) {
    const begins = wanted.length > 1 && plain(name).startsWith(wanted);
    const distance = begins ? Math.min(1, name.length - wanted.length) : editDistance(wanted, plain(name));
    if (distance < bestDistance) [best, bestDistance] = [name, distance];
  }
  return best;
}

/** Letters to insert, remove, replace or swap with their neighbour to turn one word into the other. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      let distance = Math.min(replace, last[j]! + 1, row[j - 1]! + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        distance = Math.min(distance, before[j - 2]! + 1);
      }
      row.push(distance);
    }
    [before, last] = [last, row];
  }
  return last[b.length]!;
}
