import { describe, expect, it } from 'vitest';
import { combinations, labels } from '#src/cli/perf/combinations.js';
import { parsePerfOptions, perfHelp } from '#src/cli/perf/options.js';
import { parseInteger, parseSize } from '#src/cli/perf/quantities.js';
import { TuttiError } from '#src/errors/tutti-error.js';

const parse = (line: string) => parsePerfOptions(line.split(' ').filter((word) => word !== ''));

/** The message of the invalidArgument error that the arguments cause. */
function complaint(line: string): string {
  try {
    parse(line);
  } catch (error) {
    if (TuttiError.is(error) && error.code === 'invalidArgument') return error.message;
    throw error;
  }
  throw new Error(`no error for ${line}`);
}

describe('sizes', () => {
  it.each([
    ['8', 8],
    ['0', 0],
    ['4k', 4096],
    ['1.5K', 1536],
    ['32M', 33554432],
    ['32MB', 33554432],
    ['0.5GiB', 536870912],
    ['.25m', 262144],
    ['1.3', 1],
  ])('reads %s as %i bytes', (text, bytes) => {
    expect(parseSize(text, '-b')).toBe(bytes);
  });

  it.each(['', 'abc', '8T', '8X', '-8', '1e3', '8 9', 'K', '9999999999G'])('refuses %j', (text) => {
    expect(() => parseSize(text, '-b')).toThrow(/-b: .* is not a size/);
  });
});

describe('integers', () => {
  it('follow C syntax', () => {
    expect(parseInteger('0x10', '-w', 0)).toBe(16);
    expect(parseInteger('010', '-w', 0)).toBe(8);
    expect(parseInteger('0', '-w', 0)).toBe(0);
    expect(parseInteger('-1', '-r', -1)).toBe(-1);
  });

  it('refuse text and values out of range', () => {
    expect(() => parseInteger('ten', '-w', 0)).toThrow("-w: 'ten' is not an integer");
    expect(() => parseInteger('089', '-w', 0)).toThrow('not an integer');
    expect(() => parseInteger('1.5', '-w', 0)).toThrow('not an integer');
    expect(() => parseInteger('4', '-a', 0, 3)).toThrow('-a: 4 is out of range; it must be between 0 and 3');
    expect(() => parseInteger('-1', '-w', 0)).toThrow('at least 0');
  });
});

