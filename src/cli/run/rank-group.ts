/**
 * The rank processes of one `tutti run`: started together, ended together.
 *
 * Every rank leads a process group of its own, so that signals reach what it started too, and a Ctrl-C on the
 * terminal reaches the ranks once, through us.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import { Guard } from './guard.js';
import type { Output } from './output.js';

/** Time that processes left behind by a rank may keep its output open after its end, ms. */
const LEFTOVER_MS = 1000;
/** Exit codes of a shell for a program that does not exist or cannot be run. */
const NOT_FOUND = 127;
const NOT_EXECUTABLE = 126;

export interface RankProcessOptions {
  command: string;
  arguments: readonly string[];
  environments: readonly Readonly<Record<string, string | undefined>>[];
  graceMs: number;
  stdout: Output;
  stderr: Output;
  /** Tells the user something. */
  report(message: string): void;
}

export interface RankEnd {
  rank: number;
  exitCode: number;
  /** `exited with code 3`, `was killed by SIGKILL`. */
  how: string;
}

export class RankGroup {
  readonly #options: RankProcessOptions;
  readonly #guard: Guard;
  readonly #running = new Map<number, ChildProcess>();
  #firstFailure: RankEnd | undefined;
  #ending = false;
  #killTimer: NodeJS.Timeout | undefined;
  #finish: () => void = () => {};
  /** Resolves when all ranks have ended and their output is through. */
  readonly done: Promise<void>;

  constructor(options: RankProcessOptions) {
    this.#options = options;
    this.#guard = new Guard((error) =>
      options.report(`no /bin/sh (${error.message}): ranks would outlive a killed 'tutti run'`),
    );
    this.done = new Promise((resolve) => {
      this.#finish = resolve;
    });
    let open = options.environments.length;
    for (let rank = 0; rank < options.environments.length; rank++) {
      this.#start(rank, () => {
        if (--open > 0) return;
        clearTimeout(this.#killTimer);
        this.#guard.end();
        this.#finish();
      });
    }
  }

  /** The rank that failed first, before the others were ended. */
  get firstFailure(): RankEnd | undefined {
    return this.#firstFailure;
  }

  /** Ranks that still run, ascending. */
  get running(): number[] {
    return [...this.#running.keys()].sort((left, right) => left - right);
  }

  #start(rank: number, onClosed: () => void): void {
    const { command, arguments: args, environments, stdout, stderr } = this.#options;
    const stdin = rank === 0 && !process.stdin.isTTY ? 'inherit' : 'ignore';
    const child = spawn(command, args, {
      env: environments[rank],
      stdio: [stdin, 'pipe', 'pipe'],
      detached: true,
    });
    this.#running.set(rank, child);
    this.#tellGuard();
    // There are none where the system has no descriptors left for them; `error` follows.
    if (child.stdout) stdout.attach(child.stdout, rank);
    if (child.stderr) stderr.attach(child.stderr, rank);
    child.once('exit', (code, signal) => {
      this.#ended(rank, endOf(rank, code, signal));
      this.#endOutput(child);
    });
    let closed = false;
    const close = (): void => {
      if (closed) return;
      closed = true;
      if (this.#firstFailure?.rank === rank) this.#reportFailure(this.#firstFailure, child.pid);
      onClosed();
    };
    child.once('close', close);
    child.once('error', (error: NodeJS.ErrnoException) => {
      // After a successful start an error concerns a signal that could not be sent; `exit` still comes.
      if (child.pid !== undefined) return;
      const exitCode = error.code === 'ENOENT' ? NOT_FOUND : NOT_EXECUTABLE;
      this.#ended(rank, { rank, exitCode, how: `could not be started (${command}: ${error.code})` });
      setImmediate(close);
    });
  }

  /**
   * What a rank left behind must not keep its output open for ever: its process group is killed, and a process
   * that even left the group loses the pipe. Output that waits for a slow reader of ours is not touched.
   */
  #endOutput(child: ChildProcess): void {
    const outputs = [child.stdout!, child.stderr!];
    let killed = false;
    const timer = setInterval(() => {
      if (!killed) signalGroup(child, 'SIGKILL');
      else for (const output of outputs) if (!output.isPaused()) output.destroy();
      killed = true;
    }, LEFTOVER_MS);
    child.once('close', () => clearInterval(timer));
  }

  #tellGuard(): void {
    const groups: number[] = [];
    for (const { pid } of this.#running.values()) if (pid !== undefined) groups.push(pid);
    this.#guard.watch(groups);
  }

  #ended(rank: number, end: RankEnd): void {
    this.#running.delete(rank);
    this.#tellGuard();
    if (end.exitCode === 0 || this.#ending) return;
    this.#firstFailure = end;
    this.end();
  }

  #reportFailure({ rank, how }: RankEnd, pid: number | undefined): void {
    const process = pid === undefined ? '' : ` (process ${pid})`;
    const others = this.#options.environments.length > 1 ? '; the other ranks are ended' : '';
    this.#options.report(`rank ${rank}${process} ${how}${others}`);
  }

  /** Passes a signal on to every rank. */
  signal(name: NodeJS.Signals): void {
    for (const child of this.#running.values()) signalGroup(child, name);
  }

  /** The ranks have been told to end. */
  get ending(): boolean {
    return this.#ending;
  }

  /**
   * A signal to every rank, SIGKILL after the grace time to those that are left. How they end from now on is no
   * failure of theirs.
   */
  end(name: NodeJS.Signals = 'SIGTERM'): void {
    if (this.#ending) return;
    this.#ending = true;
    this.signal(name);
    this.#killTimer = setTimeout(() => this.signal('SIGKILL'), this.#options.graceMs);
  }
}

function endOf(rank: number, code: number | null, signal: NodeJS.Signals | null): RankEnd {
  if (signal !== null) {
    return { rank, exitCode: 128 + constants.signals[signal], how: `was ended by ${signal}` };
  }
  return { rank, exitCode: code ?? 1, how: `exited with code ${code}` };
}

/** The whole process group of a rank; a group that is gone already is fine. */
function signalGroup(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
