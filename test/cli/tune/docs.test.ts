/** What the documentation says that `tutti tune` prints is what it prints, and its tuners work. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { topologyOf, tune } from './run.js';

const ROOT = join(import.meta.dirname, '../../..');
const read = (page: string) => readFileSync(join(ROOT, page), 'utf8');

/** Examples: a command line, then what it prints; `...` stands for any lines. */
const examples = ['docs/tuning.md', 'README.md'].flatMap((page) =>
  [...read(page).matchAll(/^```text\n\$ npx tutti tune (.+)\n([\s\S]*?)^```$/gm)].map(
    ([, command, output]) => ({
      page,
      command: command!,
      output: output!,
    }),
  ),
);

test('there are examples', () => {
  expect(examples.map(({ page }) => page)).toEqual([...Array(5).fill('docs/tuning.md'), 'README.md']);
});

test.each(examples)('$page: tutti tune $command', async ({ command, output }) => {
  const args = command.split(' ').map((word) => (word.startsWith('test/') ? join(ROOT, word) : word));
  const lines = (await tune(args)).text.split('\n');
  let at = 0;
  for (const part of output.split(/^\.\.\.\n/m)) {
    const wanted = part.split('\n').slice(0, -1);
    if (wanted.length === 0) continue;
    const found = lines.findIndex(
      (_, start) => start >= at && wanted.every((line, i) => lines[start + i] === line),
    );
    expect(found < 0 ? lines.slice(at) : wanted).toEqual(wanted);
    at = found + wanted.length;
  }
});

describe('the tuners of the page', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tutti-docs-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test.each([
    ['js', 'my-tuner.mjs', 'my tuner'],
    ['csv', 'rules.csv', 'rules.csv'],
  ])('in %s force a ring with LL below 64 KB, and nothing above', async (language, file, name) => {
    const [, code] = new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(
      read('docs/tuning.md'),
    )!;
    const path = join(folder, file);
    writeFileSync(path, code!);
    const args = [topologyOf('dgx-a100-8x200g'), '--nodes=2', '--tuner', path];
    const small = (await tune([...args, '--size=32K'])).text;
    expect(small).toContain(`Tuner ${name} changes the costs`);
    expect(small).toMatch(/^All-reduce of 32 KB .*: Ring\/LL,/m);
    expect((await tune([...args, '--size=4M'])).text).toMatch(/^All-reduce of 4 MB .*: Tree\/LL128,/m);
  });
});

it('describes every field of the JSON', async () => {
  const page = read('docs/tuning.md');
  const { text } = await tune([
    topologyOf('dgx-a100-8x200g'),
    '--size=1M',
    '--json',
    '--windows=both',
    '--what-if=NCCL_ALGO=x',
  ]);
  const names = new Set<string>();
  JSON.parse(text, (name, value) => {
    if (!/^\d*$/.test(name)) names.add(name);
    return value;
  });
  expect(names.size).toBeGreaterThan(40);
  const missing = [...names].filter(
    (name) => !new RegExp(`\`(?:[a-zA-Z]+\\[?\\]?\\.)?${name}(?:\\[\\])?\``).test(page),
  );
  expect(missing).toEqual([]);
});
