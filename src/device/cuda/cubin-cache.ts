/**
 * Machine code of kernels on disk, so that the driver compiles each kernel once per machine.
 *
 * A file is named after everything that decides about its contents (text, driver, GPU architecture). It begins with a
 * hash of the rest, so that a damaged or half-written file is as good as none; it is written under another name and
 * renamed, so that processes which write at the same time do not disturb each other. A folder that cannot be used
 * costs nothing but time: every failure here means "not cached".
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** What a file begins with: a mark with the form's number, then SHA-256 of the machine code. */
const MARK = Buffer.from('tutti cubin 1\n');
const HASH_BYTES = 32;

const sha256 = (data: Uint8Array | string) => createHash('sha256').update(data).digest();

type Environment = Readonly<Record<string, string | undefined>>;

/** TUTTI_CACHE_DIR, else the user's cache folder; undefined when TUTTI_CACHE_DIR is empty: no cache on disk. */
export function cacheFolder(env: Environment = process.env): string | undefined {
  if (env.TUTTI_CACHE_DIR !== undefined) return env.TUTTI_CACHE_DIR === '' ? undefined : env.TUTTI_CACHE_DIR;
  const base = env.XDG_CACHE_HOME !== undefined && env.XDG_CACHE_HOME !== '' ? env.XDG_CACHE_HOME : undefined;
  return join(base ?? join(homedir(), '.cache'), 'tutti');
}

/** What decides about machine code. */
export interface CubinKey {
  readonly ptx: string;
  /** Version of the driver that compiles. */
  readonly driver: number;
  /** Compute capability of the GPU, as `9.0`. */
  readonly capability: string;
}

function removeDraft(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // The folder is none, or somebody else's: then there is no draft either.
  }
}

export class CubinCache {
  readonly #folder: string | undefined;

  constructor(folder: string | undefined = cacheFolder()) {
    this.#folder = folder;
  }

  #path(key: CubinKey): string | undefined {
    if (this.#folder === undefined) return undefined;
    const name = sha256(`${key.driver}\n${key.capability}\n${key.ptx}`).toString('hex');
    return join(this.#folder, `${name}.cubin`);
  }

  /** The machine code, or undefined. */
  get(key: CubinKey): Uint8Array | undefined {
    const path = this.#path(key);
    if (path === undefined) return undefined;
    try {
      const file = readFileSync(path);
      const start = MARK.length + HASH_BYTES;
      if (file.length <= start || !file.subarray(0, MARK.length).equals(MARK)) return undefined;
      const cubin = file.subarray(start);
      return sha256(cubin).equals(file.subarray(MARK.length, start)) ? cubin : undefined;
    } catch {
      return undefined;
    }
  }

  /** Keeps machine code for the next process. */
  put(key: CubinKey, cubin: Uint8Array): void {
    const path = this.#path(key);
    if (path === undefined) return;
    const draft = `${path}.${process.pid}.${randomBytes(6).toString('hex')}`;
    try {
      mkdirSync(this.#folder!, { recursive: true, mode: 0o700 });
      writeFileSync(draft, Buffer.concat([MARK, sha256(cubin), cubin]), { flag: 'wx', mode: 0o600 });
      renameSync(draft, path);
    } catch {
      removeDraft(draft);
    }
  }
}
