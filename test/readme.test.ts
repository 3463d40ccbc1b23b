/** The first screen of README.md: the two command lines are there, are what CI runs, and name what exists. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const PERF_LINE = 'npm ci && npx tutti perf all_reduce';
const TEST_LINE = 'npm ci && npm test';

/** What a usual screen shows of a page, in lines. */
const FIRST_SCREEN = 40;

const read = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
const manifest = JSON.parse(read('package.json')) as {
  bin: Record<string, string>;
  scripts: Record<string, string>;
  engines: { node: string };
};

describe('README.md', () => {
  it('shows exactly the two command lines on its first screen, each in a block of its own', () => {
    const screen = read('README.md').split('\n').slice(0, FIRST_SCREEN).join('\n');
    const blocks = [...screen.matchAll(/```sh\n([\s\S]*?)```/g)].map((block) => block[1]?.trim());
    expect(blocks).toEqual([PERF_LINE, TEST_LINE]);
  });

  it('says the version of Node that package.json asks for', () => {
    const version = manifest.engines.node.replace('>=', '');
    expect(read('README.md')).toMatch(new RegExp(`^\\| Node +\\| ${version} or newer +\\|$`, 'm'));
  });

  it('links only to files that are in the repository', () => {
    const links = ['README.md', 'CONTRIBUTING.md'].flatMap((page) =>
      [...read(page).matchAll(/\]\(([^)]+)\)/g)].map((link) => link[1] as string),
    );
    const root = fileURLToPath(new URL('..', import.meta.url));
    const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
      cwd: root,
    });
    const files = new Set(tracked.toString().split('\n'));
    expect(links.length).toBeGreaterThan(3);
    expect(links.filter((link) => !link.startsWith('https:') && !files.has(link))).toEqual([]);
  });
});

describe('.ci/run', () => {
  it('runs both command lines as README.md shows them', () => {
    const script = read('.ci/run').split('\n');
    expect(script).toContain(`PERF_LINE='${PERF_LINE}'`);
    expect(script).toContain(`TEST_LINE='${TEST_LINE}'`);
    expect(script.filter((line) => /\bstage perf "\$PERF_LIMIT" "\$PERF_LINE"/.test(line))).toHaveLength(1);
    expect(script.filter((line) => /\bstage test "\$TEST_LIMIT" "\$TEST_LINE"/.test(line))).toHaveLength(1);
  });

  it('ends what hangs: its stages take less than 40 minutes together', () => {
    const limits = [...read('.ci/run').matchAll(/^[A-Z]+_LIMIT=(\d+)$/gm)].map((match) => Number(match[1]));
    expect(limits).toHaveLength(4);
    expect(limits.reduce((sum, limit) => sum + limit)).toBeLessThan(40 * 60);
  });
});

describe('package.json', () => {
  it('has what the command lines call', () => {
    expect(manifest.bin.tutti).toBe('dist/cli/main.js');
    expect(manifest.scripts).toHaveProperty('test');
    expect(manifest.scripts.prepare).toBe('npm run build');
  });
});
