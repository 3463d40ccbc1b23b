/**
 * The page of environment variables against the source: every variable that src/ reads is there with the folders
 * that read it, and nothing else is.
 *
 * A variable counts as read where its exact name is a string or a property. That is how all readers name them.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const VARIABLE = /^(?:NCCL|TUTTI)_[A-Z0-9_]+$/;

/** Variables of NCCL that reasons name and nothing reads, with the folder. */
const ONLY_NAMED = new Set(['tuning NCCL_COLLNET_ENABLE', 'tuning NCCL_NVLS_ENABLE']);

/** The folder that looks for variables in logs of other programs, not in the environment. */
const READS_LOGS = 'doctor';

/** Variables that a source text reads. */
function variablesOf(text: string): Set<string> {
  const found = new Set<string>();
  const visit = (node: ts.Node): void => {
    const name =
      ts.isStringLiteralLike(node) || ts.isPropertyAccessExpression(node)
        ? ts.isPropertyAccessExpression(node)
          ? node.name.text
          : node.text
        : ts.isBindingElement(node)
          ? (node.propertyName ?? node.name).getText()
          : '';
    if (VARIABLE.test(name)) found.add(name);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest, true));
  return found;
}

/** Folders of src/ by variable. */
function readers(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const path of readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })) {
    if (!path.endsWith('.ts')) continue;
    const folder = path.split('/')[0]!;
    if (folder === READS_LOGS) continue;
    for (const name of variablesOf(readFileSync(join(ROOT, 'src', path), 'utf8'))) {
      if (ONLY_NAMED.has(`${folder} ${name}`)) continue;
      found.set(name, (found.get(name) ?? new Set()).add(folder));
    }
  }
  return found;
}

interface Row {
  readonly name: string;
  /** Meaning, default, unit. */
  readonly cells: readonly string[];
  readonly folders: readonly string[];
}

function rowsOf(page: string): Row[] {
  return page.split('\n').flatMap((line) => {
    const cells = line.split('|').map((cell) => cell.trim());
    const name = cells[1] ?? '';
    if (!VARIABLE.test(name)) return [];
    return [{ name, cells: cells.slice(2, 5), folders: (cells[5] ?? '').split(', ') }];
  });
}

describe('the page of environment variables', () => {
  const rows = rowsOf(readFileSync(join(ROOT, 'docs/environment.md'), 'utf8'));
  const describeAll = (entries: Iterable<readonly [string, Iterable<string>]>) =>
    Array.from(entries, ([name, folders]) => `${name}: ${[...folders].sort().join(', ')}`).sort();

  it('has every variable that is read, once, and no other, each with the folders that read it', () => {
    expect(describeAll(rows.map(({ name, folders }) => [name, folders]))).toEqual(describeAll(readers()));
  });

  it('gives each a meaning, a default and a unit', () => {
    for (const { name, cells } of rows) {
      expect(cells, name).toHaveLength(3);
      for (const cell of cells) expect(cell, name).toMatch(/\S/);
    }
  });

  it('would notice a new one, however it is read', () => {
    const text = `
      // NCCL_COMMENT
      const a = env.NCCL_ACCESS ?? read('NCCL_LITERAL');
      const { TUTTI_BOUND: b, NCCL_SHORT } = env;
      throw new Error('set NCCL_MENTIONED or TUTTI_TOO');
    `;
    expect([...variablesOf(text)].sort()).toEqual([
      'NCCL_ACCESS',
      'NCCL_LITERAL',
      'NCCL_SHORT',
      'TUTTI_BOUND',
    ]);
  });
});
