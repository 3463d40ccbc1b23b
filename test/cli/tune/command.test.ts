/** `tutti tune` as a user calls it: streams and exit status. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { topologyOf } from './run.js';

const MAIN = join(import.meta.dirname, '../../../dist/cli/main.js');
const A100 = topologyOf('dgx-a100-8x200g');

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tutti-tune-command-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs the command without the NCCL variables of this environment. */
function run(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const own = Object.entries(process.env).filter(([name]) => !/^NCCL_|COLOR$|^COLUMNS$/.test(name));
  return spawnSync(process.execPath, [MAIN, ...args], {
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...Object.fromEntries(own), ...env },
  });
}

describe('tutti tune', () => {
  it('answers on the output, without colours where it is no terminal, and ends with status 0', () => {
    const args = ['tune', '--coll', 'all_reduce', '--size', '1M', '--file', A100];
    const { status, stdout, stderr } = run(args, { NO_COLOR: '1' });
    expect(stderr).toBe('');
    expect(status).toBe(0);
    expect(stdout).toMatch(/^8 A100.*\n\nAll-reduce of 1 MB .*: Ring\/LL/);
    expect(stdout).not.toContain('\u001b');
    const coloured = run(args, { FORCE_COLOR: '1', NO_COLOR: '' }).stdout;
    expect(coloured).toContain('\u001b[');
    expect(stripVTControlCharacters(coloured)).toBe(stdout);
  });

  it('ends with status 1 where nothing can run a call: the answer on the output, the error beside it', () => {
    const { status, stdout, stderr } = run(['tune', '--size=8', A100], { NCCL_ALGO: 'PAT' });
    expect(status).toBe(1);
    expect(stdout).toContain('nothing can run it');
    expect(stderr).toMatch(/^tutti tune: No algorithm\/protocol available [^\n]+\n$/);
  });

  test.each([
    [
      'a missing file',
      ['/no/such/file.xml'],
      /cannot read the topology file \/no\/such\/file\.xml: no such file/,
    ],
    ['a broken tuner', [A100, '--tuner', '/no/such.mjs'], /tuner \/no\/such\.mjs/],
    ['a picture that cannot be written', [A100, '--svg', '/no/such/place.svg'], /cannot write the picture/],
  ])('%s ends with status 1 and one sentence', (_, args, message) => {
    const { status, stdout, stderr } = run(['tune', ...args]);
    expect(status).toBe(1);
    expect(stdout).toBe('');
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/^tutti tune: [^\n]+\n$/);
  });

  test.each([[['--size', '0']], [['--coll', 'all_redcue']], [['--no-such-option']]])(
    '%j is wrong use: status 2, one sentence',
    (args) => {
      const { status, stdout, stderr } = run(['tune', ...args]);
      expect(status).toBe(2);
      expect(stdout).toBe('');
      expect(stderr).toMatch(/^tutti tune: [^\n]+\n$/);
    },
  );

  it('help goes to the output and says every option, and tutti lists the command', () => {
    const { status, stdout, stderr } = run(['tune', '--help']);
    expect(status).toBe(0);
    expect(stderr).toBe('');
    const names =
      'coll size sweep type op registered windows file from nodes mnnvl clique sm nvlinks nic-gbits nvls no-nvls collnet tuner ' +
      'ignore-broken-tuner what-if log json svg help';
    for (const name of names.split(' ')) expect(stdout).toContain(`--${name}`);
    expect(run(['help']).stdout).toMatch(/^ {2}tune /m);
  });

  it('writes pictures', () => {
    const path = join(folder, 'sweep.svg');
    expect(run(['tune', A100, '--svg', path]).status).toBe(0);
    expect(existsSync(path)).toBe(true);
  });

  it('without a file asks about this machine, which needs GPUs', () => {
    const { status, stdout, stderr } = run(['tune', '--size=1M']);
    // The machine that runs the tests may have GPUs.
    if (status === 0) expect(stdout).toMatch(/^All-reduce of 1 MB/m);
    else expect(stderr).toMatch(/^tutti tune: .* has no GPUs .*give a topology file [^\n]*\n$/);
  });
});
