/** The command line of `tutti topo`. */
import { describe, expect, it, test } from 'vitest';
import { parseTopoOptions, type TopoOptions } from '#src/cli/topo/options.js';

const parse = (...args: string[]) => parseTopoOptions(args) as TopoOptions;

describe('the options of tutti topo', () => {
  it('show this machine as text without any', () => {
    expect(parse()).toMatchObject({ sources: [], nodes: 1, clique: 1, nvls: undefined, show: 'text' });
  });

  it('keep files and recordings in their order, one node each', () => {
    const { sources, nodes } = parse('a.xml', '--from', 'b.tgz', '--file=c.xml', 'd.xml');
    expect(sources.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      'file a.xml',
      'record b.tgz',
      'file c.xml',
      'file d.xml',
    ]);
    expect(nodes).toBe(4);
  });

  it('make one NVLink domain of all nodes, or several', () => {
    expect(parse('a.xml', '--nodes', '18', '--mnnvl').clique).toBe(18);
    expect(parse('a.xml', '--nodes', '36', '--clique', '18').clique).toBe(18);
  });

  it('give speeds of NICs in Mbit/s', () => {
    expect(parse('a.xml', '--sm', '90', '--nvlinks', '18', '--nic-gbits', '400').template).toEqual({
      sm: 90,
      nvlinks: 18,
      nicSpeed: 400_000,
    });
  });

  it('ask for help before anything else is done', () => {
    expect(parseTopoOptions(['--help', '--nodes', '2'])).toBe('help');
    expect(parseTopoOptions(['-h'])).toBe('help');
  });
});

test.each([
  [['--nodes', '0'], '--nodes 0: an integer from 1 to 65536 is needed'],
  [['--nodes', 'many'], '--nodes many: an integer'],
  [['--nodes', '1e3'], '--nodes 1e3: an integer'],
  [['--nodes=-2'], '--nodes -2: an integer'],
  [['--nodes', '1', 'a.xml', 'b.xml'], '--nodes 1: 2 machines are given, which is more'],
  [['--clique', '3', '--nodes', '4'], '--clique 3: 4 nodes cannot be split'],
  [['--clique', '2', '--mnnvl', '--nodes', '4'], '--mnnvl --clique: --mnnvl makes one NVLink domain'],
  [['--nvls', '--no-nvls'], '--nvls --no-nvls: these exclude each other'],
  [['--json', '--log'], '--log --json: only one of them'],
  [['--rank', '-1'], '--rank -1: an integer from 0 is needed'],
  [['--nodes', '-1'], '--nodes -1: an integer from 1 to 65536 is needed'],
  [['--rank', '0', '--explain'], '--rank --explain: --explain is about all ranks'],
  [['--rank', '0', '--json'], '--rank --json: --json is about all ranks'],
  [['--from', '-'], '--from -: a recording is read from a file only'],
  [['--record', '-'], '--record -: a recording is written to a file only'],
  [['--svg', '-', '--dump', '-'], '--svg - --dump: the standard output takes one of them'],
  [['--svg', '-', '--json'], '--svg - --json: the standard output takes one of them'],
  [['--dump', '-', '--rank', '0'], '--dump - --rank: the standard output takes one of them'],
  [['--rank=1.5'], '--rank 1.5: an integer from 0 is needed'],
  [['--sm', '7'], '--sm 7: an integer from 30 to 999'],
  [['--file', ''], '--file: the name is empty'],
  [['--dump', ''], '--dump: the name is empty'],
  [['--colour'], "there is no option --colour; see 'tutti topo --help'"],
  [['--xyzzy'], "there is no option --xyzzy; see 'tutti topo --help'"],
  [['-x'], "there is no option -x; see 'tutti topo --help'"],
  [['--explian'], "there is no option --explian (did you mean --explain?); see 'tutti topo --help'"],
  [['--file'], "--file needs a value; see 'tutti topo --help'"],
  [
    ['--file', '--json'],
    "--file needs a value; one that begins with a dash is written --file=-...; see 'tutti topo --help'",
  ],
  [['--json=yes'], "--json takes no value; see 'tutti topo --help'"],
])('%j is refused with what is wrong and what would be right', (args, message) => {
  expect(() => parseTopoOptions(args)).toThrow(message);
  expect(() => parseTopoOptions(args)).toThrow(expect.objectContaining({ code: 'invalidArgument' }));
});
