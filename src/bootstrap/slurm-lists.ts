/**
 * The list notations of Slurm's variables.
 *
 * Hosts: `node[01-03,7],gpu5`, `rack[0-1]node[00-15]` (several brackets, leading zeros count).
 * Tasks per node: `4(x2),3` is 4, 4, 3. Source: Slurm's documentation of hostlist expressions and of
 * SLURM_TASKS_PER_NODE.
 */

/** The first host of a host list; undefined when the text is no host list. */
export function firstSlurmHost(list: string): string | undefined {
  const item = /^((?:[A-Za-z0-9._-]|\[\d[\d,-]*\])+)(?:,|$)/.exec(list.trim())?.[1];
  return item?.replace(/\[(\d+)[^\]]*\]/g, '$1');
}

/** Number of tasks of node `node` (counted from 0); undefined when the text does not tell. */
export function slurmTasksOfNode(list: string, node: number): number | undefined {
  let passed = 0;
  for (const part of list.split(',')) {
    const match = /^(\d+)(?:\(x(\d+)\))?$/.exec(part.trim());
    if (match === null) return undefined;
    passed += Number(match[2] ?? 1);
    if (node < passed) return Number(match[1]);
  }
  return undefined;
}
