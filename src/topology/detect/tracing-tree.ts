/**
 * A tree of files that remembers what was read of it: the way to record exactly what detection looks at.
 */
import type { FileTree, TreeEntry } from './machine-files.js';

export type TracedNode =
  | { readonly kind: 'directory' }
  | { readonly kind: 'link'; readonly target: string }
  /** `text` is undefined while nobody has read the file. */
  | { readonly kind: 'file'; text: string | undefined };

export interface Trace {
  readonly tree: FileTree;
  /** Everything that was looked at and was there, by absolute path. */
  readonly seen: ReadonlyMap<string, TracedNode>;
}

export function traceTree(source: FileTree): Trace {
  const seen = new Map<string, TracedNode>();
  const note = (path: string): TreeEntry | undefined => {
    const entry = source.entry(path);
    if (entry !== undefined && !seen.has(path)) {
      seen.set(path, entry.kind === 'file' ? { kind: 'file', text: undefined } : entryOf(entry));
    }
    return entry;
  };
  return {
    seen,
    tree: {
      entry: note,
      text: (path) => {
        const text = source.text(path);
        note(path);
        const node = seen.get(path);
        if (node?.kind === 'file') node.text = text;
        return text;
      },
      names: (path) => {
        const names = source.names(path);
        note(path);
        // What is in a directory counts as seen too: a reader of the trace must find the same names.
        for (const name of names ?? []) note(path === '/' ? `/${name}` : `${path}/${name}`);
        return names;
      },
    },
  };
}

const entryOf = (entry: TreeEntry): TracedNode =>
  entry.kind === 'link' ? { kind: 'link', target: entry.target } : { kind: 'directory' };
