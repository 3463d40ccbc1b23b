/** What the documentation says that `tutti topo` prints is what it prints. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseTopoOptions, type TopoOptions } from '#src/cli/topo/options.js';
import { topologyOutput } from '#src/cli/topo/output.js';
import { plainStyle } from '#src/topology/report/style.js';

const ROOT = join(import.meta.dirname, '../../..');

/** Width of the output to a file. */
const WIDTH = 120;

/** Examples: a command line, then what it prints; `...` stands for any lines. */
const examples = ['docs/topology.md', 'README.md'].flatMap((page) =>
  [
    ...readFileSync(join(ROOT, page), 'utf8').matchAll(/^```text\n\$ npx tutti topo (.+)\n([\s\S]*?)^```$/gm),
  ].map(([, command, output]) => ({ page, command: command!, output: output! })),
);

test('there are examples', () => {
  expect(examples.map(({ page }) => page)).toEqual([
    'docs/topology.md',
    'docs/topology.md',
    'docs/topology.md',
    'README.md',
  ]);
});

test.each(examples)('$page: tutti topo $command', ({ command, output }) => {
  const args = command.split(' ').map((word) => (word.startsWith('test/') ? join(ROOT, word) : word));
  const options = parseTopoOptions(args) as TopoOptions;
  const lines = topologyOutput(options, { env: {}, style: plainStyle(WIDTH), note: () => {} });
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