describe('perf options', () => {
  it('has the defaults of nccl-tests but a sweep from 8 B to 32 MiB by 4', () => {
    expect(parse('')).toEqual({
      collective: 'all_reduce',
      sweep: { minBytes: 8, maxBytes: 33554432, stepBytes: 1048576, stepFactor: 4 },
      iterations: 20,
      isIterationsGiven: false,
      isWarmupGiven: false,
      aggregated: 1,
      warmupIterations: 1,
      cycles: 1,
      checks: 1,
      types: ['float32'],
      ops: ['sum'],
      root: 0,
      graphs: 0,
      blocking: 0,
      timeoutSeconds: 0,
      averaging: 'mean',
      reportCpuTime: false,
      reportTimestamps: false,
      unalign: 0,
      perIteration: false,
      perIterationSkip: 0,
      memory: 'window',
      jsonToStdout: false,
      help: false,
    });
  });

  it("takes nccl-tests' sizes as soon as one option about sizes is given", () => {
    expect(parse('-b 1M').sweep).toEqual({
      minBytes: 1048576,
      maxBytes: 33554432,
      stepBytes: 1048576,
      stepFactor: 1,
    });
    expect(parse('-f 2').sweep).toMatchObject({ minBytes: 33554432, maxBytes: 33554432, stepFactor: 2 });
  });

  it('reads every flag', () => {
    const options = parse(
      'all_gather -n 4 -t 2 -b 8 -e 1M -i 16 -f 2 --iters 50 -m 3 -w 5 -N 2 -c 4 -d half -o max -r 1 -z 2' +
        ' -T 30 -a 3 -C 1 -S 1 -u 3 -I 1 -K 7 -J out.json --memory array --json',
    );
    expect(options).toEqual({
      collective: 'all_gather',
      sweep: { minBytes: 8, maxBytes: 1048576, stepBytes: 16, stepFactor: 2 },
      processes: 4,
      threads: 2,
      iterations: 50,
      isIterationsGiven: true,
      isWarmupGiven: true,
      aggregated: 3,
      warmupIterations: 5,
      cycles: 2,
      checks: 4,
      types: ['float16'],
      ops: ['max'],
      root: 1,
      graphs: 0,
      blocking: 2,
      timeoutSeconds: 30,
      averaging: 'max',
      reportCpuTime: true,
      reportTimestamps: true,
      unalign: 3,
      perIteration: true,
      perIterationSkip: 7,
      memory: 'array',
      jsonToStdout: true,
      jsonFile: 'out.json',
      help: false,
    });
  });

  it('reads the flags about GPUs', () => {
    expect(parse('--device cuda -g 2 -G 5')).toMatchObject({ device: 'cuda', gpus: 2, graphs: 5 });
    expect(parse('--ngpus=4 --cudagraph 1')).toMatchObject({ gpus: 4, graphs: 1 });
  });

  it('reads long names, attached values and values after an equals sign alike', () => {
    const wanted = parse('-b 8 -e 64 -f 2 -d int8');
    expect(parse('--minbytes 8 --maxbytes=64 --stepfactor=2 --datatype int8')).toEqual(wanted);
    expect(parse('-b8 -e64 -f2 -dint8')).toEqual(wanted);
  });

  it.each([
    ['all_reduce_perf', 'all_reduce'],
    ['allReduce', 'all_reduce'],
    ['reduce-scatter', 'reduce_scatter'],
    ['allToAll', 'alltoall'],
    ['sendrecv', 'sendrecv'],
  ])('takes %s for %s', (text, name) => {
    expect(parse(text).collective).toBe(name);
  });

  it('accepts the names of types of nccl-tests and of the library', () => {
    expect(parse('-d double').types).toEqual(['float64']);
    expect(parse('-d float64').types).toEqual(['float64']);
    expect(parse('-d f8e4m3').types).toEqual(['float8e4m3']);
    expect(parse('-d all').types).toHaveLength(12);
    expect(parse('-o all').ops).toEqual(['sum', 'prod', 'max', 'min', 'avg']);
  });

  it('takes all and -1 for every root', () => {
    expect(parse('broadcast -r all').root).toBe('all');
    expect(parse('broadcast -r -1').root).toBe('all');
  });

  it('sends JSON to standard output or to a file', () => {
    expect(parse('--json').jsonToStdout).toBe(true);
    expect(parse('--json -b 8').jsonToStdout).toBe(true);
    expect(parse('--json report.json')).toMatchObject({ jsonToStdout: false, jsonFile: 'report.json' });
    expect(parse('--json=report')).toMatchObject({ jsonToStdout: false, jsonFile: 'report' });
  });

  it('shows every option in the help and asks for nothing else then', () => {
    expect(parse('--help').help).toBe(true);
    expect(parse('-h -b 64M').help).toBe(true);
    for (const word of ['-b, --minbytes SIZE', '--json [FILE]', '8 bytes to 32 MiB by a factor of 4']) {
      expect(perfHelp()).toContain(word);
    }
    for (const line of perfHelp().split('\n')) expect(line.length).toBeLessThanOrEqual(130);
  });

  it.each([
    ['-q 1', "unknown option '-q'"],
    ['--frobnicate', "unknown option '--frobnicate'"],
    ['--device tpu', "unknown device 'tpu'"],
    ['-g 0', '-g: 0 is out of range'],
    ['--device host -g 2', '-g 2: GPUs are asked for, but --device is host'],
    ['--device host -G 2', '-G 2: only GPUs have graphs'],
    ['-g 2 -n 2', 'give one of them'],
    ['-g 1 -t 2', 'ranks on GPUs need no threads'],
    ['--device cuda --memory array', 'ordinary arrays are no memory of GPUs'],
    ['-G 2 -I 1', 'operations of a graph cannot be timed one by one'],
    ['-G 2 -z 1', 'nothing waits within a graph'],
    ['--constructor 1', "unknown option '--constructor'"],
    ['-d floaty', "-d: unknown type 'floaty'"],
    ['-o mulsum', 'mulsum needs operators made by the user'],
    ['-o plus', "-o: unknown operator 'plus'"],
    ['-b many', "-b: 'many' is not a size"],
    ['--iters 0', '--iters: 0 is out of range'],
    ['--iters', '--iters needs a value'],
    ['-b -e 8', '-b needs a value'],
    ['-z 3', 'between 0 and 2'],
    ['-a 4', 'between 0 and 3'],
    ['-I 2', 'between 0 and 1'],
    ['-b 64M', "invalid sizes for 'minbytes' and 'maxbytes': 67108864 > 33554432"],
    ['-b 8 -i 0', 'the sweep would never move on'],
    ['-K 2', '-K leaves out samples of -I 1'],
    ['-I 1 -K 20', 'nothing would be left of 20 iterations'],
    ['--memory gpu', "unknown memory 'gpu'"],
    ['allreduce broadcast', 'only one collective'],
    ['alltoallv', "unknown collective 'alltoallv'"],
    ['--help=1', 'takes no value'],
    ['-r -2', 'at least -1'],
  ])('refuses %s', (line, message) => {
    expect(complaint(line)).toContain(message);
  });
});

describe('combinations', () => {
  it('goes through types, then operators, then roots', () => {
    const options = parse('reduce -o all -d all -r all');
    const all = combinations(options, 3);
    expect(all).toHaveLength(12 * 5 * 3);
    expect(all.slice(0, 4)).toEqual([
      { type: 'int8', op: 'sum', root: 0 },
      { type: 'int8', op: 'sum', root: 1 },
      { type: 'int8', op: 'sum', root: 2 },
      { type: 'int8', op: 'prod', root: 0 },
    ]);
  });

  it('leaves out operators and roots where the collective has none', () => {
    expect(combinations(parse('all_gather -o all -r all'), 3)).toEqual([{ type: 'float32' }]);
    expect(combinations(parse('all_reduce -r 7'), 3)).toEqual([{ type: 'float32', op: 'sum' }]);
    expect(combinations(parse('broadcast -o max -r 2'), 3)).toEqual([{ type: 'float32', root: 2 }]);
  });

  it('refuses a root that is no rank', () => {
    expect(() => combinations(parse('broadcast -r 3'), 3)).toThrow('root 3 is not a rank');
  });

  it('labels rows as nccl-tests does', () => {
    expect(labels('reduce', { type: 'float16', op: 'max', root: 2 })).toEqual({
      type: 'half',
      op: 'max',
      root: 2,
    });
    expect(labels('all_gather', { type: 'float32' })).toEqual({ type: 'float', op: 'none', root: -1 });
    expect(labels('hypercube', { type: 'float32' }).op).toBe('');
  });
});
