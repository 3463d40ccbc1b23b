/** Starts ranks as real processes that can be killed (programs/fault-rank.mjs), and looks at what they leave behind. */
import { type ChildProcess, fork } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect } from 'vitest';
import { createUniqueId, formatUniqueId } from '#src/index.js';

const PROGRAM = fileURLToPath(new URL('./programs/fault-rank.mjs', import.meta.url));

export interface RankError {
  readonly code?: string;
  readonly message: string;
  readonly rank?: number;
  readonly stack?: string;
}

export interface RankEnd {
  readonly error?: RankError;
  readonly result?: unknown;
  /** Milliseconds from the start of the program, and the time of day. */
  readonly afterMs: number;
  readonly at: number;
}

interface Messages {
  joined: string;
  looping: boolean;
  end: RankEnd;
  /** Milliseconds that closing took. */
  closed: number;
  unhandled: string;
}

/** Inodes of established TCP connections. */
function connections(): Set<string> {
  const lines = ['tcp', 'tcp6'].flatMap((file) => readFileSync(`/proc/net/${file}`, 'utf8').split('\n'));
  const fields = lines.map((line) => line.trim().split(/\s+/));
  return new Set(fields.filter(([, , , state]) => state === '01').map((parts) => parts[9]!));
}

export class FaultRank {
  readonly child: ChildProcess;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #seen: Partial<Messages> = {};
  readonly #waiting: (() => void)[] = [];
  #ended = false;

  constructor(settings: object, env: NodeJS.ProcessEnv) {
    this.child = fork(PROGRAM, [JSON.stringify(settings)], { env });
    this.child.on('message', (message: Partial<Messages>) => {
      Object.assign(this.#seen, message);
      this.#wake();
    });
    this.exited = new Promise((resolve) => {
      this.child.once('exit', (code, signal) => {
        // Messages that were sent before may still be under way.
        setImmediate(() => {
          this.#ended = true;
          this.#wake();
          resolve({ code, signal });
        });
      });
    });
  }

  /** Resolves when the process has a TCP connection. */
  async connected(): Promise<void> {
    const folder = `/proc/${this.child.pid}/fd`;
    for (;;) {
      const established = connections();
      const sockets = readdirSync(folder).map((fd) => {
        try {
          return /^socket:\[(\d+)\]$/.exec(readlinkSync(`${folder}/${fd}`))?.[1];
        } catch {
          // Closed meanwhile.
          return undefined;
        }
      });
      if (sockets.some((inode) => inode !== undefined && established.has(inode))) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Waits for a message; the rank must not end before it. */
  async said<K extends keyof Messages>(key: K): Promise<Messages[K]> {
    for (;;) {
      const value = this.#seen[key];
      if (value !== undefined) return value as Messages[K];
      if (this.#ended)
        throw new Error(`the rank ended without saying '${key}': ${JSON.stringify(this.#seen)}`);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** A rejection that nobody handled, if there was one. */
  get unhandled(): string | undefined {
    return this.#seen.unhandled;
  }
}

export class FaultRanks {
  readonly #all: FaultRank[] = [];
  readonly #roots: { close(): void }[] = [];

  async start(
    size: number,
    behaviour: string,
    settings: { options?: object; [more: string]: unknown } = {},
    env: NodeJS.ProcessEnv = {},
    /** Ranks that are started at all. */
    present: readonly number[] = Array.from({ length: size }, (_, rank) => rank),
  ): Promise<FaultRank[]> {
    const root = await createUniqueId({ host: '127.0.0.1' });
    this.#roots.push(root);
    const id = formatUniqueId(root.id);
    const ranks = present.map(
      (rank) => new FaultRank({ id, rank, size, behaviour, ...settings }, { ...process.env, ...env }),
    );
    this.#all.push(...ranks);
    return ranks;
  }

  /** Kills what is left. */
  async end(): Promise<void> {
    for (const root of this.#roots.splice(0)) root.close();
    await Promise.all(
      this.#all.splice(0).map((rank) => {
        rank.child.kill('SIGKILL');
        return rank.exited;
      }),
    );
  }
}

/** Names in /dev/shm that are ours. */
export function sharedMemoryNames(): string[] {
  return readdirSync('/dev/shm').filter((name) => /tutti/i.test(name));
}

/**
 * Ranks for the tests of this file. Each test ends with all of them ended and no name left in /dev/shm, whatever happened
 * and before anybody had a chance to clean up.
 */
export function faultRanksOfTests(): FaultRanks {
  const ranks = new FaultRanks();
  let names: string[];
  beforeEach(() => {
    names = sharedMemoryNames();
  });
  afterEach(async () => {
    await ranks.end();
    expect(sharedMemoryNames().filter((name) => !names.includes(name))).toEqual([]);
  });
  return ranks;
}

export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Resident memory of a process, bytes. */
export function residentBytes(pid: number): number {
  const pages = Number(readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')[1]);
  return pages * 4096;
}
