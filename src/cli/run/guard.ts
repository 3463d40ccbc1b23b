/**
 * Ends the ranks when `tutti run` itself is killed and can do nothing any more.
 *
 * A shell in a session of its own reads the process groups of the ranks from a pipe whose only writer is
 * `tutti run`. When the pipe ends, for whatever reason, it kills the groups it was told last. Unlike a hook
 * inside the ranks this works for any program and for a rank that computes without looking up.
 */
import { type ChildProcess, spawn } from 'node:child_process';

const SCRIPT =
  'groups=; while read -r line; do groups=$line; done; for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done';

export class Guard {
  readonly #shell: ChildProcess;

  /** @param onFailure called when there is no shell to do it */
  constructor(onFailure: (error: Error) => void) {
    this.#shell = spawn('/bin/sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    this.#shell.on('error', onFailure);
    this.#shell.stdin?.on('error', () => {});
    this.#shell.unref();
  }

  /** Process groups that must not outlive this process. */
  watch(groups: readonly number[]): void {
    this.#shell.stdin?.write(`${groups.join(' ')}\n`);
  }

  /** Nothing is left to guard. */
  end(): void {
    this.watch([]);
    this.#shell.stdin?.end();
  }
}
