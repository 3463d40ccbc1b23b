/**
 * Files and folders as sources of text: opened when they are read, in pieces, and never held as a whole.
 */
import { createReadStream } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import type { Source } from '../../doctor/read/read-job.js';
import { TuttiError } from '../../errors/tutti-error.js';
import { decoded } from './decode.js';
import { withoutPackedCopies } from './packed-copies.js';
import { type Bytes, isTar, unpacked } from './unpack.js';
import { tarFiles } from './untar.js';

export interface NamedFile {
  /** Name in the report: relative to its folder. */
  readonly name: string;
  readonly path: string;
  /** Named by itself, not found in a folder. */
  readonly isNamed: boolean;
  /** It can be read only once: the standard input, a pipe. */
  readonly isStream: boolean;
}

/** Bytes of one piece: large enough that the cost per piece does not count, small enough to stay in a cache. */
const PIECE = 1 << 20;

/** More files than any collection of logs has. */
const MAX_FILES = 100_000;

/**
 * The files that paths name, folders with all that is in them, and without packed copies of others, of which `note` is
 * told. Folders that cannot be opened are told to `fail`. Throws `systemError` for what is not there.
 */
export async function filesOf(
  paths: readonly string[],
  fail: (text: string) => void,
  note: (text: string) => void = () => {},
): Promise<NamedFile[]> {
  const files: NamedFile[] = [];
  for (const path of paths) {
    if (path === '-') {
      files.push({ name: '-', path, isNamed: true, isStream: true });
      continue;
    }
    const found = await stat(path).catch((cause: NodeJS.ErrnoException) => {
      throw new TuttiError('systemError', `cannot read ${path}: ${reasonOf(cause)}`, { cause });
    });
    if (found.isDirectory()) await addFolder({ root: path, files, fail, passed: new Set() }, path);
    else files.push({ name: path, path, isNamed: true, isStream: !found.isFile() });
  }
  return withShortNames(await withoutPackedCopies(files, bytesOf, note), paths.length > 1);
}

const reasonOf = ({ code, message }: NodeJS.ErrnoException): string =>
  code === 'ENOENT'
    ? 'there is no such file or folder'
    : code === 'EACCES'
      ? 'access is denied'
      : code === 'ELOOP'
        ? 'its links lead in a circle'
        : message;

interface Walk {
  readonly root: string;
  readonly files: NamedFile[];
  readonly fail: (text: string) => void;
  /** Folders that were entered, by their true names: links may lead in circles. */
  readonly passed: Set<string>;
}

async function addFolder(walk: Walk, folder: string): Promise<void> {
  const { root, files, fail, passed } = walk;
  try {
    const real = await realpath(folder);
    if (passed.has(real)) return;
    passed.add(real);
    const entries = await readdir(folder, { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (entry.name.startsWith('.') || entry.name === 'node_modules' || files.length >= MAX_FILES) continue;
      const path = join(folder, entry.name);
      // Links that lead nowhere are no loss; pipes and devices are no logs.
      const found = entry.isSymbolicLink() ? await stat(path).catch(() => entry) : entry;
      if (found.isDirectory()) await addFolder(walk, path);
      else if (found.isFile())
        files.push({ name: relative(root, path), path, isNamed: false, isStream: false });
    }
  } catch (error) {
    fail(`cannot read ${folder}: ${reasonOf(error as NodeJS.ErrnoException)}`);
  }
}

/** Base names where they tell the files apart. */
function withShortNames(files: readonly NamedFile[], isList: boolean): NamedFile[] {
  const bases = files.map(({ name }) => basename(name));
  const isClear = new Set(bases).size === bases.length;
  if (isClear) return files.map((file, i) => ({ ...file, name: bases[i]! }));
  return isList ? files.map((file) => ({ ...file, name: file.path })) : [...files];
}

/** Files as sources; an archive is one for each file in it. What cannot be read throws `systemError` when it is read. */
export async function* sourcesOf(files: readonly NamedFile[]): AsyncGenerator<Source> {
  for (const { name, path } of files) {
    let opened: Awaited<ReturnType<typeof unpacked>>;
    try {
      opened = await unpacked(bytesOf(path));
    } catch (error) {
      yield { name, text: failing(error) };
      continue;
    }
    if (isTar(opened.head)) yield* archived(name, opened.bytes);
    else yield { name, text: decoded(opened.bytes, opened.head) };
  }
}

async function* archived(archive: string, bytes: Bytes): AsyncGenerator<Source> {
  try {
    for await (const { name, bytes: content } of tarFiles(bytes)) {
      if (basename(name).startsWith('.')) continue; // of the system that packed it
      const own = `${archive}/${name}`;
      try {
        const { head, bytes: inner } = await unpacked(content);
        yield { name: own, text: decoded(inner, head) };
      } catch (error) {
        yield { name: own, text: failing(error) };
      }
    }
  } catch (error) {
    yield { name: archive, text: failing(error) };
  }
}

// biome-ignore lint/correctness/useYield: a source that has nothing but its failure
async function* failing(error: unknown): AsyncGenerator<string> {
  throw error;
}

async function* bytesOf(path: string): AsyncGenerator<Uint8Array> {
  const stream = path === '-' ? process.stdin : createReadStream(path, { highWaterMark: PIECE });
  try {
    for await (const piece of stream) yield piece as Buffer;
  } catch (error) {
    throw new TuttiError('systemError', `cannot read ${path}: ${reasonOf(error as NodeJS.ErrnoException)}`, {
      cause: error,
    });
  }
}
