/**
 * A directory of the file system as a tree of entries: the root directory for the live machine, any other for a
 * recording that was unpacked.
 */
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
} from 'node:fs';
import type { FileTree, TreeEntry } from './machine-files.js';

/** Bytes read of one file at most: /proc/cpuinfo of a large machine has about one million. */
const MAX_FILE_BYTES = 4 << 20;

/** Bytes asked for at a time: files of sysfs have one page. */
const READ_BYTES = 4096;

/** Entries below a directory. Absent and unreadable files are the same; nothing throws. */
export function directoryTree(root: string): FileTree {
  const base = root.replace(/\/+$/, '');
  return {
    entry: (path) => orUndefined(() => entryOf(`${base}${path}`)),
    text: (path) => orUndefined(() => textOf(`${base}${path}`)),
    names: (path) => orUndefined(() => readdirSync(`${base}${path}`).sort()),
  };
}

function orUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function entryOf(path: string): TreeEntry | undefined {
  const stat = lstatSync(path);
  if (stat.isSymbolicLink()) return { kind: 'link', target: readlinkSync(path) };
  if (stat.isDirectory()) return { kind: 'directory' };
  // Pipes and devices of a foreign directory are nothing to read.
  return stat.isFile() ? { kind: 'file' } : undefined;
}

function textOf(path: string): string | undefined {
  // A file that was exchanged for a link or a pipe after the look at it is refused, and nothing waits.
  const fd = openSync(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
  try {
    if (!fstatSync(fd).isFile()) return undefined;
    const parts: Buffer[] = [];
    for (let total = 0; total < MAX_FILE_BYTES; ) {
      const part = Buffer.alloc(READ_BYTES);
      const count = readSync(fd, part, 0, READ_BYTES, null);
      if (count === 0) break;
      parts.push(part.subarray(0, count));
      total += count;
    }
    return Buffer.concat(parts).toString('latin1');
  } finally {
    closeSync(fd);
  }
}
