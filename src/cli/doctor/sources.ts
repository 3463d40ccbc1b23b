/**
 * Files and folders as sources of text: opened when they are read, in pieces, and never held as a whole.
 */
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import type { Source } from '../../doctor/read/read-job.js';
import { TuttiError } from '../../errors/tutti-error.js';

export interface NamedFile {
  /** Name in the report: relative to its folder. */
  readonly name: string;
  readonly path: string;
  /** Named by itself, not found in a folder. */
  readonly isNamed: boolean;
}

/** Bytes of one piece: large enough that the cost per piece does not count, small enough to stay in a cache. */
const PIECE = 1 << 20;

/** More files than any collection of logs has. */
const MAX_FILES = 100_000;

/** The files that paths name, folders with all that is in them. Throws `systemError` for what is not there. */
export async function filesOf(paths: readonly string[]): Promise<NamedFile[]> {
  const files: NamedFile[] = [];
  for (const path of paths) {
    if (path === '-') {
      files.push({ name: '-', path, isNamed: true });
      continue;
    }
    const found = await stat(path).catch((cause: NodeJS.ErrnoException) => {
      throw new TuttiError('systemError', `cannot read ${path}: ${reasonOf(cause)}`, { cause });
    });
    if (found.isDirectory()) await addFolder(path, path, files);
    else files.push({ name: path, path, isNamed: true });
  }
  return withShortNames(files, paths.length > 1);
}

const reasonOf = ({ code, message }: NodeJS.ErrnoException): string =>
  code === 'ENOENT' ? 'there is no such file or folder' : code === 'EACCES' ? 'access is denied' : message;

async function addFolder(root: string, folder: string, files: NamedFile[]): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.name.startsWith('.') || entry.name === 'node_modules' || files.length >= MAX_FILES) continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await addFolder(root, path, files);
    else if (entry.isFile()) files.push({ name: relative(root, path), path, isNamed: false });
  }
}

/** Base names where they tell the files apart. */
function withShortNames(files: readonly NamedFile[], isList: boolean): NamedFile[] {
  const bases = files.map(({ name }) => basename(name));
  const isClear = new Set(bases).size === bases.length;
  if (isClear) return files.map((file, i) => ({ ...file, name: bases[i]! }));
  return isList ? files.map((file) => ({ ...file, name: file.path })) : [...files];
}

/** A file as a source. What cannot be opened is reported to `note` and has no text. */
export function sourceOf({ name, path }: NamedFile, note: (text: string) => void): Source {
  return { name, text: piecesOf(path, note) };
}

async function* piecesOf(path: string, note: (text: string) => void): AsyncGenerator<string> {
  const stream =
    path === '-'
      ? process.stdin.setEncoding('utf8')
      : createReadStream(path, { encoding: 'utf8', highWaterMark: PIECE });
  try {
    for await (const piece of stream) yield piece as string;
  } catch (error) {
    note(`cannot read ${path}: ${reasonOf(error as NodeJS.ErrnoException)}`);
  }
}
