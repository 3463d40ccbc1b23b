/** The check of words that belong to one place only: this repository passes, and each kind is found. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';

const script = fileURLToPath(new URL('../scripts/check-text.js', import.meta.url));
const root = mkdtempSync(join(tmpdir(), 'tutti-text-'));
execFileSync('git', ['init', '-q', root]);
afterAll(() => rmSync(root, { recursive: true }));

it('passes in this repository', () => {
  const { status, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8' });
  expect(stderr).toBe('');
  expect(status).toBe(0);
});

it.each([
  [['see ..', 'shared', 'spec'].join('/')],
  [['at ', 'work', 'main'].join('/')],
  [['"', 'root', 'x"'].join('/')],
  [['as DESIGN', 'md says'].join('.')],
  [['https://registry', 'npmjs', 'org'].join('.')],
  [['  "resolved"', ' "https', '//x/y.tgz"'].join(':')],
  [`${'<'.repeat(7)} HEAD`],
])('finds `%s` with its line, in a file that is not committed yet', (text) => {
  writeFileSync(join(root, 'a.txt'), `first\n${text}\n`);
  const { status, stderr } = spawnSync(process.execPath, [script, root], { encoding: 'utf8' });
  expect(stderr).toMatch(/^a\.txt:2: '.*' is .*\n$/);
  expect(status).toBe(1);
});

it('accepts relative paths and names that only resemble those', () => {
  const text = 'import "../shared-memory.js";\nimport "../work/batch.js";\nat {base}/work/x\n=======\n';
  writeFileSync(join(root, 'a.txt'), text);
  const { status, stderr } = spawnSync(process.execPath, [script, root], { encoding: 'utf8' });
  expect(stderr).toBe('');
  expect(status).toBe(0);
});
