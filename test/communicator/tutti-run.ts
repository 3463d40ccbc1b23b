/** Runs a script on ranks that are real processes, with the command that users have. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A script of test/communicator/programs on so many ranks; killed after `limitMs`. */
export function tuttiRun(
  ranks: number,
  script: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  limitMs = 50_000,
): Promise<Outcome> {
  const program = fileURLToPath(new URL(`./programs/${script}`, import.meta.url));
  const limit = ['--timeout', String(limitMs / 1000)];
  const child = spawn(process.execPath, [MAIN, 'run', '-n', `${ranks}`, ...limit, program, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  return new Promise((resolve) => {
    child.on('close', (code) =>
      resolve({ code, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() }),
    );
  });
}
