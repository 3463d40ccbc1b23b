/**
 * Pairs of GPUs with the same answer, said together: `GPUs 0-3 with 4-7`, `GPUs 0-3 with each other`.
 */
import { rangesText } from '../quantities.js';

/**
 * Text for unordered pairs of ranks. GPUs with the same partners share a part.
 *
 * @param pairs each with the lower rank first, without repetition
 */
export function pairsText(pairs: readonly (readonly [number, number])[]): string {
  const partners = new Map<number, Set<number>>();
  const add = (a: number, b: number) => {
    const own = partners.get(a) ?? new Set();
    partners.set(a, own.add(b));
  };
  for (const [a, b] of pairs) {
    add(a, b);
    add(b, a);
  }
  // GPUs are alike if they have the same partners, apart from each other.
  const ranks = [...partners.keys()].sort((a, b) => a - b);
  const group = new Map<number, number>();
  for (const rank of ranks) {
    const first = ranks.find((other) => other <= rank && isAlike(other, rank, partners))!;
    group.set(rank, group.get(first) ?? first);
  }
  const members = (first: number) => ranks.filter((rank) => group.get(rank) === first);
  const parts: string[] = [];
  const firsts = [...new Set(group.values())];
  const isInside = (first: number) => {
    const [a, b] = members(first);
    return b !== undefined && partners.get(a!)!.has(b);
  };
  const across = (first: number) =>
    firsts.filter((other) => other > first && partners.get(first)!.has(other));
  // A group without pairs inside and with all later groups, and these among each other, is one clique.
  const clique = firsts.filter((first) => isInside(first) || members(first).length === 1);
  const isClique =
    clique.length === firsts.length &&
    firsts.every((first) => across(first).length === firsts.filter((other) => other > first).length);
  if (isClique)
    return ranks.length === 2
      ? `GPU ${ranks[0]} with GPU ${ranks[1]}`
      : `GPUs ${rangesText(ranks, ', ')} with each other`;
  for (const first of firsts) {
    const own = members(first);
    if (isInside(first)) parts.push(`${gpusText(own)} with each other`);
    const others = across(first).flatMap(members);
    if (others.length > 0) parts.push(`${gpusText(own)} with ${gpusText(others)}`);
  }
  return parts.join('; ');
}

/** Both have the same partners, apart from each other. */
function isAlike(a: number, b: number, partners: ReadonlyMap<number, ReadonlySet<number>>): boolean {
  if (a === b) return true;
  const ofA = partners.get(a)!;
  const ofB = partners.get(b)!;
  const without = (set: ReadonlySet<number>, one: number) => set.size - (set.has(one) ? 1 : 0);
  if (without(ofA, b) !== without(ofB, a)) return false;
  for (const rank of ofA) if (rank !== b && !ofB.has(rank)) return false;
  return true;
}

/** `GPU 3`, `GPUs 0-3`. */
export const gpusText = (ranks: readonly number[]): string =>
  `GPU${ranks.length > 1 ? 's' : ''} ${rangesText(ranks, ', ')}`;
