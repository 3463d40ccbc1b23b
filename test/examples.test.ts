/** The examples, run as their headers say; each checks its own result and ends with status 1 when it is wrong. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TUTTI = 'dist/cli/main.js';
const LIMIT_MS = 50_000;

function node(...args: string[]): string[] {
  const run = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8', timeout: LIMIT_MS });
  expect({ status: run.status, stderr: run.stderr }).toEqual({ status: 0, stderr: '' });
  return run.stdout.trimEnd().split('\n');
}

const RUNS: Readonly<Record<string, () => void>> = {
  'hello-all-reduce.js': () => {
    const lines = node(TUTTI, 'run', '-n', '4', 'examples/hello-all-reduce.js');
    expect(lines.sort()).toEqual(
      [0, 1, 2, 3].map((rank) => `[${rank}] rank ${rank} of 4: the sum of 65536 elements is right`),
    );
  },
  'threads.js': () => {
    expect(node('examples/threads.js', '3')).toEqual([
      'sum on every rank: 6 6 6 6 6 6 6 6',
      ...[0, 1, 2].map((rank) => `rank ${rank} gathered 0.000 1.000 1.414`),
    ]);
  },
  'prepared-loop.js': () => {
    const lines = node(TUTTI, 'run', '-n', '2', 'examples/prepared-loop.js', '300');
    expect(lines.length).toBe(2);
    expect(lines[1]).toMatch(/^\[0\] all-reduce of 128 bytes: \d+\.\d\d us per operation$/);
  },
  'halo-exchange.js': () => {
    const lines = node(TUTTI, 'run', '-n', '2', 'examples/halo-exchange.js', '40');
    expect(lines).toEqual([expect.stringMatching(/^\[0\] hottest \d+\.\d+, coldest 0\.000$/)]);
  },
  'data-parallel.js': () => {
    const lines = node(TUTTI, 'run', '-n', '4', 'examples/data-parallel.js');
    expect(lines[1]).toBe('[0] parameters: -2.500 -1.500 -0.500 0.500 1.500 2.500 3.500');
  },
};

describe('examples', () => {
  for (const [name, run] of Object.entries(RUNS)) it(`${name} runs and is right`, run);

  it('are all run here, and begin with a comment that shows how to run them', () => {
    const files = readdirSync(new URL('../examples', import.meta.url));
    expect(files.sort()).toEqual(Object.keys(RUNS).sort());
    for (const file of files) {
      const text = readFileSync(new URL(`../examples/${file}`, import.meta.url), 'utf8');
      expect(text).toMatch(/^\/\*\*\n( \*.*\n)+ \*\//);
      expect(text).toMatch(new RegExp(`^ \\* {5}(npx tutti run -n \\d|node) examples/${file}`, 'm'));
    }
  });
});
