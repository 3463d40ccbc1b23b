/** What the documentation says that `tutti topo` prints is what it prints. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseTopoOptions, type TopoOptions } from '#src/cli/topo/options.js';
import { topologyOutput } from '#src/cli/topo/output.js';
import { RECORDED_VARIABLES } from '#src/topology/detect/record-machine.js';
import { plainStyle } from '#src/topology/report/style.js';
import { topologySettings } from '#src/topology/settings.js';
import { PATH_TYPE_NAMES } from '#src/topology/system/path-type.js';

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

/** A command of the page that holds a text, for files of the test's machine. */
function shellExample(holding: string): string {
  const page = readFileSync(join(ROOT, 'docs/topology.md'), 'utf8');
  return [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)]
    .map(([, code]) => code!)
    .find((code) => code.includes(holding))!;
}

test('the comparison with the log of a job works with the log of all ranks of a real one', () => {
  const real = join(ROOT, 'test/golden/real-2xH200');
  const command = shellExample('job.log')
    .replaceAll('node0', 'vm')
    .replaceAll('job.log', join(real, 'log-2.txt'))
    .replaceAll('topo.xml', `${join(real, 'topo-2.xml')} --no-nvls`)
    .replaceAll('npx tutti', `'${process.execPath}' '${join(ROOT, 'dist/cli/main.js')}'`);
  const run = (text: string) => spawnSync('bash', ['-c', text], { encoding: 'utf8' });
  expect(run(command)).toMatchObject({ stdout: '', status: 0 });
  // It compares something: all 24 channels, and a difference would show.
  const compared = run(command.replace(/^diff/m, 'cat')).stdout.split('\n');
  expect(compared.filter((line) => line === 'Channel 23/24 : 0 1')).toHaveLength(2);
  expect(compared.filter((line) => line.startsWith('Ring 23 : '))).toHaveLength(2);
  expect(run(command.replace('--log', '--log --rank=1'))).toMatchObject({ status: 1 });
});

test('levels are named by the path types that the page lists, in capitals, or by the numbers it gives', () => {
  const page = readFileSync(join(ROOT, 'docs/environment.md'), 'utf8').replaceAll('\n', ' ');
  const [, names] = /Path types, from near to far, are ([A-Z0-9, ]+) and SYS;/.exec(page)!;
  const [, numbered] = /numbers 0 to 4 for ([A-Z, ]+) and SYS/.exec(page)!;
  const allNames: readonly string[] = PATH_TYPE_NAMES;
  const level = (text: string): number | undefined => topologySettings({ NCCL_P2P_LEVEL: text }).p2pLevel;
  const listed = [...names!.split(', '), 'SYS'];
  expect(listed.map(level)).toEqual(listed.map((name) => allNames.indexOf(name)));
  const accepted = PATH_TYPE_NAMES.filter((name) => level(name) !== undefined);
  expect(accepted).toEqual(listed);
  const byNumber = [...numbered!.split(', '), 'SYS'];
  expect(byNumber.map((_, number) => level(`${number}`))).toEqual(byNumber.map((name) => level(name)));
  expect(level('5')).toBe(level('SYS'));
});

test('the list of what a recording holds names the variables that it holds', () => {
  const page = readFileSync(join(ROOT, 'docs/topology.md'), 'utf8').replaceAll('\n', ' ');
  const [, list] = /the variables that detection reads, if they are set: ([^.]+)\./.exec(page)!;
  expect(list!.match(/NCCL_\w+/g)!.sort()).toEqual([...RECORDED_VARIABLES].sort());
});
