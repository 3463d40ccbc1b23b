/** The page of proved requirements: it fits this repository, and the check is shown to fail where it must. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';

const script = fileURLToPath(new URL('../scripts/requirements.js', import.meta.url));
const folders: string[] = [];

function tree(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), 'tutti-requirements-'));
  folders.push(root);
  for (const [name, text] of Object.entries(files)) {
    const path = join(root, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return root;
}

function run(...args: string[]): { status: number | null; out: string; faults: string[] } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], { encoding: 'utf8' });
  return { status, out: stdout, faults: stderr.split('\n').filter((line) => line !== '') };
}

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

const SPECIFICATION = {
  'spec/97-table.md': '# Chapter 97 - Tables\n\n| ID | Mark |\n| C97-01 | [core] | Uses a | b and `[x]`. |\n',
  'spec/98-list.md':
    '# Lists\n- C98-02 [gpu-only] Is a list.\n12. C98-03 [core] Is numbered; see C98-09 too.\n',
  'spec/30-other.md': '# Systems\n- SP-95 [context] Is other.\n',
};

/** A test whose title cites `ids`; they are ids that the specification does not have. */
const title = (ids: string): string => `it('does something [${ids}]', () => {});\n`;

describe('this repository', () => {
  it('lists every requirement that a test title cites, and no other', () => {
    expect(run()).toMatchObject({ status: 0, faults: [] });
  });
});

describe('the check', () => {
  it('accepts a page that lists what titles cite, in every form a title has', () => {
    const ids = ['C91-01', 'C91-02', 'C91-03', 'C91-04', 'C91-05', 'C91-06', 'C91-07'];
    const root = tree({
      'test/a.test.ts': [
        "it('one [C91-01]', () => {});",
        "describe('outer', () => { it.each([1])(`two %i [C91-02, C91-03]`, () => {}); });",
        // biome-ignore lint/suspicious/noTemplateCurlyInString: source text of a test
        'for (const n of [1]) it(`three ${n} [C91-04]`, () => {});',
        "it.skipIf(process.platform !== 'linux')('four [C91-05] [C91-07]', () => {});",
      ].join('\n'),
      'test/deep/b.test.ts': "ranks('five [C91-06]', 2, async () => {});\n",
      'docs/requirements.md': ids.map((id) => `- **${id}** Sentence.\n`).join(''),
    });
    expect(run('--root', root)).toMatchObject({ status: 0, faults: [] });
  });

  it('refuses a cited id that is not listed and a listed id that is not cited', () => {
    const root = tree({
      'test/a.test.ts': title('C91-01'),
      'docs/requirements.md': '- **C91-02** Sentence.\n',
    });
    const { status, faults } = run('--root', root);
    expect(status).toBe(1);
    expect(faults).toEqual([
      'requirements: C91-01 is cited by test/a.test.ts but not listed; run --update',
      'requirements: C91-02 is listed but no test title cites it',
    ]);
  });

  it('does not count comments, other files, or skipped and todo tests as proof', () => {
    const root = tree({
      'test/a.test.ts': [
        '// it proves [C91-01]',
        "it.skip('skipped [C91-01]', () => {});",
        "it.todo('later [C91-01]');",
        "describe.skip('suite', () => { it('inside [C91-01]', () => {}); });",
        "it('mentions [C91-01] in the middle', () => {});",
      ].join('\n'),
      'test/ranks.ts': title('C91-01'),
      'docs/requirements.md': '- **C91-01** Sentence.\n',
    });
    const { status, faults } = run('--root', root);
    expect(status).toBe(1);
    expect(faults).toEqual(['requirements: C91-01 is listed but no test title cites it']);
  });

  it('refuses an entry without a sentence and an entry listed twice', () => {
    const root = tree({
      'test/a.test.ts': title('C91-01, SP-92'),
      'docs/requirements.md': '- **C91-01** \n- **SP-92** Sentence.\n- **SP-92** Sentence.\n',
    });
    expect(run('--root', root).faults).toEqual([
      'requirements: SP-92 is listed twice',
      'requirements: C91-01 is listed without its sentence',
    ]);
  });
});

describe('--update', () => {
  it('writes the cited ids by chapter, with sentences from tables, lists and numbered lists', () => {
    const root = tree({
      ...SPECIFICATION,
      'docs/x.md': '',
      'test/a.test.ts': title('SP-95, C98-03, C97-01, C98-02'),
    });
    expect(run('--root', root, '--update', join(root, 'spec'))).toMatchObject({ status: 0, faults: [] });
    const page = readFileSync(join(root, 'docs/requirements.md'), 'utf8');
    expect(page.slice(page.indexOf('\n## ')).trim().split('\n')).toEqual([
      '## C97: Tables',
      '',
      '- **C97-01** Uses a | b and `[x]`.',
      '',
      '## C98: Lists',
      '',
      '- **C98-02** Is a list.',
      '- **C98-03** Is numbered; see C98-09 too.',
      '',
      '## SP: Systems',
      '',
      '- **SP-95** Is other.',
    ]);
    expect(run('--root', root).status).toBe(0);
  });

  it('refuses an id that the specification does not have', () => {
    const root = tree({ ...SPECIFICATION, 'docs/x.md': '', 'test/a.test.ts': title('C98-77') });
    const { status, faults } = run('--root', root, '--update', join(root, 'spec'));
    expect(status).toBe(1);
    expect(faults).toEqual(['requirements: C98-77 is cited but the specification has no such id']);
  });
});
