/**
 * The entries of an archive as a tree that detection can read, without unpacking it.
 */
import { TuttiError } from '../../errors/tutti-error.js';
import type { FileTree, TreeEntry } from './machine-files.js';
import { type ArchiveEntry, bytesAsText } from './tar.js';

interface Directory {
  readonly kind: 'directory';
  readonly children: Map<string, Node>;
}
type Node =
  | Directory
  | { readonly kind: 'file'; readonly bytes: Uint8Array }
  | { readonly kind: 'link'; readonly target: string };

/**
 * Files, links and directories of a tree at most: a whole /sys has some hundred thousand. A small archive of long paths
 * could ask for thousands of times as many.
 */
const MAX_NODES = 500_000;

/**
 * A tree of the entries; of several with one path the last counts, directories above them come by themselves. `file`
 * names the archive in messages.
 *
 * @throws TuttiError invalidArgument for a tree that no machine has
 */
export function archiveTree(entries: readonly ArchiveEntry[], file = 'the archive'): FileTree {
  const root: Directory = { kind: 'directory', children: new Map() };
  let count = 0;
  for (const entry of entries) {
    count += place(root, entry);
    if (count <= MAX_NODES) continue;
    throw new TuttiError(
      'invalidArgument',
      `${file} holds more than ${MAX_NODES} files and folders, more than a machine has in /sys and /proc; ` +
        'leave out of the archive what is not below /sys/class, /sys/devices and /sys/bus',
    );
  }
  const find = (path: string): Node | undefined => {
    let node: Node | undefined = root;
    for (const part of partsOf(path)) node = node?.kind === 'directory' ? node.children.get(part) : undefined;
    return node;
  };
  return {
    entry: (path): TreeEntry | undefined => {
      const node = find(path);
      if (node === undefined) return undefined;
      return node.kind === 'link' ? { kind: 'link', target: node.target } : { kind: node.kind };
    },
    text: (path) => {
      const node = find(path);
      return node?.kind === 'file' ? bytesAsText(node.bytes) : undefined;
    },
    names: (path) => {
      const node = find(path);
      return node?.kind === 'directory' ? [...node.children.keys()].sort() : undefined;
    },
  };
}

const partsOf = (path: string): string[] => path.split('/').filter((part) => part !== '');

/** Puts an entry in its place; returns how many nodes that made. */
function place(root: Directory, entry: ArchiveEntry): number {
  const parts = partsOf(entry.path);
  const last = parts.pop();
  if (last === undefined) return 0;
  let made = 0;
  let directory = root;
  for (const part of parts) {
    const next = directory.children.get(part);
    if (next?.kind === 'directory') {
      directory = next;
    } else {
      const child: Directory = { kind: 'directory', children: new Map() };
      directory.children.set(part, child);
      directory = child;
      made += 1;
    }
  }
  const old = directory.children.get(last);
  if (entry.kind === 'directory' && old?.kind === 'directory') return made;
  directory.children.set(
    last,
    entry.kind === 'directory' ? { kind: 'directory', children: new Map() } : entry,
  );
  return made + 1;
}
