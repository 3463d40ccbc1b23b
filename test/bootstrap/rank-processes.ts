/** Starts ranks as real processes that obey the test (programs/rank.mjs). */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('./programs/rank.mjs', import.meta.url));

export interface RankFailure {
  code: string;
  message: string;
  rank?: number;
}

type Reply = { id: number; value?: unknown; error?: RankFailure };

export class RankProcess {
  readonly child: ChildProcess;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #ready: Promise<void>;
  readonly #waiting = new Map<number, (reply: Reply) => void>();
  #next = 0;

  constructor() {
    this.child = fork(PROGRAM, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    this.exited = new Promise((resolve) => {
      this.child.once('exit', (code, signal) => resolve({ code, signal }));
    });
    this.#ready = new Promise((resolve) => {
      this.child.on('message', (message: Reply & { ready?: true }) => {
        if (message.ready) resolve();
        else this.#waiting.get(message.id)?.(message);
      });
    });
  }

  get pid(): number {
    return this.child.pid!;
  }

  async #request(method: string, args: unknown): Promise<Reply> {
    await this.#ready;
    const id = this.#next++;
    const reply = new Promise<Reply>((resolve) => this.#waiting.set(id, resolve));
    this.child.send({ id, method, args });
    return reply;
  }

  /** The result; rejects when the rank's call failed. */
  async call<T = unknown>(method: string, args: unknown = {}): Promise<T> {
    const reply = await this.#request(method, args);
    if (reply.error !== undefined) throw new Error(`${method}: ${reply.error.code}: ${reply.error.message}`);
    return reply.value as T;
  }

  /** The error of a call that has to fail. */
  async failure(method: string, args: unknown = {}): Promise<RankFailure> {
    const reply = await this.#request(method, args);
    if (reply.error === undefined) throw new Error(`${method} succeeded with ${JSON.stringify(reply.value)}`);
    return reply.error;
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.child.kill(signal);
    await this.exited;
  }
}

/** Ranks of one test; all are killed at its end. */
export class RankProcesses {
  readonly all: RankProcess[] = [];

  start(count: number): RankProcess[] {
    const started = Array.from({ length: count }, () => new RankProcess());
    this.all.push(...started);
    return started;
  }

  async end(): Promise<void> {
    await Promise.all(this.all.splice(0).map((rank) => rank.kill()));
  }
}

/** Waits until `condition` holds; fails after `timeoutMs`. */
export async function eventually(
  condition: () => Promise<boolean> | boolean,
  timeoutMs = 5000,
): Promise<void> {
  const end = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error('the awaited condition did not come true');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
