/** Which files to check, in an order in which the slow ones do not come last. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Job } from './check.js';
import type { Machine } from './folder.js';

/** An entry of index.json. */
export interface IndexEntry {
  readonly machine: string;
  readonly file: string;
  readonly gpusPerNode: number;
  readonly nRanks: number;
  readonly nodes: number;
  readonly traysPerClique: number;
}

/** The entries of a folder's index.json; none if there is no such file. */
export function readIndex(folder: string): IndexEntry[] {
  const path = join(folder, 'index.json');
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as IndexEntry[]) : [];
}

/** All files of the machines, large systems first: a search over many GPUs and NICs takes longest. */
export function jobsOf(machines: readonly Machine[]): Job[] {
  const jobs = machines.flatMap(({ name, folder, files }) =>
    files.map((file) => ({ machine: name, folder, file })),
  );
  const sizes = new Map<string, number>();
  for (const folder of new Set(machines.map((machine) => join(machine.folder, '..')))) {
    for (const { machine, file, gpusPerNode, traysPerClique, nodes } of readIndex(folder)) {
      sizes.set(`${machine}/${file}`, gpusPerNode * traysPerClique + (nodes > traysPerClique ? 0.5 : 0));
    }
  }
  const sizeOf = ({ machine, file }: Job) => sizes.get(`${machine}/${file}`) ?? 0;
  return jobs.sort((a, b) => sizeOf(b) - sizeOf(a));
}
