/**
 * The shape of src/: the repository keeps its own rules, and each rule is shown to fail on a small tree that
 * breaks it, so that a check which finds nothing means something.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { builtinModules, createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, it } from 'vitest';

interface Violation {
  file: string;
  line: number;
  rule: string;
  text: string;
}

const repository = fileURLToPath(new URL('..', import.meta.url));
const script = join(repository, 'scripts/check-layers.js');
const { checkLayers } = (await import(script)) as {
  checkLayers(root: string): { violations: Violation[]; count: number };
};

/** Milliseconds: every file of src/ is parsed, which takes seconds, and a minute on a machine that is busy. */
const LIMIT = 300_000;

const folders: string[] = [];

/** Writes a repository with these files of src/ (and, under `package.json`, its manifest); returns its path. */
function tree(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), 'tutti-layers-'));
  folders.push(root);
  for (const [name, text] of Object.entries(files)) {
    const path = name === 'package.json' ? join(root, name) : join(root, 'src', name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return root;
}

/** `file:line rule` of every violation in a tree of these files. */
function broken(files: Record<string, string>): string[] {
  return checkLayers(tree(files)).violations.map(({ file, line, rule }) => `${file}:${line} ${rule}`);
}

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

const A = 'export const a = 1;\n';

describe('this repository', () => {
  it('keeps every rule of the layers', { timeout: LIMIT }, () => {
    const run = spawnSync(process.execPath, [script], { encoding: 'utf8' });
    expect(run.stderr).toBe('');
    expect(run.stdout).toMatch(/^layers: [1-9]\d* files of src\/ in order\n$/);
    expect(run.status).toBe(0);
  });
});

describe('the check', () => {
  it('accepts imports of the same folder and of folders below', () => {
    const files = {
      'package.json': '{ "optionalDependencies": { "koffi": "1" }, "devDependencies": { "vite": "1" } }',
      'index.ts': "export { a } from './communicator/a.js';\n",
      'cli/main.ts':
        "import { a } from '../index.js';\nimport process from 'node:process';\nprocess.exitCode = a;\n",
      'communicator/a.ts': "import { a } from './b.js';\nexport const c = a;\nexport { a };\n",
      'communicator/b.ts': "import { a } from '../errors/a.js';\nexport { a };\nexport const b = 2;\n",
      'system/ffi.ts': "import koffi from 'koffi';\nexport const load = koffi.load;\n",
      'errors/a.ts': A,
    };
    expect(checkLayers(tree(files))).toEqual({ violations: [], count: 6 });
  });

  it('exits with status 1 and names file, line and rule', () => {
    const root = tree({
      'errors/a.ts': A,
      'kernel/a.ts': "\nimport { readFileSync } from 'node:fs';\nreadFileSync;\n",
    });
    const run = spawnSync(process.execPath, [script, root], { encoding: 'utf8' });
    expect(run.status).toBe(1);
    expect(run.stdout).toBe('');
    expect(run.stderr).toMatch(/^src\/kernel\/a\.ts:2: \[pure\] .*'node:fs'/);
  });

  it('refuses an import from a folder above, in every form an import has', () => {
    const above = { 'communicator/a.ts': A };
    const forms = [
      "import { a } from '../communicator/a.js';\na;\n",
      "import type { a } from '../communicator/a.js';\nexport type T = typeof a;\n",
      "import '../communicator/a.js';\n",
      "export { a } from '../communicator/a.js';\nexport const own = 1;\n",
      "export const later = () => import('../communicator/a.js');\n",
      "export type T = import('../communicator/a.js').a;\n",
      "import a = require('../communicator/a.js');\na;\n",
      "export const worker = new URL('../communicator/a.js', import.meta.url);\n",
    ];
    for (const form of forms) {
      expect(broken({ ...above, 'system/a.ts': form }), form).toEqual(['system/a.ts:1 layer']);
    }
  });

  it('refuses an import of index.ts from anywhere but cli', () => {
    const index = "export { a } from './errors/a.js';\n";
    const uses = "import { a } from '../index.js';\na;\n";
    expect(broken({ 'index.ts': index, 'errors/a.ts': A, 'observe/a.ts': uses })).toEqual([
      'observe/a.ts:1 layer',
    ]);
    expect(broken({ 'index.ts': index, 'errors/a.ts': A, 'cli/a.ts': uses })).toEqual([]);
  });

  it('refuses Node modules and packages in a pure folder, even declared ones', () => {
    const manifest = { 'package.json': '{ "dependencies": { "koffi": "1" } }' };
    for (const folder of ['errors', 'kernel', 'collectives', 'topology', 'tuning', 'planning', 'verifier']) {
      const file = `${folder}/a.ts`;
      const text = "import 'node:fs';\nimport 'koffi';\nimport 'fs';\n";
      const all = [1, 2, 3].map((line) => `${file}:${line} pure`);
      expect(broken({ ...manifest, [file]: text }), folder).toEqual(all);
    }
  });

  it('lets topology/xml import saxes if it is declared, and no other file of a pure folder', () => {
    const manifest = { 'package.json': '{ "dependencies": { "saxes": "6.0.0" } }' };
    const text = "import { SaxesParser } from 'saxes';\nexport const parser = SaxesParser;\n";
    expect(broken({ ...manifest, 'topology/xml/a.ts': text })).toEqual([]);
    expect(broken({ 'topology/xml/a.ts': text })).toEqual(['topology/xml/a.ts:1 package']);
    for (const file of ['topology/a.ts', 'topology/xmla.ts', 'kernel/a.ts']) {
      expect(broken({ ...manifest, [file]: text })).toEqual([`${file}:1 pure`]);
    }
    expect(broken({ ...manifest, 'topology/xml/a.ts': "import 'saxes/other.js';\n" })).toEqual([
      'topology/xml/a.ts:1 pure',
    ]);
    expect(broken({ ...manifest, 'topology/xml/a.ts': "import 'koffi';\nimport 'node:fs';\n" })).toEqual([
      'topology/xml/a.ts:1 pure',
      'topology/xml/a.ts:2 pure',
    ]);
  });

  it('allows a package in a pure folder that uses no Node API itself, nor does what it requires', () => {
    // Runs the package with every global hidden that a browser lacks, and with a `require` for its own files only.
    const loaded = new Map<string, Record<string, unknown>>();
    const load = (path: string): Record<string, unknown> => {
      const known = loaded.get(path);
      if (known !== undefined) return known;
      const module = { exports: {} as Record<string, unknown> };
      loaded.set(path, module.exports);
      const own = (name: string) => {
        expect(builtinModules).not.toContain(name.replace(/^node:/, ''));
        return load(createRequire(path).resolve(name));
      };
      runInNewContext(`(function (exports, require, module) {${readFileSync(path, 'utf8')}\n})`, {})(
        module.exports,
        own,
        module,
      );
      return module.exports;
    };
    const { SaxesParser } = load(createRequire(import.meta.url).resolve('saxes')) as {
      SaxesParser: new () => {
        on(event: 'opentag', call: (tag: { name: string }) => void): void;
        write(text: string): { close(): void };
      };
    };
    const names: string[] = [];
    const parser = new SaxesParser();
    parser.on('opentag', (tag) => names.push(tag.name));
    parser.write('<?xml version="1.0"?>\n<a b="1&amp;2"><c/></a>').close();
    expect(names).toEqual(['a', 'c']);
    expect([...loaded.keys()].map((path) => path.split('node_modules/')[1]?.split('/')[0])).toEqual(
      expect.arrayContaining(['saxes', 'xmlchars']),
    );
  });

  it('refuses a pure file that imports a lower folder which is not pure', () => {
    const files = { 'kernel/a.ts': "import { a } from '../system/a.js';\na;\n", 'system/a.ts': A };
    expect(broken(files)).toEqual(['kernel/a.ts:1 pure']);
  });

  it('lets topology/detect use Node, and the rest of topology not use topology/detect', () => {
    const detect = "import { readFileSync } from 'node:fs';\nexport const a = readFileSync;\n";
    const files = {
      'topology/detect/a.ts': detect,
      'topology/b.ts': "import { a } from './detect/a.js';\na;\n",
    };
    expect(broken(files)).toEqual(['topology/b.ts:1 pure']);
  });

  it.each([
    'process.env',
    'Buffer.alloc(1)',
    'typeof require',
    '__dirname',
    '{ process }',
    'globalThis.process',
    "(globalThis as any)['process']",
    'setImmediate(() => 1)',
    'document.title',
    '(null as unknown as Buffer)',
    '(null as unknown as NodeJS.Timeout)',
  ])('refuses the global in `%s` in a pure file and nowhere else', (expression) => {
    const text = `\nexport const x = ${expression};\n`;
    expect(broken({ 'tuning/a.ts': text })).toEqual(['tuning/a.ts:2 pure']);
    expect(broken({ 'system/a.ts': text })).toEqual([]);
  });

  it('accepts what only looks like a Node global in a pure file', () => {
    const text = `
      import { process as renamed } from './b.js';
      interface Task { process: number; Buffer(count: number): void }
      const task = { process: 1, Buffer: 2, require() { return arguments.length; } } as const;
      const { process: own } = task;
      function isTask(value: unknown): value is Task { return value !== undefined; }
      function run(process: number) { outer: for (;;) { if (process > 1) break outer; } return process; }
      export const all = [renamed, own, task.Buffer, isTask, run, new TextEncoder(), globalThis.WebAssembly];
      export const shared = new SharedArrayBuffer(8), now = performance.now(), more: WebAssembly.Module[] = [];
    `;
    expect(broken({ 'kernel/a.ts': text, 'kernel/b.ts': 'export const process = 1;\n' })).toEqual([]);
  });

  it('refuses cycles between files, also of type-only imports, and names the way round', () => {
    const files = {
      'kernel/a.ts': "import { b } from './b.js';\nexport const a = b;\n",
      'kernel/b.ts': "import { c } from './c.js';\nexport const b = c;\n",
      'kernel/c.ts': "export const c = 1;\nimport type { a } from './a.js';\nexport type C = typeof a;\n",
    };
    const { violations } = checkLayers(tree(files));
    expect(violations).toHaveLength(1);
    expect(violations[0]).toMatchObject({ file: 'kernel/c.ts', line: 2, rule: 'cycle' });
    expect(violations[0]?.text).toContain('kernel/a.ts -> kernel/b.ts -> kernel/c.ts -> kernel/a.ts');
    expect(broken({ 'kernel/a.ts': "import './a.js';\n" })).toEqual(['kernel/a.ts:1 cycle']);
  });

  it('does not take the URL of a worker for a cycle', () => {
    const files = {
      'device/start.ts': "export const url = new URL('./worker.js', import.meta.url);\n",
      'device/worker.ts': "import { url } from './start.js';\nexport const from = url;\n",
    };
    expect(broken(files)).toEqual([]);
  });

  it('refuses files beside index.ts and folders that are not layers', () => {
    expect(broken({ 'index.ts': A, 'types.ts': A, 'extra/a.ts': A })).toEqual([
      'extra/a.ts:1 place',
      'types.ts:1 place',
    ]);
  });

  it.each(['utils', 'util', 'helpers', 'helper', 'common', 'misc'])('refuses the name %s', (name) => {
    expect(broken({ [`kernel/${name}.ts`]: A })).toEqual([`kernel/${name}.ts:1 name`]);
    expect(broken({ [`kernel/${name}/a.ts`]: A })).toEqual([`kernel/${name}/a.ts:1 name`]);
    expect(broken({ [`kernel/${name}-factor.ts`]: A })).toEqual([]);
  });

  it('refuses default exports in every form', () => {
    expect(broken({ 'cli/a.ts': 'const a = 1;\nexport default a;\n' })).toEqual(['cli/a.ts:2 default']);
    expect(broken({ 'cli/a.ts': 'export default function a() {}\n' })).toEqual(['cli/a.ts:1 default']);
    expect(broken({ 'cli/a.ts': 'export default class {}\n' })).toEqual(['cli/a.ts:1 default']);
    expect(broken({ 'cli/a.ts': 'const a = 1;\nexport { a as default };\n' })).toEqual([
      'cli/a.ts:2 default',
    ]);
  });

  it('refuses files that only export other files again, except index.ts', () => {
    const again = "export * from './a.js';\n";
    expect(broken({ 'kernel/a.ts': A, 'kernel/all.ts': again })).toEqual(['kernel/all.ts:1 barrel']);
    expect(broken({ 'errors/a.ts': A, 'index.ts': "export * from './errors/a.js';\n" })).toEqual([]);
  });

  it('refuses imports that name no file, lack .js, or leave src', () => {
    const text = "import './b.js';\nimport './a';\nimport '../../package.js';\nimport '#src/system/a.js';\n";
    const all = [1, 2, 3, 4].map((line) => `system/a.ts:${line} exists`);
    expect(broken({ 'system/a.ts': text })).toEqual(all);
  });

  it('refuses undeclared and development packages and Node modules without node:', () => {
    const files = {
      'package.json': '{ "devDependencies": { "vite": "1" }, "dependencies": { "@a/b": "1" } }',
      'system/a.ts': "import 'fs';\nimport 'vite';\nimport 'koffi';\nimport 'node:fs';\nimport '@a/b/c';\n",
    };
    const all = [1, 2, 3].map((line) => `system/a.ts:${line} package`);
    expect(broken(files)).toEqual(all);
  });
});
