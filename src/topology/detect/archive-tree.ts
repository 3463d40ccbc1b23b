/**
 * The entries of an archive as a tree that detection can read, without unpacking it.
 */
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

/** A tree of the entries; of several with one path the last counts, directories above them come by themselves. */
export function archiveTree(entries: readonly ArchiveEntry[]): FileTree {
  const root: Directory = { kind: 'directory', children: new Map() };
  for (const entry of entries) place(root, entry);
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

function place(root: Directory, entry: ArchiveEntry): void {
  const parts = partsOf(entry.path);
  const last = parts.pop();
  if (last === undefined) return;
  let directory = root;
  for (const part of parts) {
    const next = directory.children.get(part);
    if (next?.kind === 'directory') {
      directory = next;
    } else {
      const made: Directory = { kind: 'directory', children: new Map() };
      directory.children.set(part, made);
      directory = made;
    }
  }
  if (entry.kind === 'directory') {
    if (directory.children.get(last)?.kind !== 'directory') {
      directory.children.set(last, { kind: 'directory', children: new Map() });
    }
  } else {
    directory.children.set(last, entry);
  }
}
