/** Starts ranks that talk over sockets as real processes (programs/socket-rank.mjs). */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { createUniqueId, formatUniqueId } from '#src/index.js';

const PROGRAM = fileURLToPath(new URL('./programs/socket-rank.mjs', import.meta.url));

export interface RankMessage {
  id?: string;
  joined?: string;
  looping?: boolean;
  result?: unknown;
  closeMs?: number;
  stack?: string;
  error?: { code: string; message: string; rank?: number; afterMs: number; at?: number };
}

/** The command that runs the program, when it is not just this Node. */
export interface Launch {
  execPath?: string;
  execArgv?: string[];
}

export class SocketRank {
  readonly child: ChildProcess;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #messages: RankMessage[] = [];
  #arrived: () => void = () => {};
  #ended = false;

  constructor(settings: object, env: NodeJS.ProcessEnv, { execPath, execArgv }: Launch = {}) {
    this.child = fork(PROGRAM, [JSON.stringify(settings)], {
      env: { ...process.env, ...env },
      execArgv: execArgv ?? [],
      ...(execPath === undefined ? {} : { execPath }),
    });
    this.child.on('message', (message: RankMessage) => {
      this.#messages.push(message);
      this.#arrived();
    });
    this.exited = new Promise((resolve) => {
      this.child.once('exit', (code, signal) => {
        this.#ended = true;
        this.#arrived();
        resolve({ code, signal });
      });
    });
  }

  /** The first message with the key that has not been taken; other messages before it are passed over. */
  async message<K extends keyof RankMessage>(key: K): Promise<NonNullable<RankMessage[K]>> {
    for (;;) {
      const index = this.#messages.findIndex((message) => message[key] !== undefined);
      if (index >= 0) return this.#messages.splice(0, index + 1)[index]![key]!;
      const failure = this.#messages.find((message) => message.error !== undefined);
      if (failure !== undefined) {
        throw new Error(`the rank failed: ${failure.stack ?? JSON.stringify(failure.error)}`);
      }
      if (this.#ended) throw new Error(`the rank ended without saying '${key}'`);
      await new Promise<void>((resolve) => {
        this.#arrived = resolve;
      });
    }
  }
}

export class SocketRanks {
  readonly #all: SocketRank[] = [];
  readonly #roots: { close(): void }[] = [];

  /** `settings.behaviour` and what belongs to it; options of the communicator in `options`. */
  async start(
    size: number,
    settings: { behaviour: string; options?: object; [more: string]: unknown },
    env: NodeJS.ProcessEnv | ((rank: number) => NodeJS.ProcessEnv) = {},
  ): Promise<SocketRank[]> {
    const root = await createUniqueId({ host: '127.0.0.1' });
    this.#roots.push(root);
    const id = formatUniqueId(root.id);
    const ranks = Array.from({ length: size }, (_, rank) => {
      const own = typeof env === 'function' ? env(rank) : env;
      return new SocketRank({ id, rank, size, ...settings }, own);
    });
    this.#all.push(...ranks);
    return ranks;
  }

  /** Ranks that only reach each other: rank 0 makes the unique id. */
  async startApart(
    size: number,
    settings: { behaviour: string; options?: object; [more: string]: unknown },
    env: (rank: number) => NodeJS.ProcessEnv,
    launch: (rank: number) => Launch,
  ): Promise<SocketRank[]> {
    const started: SocketRank[] = [];
    let id: string | undefined;
    for (let rank = 0; rank < size; rank++) {
      const made = new SocketRank({ id, rank, size, ...settings }, env(rank), launch(rank));
      this.#all.push(made);
      started.push(made);
      id ??= await made.message('id');
    }
    return started;
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
