/** Groups of processes that share communicators, directly or by way of others. */
import type { NcclProcess } from './process.js';

/** The groups, each in the order of the processes. Processes without a communicator of several ranks are in none. */
export function communicatorGroups(processes: readonly NcclProcess[]): NcclProcess[][] {
  const parent = new Map<NcclProcess, NcclProcess>();
  const find = (one: NcclProcess): NcclProcess => {
    let root = one;
    while (parent.get(root) !== root) root = parent.get(root)!;
    parent.set(one, root);
    return root;
  };
  const byId = new Map<string, NcclProcess>();
  for (const process of processes) {
    for (const { commId, size } of process.members) {
      if (commId === undefined || size === 1) continue;
      if (!parent.has(process)) parent.set(process, process);
      const other = byId.get(commId);
      if (other === undefined) byId.set(commId, process);
      else parent.set(find(process), find(other));
    }
  }
  const lists = new Map<NcclProcess, NcclProcess[]>();
  for (const process of parent.keys()) {
    const root = find(process);
    const list = lists.get(root);
    if (list === undefined) lists.set(root, [process]);
    else list.push(process);
  }
  return [...lists.values()];
}
