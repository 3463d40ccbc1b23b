/**
 * Refuses to write a file over one that is read, or over one that is written: the user has mixed up two names.
 *
 * Files that variables name are NCCL's way, in which a topology file may be the dump of itself.
 */
import { realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { Environment } from '../../topology/settings.js';
import { STANDARD, wrong } from './machine-options.js';
import type { TopoOptions } from './options.js';

/** @throws TuttiError invalidArgument naming both roles of a file */
export function checkFileRoles(options: TopoOptions, env: Environment): void {
  const roles = new Map<string, string>();
  const inputs = [
    ...options.sources.map(
      ({ kind, name }) => [kind === 'file' ? 'the topology file' : '--from', name] as const,
    ),
    ['NCCL_TOPO_FILE', env.NCCL_TOPO_FILE] as const,
    ['NCCL_GRAPH_FILE', env.NCCL_GRAPH_FILE] as const,
  ];
  for (const [role, name] of inputs) {
    const file = name && name !== STANDARD ? identityOf(name) : undefined;
    if (file !== undefined && !roles.has(file)) roles.set(file, role);
  }
  const outputs = [
    ['--svg', options.svg],
    ['--dump', options.dump],
    ['--graph-dump', options.graphDump],
    ['--record', options.record],
  ] as const;
  for (const [role, name] of outputs) {
    const file = name === undefined || name === STANDARD ? undefined : identityOf(name);
    if (file === undefined) continue;
    const other = roles.get(file);
    if (other !== undefined) {
      throw wrong(`${role} ${name}: ${other} is the same file, which would be lost; give another name`);
    }
    roles.set(file, role);
  }
}

/** The same for all names of a file; undefined for what is no file (a device, a pipe, a folder). */
function identityOf(name: string): string | undefined {
  try {
    const stat = statSync(name);
    return stat.isFile() ? `${stat.dev}:${stat.ino}` : undefined;
  } catch {
    try {
      return join(realpathSync(dirname(resolve(name))), basename(name));
    } catch {
      return undefined;
    }
  }
}
