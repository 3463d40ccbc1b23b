/**
 * Two hosts with a cable between them, made of network namespaces of this kernel. Needs the rights to make
 * those (root, or a container that grants them).
 */
import { execFileSync } from 'node:child_process';
import type { Launch } from './socket-ranks.js';

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: 'ignore' });
}

let count = 0;

export class TwoHosts {
  readonly #name = `tutti${process.pid % 100_000}x${count++}`;
  readonly #spaces = [`${this.#name}a`, `${this.#name}b`] as const;

  constructor() {
    const [left, right] = this.#spaces;
    try {
      for (const space of this.#spaces) ip('netns', 'add', space);
      ip('link', 'add', left, 'netns', left, 'type', 'veth', 'peer', 'name', right, 'netns', right);
      this.#spaces.forEach((space, host) => {
        // 192.0.2.0/24 is reserved for documentation: no real network is hidden by it.
        ip('-n', space, 'addr', 'add', `192.0.2.${host + 1}/24`, 'dev', space);
        ip('-n', space, 'link', 'set', space, 'up');
        ip('-n', space, 'link', 'set', 'lo', 'up');
      });
      this.#awaitLink();
    } catch (error) {
      this.remove();
      throw error;
    }
  }

  interfaceOf(host: number): string {
    return this.#spaces[host]!;
  }

  launchOn(host: number): Launch {
    return { execPath: 'ip', execArgv: ['netns', 'exec', this.#spaces[host]!, process.execPath] };
  }

  /** The new interfaces take a moment to be running. */
  #awaitLink(): void {
    const end = performance.now() + 5000;
    const isUp = (space: string) =>
      execFileSync('ip', ['-n', space, '-o', 'link', 'show', space], { encoding: 'utf8' }).includes(
        'state UP',
      );
    while (!this.#spaces.every(isUp)) {
      if (performance.now() > end) throw new Error('the interfaces between the namespaces do not come up');
    }
  }

  /** Unplugs the cable: packets are dropped, and no connection is told. */
  cut(): void {
    for (const space of this.#spaces) ip('-n', space, 'link', 'set', space, 'down');
  }

  remove(): void {
    for (const space of this.#spaces) {
      try {
        ip('netns', 'del', space);
      } catch {
        // It was not made.
      }
    }
  }
}

/** Whether this machine lets us make namespaces; says so where not. */
export function canMakeNamespaces(): boolean {
  if (process.platform !== 'linux') return false;
  try {
    new TwoHosts().remove();
    return true;
  } catch {
    console.warn('no right to make network namespaces: the tests between two hosts are skipped');
    return false;
  }
}
