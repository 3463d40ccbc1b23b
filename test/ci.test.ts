/** .ci/run on a small repository whose npm is a stand-in: it passes, and fails where something is wrong or left. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';

const script = fileURLToPath(new URL('../.ci/run', import.meta.url));
const README = 'npm ci && npx tutti perf all_reduce\n\nnpm ci && npm test\n';
const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

/** Runs .ci/run where npm and npx log their arguments and `npm test` runs `testCommand` (bash; $SHM is empty). */
function runCi(testCommand: string, readme = README) {
  const root = mkdtempSync(join(tmpdir(), 'tutti-ci-'));
  folders.push(root);
  const shm = join(root, 'shm');
  const log = join(root, 'log');
  for (const folder of ['.ci', 'bin', 'shm', 'test']) mkdirSync(join(root, folder));
  cpSync(script, join(root, '.ci/run'));
  writeFileSync(join(root, 'README.md'), readme);
  writeFileSync(join(shm, 'there-before'), '');
  const standIn = `#!/usr/bin/env bash\necho "$(basename "$0") $*" >>'${log}'\nif [ "$*" = test ]; then\n${testCommand}\nfi\n`;
  for (const name of ['npm', 'npx']) writeFileSync(join(root, 'bin', name), standIn, { mode: 0o755 });
  const { status, stderr, stdout } = spawnSync(join(root, '.ci/run'), [], {
    encoding: 'utf8',
    env: {
      ...process.env,
      PATH: `${join(root, 'bin')}:${process.env.PATH}`,
      SHM: shm,
      TUTTI_CI_SHM: shm,
      TUTTI_CI_APT: '0',
    },
  });
  const calls = stderr.includes('no line') ? [] : readFileSync(log, 'utf8').trim().split('\n');
  return { status, stderr, stdout, calls: calls.filter((call) => call !== 'npm --version') };
}

/** A process's command line; '' when it has ended, reaped or not. */
function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

describe('.ci/run', () => {
  it('runs the lines of README.md and the check between them, and prints the time of each', () => {
    const { status, stderr, stdout, calls } = runCi('true');
    expect(stderr).toBe('');
    expect(status).toBe(0);
    expect(calls).toEqual(['npm ci', 'npx tutti perf all_reduce', 'npm run check', 'npm ci', 'npm test']);
    for (const name of ['perf', 'check', 'test'])
      expect(stdout).toMatch(new RegExp(`^${name} +\\d+ s  ok$`, 'm'));
    expect(stdout).toMatch(/^all +\d+ s$/m);
  });

  it('fails where the tests fail', () => {
    const { status, stdout } = runCi('exit 3');
    expect(status).toBe(1);
    expect(stdout).toMatch(/^test +\d+ s {2}exit status 3$/m);
  });

  it('fails where a shared-memory file is left, and names it', () => {
    const { status, stderr } = runCi('touch "$SHM/left-one"');
    expect(status).toBe(1);
    expect(stderr).toMatch(/^left behind: \S+\/shm\/left-one\n$/);
  });

  it('fails where a process is left, names it, and ends it', async () => {
    const seconds = `97.${process.pid}`;
    const { status, stderr } = runCi(`setsid sleep ${seconds} >/dev/null 2>&1 &`);
    expect(status).toBe(1);
    expect(stderr).toMatch(new RegExp(`^left behind: process \\d+: sleep ${seconds} \\n$`));
    const pid = Number(/process (\d+)/.exec(stderr)?.[1]);
    await expect.poll(() => commandLine(pid)).toBe('');
  });

  it('waits for a process that is ending by itself', () => {
    const { status, stderr } = runCi('setsid sleep 1.5 >/dev/null 2>&1 &');
    expect(stderr).toBe('');
    expect(status).toBe(0);
  });

  it('fails at once where README.md shows another command line', () => {
    const { status, stderr } = runCi('true', README.replace('npm test', 'npm run test'));
    expect(status).toBe(1);
    expect(stderr).toBe('README.md has no line: npm ci && npm test\n');
  });
});
