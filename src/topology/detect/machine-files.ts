/**
 * A read-only view of the files that describe a machine: /sys, /proc and little else.
 *
 * Detection never touches the file system itself. It asks this view, which walks a tree of entries component by
 * component and resolves symbolic links on its own, inside the tree: a link that points upwards past the root stays at
 * the root, as in a changed root directory. The tree may be the live machine, a directory or an archive; what a
 * recorded tree holds can therefore never lead to a file outside of it.
 */

export type TreeEntry =
  | { readonly kind: 'file' | 'directory' }
  | { readonly kind: 'link'; readonly target: string };

/** Entries by absolute path. No part of a path that is passed in is a link, except perhaps the last. */
export interface FileTree {
  entry(path: string): TreeEntry | undefined;
  /** Content of a file, one character per byte; undefined where it cannot be read. */
  text(path: string): string | undefined;
  /** Names in a directory, sorted; undefined where it cannot be read. */
  names(path: string): readonly string[] | undefined;
}

/** Links that one path may lead through, as in Linux (MAXSYMLINKS). */
const MAX_LINKS = 40;

/** Characters of a path or of a link's target, as in Linux (PATH_MAX). */
const MAX_PATH = 4096;

export class MachineFiles {
  readonly #tree: FileTree;

  constructor(tree: FileTree) {
    this.#tree = tree;
  }

  /** The absolute path without links and dots, or undefined where nothing stands there. */
  realPath(path: string): string | undefined {
    if (path.length > MAX_PATH) return undefined;
    const todo = path.split('/').reverse();
    const done: string[] = [];
    let links = 0;
    for (let part = todo.pop(); part !== undefined; part = todo.pop()) {
      if (part === '' || part === '.') continue;
      if (part === '..') {
        done.pop();
        continue;
      }
      const here = `/${[...done, part].join('/')}`;
      const entry = here.length > MAX_PATH ? undefined : this.#tree.entry(here);
      if (entry === undefined) return undefined;
      if (entry.kind === 'link') {
        if (++links > MAX_LINKS || entry.target === '' || entry.target.length > MAX_PATH) return undefined;
        if (entry.target.startsWith('/')) done.length = 0;
        todo.push(...entry.target.split('/').reverse());
        continue;
      }
      if (entry.kind === 'file' && todo.length > 0) return undefined;
      done.push(part);
    }
    return `/${done.join('/')}`;
  }

  /** Where the link at a path points, as it is written; undefined where no link stands there. */
  linkTarget(path: string): string | undefined {
    const [, folder = '', name = ''] = /^(.*)\/([^/]+)$/.exec(path) ?? [];
    const real = this.realPath(folder);
    if (real === undefined || /^\.{0,2}$/.test(name)) return undefined;
    const entry = this.#tree.entry(real === '/' ? `/${name}` : `${real}/${name}`);
    return entry?.kind === 'link' ? entry.target : undefined;
  }

  /** Content of a file, one character per byte; undefined where there is none or it cannot be read. */
  text(path: string): string | undefined {
    const real = this.realPath(path);
    return real === undefined || this.#tree.entry(real)?.kind !== 'file' ? undefined : this.#tree.text(real);
  }

  /** Names in a directory, sorted; none where it cannot be read. */
  names(path: string): readonly string[] {
    const real = this.realPath(path);
    if (real === undefined || this.#tree.entry(real)?.kind !== 'directory') return [];
    return this.#tree.names(real) ?? [];
  }
}
