/** Files that are wrong in any way: an answer or one clear error, never a crash and never a wait. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseTopoOptions, type TopoOptions } from '#src/cli/topo/options.js';
import { topologyOutput } from '#src/cli/topo/output.js';
import { TuttiError } from '#src/errors/tutti-error.js';
import { plainStyle } from '#src/topology/report/style.js';

const GOLDEN = join(import.meta.dirname, '../../golden');
const MACHINES = ['dgx-spark-gen1-1x200g', 'real-2xH200', 'rtx5090-x1-2socketnic', 'a100-pcie-x2-issue2397'];
const TEXTS = MACHINES.map((name) =>
  readFileSync(join(GOLDEN, name, name === 'real-2xH200' ? 'topo-2.xml' : 'topo.xml'), 'utf8'),
);

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tutti-hostile-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Lines of an answer, or the error that names what is wrong. */
function outcome(text: string, ...args: string[]): readonly string[] | TuttiError {
  const path = join(folder, 'topo.xml');
  writeFileSync(path, text);
  const options = parseTopoOptions([path, ...args]) as TopoOptions;
  try {
    return topologyOutput(options, { env: {}, style: plainStyle(100), note: () => {} });
  } catch (error) {
    if (TuttiError.is(error)) return error;
    throw error;
  }
}

const values = fc.constantFrom(
  '',
  '-1',
  '0',
  '1',
  '99999999999999999999',
  '0x',
  'x',
  '1e9',
  'NaN',
  '0000:00:00.0',
);

/** A change of a file: part of it is lost, doubled, or an attribute gets another value. */
const change = fc.oneof(
  fc.record({ kind: fc.constant('cut' as const), from: fc.nat(1000), length: fc.nat(300) }),
  fc.record({ kind: fc.constant('double' as const), from: fc.nat(1000), length: fc.nat(300) }),
  fc.record({ kind: fc.constant('set' as const), attribute: fc.nat(500), value: values }),
  fc.record({ kind: fc.constant('drop' as const), attribute: fc.nat(500) }),
  fc.record({ kind: fc.constant('lose line' as const), line: fc.nat(200) }),
);
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;

function changed(text: string, one: Change): string {
  const attributes = [...text.matchAll(/ \w+="[^"]*"/g)];
  switch (one.kind) {
    case 'cut':
    case 'double': {
      const from = Math.floor((one.from / 1000) * text.length);
      const middle = one.kind === 'cut' ? '' : text.slice(from, from + one.length).repeat(2);
      return text.slice(0, from) + middle + text.slice(from + one.length);
    }
    case 'set':
    case 'drop': {
      const found = attributes[one.attribute % attributes.length];
      if (found === undefined) return text;
      const name = found[0].slice(0, found[0].indexOf('=') + 1);
      const other = one.kind === 'drop' ? '' : `${name}"${one.value}"`;
      return text.slice(0, found.index) + other + text.slice(found.index + found[0].length);
    }
    case 'lose line': {
      const lines = text.split('\n');
      lines.splice(one.line % lines.length, 1);
      return lines.join('\n');
    }
  }
}

test('a topology file with any mistake gives an answer or an error that says what is wrong', () => {
  const counts = { answers: 0, errors: 0 };
  fc.assert(
    fc.property(
      fc.constantFrom(...TEXTS),
      fc.array(change, { minLength: 1, maxLength: 3 }),
      fc.constantFrom<readonly string[]>(
        [],
        ['--nodes=2'],
        ['--json'],
        ['--log'],
        ['--explain'],
        ['--rank=0'],
        ['--nodes=2', '--mnnvl'],
      ),
      (text, changes, args) => {
        const got = outcome(changes.reduce(changed, text), ...args);
        if (TuttiError.is(got)) {
          counts.errors += 1;
          expect(got.message.length).toBeGreaterThan(15);
          expect(got.message).not.toMatch(/undefined|NaN\b(?!")|\[object/);
        } else {
          counts.answers += 1;
          expect(got.length).toBeGreaterThan(0);
        }
      },
    ),
    { numRuns: 150 },
  );
  // Both ends are reached, or the test tests nothing.
  expect(counts.answers).toBeGreaterThan(10);
  expect(counts.errors).toBeGreaterThan(10);
});

test.each([
  ['nothing', ''],
  ['blanks', ' \n\n '],
  ['binary', '\u0000\u0001\u00ff'.repeat(100)],
  ['HTML', '<!DOCTYPE html><html><body>404</body></html>'],
  ['a deep tree', `<system version="1"><cpu numaid="0">${'<pci busid="0000:00:00.0">'.repeat(5000)}`],
  [
    'no GPU at all',
    '<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"/></system>',
  ],
])('%s is refused with one sentence', (_, text) => {
  const got = outcome(text);
  expect(TuttiError.is(got)).toBe(true);
  expect((got as TuttiError).message).toMatch(/topo\.xml/);
});
