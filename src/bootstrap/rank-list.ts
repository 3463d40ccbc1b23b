/** Rank lists in messages: `rank 3`, `ranks 0, 2-5`. Runs are folded so that 4000 missing ranks stay readable. */

/** Most runs that a message names; the rest is counted. */
const MAX_RUNS = 20;

/** Text for ranks in ascending order. */
export function formatRanks(ranks: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const rank of ranks) {
    const last = runs.at(-1);
    if (last !== undefined && last[1] === rank - 1) last[1] = rank;
    else runs.push([rank, rank]);
  }
  const shown = runs.slice(0, MAX_RUNS).map(([from, to]) => {
    if (from === to) return `${from}`;
    return to === from + 1 ? `${from}, ${to}` : `${from}-${to}`;
  });
  const hidden = runs.slice(MAX_RUNS).reduce((sum, [from, to]) => sum + to - from + 1, 0);
  return `${ranks.length === 1 ? 'rank' : 'ranks'} ${shown.join(', ')}${hidden > 0 ? ` and ${hidden} more` : ''}`;
}
