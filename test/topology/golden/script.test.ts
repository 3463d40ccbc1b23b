/** `npm run golden`: its exit status is what people and CI go by. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readGolden } from './folder.js';

const SCRIPT = fileURLToPath(new URL('../../../scripts/golden.js', import.meta.url));
const MACHINE = fileURLToPath(new URL('../../golden/syn-3gpu-asym', import.meta.url));

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tutti-golden-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function golden(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, ...args], {
    encoding: 'utf8',
    timeout: 50_000,
  });
  return { status, stdout, stderr };
}

describe('npm run golden', () => {
  it('prints a table and ends with status 0 if all is equal', () => {
    const json = join(folder, 'results.json');
    const { status, stdout, stderr } = golden(MACHINE, '--file', 'golden-n2', '--jobs', '1', '--json', json);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(/^syn-3gpu-asym +1 +ok +ok /m);
    expect(stdout).toContain('1 of 1 files equal');
    const { results } = JSON.parse(readFileSync(json, 'utf8'));
    expect(results.map(({ machine, file }: Record<string, string>) => `${machine}/${file}`)).toEqual([
      'syn-3gpu-asym/golden-n2.json.gz',
    ]);
  });

  it('names machine, file, aspect and place of a difference, names an unreadable file, and ends with status 1', () => {
    const machine = join(folder, 'machines', 'altered');
    cpSync(join(MACHINE, 'topo.xml'), join(machine, 'topo.xml'));
    const { comm, ...rest } = readGolden(MACHINE, 'golden.json.gz');
    writeFileSync(
      join(machine, 'golden.json.gz'),
      gzipSync(JSON.stringify({ ...rest, comm: { ...comm, nChannels: 99 } })),
    );
    writeFileSync(join(machine, 'golden-n2.json.gz'), 'torn');
    const { status, stdout } = golden(join(folder, 'machines'), '--jobs', '1');
    expect(status).toBe(1);
    expect(stdout).toContain('altered/golden.json.gz comm $.comm.nChannels: expected 99, got ');
    expect(stdout).toContain(`cannot read ${join(machine, 'golden-n2.json.gz')}`);
    expect(stdout).toContain('0 of 2 files equal');

    const unchanged = golden(machine, '--file', 'golden.json', '--aspect', 'search', '--aspect', 'rings');
    expect(unchanged.stdout).toContain('1 of 1 files equal in search-ring, ');
    expect(unchanged.status).toBe(0);
  });

  it.each([
    { args: [], text: 'no FOLDER' },
    { args: [join(tmpdir(), 'tutti-no-such-folder')], text: 'is not a folder' },
    { args: [MACHINE, '--machine', 'another'], text: 'no golden file is left' },
    { args: [MACHINE, '--aspect', 'tree'], text: "no aspect 'tree'; there are system, " },
    { args: [MACHINE, '--jobs', '0'], text: '--jobs 0 is not a number of threads' },
    { args: [MACHINE, '--frobnicate'], text: 'frobnicate' },
  ])('refuses $args: $text', ({ args, text }) => {
    const { status, stderr } = golden(...args);
    expect(status).toBe(2);
    expect(stderr).toContain(text);
  });
});
