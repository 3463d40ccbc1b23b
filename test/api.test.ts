/** The page of the API against the declarations: every export, and every member of the classes and interfaces. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));
const page = readFileSync(at('docs/api.md'), 'utf8');

/** Words of the page that stand in code. */
const mentioned = new Set([...page.matchAll(/`([^`]+)`/g)].flatMap((code) => code[1]!.match(/\w+/g) ?? []));

const entry = at('src/index.ts');
const program = ts.createProgram([entry], { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext });
const checker = program.getTypeChecker();
const exported = checker
  .getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)!)!)
  .map((symbol) => (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol));

/** Public members of a class or interface, static ones too. (Private ones begin with #.) */
function membersOf(name: string): string[] {
  const symbol = exported.find((one) => one.name === name)!;
  const members = [...(symbol.members?.values() ?? []), ...(symbol.exports?.values() ?? [])];
  return members
    .filter(({ flags }) => (flags & ts.SymbolFlags.TypeParameter) === 0)
    .filter(({ declarations }) =>
      declarations?.some(
        (one) =>
          (ts.getCombinedModifierFlags(one) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)) === 0,
      ),
    )
    .map((one) => one.name)
    .filter((member) => /^[a-z]\w*$/i.test(member) && member !== 'prototype');
}

describe('the page of the API', () => {
  it('mentions every export', () => {
    const names = exported.map(({ name }) => name);
    expect(names).toContain('Communicator');
    expect(names.length).toBeGreaterThan(15);
    expect(names.filter((name) => !mentioned.has(name))).toEqual([]);
  });

  it.each([
    'Communicator',
    'PreparedOperation',
    'CommunicatorOptions',
    'Collectives',
    'MessageCalls',
    'TuttiError',
    'UniqueIdRoot',
  ])('mentions every member of %s', (name) => {
    const members = membersOf(name);
    expect(members.length).toBeGreaterThan(1);
    expect(members.filter((member) => !mentioned.has(member) && member !== 'name')).toEqual([]);
  });

  it('mentions every error code, operator and algorithm', () => {
    for (const name of ['ErrorCode', 'ReduceOp', 'Algorithm', 'RingProtocol']) {
      const type = checker.getDeclaredTypeOfSymbol(exported.find((one) => one.name === name)!);
      const values = (type as ts.UnionType).types.map((one) => (one as ts.StringLiteralType).value);
      expect(values.length).toBeGreaterThan(1);
      expect(values.filter((value) => !mentioned.has(value))).toEqual([]);
    }
  });
});
