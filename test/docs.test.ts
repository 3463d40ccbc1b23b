/**
 * The pages: code blocks that call themselves runnable are run, and print what the page says; links lead somewhere.
 *
 * A block that begins with "```js runnable" is a module of its own, run in the repository. When the next block is
 * "```text", that is its output.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const LIMIT_MS = 50_000;

const pages = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
];

const read = (page: string): string => readFileSync(join(ROOT, page), 'utf8');

interface Block {
  readonly page: string;
  readonly line: number;
  readonly code: string;
  readonly output: string | undefined;
}

/** The runnable blocks of a page with the output that follows them. */
function runnable(page: string, text: string): Block[] {
  const blocks = [...text.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)];
  return blocks.flatMap((block, i) => {
    if (block[1] !== 'js runnable') return [];
    const next = blocks[i + 1];
    const line = text.slice(0, block.index).split('\n').length;
    return [{ page, line, code: block[2]!, output: next?.[1] === 'text' ? next[2] : undefined }];
  });
}

const blocks = pages.flatMap((page) => runnable(page, read(page)));

function run({ code }: Pick<Block, 'code'>) {
  return spawnSync(process.execPath, ['--input-type=module'], {
    cwd: ROOT,
    input: code,
    encoding: 'utf8',
    timeout: LIMIT_MS,
  });
}

describe('runnable code', () => {
  it('is on the page of the kernel language', () => {
    expect(blocks.map(({ page }) => page)).toContain('docs/kernel-language.md');
  });

  for (const block of blocks) {
    it(`of ${block.page} line ${block.line} runs and prints what the page says`, () => {
      const { status, stdout, stderr } = run(block);
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
      if (block.output !== undefined) expect(stdout).toBe(block.output);
    });
  }

  it('that fails is noticed', () => {
    const page = 'Text\n\n```js runnable\nthrow new Error("no");\n```\n\n```js\nalso(not(run));\n```\n';
    const [block, ...others] = runnable('page', page);
    expect(others).toEqual([]);
    expect(run(block!).status).toBe(1);
  });
});

describe('links', () => {
  it('lead to files that exist', () => {
    const dead = pages.flatMap((page) =>
      [...read(page).matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)]
        .map((link) => link[1]!)
        .filter((link) => !/^https?:/.test(link) && !existsSync(join(ROOT, dirname(page), link)))
        .map((link) => `${page}: ${link}`),
    );
    expect(dead).toEqual([]);
  });
});
