/** Golden machines on disk: a folder with `topo.xml` and `golden*.json.gz`. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { GoldenFile } from './format.js';

export interface Machine {
  readonly name: string;
  readonly folder: string;
  /** Names of its golden files, sorted. */
  readonly files: readonly string[];
}

/**
 * The machines of a folder: itself, or its subfolders.
 *
 * @throws Error naming the folder if there is none, or if a folder has golden files but no `topo.xml`.
 */
export function findMachines(folder: string): Machine[] {
  if (!existsSync(folder) || !statSync(folder).isDirectory()) throw new Error(`${folder} is not a folder`);
  const own = machineIn(folder);
  if (own !== undefined) return [own];
  const machines = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => machineIn(join(folder, entry.name)))
    .filter((machine) => machine !== undefined)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  if (machines.length === 0) {
    throw new Error(
      `no machine in ${folder}: a machine is a folder with topo.xml and golden*.json.gz, and FOLDER is such a ` +
        'folder or one that holds them',
    );
  }
  return machines;
}

function machineIn(folder: string): Machine | undefined {
  const files = readdirSync(folder)
    .filter((file) => /^golden.*\.json\.gz$/.test(file))
    .sort();
  if (files.length === 0) return undefined;
  if (!existsSync(join(folder, 'topo.xml'))) {
    throw new Error(`${folder} has golden files but no topo.xml`);
  }
  return { name: basename(resolve(folder)), folder, files };
}

/**
 * Reads one golden file.
 *
 * @throws Error naming the file if it cannot be read, unpacked or parsed, or has no parameters.
 */
export function readGolden(folder: string, file: string): GoldenFile {
  const path = join(folder, file);
  try {
    const golden = JSON.parse(gunzipSync(readFileSync(path)).toString('utf8')) as GoldenFile;
    if (typeof golden?.oracle?.nRanks !== 'number') throw new Error('it has no oracle.nRanks');
    return golden;
  } catch (cause) {
    throw new Error(`cannot read ${path}: ${(cause as Error).message}`, { cause });
  }
}

/** The machine's topology as text. */
export const readTopology = (folder: string): string => readFileSync(join(folder, 'topo.xml'), 'utf8');

/** Describes the last node where that differs from the others. */
export const LAST_TOPOLOGY = 'topo-last.xml';

/**
 * The topology of the last node as text.
 *
 * @throws Error naming the file that is missing.
 */
export function readLastTopology(folder: string): string {
  const path = join(folder, LAST_TOPOLOGY);
  if (!existsSync(path)) throw new Error(`the last node differs, but there is no ${path} that describes it`);
  return readFileSync(path, 'utf8');
}
