/**
 * Puts what the checks on a GPU need of the TypeScript tests into a folder, as JavaScript: the evaluator of
 * programs and the generator of random ones. Usage: node test/gpu/prepare.mjs FOLDER (inside of the repository).
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

const folder = process.argv[2];
if (folder === undefined) throw new Error('usage: node test/gpu/prepare.mjs FOLDER');
mkdirSync(folder, { recursive: true });
for (const name of ['evaluate', 'random-program']) {
  const source = readFileSync(new URL(`../kernel/wasm/${name}.ts`, import.meta.url), 'utf8');
  const { outputText } = ts.transpileModule(source, {
    compilerOptions: {
      module: ts.ModuleKind.ESNext,
      target: ts.ScriptTarget.ES2022,
      verbatimModuleSyntax: true,
    },
  });
  writeFileSync(join(folder, `${name}.mjs`), outputText);
}
